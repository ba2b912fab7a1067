"""Where the time went: by function, rank and call site; and who sent how much to whom."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.terms.describe import where
from weft.terms.sizes import size_of
from weft.trace import Trace
from weft.trace.layout import COUNT_IN_TAIL


class Row(NamedTuple):
    """Calls and their time; `name` is a function, a rank or a call site with its function."""

    name: str
    calls: int
    ns: int


def profile(trace: Trace, by: Literal["function", "rank", "site"] = "function") -> list[Row]:
    """Time in MPI, the most first. Calls that never returned count without their time."""
    rows: dict[str, list[int]] = {}
    for rank in trace.ranks:
        if not len(rank):
            continue
        enter, leave = rank.enter_ns(), rank.exit_ns()
        time = np.where(leave >= 0, leave - enter, 0)
        column = {"function": "function", "site": "site"}.get(by)
        keys = rank.events[column].astype(np.int64) if column else np.zeros(len(enter), np.int64)
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        count = np.bincount(inverse, minlength=len(unique))
        total = np.bincount(inverse, weights=time, minlength=len(unique))
        for place, n, ns in zip(first.tolist(), count.tolist(), total.tolist(), strict=True):
            event = rank.event(place)
            name = f"rank {rank.index}" if by == "rank" else event.function.name
            name += where(event) if by == "site" else ""
            row = rows.setdefault(name, [0, 0])
            row[0] += n
            row[1] += int(ns)
    return sorted((Row(name, *row) for name, row in rows.items()), key=lambda row: -row.ns)


def matrix(trace: Trace, match: Match) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Messages and bytes from each rank (row) to each rank (column), as sent; of unknown types only the messages."""
    n = len(trace.ranks)
    messages, sizes = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for rank in trace.ranks:
        part = match.sends.of_rank(rank.index)
        peer, args = match.sends.peer[part].astype(np.int64), match.sends.args[part].astype(np.int64)
        known = (peer >= 0) & (args < len(rank.events))
        peer, args = peer[known], args[known]
        types, counts = rank.events["datatype"][args], rank.events["count"][args].astype(np.int64)
        size = np.zeros(len(args), np.int64)
        for id in np.unique(types).tolist():
            size[types == id] = size_of(rank.datatype(id)) or 0
        counts[(counts < 0) | (counts == COUNT_IN_TAIL)] = 0
        np.add.at(messages[rank.index], peer, 1)
        np.add.at(sizes[rank.index], peer, size * counts)
    return messages, sizes
