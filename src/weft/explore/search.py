"""The search: each order in which a program's races can come out, once.

Reachability testing (Lei & Carver 2006, IEEE TSE 32(6), "Reachability testing of concurrent programs"): of a recorded
run, each message that could have come first at a wildcard gives a variant, in which all that does not depend on that
wildcard stays as it was. The variant is run, its tail as it comes; that is another outcome with races of its own. A
variant that some run already has is not run again, so that no two runs come out alike, and as a run that differs from
all that were made has a variant that none of them has, none is missed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import PurePath
from typing import Final

from weft.errors import UsageError
from weft.explore.choices import Choice, Place, agrees, choices, wanted
from weft.match import Match, match
from weft.order import Order, order
from weft.plain import dataclass
from weft.races import Races, detect
from weft.replay.force import Forcing
from weft.terms import describe
from weft.trace import Trace

ALTERNATIVES: Final = 1 << 16
"""Racing messages that are looked at for one receive."""

EventId = tuple[int, int]


@dataclass(slots=True)
class Outcome:
    """One order that was run. `forced` and `parent` say how it came about; the first has neither."""

    number: int
    trace: Trace
    match: Match
    order: Order
    races: Races
    made: dict[Place, Choice]
    parent: int | None = None
    event: EventId | None = None
    source: int | None = None
    """As a rank of the receive's communicator, as `weft replay --force` takes it."""

    @property
    def forced(self) -> str:
        """RANK:EVENT=SOURCE, empty for the first."""
        return f"{self.event[0]}:{self.event[1]}={self.source}" if self.event is not None else ""


@dataclass(frozen=True, slots=True)
class Variant:
    """Another outcome that is to be run: of which one, which receive, and whose message it is to take."""

    parent: int
    event: EventId
    source: int
    line: str
    """The receive's place in the program."""

    @property
    def forced(self) -> str:
        """RANK:EVENT=SOURCE."""
        return f"{self.event[0]}:{self.event[1]}={self.source}"


Execute = Callable[[Outcome, Variant, Forcing], Trace | None]
"""Runs a variant. None where it did not come to an end that can be read."""


@dataclass(slots=True)
class Search:
    """Outcomes so far, and the variants that are still to be run, most telling first."""

    execute: Execute
    outcomes: list[Outcome] = field(default_factory=list)
    unreached: list[Variant] = field(default_factory=list)
    """Variants that did not come about: the message never came."""
    known: set[tuple[int, str]] = field(default_factory=set)
    """Unreached variants of an earlier session, by parent and force."""
    only: str | None = None
    """The line of the races to be varied; all of them without it."""
    _queue: list[tuple[tuple[int, int, int], Variant]] = field(default_factory=list)
    _lines: dict[str, int] = field(default_factory=dict)

    def add(self, trace: Trace, variant: Variant | None = None) -> Outcome | None:
        """Take in a run; None where its order is known already."""
        matched = match(trace)
        made = choices(trace, matched)
        same = {place: choice.source for place, choice in made.items()}
        if any(len(one.made) == len(same) and agrees(one.made, same) for one in self.outcomes):
            return None
        ordered = order(trace, matched)
        races = detect(matched, ordered, most=ALTERNATIVES)
        outcome = Outcome(len(self.outcomes), trace, matched, ordered, races, made)
        if variant is not None:
            outcome.parent, outcome.event, outcome.source = variant.parent, variant.event, variant.source
        self.outcomes.append(outcome)
        for one in variants(outcome):
            if self.only not in (None, one.line):
                continue
            # The first race of a line tells more than its hundredth, one near the record more than one far from it.
            seen = self._lines.get(one.line, 0)
            self._lines[one.line] = seen + 1
            heapq.heappush(self._queue, ((seen, outcome.number, len(self._queue)), one))
        return outcome

    def steps(self) -> Iterator[tuple[Variant, Outcome | None]]:
        """Run what is left to run, one variant after the other, and give what came of each."""
        while (found := self._next()) is not None:
            variant, forcing, want = found
            trace = self.execute(self.outcomes[variant.parent], variant, forcing)
            outcome = self.add(trace, variant) if trace is not None else None
            if outcome is None or not agrees(outcome.made, want):
                self.unreached.append(variant)
            yield variant, outcome

    def _next(self) -> tuple[Variant, Forcing, dict[Place, int]] | None:
        """The next variant that no run has yet."""
        while self._queue:
            variant = heapq.heappop(self._queue)[1]
            if (variant.parent, variant.forced) in self.known:
                self.unreached.append(variant)
                continue
            parent = self.outcomes[variant.parent]
            try:
                forcing = Forcing(parent.trace, parent.match, parent.order, variant.event, variant.source)
            except UsageError:  # it cannot come first
                continue
            want = wanted(forcing, parent.made)
            if not any(agrees(one.made, want) for one in self.outcomes):
                return variant, forcing, want
        return None

    @property
    def left(self) -> int:
        """How many variants are known and not looked at; some of them may be outcomes that are there already."""
        return len(self._queue)

    def more(self) -> bool:
        """Whether a variant is left that no run has; those that some run has are dropped."""
        found = self._next()
        if found is not None:
            heapq.heappush(self._queue, ((0, 0, -1), found[0]))
        return found is not None


def variants(outcome: Outcome) -> Iterator[Variant]:
    """For each race of a run, and each message that could have come first, a variant."""
    trace, found = outcome.trace, outcome.match
    for k in range(len(outcome.races)):
        posts = found.probes if outcome.races.probe[k] else found.recvs
        row = int(outcome.races.row[k])
        event = posts.id(row)
        peers = trace.communicators[int(posts.comm[row])].peers(event[0])
        line = line_of(trace, event)
        for send in outcome.races.others(k).tolist():
            yield Variant(outcome.number, event, peers.index(found.sends.rank_of(int(send))), line)


def line_of(trace: Trace, event: EventId) -> str:
    """`rank 0 at pool.py:14`: where a receive stands in the program."""
    site = describe.site(trace.event(*event))
    place = f"{PurePath(site.file).name}:{site.line}" if site.file and site.line else site.call
    return f"rank {event[0]} at {place}"
