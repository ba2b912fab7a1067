"""Ranks that left no record: the others have recorded how many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.base.words import plural, rank_words
from weft.launch.rankfile import Header
from weft.launch.watch import RANK_FILE

MOST: Final = 1 << 20
"""Ranks of a world, as of `weft.trace`: more are said by a damaged record."""


def missing(headers: Mapping[str, Header]) -> list[tuple[int, list[int]]]:
    """For each world that lacks some: its size and the ranks that are not there. `headers`: by the names of records.

    MPICH calls several worlds that it spawned alike: of those with one size, all together are held against it.
    """
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name, header in headers.items():
        match = RANK_FILE.match(name)
        if match is not None and 0 <= header.rank < header.world_size < MOST:
            there[match["job"], header.world_size].add(header.rank)
    return [(size, absent) for (_, size), ranks in there.items() if (absent := sorted(set(range(size)) - ranks))]


def lines(headers: Mapping[str, Header], lost: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """What is said of them, first of all; `lost`: hosts whose records did not come, as run.json has them."""
    lost = list(lost)
    told = [f"of {plural(size, 'rank')} {rank_words(absent)} left no record{reasons(absent, lost)}"
            for size, absent in missing(headers)]  # fmt: skip
    return told or [f"{of_host(host)} left no record" for host in lost]


def reasons(absent: list[int], lost: Iterable[Mapping[str, Any]]) -> str:
    """The hosts that they were on, as far as they are known."""
    known = [of_host(host) for host in lost if not host["ranks"] or set(host["ranks"]) & set(absent)]
    return f" ({'; '.join(known)})" if known else ""


def of_host(host: Mapping[str, Any]) -> str:
    """`host b: its connection was closed`."""
    return f"host {host['host']}: {host['why']}"
