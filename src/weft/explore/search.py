"""The search: run each order in which a program's races and completions can come out, once.

Reachability testing (Lei & Carver 2006, IEEE TSE 32(6), "Reachability testing of concurrent programs"): in a recorded
run, each message that could have come first at a wildcard gives a variant, in which all that does not depend on that
wildcard stays as it was. The variant is run, with its tail left free; that gives another outcome with races of its own.
A variant that some run already has is not run again, so that no two runs have the same order; and as any further order
has a variant that none of the runs has, none is missed.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import field
from enum import Enum
from itertools import chain
from typing import Final, Protocol

from weft.base.lazy import dataclass
from weft.errors import UsageError
from weft.explore.choices import Wanted, are_compatible, expected_choices, find_choices, has_choices
from weft.explore.corners import ExtremeOrderSearch, find_extreme_orders
from weft.explore.outcomes import Outcome, Variant, iterate_variants
from weft.match import match_operations
from weft.order import order_events
from weft.races import detect_races
from weft.replay.force import Forcing
from weft.trace import Trace

ALTERNATIVES: Final = 1 << 16
"""Racing messages that are looked at for one receive."""
AT_ONCE: Final = 20
"""Outcomes on the way to one corner before the ways to the others have as many."""

Key = tuple[bool, int, int, int]
"""The least first."""


@dataclass(frozen=True, slots=True)
class VariantResult:
    """The result of a variant that was started."""

    variant: Variant
    trace: Trace | None = None
    """Its record; None where it did not come about, or was cut off."""
    cut: str = ""
    """Why it was not run to its end; empty where it was, or where none of its ranks went on."""


class VariantRunner(Protocol):
    """Something that runs variants, some of them at the same time."""

    jobs: int

    def start_variant(self, parent: Outcome, variant: Variant, forcing: Forcing) -> None:
        """Start to run a variant."""

    def wait_for_variant(self) -> VariantResult:
        """Wait until a started variant has ended, and return its result."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A variant that is to be run, and the choices that it shares with its parent."""

    variant: Variant
    forcing: Forcing
    wanted: Wanted


class _SkipReason(Enum):
    """Why a variant is not to be run."""

    NOW = "a run that is going on may reach it"
    EVER = "it cannot be reached, or was tried already"


