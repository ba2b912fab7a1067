"""Find the ranks that left no record: the records of the others say how many ranks there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.base.words import plural, rank_words
from weft.launch.rankfile import Header
from weft.launch.watch import RANK_FILE

MOST: Final = 1 << 20
"""Ranks of a world, as of `weft.trace`: more are said by a damaged record."""


def find_missing_ranks(headers: Mapping[str, Header]) -> list[tuple[int, list[int]]]:
    """Return (size, missing ranks) of each MPI world in which ranks left no record.

    `headers`: the records' headers by file name. MPICH gives several spawned worlds the same name: worlds of one size
    and name are counted as one.
    """
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name, header in headers.items():
        match = RANK_FILE.match(name)
        if match is not None and 0 <= header.rank < header.world_size < MOST:
            there[match["job"], header.world_size].add(header.rank)
    return [(size, absent) for (_, size), ranks in there.items() if (absent := sorted(set(range(size)) - ranks))]


def describe_missing_ranks(headers: Mapping[str, Header], lost: Iterable[Mapping[str, Any]] = ()) -> list[str]:
    """Return the sentences that tell the user which ranks left no record.

    `lost`: the hosts whose records did not arrive, as run.json lists them.
    """
    lost = list(lost)
    told = [f"of {plural(size, 'rank')} {rank_words(absent)} left no record{describe_lost_hosts(absent, lost)}"
            for size, absent in find_missing_ranks(headers)]  # fmt: skip
    return told or [f"{describe_host(host)} left no record" for host in lost]


def describe_lost_hosts(missing: list[int], lost: Iterable[Mapping[str, Any]]) -> str:
    """Return the lost hosts that these missing ranks ran on, in parentheses; an empty string if none is known."""
    known = [describe_host(host) for host in lost if not host["ranks"] or set(host["ranks"]) & set(missing)]
    return f" ({'; '.join(known)})" if known else ""


def describe_host(host: Mapping[str, Any]) -> str:
    """Format a lost host and the reason: `host b: its connection was closed`."""
    return f"host {host['host']}: {host['why']}"
