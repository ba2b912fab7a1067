"""Hosts that no longer answer: said when it is noticed, and at the end what can be done about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from weft.base.words import listed, rank_words
from weft.launch.job import LEFT
from weft.launch.local.hosts import Hosts

Facts = Iterable[Mapping[str, Any]]
"""Hosts whose records did not come, as run.json has them."""


class Lost:
    """Tells of each host that no longer answers, once."""

    def __init__(self, hosts: Hosts, say: Callable[[str], object]) -> None:
        self._hosts, self._say = hosts, say
        self._told: set[int] = set()

    def pass_on(self) -> None:
        """Tell of those that are new."""
        for host in self._hosts.unreachable:
            if host.place not in self._told:
                self._told.add(host.place)
                ranks = f", with {rank_words(host.numbers())}" if host.numbers() else ""
                self._say(
                    f"host {host.name} does not answer any more ({host.lost}){ranks}; the run is ended once the other "
                    f"ranks stand still inside MPI for {LEFT:.0f} s"
                )


def named(lost: Facts) -> str:
    """`host b`, `hosts b and c`."""
    names = sorted({str(one["host"]) for one in lost})
    return f"host{'s' * (len(names) != 1)} {listed(names)}" if names else "a host"


def remedies(lost: Facts, place: str) -> Iterator[str]:
    """Where the records of each may still be, and how they get into the run at `place`."""
    for one in lost:
        name, folder = one["host"], one.get("folder")
        if folder:
            yield (
                f"what host {name} recorded may still lie there, in {folder}: `scp -r {name}:{folder} {name}` and "
                f"`weft gather {place} {name}` put it into the run"
            )
