"""Go back in the source: to the last line, visit of a breakpoint or change of a value before the current place of a
rank.

No processor runs backwards here. Between two of its MPI calls a rank goes the same way in every replay, so a place on
it has a number: the ticks (visits, changes, lines) since the call before it. From its current place the rank runs on to
its next call, and the ticks on the way are counted; another replay counts all ticks from the call before, and the
difference is the number of the ticks before the current place. A third replay stops at the last of them. If there are
none, the search begins again 8, 64, 512, ... calls earlier.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from weft.base.event_id import EventId
from weft.debug.breakpoints import Breakpoints
from weft.debug.hands import Frame, Marks, Place, Tally, Watched
from weft.debug.standing import Known, Standing
from weft.errors import DebuggerError, WeftError
from weft.replay import Goals

LOG = 10_000
"""Ticks whose lines are looked at for where a line begins."""
WIDER = 8
"""How many times as many calls each search covers as the one before it, which found no tick: a replay costs as much as
some thousand ticks.
"""
ALL_POLLS = 2**32 - 1
TRIES = 3
"""Replays that count, until one has come past where the rank stood."""


class NotAgain(WeftError):
    """Another replay did not come to the place where the rank was.

    `tallies`: of replays from the same call. The program is blamed only if two of them differ.
    """

    def __init__(self, rank: int, system: str, tallies: Sequence[Tally] = ()) -> None:
        lost = f"rank {rank} did not come to that line again"
        if (lines := find_difference(tallies)) is not None:
            super().__init__(
                f"{lost}: one replay came to line {lines[0]} and another to line {lines[1]} instead, so between two "
                f"calls of {system} the program does not do the same each time (threads, time, addresses?)"
            )
        else:
            super().__init__(f"{lost}, though all replays took the same path: use `prev event` to go back call by call")


def find_difference(tallies: Sequence[Tally]) -> tuple[int, int] | None:
    """Compare the counts of several replays that ought to go the same way. Return the source lines of two replays at
    the first tick (counted line, visit or change) at which they differ; None if none do.
    """
    for nth, one in enumerate(tallies):
        for other in tallies[:nth]:
            for tick in range(max(one.first, other.first), min(one.ticks, other.ticks) + 1):
                if one.way(tick) != other.way(tick):
                    return one.lines[tick - one.first][0], other.lines[tick - other.first][0]
    return None


def _key(marks: Marks) -> str:
    """Return a key that is equal for two searches that count the same lines."""
    place = {name: marks.place.get(name) for name in ("depth", "function", "lines")}
    return json.dumps([marks.lines, place], sort_keys=True)


class BackwardSearch:
    """One search on one rank. `marks`: what counts as a tick; `floor`: the call of the rank before which no tick is
    searched.
    """

    def __init__(self, standing: Standing, rank: int, marks: Marks, floor: int = 0) -> None:
        self.standing, self.rank, self.marks, self.floor = standing, rank, marks, floor
        controls = standing.replica.controls
        self.now = standing.calls_passed()
        self._begun_at = dict(self.now)
        self.polls = {thread: controls[thread[0]].goal_polls(thread[1]) for thread in self.now}
        if not standing.is_running(rank):  # it has ended: the search begins before it left MPI
            entries = range(standing.record.entries(rank))
            self.now[rank, 0] = next((at for at in entries if standing.record.is_end_of_mpi(rank, at)), len(entries))
        state = standing.describe_thread(rank)["state"]
        self.at_line, self.inside = state == "line", state == "in"
        if self.at_line:  # how many of the failed polls before its next call it has made is not known: it makes all
            self.polls[rank, 0] = ALL_POLLS
        self.behind = self.own = self.visits = 0
        self.passes = False
        """Whether each replay visits the place where the rank stands."""
        self._tallies: dict[int, list[Tally]] = {}
        """What was counted from each call, in each replay."""
        self._lines: dict[int, tuple[Place, int]] = {}
        """By rank that stood at a line: its place, and how often it came there again before its next call."""

    def go_to_last_tick(self) -> bool:
        """Bring the rank back to the last tick before its current place: the last visit of a marked place, change of a
        marked value, or line. Return False if there is none; the rank is then at its current place again.

        NotAgain, with all ranks where they were, if no further replay comes to the tick.
        """
        try:
            return self._search_last_tick()
        except NotAgain:
            with suppress(WeftError):
                self._restore()
            raise

    def _search_last_tick(self) -> bool:
        """Do what `go_to_last_tick` does and return the same, but leave the ranks anywhere if an exception is
        raised.
        """
        known = self._reusable_search()
        if known is not None and self._go_to_tick(
            known.base, lambda _: known.tally, known.tally.ticks - known.tick + 1
        ):
            return True
        self._count_to_next_call()
        for base in self._search_starts(known.base if known is not None else self.now[self.rank, 0]):
            if self._go_to_tick(base, self._count_past_place, self.behind + self.own):
                return True
        self._restore()
        return False

    def _go_to_tick(self, base: int, counted: Callable[[int], Tally], after: int) -> bool:
        """Bring the rank to the tick that is followed by exactly `after` further ticks, counted from call `base` on.
        Return False if there are fewer ticks. NotAgain if no further replay goes the same way.

        `counted(base)`: returns the counts of a replay from that call on.
        """
        for _ in range(TRIES):
            tally = counted(base)
            if tally.ticks <= after:
                return False
            if self._go_to_same_tick(base, tally.ticks - after, tally):
                return True
        raise self._not_again(base)

    def _go_to_same_tick(self, base: int, tick: int, tally: Tally) -> bool:
        """Start another replay up to tick `tick` after call `base`, or to the first tick of the same line if lines are
        counted. Return whether this replay went the same way as the one with the counts `tally`.

        A variable that the program has not set yet has another value in each replay. Its first value then counts as a
        change in some replays only, and these do not go the same way.
        """
        tick = tally.begin_of_line(tick) if self.marks.lines else tick
        try:
            again = self.go_to(base, tick=tick)
            self._tallies.setdefault(base, []).append(again)
            way = again.way(tick)
        except NotAgain:
            return False
        if way != (tally.way(tick) or way):
            return False
        if self.marks.lines and (stop := self._current_stop()) is not None:
            self.standing.known = Known(stop, base, tick, tally, _key(self.marks))
        return True

    def _reusable_search(self) -> Known | None:
        """Return what the last search counted, if the rank is still where that search brought it and the same is
        searched; else None.
        """
        known = self.standing.known
        mine = known is not None and known.stop is self._current_stop() and known.key == _key(self.marks)
        return known if mine else None

    def _current_stop(self) -> Frame | None:
        """Return the line at which the rank is stopped, None if at none. It is a new object for each stop, so that one
        can tell by `is` whether the rank has moved.
        """
        hand = self.standing.hands.get(self.rank)
        return hand.stopped if hand is not None else None

    def _search_starts(self, below: int) -> Iterator[int]:
        """Yield the positions of earlier calls of the rank from which to search forward: the nearest first, then at
        growing distances. Calls at `below` and later are left out, as no tick follows them.
        """
        marks = self.marks
        is_quick = bool(marks.points) and not marks.lines and not marks.watches  # a visit costs little, a replay much
        here, calls = self.now[self.rank, 0], (WIDER if is_quick else 1) + self.inside
        while here:
            base = max(here - calls, self.floor)
            if base < below:
                yield base
            if here - calls <= self.floor:
                return
            calls *= WIDER

    def _count_to_next_call(self) -> None:
        """Run the rank on to its next call, and count the ticks until there (`behind`) and the visits of its current
        place (`visits`).

        Also counts in `_lines` how often other ranks that are stopped at lines come to their places again. Nothing
        happens if the rank is not at a line, or has crashed.
        """
        if not self.at_line:
            return
        hand = self.standing.hand(self.rank)
        if getattr(hand, "why", "").startswith("SIG"):  # from a crash it goes nowhere
            return
        self.own = hand.begin_count(self.marks)
        self.passes = hand.stopped is not None and hand.stopped.level == 0  # else it stands in what that line calls
        others = self._begin_counting_others()
        self.run_past_search(wait_for_all=bool(others))
        tally = hand.finish_count()
        self.behind, self.visits = tally.ticks, tally.visits
        if self.marks.place.get("address") or "lines" not in self.marks.place:
            self._lines[self.rank] = self.marks.place, tally.visits
        for rank, place in others.items():
            self._lines[rank] = place, self.standing.hands[rank].finish_count().visits

    def _begin_counting_others(self) -> dict[int, Place]:
        """Begin to count how often the other ranks that are stopped at lines visit their places; return these places by
        rank.
        """
        found: dict[int, Place] = {}
        for rank in sorted(self.standing.at_lines() - {self.rank}):
            hand = self.standing.hand(rank)
            if getattr(hand, "why", "").startswith("SIG"):
                continue
            with suppress(DebuggerError):
                place = hand.place()
                hand.begin_count(Marks(place))
                found[rank] = place
        return found

    def run_past_search(self, *, wait_for_all: bool = False) -> None:
        """Let all ranks run to where they were before the search, and the searched rank on to its next call. Wait for
        the searched rank only, unless `wait_for_all`.
        """
        self.standing.run(self.now, self.polls)
        self.standing.settle(only=None if wait_for_all else self.rank)

    def _goals_without_next_call(self) -> Goals:
        """Return how far all ranks can run if the searched rank does not make its next call. No goal is beyond where
        the thread was before the search, or before where it is.
        """
        standing = self.standing
        coming = standing.record.entry(self.rank, standing.replica.at(self.rank))
        cut = self.now if coming is None else standing.cut_before(coming.id, self.now)
        return {thread: max(goal, standing.replica.at(*thread)) for thread, goal in cut.items()}

    def _begin_before_call(self, base: int) -> None:
        """Start another replay, in which the rank stops before its call number `base`."""
        event = self.standing.record.entry(self.rank, base)
        if event is None:
            raise WeftError(f"the record has no call {base} of rank {self.rank}")
        self.standing.back_to(event.id, self.now, only=self.rank)

    def _count_from_call(self, base: int) -> Tally:
        """Start another replay, and return the counts of all ticks from call `base` up to the call after the rank's
        place.
        """
        self._begin_before_call(base)
        hand = self.standing.hand(self.rank)
        hand.begin_count(self.marks)
        self.run_past_search()
        return hand.finish_count(LOG if self.marks.lines else min(LOG, 1 + self.behind + self.own))

    def _count_past_place(self, base: int) -> Tally:
        """Return the counts of all ticks from call `base` on, from a replay in which the rank came past its place
        again. NotAgain if no replay does.

        A replay that did not come past it, as it was disturbed or the program went another way, proves nothing about
        earlier ticks.
        """
        for _ in range(TRIES if self.passes else 1):
            tally = self._count_from_call(base)
            self._tallies.setdefault(base, []).append(tally)
            if not self.passes or (tally.visits > self.visits and tally.ticks >= self.behind + self.own):
                return tally
        raise self._not_again(base)

    def _not_again(self, base: int) -> NotAgain:
        return NotAgain(self.rank, self.standing.record.trace.system.name, self._tallies.get(base, ()))

    def go_to(self, base: int, *, tick: int = 0, visit: int = 0, except_visits: bool = False) -> Tally:
        """Start another replay in which the rank stops at tick number `tick` after call `base`, or at visit number
        `visit` of its place. Return the counts up to there. NotAgain if the rank does not stop.

        `except_visits`: visits of the place are counted on.
        """
        self._begin_before_call(base)
        hand = self.standing.hand(self.rank)
        hand.begin_count(self.marks, tick, visit)
        self.standing.run(self.now, self.polls)
        self.standing.settle(self._goals_without_next_call)
        if hand.stopped is None:
            raise self._not_again(base)
        return hand.finish_count(LOG, except_visits=except_visits)

    def _restore(self) -> None:
        """Bring the searched rank back to where it was, and other ranks that were stopped at lines back to these
        lines.
        """
        if not self._lines:
            self.standing.begin(self._begun_at)
            return
        totals: dict[int, int] = {}
        for is_counting in (True, False):
            self._begin_before_lines()
            for rank, (place, after) in self._lines.items():
                self.standing.hand(rank).begin_count(Marks(place), 0, 0 if is_counting else totals[rank] - after)
            self.standing.run(self._begun_at, self.polls)
            self.standing.settle(None if is_counting else self._goals_without_next_call)
            for rank in self._lines:
                if is_counting or self.standing.hands[rank].stopped is not None:
                    totals[rank] = self.standing.hands[rank].finish_count().visits
        if self.at_line and self.standing.hands[self.rank].stopped is None:
            raise self._not_again(max(self.now[self.rank, 0] - 1, 0))

    def _begin_before_lines(self) -> None:
        """Start another replay, in which each rank of `_lines` stops before the last call that it made before its
        line.
        """
        standing = self.standing
        found = (standing.record.entry(rank, max(self.now[rank, 0] - 1, 0)) for rank in self._lines)
        cut = standing.record.cuts.greatest_cut_without([event.id for event in found if event is not None])
        goals = standing.record.complete_goals(cut.goals, self.now)
        standing.begin({thread: min(goal, self.now[thread]) for thread, goal in goals.items()})


def locate_watched(standing: Standing, rank: int, expression: str, level: int) -> Watched:
    """Return an expression with the frame that it belongs to, so that it can be watched in another replay too."""
    place: Place = standing.hand(rank).place(level, expression)
    return Watched(expression, place["depth"], place["function"], place.get("path", ""))


def find_frame_level(standing: Standing, rank: int, one: Watched) -> int | None:
    """Return the level in the rank's stack (0: innermost) of the frame of a watched expression. None if the rank has no
    such frame; 0 for an expression that needs no frame.
    """
    if not one.depth:
        return 0
    hand = standing.hand(rank)
    for level in range(len(hand.stack())):
        place = hand.place(level)
        if (place["depth"], place["function"]) == (one.depth, one.function):
            return level
    return None


def reverse_run(
    standing: Standing, rank: int, call: EventId | None, breakpoints: Breakpoints, watches: Sequence[Watched]
) -> bool:
    """Bring a rank back to the last visit of a breakpoint or change of a watched value after `call`. Return whether
    there is one.

    If not, the rank is somewhere before that call, or where it was if `call` is None.
    """
    points = tuple(
        b.point for b in breakpoints.all if b.point and b.on(rank) and b.point.task is None and not b.point.log
    )
    if not points and not watches:
        return False
    begun = breakpoints.begun
    floor = 0
    if call is not None:  # what began before that call needs no search
        later = (
            position for position in range(standing.replica.at(rank))
            if (event := standing.record.entry(rank, position)) is not None and begun(event.id) >= begun(call)
        )  # fmt: skip
        floor = max(next(later, standing.replica.at(rank)) - 1, 0)
    place = standing.hand(rank).place() if standing.is_running(rank) else {}
    search = BackwardSearch(standing, rank, Marks(place, points, tuple(watches)), floor)
    if not search.go_to_last_tick():
        return False
    if call is None:
        return True
    coming = standing.record.entry(rank, standing.replica.at(rank))
    return coming is None or begun(coming.id) > begun(call)
