"""The search: each order in which a program's races and completions can come out, once.

Reachability testing (Lei & Carver 2006, IEEE TSE 32(6), "Reachability testing of concurrent programs"): of a recorded
run, each message that could have come first at a wildcard gives a variant, in which all that does not depend on that
wildcard stays as it was. The variant is run, its tail as it comes; that is another outcome with races of its own. A
variant that some run already has is not run again, so that no two runs come out alike, and as a run that differs from
all that were made has a variant that none of them has, none is missed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import PurePath
from typing import Final, Protocol

from weft.errors import UsageError
from weft.explore.choices import Choice, Place, Wanted, agrees, choices, together, wanted
from weft.match import Match, match
from weft.order import Order, order
from weft.plain import dataclass
from weft.races import Races, detect
from weft.replay.force import Forced, Forcing
from weft.replay.ready import Requests, completing
from weft.terms import describe
from weft.trace import Trace

ALTERNATIVES: Final = 1 << 16
"""Racing messages that are looked at for one receive."""

EventId = tuple[int, int]
Key = tuple[bool, int, int, int]
"""The least first."""


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
    forced: Forced | None = None
    """As `weft replay --force` takes it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Another outcome that is to be run: of which one, and which receive takes whose message (or which request)."""

    parent: int
    forced: Forced
    line: str
    """The call's place in the program."""


class Machine(Protocol):
    """Runs variants, some at once."""

    jobs: int

    def start(self, parent: Outcome, variant: Variant, forcing: Forcing) -> None:
        """Begin to run a variant."""

    def wait(self) -> tuple[Variant, Trace | None]:
        """One of those that were begun, when it has ended. None where it did not come to an end that can be read."""


@dataclass(slots=True)
class Search:
    """Outcomes so far, and the variants that are still to be run, most telling first."""

    machine: Machine
    outcomes: list[Outcome] = field(default_factory=list)
    unreached: list[Variant] = field(default_factory=list)
    """Variants that did not come about: the message never came."""
    known: set[tuple[int, str]] = field(default_factory=set)
    """Unreached variants of an earlier session, by parent and force."""
    only: str | None = None
    """The line of the races to be varied; all of them without it."""
    stopped: bool = False
    """No more variants are begun; those that run are waited for."""
    _queue: list[tuple[Key, Variant]] = field(default_factory=list)
    _lines: dict[str, int] = field(default_factory=dict)
    _pushed: int = 0

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
            outcome.parent, outcome.forced = variant.parent, variant.forced
        self.outcomes.append(outcome)
        for one in variants(outcome):
            if self.only in (None, one.line):
                # What message comes tells more than which request is completed, the first race of a line more than
                # its hundredth, one near the record more than one far from it.
                seen = self._lines.get(one.line, 0)
                self._lines[one.line] = seen + 1
                self._push((one.forced.index >= 0, seen, outcome.number), one)
        return outcome

    def _push(self, key: tuple[bool, int, int], variant: Variant) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, ((*key, self._pushed), variant))

    def steps(self) -> Iterator[tuple[Variant, Outcome | None]]:
        """Run what is left to run, and give what came of each variant."""
        running: dict[Variant, Wanted] = {}
        while True:
            while len(running) < self.machine.jobs and not self.stopped:
                found = self._next(running.values())
                if found is None:
                    break
                variant, forcing, want = found
                running[variant] = want
                self.machine.start(self.outcomes[variant.parent], variant, forcing)
            if not running:
                return
            variant, trace = self.machine.wait()
            want = running.pop(variant)
            outcome = self.add(trace, variant) if trace is not None else None
            if outcome is None or not agrees(outcome.made, want):
                self.unreached.append(variant)
            yield variant, outcome

    def _next(self, running: Iterable[Wanted] = ()) -> tuple[Variant, Forcing, Wanted] | None:
        """The next variant that no run has yet, and that none of those that are running can have."""
        later = []
        found = None
        while self._queue and found is None:
            key, variant = heapq.heappop(self._queue)
            if (variant.parent, str(variant.forced)) in self.known:
                self.unreached.append(variant)
                continue
            parent = self.outcomes[variant.parent]
            try:
                forcing = Forcing(parent.trace, parent.match, parent.order, variant.forced)
            except UsageError:  # it cannot come first
                continue
            want = wanted(forcing, parent.made)
            if any(agrees(one.made, want) for one in self.outcomes):
                continue
            if any(together(want, other) for other in running):
                later.append((key, variant))
            else:
                found = variant, forcing, want
        for entry in later:
            heapq.heappush(self._queue, entry)
        return found

    @property
    def left(self) -> int:
        """How many variants are known and not looked at; some of them may be outcomes that are there already."""
        return len(self._queue)

    def more(self) -> bool:
        """Whether a variant is left that no run has; those that some run has are dropped."""
        found = self._next()
        if found is not None:
            self._push((False, 0, -1), found[0])
        return found is not None


def variants(outcome: Outcome) -> Iterator[Variant]:
    """For each race of a run, and each message that could have come first, a variant; for each call that completes one
    or some of several requests, one for each other request that could have been complete."""
    trace, found = outcome.trace, outcome.match
    for k in range(len(outcome.races)):
        posts = found.probes if outcome.races.probe[k] else found.recvs
        row = int(outcome.races.row[k])
        event = posts.id(row)
        peers = trace.communicators[int(posts.comm[row])].peers(event[0])
        line = line_of(trace, event)
        for send in outcome.races.others(k).tolist():
            yield Variant(outcome.number, Forced(event, source=peers.index(found.sends.rank_of(int(send)))), line)
    requests = Requests(trace, found, outcome.order)
    for rank in trace.ranks:
        for call in completing(rank):
            event = rank.index, call.event
            for index in requests.others(rank.index, call)[0]:
                yield Variant(outcome.number, Forced(event, index=index), line_of(trace, event))


def untold(outcome: Outcome) -> int:
    """How many requests could have been completed first by another call, as far as the order of messages tells."""
    requests = Requests(outcome.trace, outcome.match, outcome.order)
    return sum(requests.others(rank.index, call)[1] for rank in outcome.trace.ranks for call in completing(rank))


def line_of(trace: Trace, event: EventId) -> str:
    """`rank 0 at pool.py:14`: where a receive stands in the program."""
    site = describe.site(trace.event(*event))
    place = f"{PurePath(site.file).name}:{site.line}" if site.file and site.line else site.call
    return f"rank {event[0]} at {place}"
