"""Go back by lines in a native rank: to the last place at which a forward search stops before the current place.

gdb's `next` does not stop at every row of a line table. In optimised code it leaves out rows that begin no statement,
stops at the call of an inlined function without moving on, and runs on from the middle of a line. So rows of the line
table are only counted to find where to begin, some lines before the current place. From there gdb itself steps forward
until it has come to the current place or past it. Another replay then steps as often, less one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from weft.debug.back import TRIES, BackwardSearch, NotAgain
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Here, Marks, NoLines, Place, Tally
from weft.debug.standing import Standing
from weft.errors import UsageError, WeftError

STEPS = 5_000
"""Stops between the begin and the current place that a search goes through."""
WALKS = 2
"""Forward searches that are tried until one stops at the current place itself, if a line begins there."""
LINES = {"next": 6, "step": 2}
"""How many lines before the current place a search begins: the first stops after its begin may be others than those of
a forward search that began earlier.
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """A place at which a forward search stopped. `moves`: how many moves led there; `is_line`: whether it counts as a
    line of the search.
    """

    here: Here
    moves: int
    is_line: bool


@dataclass(slots=True)
class Walk:
    """A forward search from tick `tick` after call `base`: its moves, and its stops before the current place."""

    base: int
    tick: int
    tally: Tally
    moves: list[str] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    is_exact: bool = False
    """Whether the search also stopped at the current place itself."""

    def last_line(self, below: int, stack: tuple[str, ...] | None) -> int | None:
        """Return the number of the last stop before stop `below` that is a line, None if there is none. `stack`: of the
        place before which it is searched, if only lines of its function and of those that called it count.
        """
        for number in range(below - 1, -1, -1):
            stop = self.stops[number]
            if stop.is_line and (stack is None or stack[: len(stop.here.stack)] == stop.here.stack):
                return number
        return None


@dataclass(frozen=True, slots=True)
class KnownWalk:
    """Where the last step back has brought a rank: its stop, which is stop `number` of a walk."""

    stop: Frame
    how: str
    walk: Walk
    number: int


