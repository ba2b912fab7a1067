"""Note when ranks outnumber the cores that they may run on: then waiting is partly due to the scheduler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from weft.base.words import listed, plural
from weft.trace import Rank, Trace


def describe_shared_cores(trace: Trace) -> str:
    """Return `4 ranks shared 2 cores` if a host has more ranks than cores. "" otherwise, or if the record does not
    tell.
    """
    ranks: dict[str, list[Rank]] = defaultdict(list)
    for rank in trace.ranks:
        if rank.file:
            ranks[rank.file.header.host].append(rank)
    found = [
        (host, len(of), cores) for host, of in ranks.items() if (cores := count_usable_cores(of)) and len(of) > cores
    ]
    words = [
        f"{plural(count, 'rank')} shared {plural(cores, 'core')}" + (f" of {host}" if len(ranks) > 1 else "")
        for host, count, cores in found
    ]
    return listed(words[:3] + ([f"the same on {len(words) - 3} more hosts"] if len(words) > 3 else []))


def remark(trace: Trace) -> str:
    """Return the note to show beside waiting times if ranks shared cores; "" otherwise."""
    words = describe_shared_cores(trace)
    return f"{words}: part of every wait is time in which a rank had no core" if words else ""


def count_usable_cores(ranks: list[Rank]) -> int:
    """Return how many cores the ranks of one host may use together; 0 if a record does not tell."""
    cores: set[int] = set()
    limit = 0
    for rank in ranks:
        told = rank.definitions.cores
        if told is None:
            return 0
        cores.update(_parse_cores(told.cores))
        limit = max(limit, told.thousandths)
    most = -(-limit // 1000) if limit else len(cores)
    return min(len(cores), most)


def _parse_cores(text: str) -> Iterator[int]:
    """Yield the numbers of cores in a list such as `0-2,8`: 0, 1, 2, 8. Parts of another form are skipped."""
    for part in text.split(",")[:4096]:
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), min(int(last or first), int(first) + 65536) + 1)
