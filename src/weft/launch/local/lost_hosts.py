"""Report hosts that no longer answer: when it is noticed, and at the end how their records can be recovered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from weft.base.words import listed, rank_words
from weft.launch.job import LEFT
from weft.launch.local.hosts import Hosts

Facts = Iterable[Mapping[str, Any]]
"""Hosts whose records did not come, as run.json has them."""


class LostHostReporter:
    """Reports each host that no longer answers, once."""

    def __init__(self, hosts: Hosts, say: Callable[[str], object]) -> None:
        self._hosts, self._say = hosts, say
        self._told: set[int] = set()

    def report_new(self) -> None:
        """Report the hosts that have stopped answering since the last call."""
        for host in self._hosts.unreachable:
            if host.place not in self._told:
                self._told.add(host.place)
                ranks = f", with {rank_words(host.rank_numbers())}" if host.rank_numbers() else ""
                self._say(
                    f"host {host.name} does not answer any more ({host.lost}){ranks}; Weft ends the run when the "
                    f"other ranks make no progress in MPI for {LEFT:.0f} s"
                )


def describe_host_names(lost: Facts) -> str:
    """Format the names of hosts: `host b`, `hosts b and c`."""
    names = sorted({str(one["host"]) for one in lost})
    return f"host{'s' * (len(names) != 1)} {listed(names)}" if names else "a host"


def suggest_recovery(lost: Facts, place: str) -> Iterator[str]:
    """Yield where the records of each lost host may still be, and how to put them into the run at `place`."""
    for one in lost:
        name, folder = one["host"], one.get("folder")
        if folder:
            yield (
                f"what host {name} recorded may still be there, in {folder}: `scp -r {name}:{folder} {name}` and "
                f"`weft gather {place} {name}` put it into the run"
            )