class LineSearch(BackwardSearch):
    """The search for the line before the current place of a native rank. `how`: `next` passes over functions, `step`
    goes into them.
    """

    def __init__(self, standing: Standing, rank: int, place: Place, how: str) -> None:
        super().__init__(standing, rank, Marks(place, lines="next"))
        self.how = how

    @property
    def _hand(self) -> NativeHand:
        return cast(NativeHand, self.standing.hand(self.rank))

    @property
    def _stack(self) -> tuple[str, ...]:
        """The functions on the stack of the place from which the search goes back."""
        return tuple(self.marks.place["stack"])

    def _search_last_tick(self) -> bool:
        return self._repeat_known_walk() or super()._search_last_tick()

    def _repeat_known_walk(self) -> bool:
        """Go back along the walk of the last search if the rank is still where that search has brought it. Return
        whether it is, and the walk has an earlier line.
        """
        known = self.standing.known_walk
        if known is None or known.stop is not self._current_stop() or known.how != self.how:
            return False
        number = known.walk.last_line(known.number, None if self.how == "step" else self._stack)
        return bool(number) and self._repeat(known.walk, cast(int, number))

    def _go_to_tick(self, base: int, counted: Callable[[int], Tally], after: int) -> bool:
        """Bring the rank to the last line before the current place that a forward search from call `base` on finds.
        Return False if it finds none. NotAgain if no further replay goes the same way.

        `counted(base)`: returns the counts of a replay from that call on; `after`: how many of them do not lie before
        the current place.
        """
        for _ in range(TRIES):
            tally = counted(base)
            if tally.ticks <= after:
                return False
            try:
                found = self._find_line(base, tally, tally.ticks - after)
            except NotAgain:
                continue
            if found is None or self._repeat(*found):
                return found is not None
        raise self._not_again(base)

    def _find_line(self, base: int, tally: Tally, last: int) -> tuple[Walk, int] | None:
        """Return a walk from call `base` on, and which of its stops is the line before the current place; None if there
        is no such line after that call. NotAgain if a replay went another way than the one with the counts `tally`.

        `last`: the last tick before the current place. A walk that stops at the current place itself is preferred to
        others if a line begins there.
        """
        best = []
        for tick in self._begins(tally, last):
            walk = self._walk_into_functions(base, tick, tally)
            number = walk.last_line(len(walk.stops), None if self.how == "step" else self._stack)
            if number is not None and (number > 0 or (base <= self.floor and tick == tally.first)):
                best.append((walk, number))
                if walk.is_exact or not self.marks.place["is_begin"]:
                    return best[-1]
                if len(best) == WALKS:
                    break
        return best[0] if best else None

    def _walk_into_functions(self, base: int, tick: int, tally: Tally) -> Walk:
        """Return a walk from tick `tick` after call `base` to the current place, in which only those functions are
        entered that the rank is in at that place.
        """
        visits, moves = tally.visits - self.visits, list[str]()
        for _ in self._stack:
            walk = self._walk_from(Walk(base, tick, tally), visits, moves)
            number = walk.last_line(len(walk.stops), self._stack)
            if walk.is_exact or self.how == "step" or number is None:
                break
            stop = walk.stops[number]
            if len(stop.here.stack) == len(self._stack) or stop.moves < len(moves):
                break
            moves = [*walk.moves[: stop.moves], "step"]
        return walk

    def _begins(self, tally: Tally, last: int) -> Iterator[int]:
        """Yield ticks from which to search forward: the first is some lines before tick `last`, the others are each
        four times as far from it.
        """
        lines = LINES[self.how]
        while True:
            tick, changes = last, 0
            while tick > tally.first and changes < lines:
                tick -= 1
                changes += tally.lines[tick - tally.first][:2] != tally.lines[tick + 1 - tally.first][:2]
            yield tick
            if tick == tally.first:
                return
            lines *= 4

    def _begin_walk(self, walk: Walk) -> bool:
        """Start another replay that stops where a walk begins. Return whether it went the same way up to there."""
        wanted = walk.tally.way(walk.tick)
        try:
            again = self.go_to(walk.base, tick=walk.tick, except_visits=True)
        except NotAgain:
            return False
        self._tallies.setdefault(walk.base, []).append(again)
        return wanted in (None, again.way(walk.tick))

    def _walk_from(self, walk: Walk, visits: int, moves: Sequence[str]) -> Walk:
        """Step a rank from the start of a walk until it reaches or passes the place where the search for the previous
        line began. Return the walk with its moves and stops. NotAgain if the replay took another path.

        `visits`: how often the rank must reach that place. `moves`: the first moves to make."""
        if not self._begin_walk(walk):
            raise self._not_again(walk.base)
        here: Here | None = self._hand.here()
        while here is not None and not self._has_come(here, visits):
            last = walk.moves[-1] if walk.moves else ""
            walk.stops.append(Stop(here, len(walk.moves), last != "finish"))
            if len(walk.moves) == STEPS:
                raise WeftError(
                    f"the functions that this line calls have more than {STEPS} lines: use `reverse-next`, or `break` "
                    "and `rc`"
                )
            is_given = len(walk.moves) < len(moves)
            walk.moves.append(moves[len(walk.moves)] if is_given else self._choose_move(here, into=bool(moves)))
            here = self._move(walk.moves[-1])
        walk.is_exact = self._is_place(here) if here is not None else not self.passes
        return walk

    def _choose_move(self, here: Here, *, into: bool) -> str:
        """Return how to step on. `into`: to the place where the search began, in a function that the last line of the
        walk calls; out of other functions that it calls.
        """
        if not into or here.stack == self._stack:
            return self.how
        return "finish" if here.depth > self.marks.place["depth"] else "step"

    def _is_place(self, here: Here) -> bool:
        """Return whether a stop is at the current place of the search."""
        place = self.marks.place
        return here.spot == (place["module"], place["address"], self._stack)

    def _has_come(self, here: Here, visits: int) -> bool:
        """Return whether a stop is the current place of the search or comes after it."""
        place = self.marks.place
        if self._hand.why.startswith("SIG"):
            return True
        if not self.passes or here.visits < visits:
            return False
        is_before_inlined = (here.module, here.address) == (place["module"], place["address"]) and (
            len(here.stack) < len(self._stack)
        )
        return here.visits > visits or not is_before_inlined

    def _move(self, move: str) -> Here | None:
        """Step the rank, and return where it stops; None if it has come to its next call after the current place."""
        hand = self._hand
        hand.skip(self.standing.skips.names)
        hand.step(move)
        self.standing.run(self.now, self.polls)
        self.standing.settle(self._goals_without_next_call)
        return hand.here() if hand.stopped is not None else None

    def _repeat(self, walk: Walk, number: int) -> bool:
        """Bring the rank to a stop of a walk in another replay. Return whether it came there."""
        stop = walk.stops[number]
        if not self._begin_walk(walk):
            return False
        for move in walk.moves[: stop.moves]:
            if self._move(move) is None:
                return False
        if self._hand.here().spot != stop.here.spot:
            return False
        self._hand.finish_count()
        if (at := self._current_stop()) is not None:
            self.standing.known_walk = KnownWalk(at, self.how, walk, number)
        return True


class NothingBehind(UsageError):
    """There is no line before the current place of the rank."""


def reverse_line(standing: Standing, how: str, rank: int) -> None:
    """Bring a rank back to the line before its current one. `how`: `next` passes over called functions, `step` goes
    into them. NothingBehind if there is no earlier line.
    """
    place = standing.hand(rank).place()
    native = "lines" in place
    if native and not place["lines"]:
        raise NoLines(f"the source lines of {place['function']} are unknown: compile with -g, or use `prev event`")
    search = (
        LineSearch(standing, rank, place, how) if native else BackwardSearch(standing, rank, Marks(place, lines=how))
    )
    if not search.go_to_last_tick():
        system = standing.record.trace.system.name
        raise NothingBehind(
            f"rank {rank} executed no earlier line after its first call of {system}: there is nothing to go back to"
        )
