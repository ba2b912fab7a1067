"""A whole run as `weft run --keep` would have left it: the first calls of each thread dropped, and counted."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.trace import Rank, Trace
from weft.trace.layout import EVENT, StreamKind
from weft.trace.rings.chunks import DroppedCalls
from weft.trace.rings.suffix import count_calls_by_sort


def cut(path: Any, drop: Mapping[tuple[int, int], int]) -> Trace:
    """The run at `path` without the first `drop[rank, slot]` calls of each thread."""
    trace = Trace.open(path)
    for rank in trace.ranks:
        if rank.file is not None:
            _cut(rank, {slot: drop.get((rank.index, slot), 0) for slot in rank.file.threads()})
    return trace


def _cut(rank: Rank, drop: Mapping[int, int]) -> None:
    file = rank.file
    assert file is not None
    stream = file.stream

    def rest(kind: StreamKind, thread: int = 0) -> NDArray[np.uint8]:
        data = stream(kind, thread)
        return data[drop.get(thread, 0) * EVENT.itemsize :] if kind == StreamKind.EVENTS else data

    for slot, calls in drop.items():
        data = stream(StreamKind.EVENTS, slot)
        first = data[: len(data) // EVENT.itemsize * EVENT.itemsize].view(EVENT)[:calls]
        if len(first):
            file.dropped[slot] = DroppedCalls(len(first), sorts=count_calls_by_sort(first))
    file.stream = rest  # type: ignore[method-assign]


def random_cut(path: Any, rng: random.Random) -> Trace:
    """The run without a random part of each thread's calls, of which the last one always stays."""
    whole = Trace.open(path)
    share = rng.random()
    drop = {}
    for rank in whole.ranks:
        for thread in rank.threads:
            most = max(0, len(thread.events) - 1)
            drop[rank.index, thread.slot] = min(most, max(0, round(most * (share + rng.uniform(-0.1, 0.1)))))
    return cut(path, drop)


def told(findings: Any) -> set[tuple[Any, ...]]:
    """What findings say, without how often and with which calls as examples: kind, ranks, and lines."""
    return {
        (one.kind, one.certainty, tuple(sorted({(site.file, site.line) for site in one.sites})))
        for one in findings if one.severity != "note"
    }  # fmt: skip