@dataclass(slots=True)
class Search:
    """The outcomes so far, and the variants that are still to be run, the most informative first."""

    machine: VariantRunner
    outcomes: list[Outcome] = field(default_factory=list)
    unreached: list[Variant] = field(default_factory=list)
    """Variants that did not come about: the message never came."""
    cut_off: list[VariantResult] = field(default_factory=list)
    """Variants that were not run to their end, so that nothing is known of them."""
    known: set[tuple[int, str]] = field(default_factory=set)
    """Unreached variants of an earlier session, by parent and force."""
    only: str | None = None
    """The line of the races to be varied; all of them without it."""
    stopped: bool = False
    """No more variants are begun; those that run are waited for."""
    _queue: list[tuple[Key, Variant]] = field(default_factory=list)
    _ways: list[ExtremeOrderSearch] = field(default_factory=list)
    _turn: bool = False
    _tried: set[Variant] = field(default_factory=set)
    _lines: dict[str, int] = field(default_factory=dict)
    _pushed: int = 0

    def add_run(self, trace: Trace, variant: Variant | None = None) -> Outcome | None:
        """Add a run as a new outcome, queue its variants, and return it; None if a run with the same choices is known
        already.
        """
        matched = match_operations(trace)
        made = find_choices(trace, matched)
        same = {place: choice.source for place, choice in made.items()}
        if any(len(one.made) == len(same) and has_choices(one.made, same) for one in self.outcomes):
            return None
        ordered = order_events(trace, matched)
        races = detect_races(matched, ordered, max_messages=ALTERNATIVES)
        outcome = Outcome(len(self.outcomes), trace, matched, ordered, races, made)
        if variant is not None:
            outcome.parent, outcome.forced = variant.parent, variant.forced
        self.outcomes.append(outcome)
        if not outcome.number:
            self._ways = [ExtremeOrderSearch(corner, outcome) for corner in find_extreme_orders(outcome)]
        for one in iterate_variants(outcome):
            if self.only in (None, one.line):
                # Which message comes says more than which request is completed, the first race of a line more than
                # its hundredth, one near the record more than one far from it.
                seen = self._lines.get(one.line, 0)
                self._lines[one.line] = seen + 1
                self._push((one.forced.request >= 0, seen, outcome.number), one)
        return outcome

    def _push(self, key: tuple[bool, int, int], variant: Variant) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, ((*key, self._pushed), variant))

    def run_variants(self) -> Iterator[tuple[Variant, Outcome | None]]:
        """Run all variants that are left, several at a time, and yield (variant, its new outcome) for each that has
        ended. The outcome is None if the variant gave no new one.
        """
        running: dict[Variant, Wanted] = {}
        while True:
            while len(running) < self.machine.jobs and not self.stopped:
                found = self._next_variant(running.values())
                if found is None:
                    break
                running[found.variant] = found.wanted
                self.machine.start_variant(self.outcomes[found.variant.parent], found.variant, found.forcing)
            if not running:
                return
            came = self.machine.wait_for_variant()
            yield came.variant, self._add_result(came, running.pop(came.variant))

    def _add_result(self, result: VariantResult, expected: Wanted) -> Outcome | None:
        """Add the result of a variant, and return its outcome; None if it gave no new one. Searches for an extreme
        order that wait for this variant continue from its outcome.
        """
        variant = result.variant
        outcome = self.add_run(result.trace, variant) if result.trace is not None else None
        if result.cut:
            self.cut_off.append(result)
        elif outcome is None or not has_choices(outcome.made, expected):
            self.unreached.append(variant)
        self._tried.add(variant)
        for way in self._ways:
            if way.awaited == variant:
                way.awaited = None
                if outcome is not None:
                    way.continue_from(outcome)
        return outcome

    def _next_variant(self, running_choices: Collection[Wanted]) -> _Candidate | None:
        """Return the next variant to run, or None if there is none now. The variant comes alternately from a search for
        an extreme order and from the queue.
        """
        self._turn = not self._turn
        if self._turn:
            return self._next_towards_extreme(running_choices) or self._next_in_queue(running_choices)
        return self._next_in_queue(running_choices) or self._next_towards_extreme(running_choices)

    def _next_towards_extreme(self, running_choices: Collection[Wanted]) -> _Candidate | None:
        """Return the next variant that leads towards an extreme order; None if there is none now."""
        for way in sorted(self._ways, key=lambda way: len(way.passed) // AT_ONCE):
            while way.awaited is None and (variant := next(way.steps, None)) is not None:
                if self.only not in (None, variant.line):
                    continue
                found = self._examine_variant(variant, running_choices)
                if isinstance(found, _Candidate):
                    way.awaited = variant
                    return found
                if isinstance(found, Outcome):
                    way.continue_from(found)
                elif found is _SkipReason.NOW:
                    way.steps = chain([variant], way.steps)
                    break
        return None

    def _next_in_queue(self, running_choices: Collection[Wanted] = ()) -> _Candidate | None:
        """Return the first variant in the queue whose choices no run has made. Variants whose choices a run under way
        may turn out to make stay in the queue, others that are known are dropped. None if there is none.
        """
        later = []
        found = None
        while self._queue and found is None:
            key, variant = heapq.heappop(self._queue)
            looked = self._examine_variant(variant, running_choices)
            if looked is _SkipReason.NOW:
                later.append((key, variant))
            elif isinstance(looked, _Candidate):
                found = looked
        for entry in later:
            heapq.heappush(self._queue, entry)
        return found

    def _examine_variant(
        self, variant: Variant, running_choices: Collection[Wanted]
    ) -> _Candidate | Outcome | _SkipReason:
        """Return the variant with its expected choices, if it is to be run. Else return the outcome that has these
        choices already, or the reason why it is not to be run now or ever.
        """
        if variant in self._tried:
            return _SkipReason.EVER
        if (variant.parent, str(variant.forced)) in self.known:
            self.unreached.append(variant)
            self._tried.add(variant)
            return _SkipReason.EVER
        parent = self.outcomes[variant.parent]
        try:
            forcing = Forcing(parent.trace, parent.match, parent.order, variant.forced)
        except UsageError:  # it cannot come first
            return _SkipReason.EVER
        want = expected_choices(forcing, parent.made)
        has = next((one for one in self.outcomes if has_choices(one.made, want)), None)
        if has is not None:
            return has
        return (
            _SkipReason.NOW
            if any(are_compatible(want, other) for other in running_choices)
            else _Candidate(variant, forcing, want)
        )

    @property
    def left(self) -> int:
        """Return the number of variants in the queue; some may be outcomes that exist already."""
        return len(self._queue)

    def has_untried_variant(self) -> bool:
        """Return whether a variant is left that no run has; variants that some run has are dropped from the queue."""
        found = self._next_in_queue()
        if found is not None:
            self._push((False, 0, -1), found.variant)
        return found is not None
