"""Going back in the source: to the last line, visit of a breakpoint or change of a value before where a rank stands.

No processor runs backwards here. A rank's way between two of its calls of MPI is the same in every replay, so a place
on it is told by a number: of the ticks (visits, changes, lines) since the call before it. From where the rank stands
it runs on to its next call, and the ticks behind that place are counted; another replay counts all ticks from the call
before, and what is left is how many lie ahead of it. A third stops at the last of them. Where there are none the
search begins anew 2, 4, 8, ... calls earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.debug.hands import Marks, Place, Tally, Watched
from weft.errors import UsageError, WeftError
from weft.replay.points import EventId

if TYPE_CHECKING:
    from weft.debug.debugger import Debugger

LOG = 10_000
"""Ticks whose lines are looked at for where a line begins."""
STEPS = 5_000
"""Lines of called functions that a step back into one goes through."""


class Back:
    """One search on one rank. `marks`: what counts; `floor`: the call of the rank before which none is looked for."""

    def __init__(self, debugger: Debugger, rank: int, marks: Marks, floor: int = 0) -> None:
        self.debugger, self.rank, self.marks, self.floor = debugger, rank, marks, floor
        controls = debugger.replica.controls
        self.now = {thread: debugger.replica.at(*thread) for thread in debugger.record.threads}
        self.polls = {thread: controls[thread[0]].goal_polls(thread[1]) for thread in self.now}
        if not debugger.runs(rank):  # it has ended: the search begins before it left MPI
            entries = range(debugger.record.entries(rank))
            self.now[rank, 0] = next((at for at in entries if debugger.record.leaves(rank, at)), len(entries))
        state = debugger.stands(rank)["state"]
        self.at_line, self.inside = state == "line", state == "in"
        self.behind = self.own = self.visits = 0
        self.reached = 0, 0
        """The call that the tick was counted from, and its number."""

    def last(self) -> bool:
        """Bring the rank to the last tick before where it stands; false, and back where it stood, where none is."""
        self._count_behind()
        for base in self._bases():
            tally = self._count_from(base)
            tick = tally.ticks - self.behind - self.own
            if tick > 0:
                self.reached = base, tally.begin_of_line(tick) if self.marks.lines else tick
                self.go_to(base, tick=self.reached[1])
                return True
        self._restore()
        return False

    def _bases(self) -> Iterator[int]:
        """Calls of the rank to search from, nearest first."""
        here, calls = self.now[self.rank, 0], 1 + self.inside
        while here:
            yield max(here - calls, self.floor)
            if here - calls <= self.floor:
                return
            calls *= 2

    def _count_behind(self) -> None:
        """The ticks from where the rank stands to its next call, and those of where it stands."""
        hand = self.debugger.hand(self.rank)
        if not self.at_line or getattr(hand, "why", "").startswith("SIG"):  # from a crash it goes nowhere
            return
        self.own = hand.count(self.marks)
        self.run_on()
        tally = hand.counted()
        self.behind, self.visits = tally.ticks, tally.visits

    def run_on(self) -> None:
        """To where all ranks stood, the one of the search to its next call."""
        self.debugger.run(self.now, self.polls)
        self.debugger.settle()

    def _begin(self, base: int) -> None:
        """Another replay, in which the rank is about to make a call."""
        event = self.debugger.record.entry(self.rank, base)
        if event is None:
            raise WeftError(f"the record has no call {base} of rank {self.rank}")
        self.debugger.back_to(event.id, self.now)

    def _count_from(self, base: int) -> Tally:
        """All ticks from a call on, to the call behind where the rank stood."""
        self._begin(base)
        hand = self.debugger.hand(self.rank)
        hand.count(self.marks)
        self.run_on()
        return hand.counted(LOG if self.marks.lines else 1)

    def go_to(self, base: int, *, tick: int = 0, visit: int = 0) -> None:
        """Another replay, in which the rank stops at a tick from a call on, or at a visit of the place."""
        self._begin(base)
        hand = self.debugger.hand(self.rank)
        hand.count(self.marks, tick, visit)
        self.run_on()
        if hand.stopped is None:
            raise WeftError(
                f"rank {self.rank} did not come to that line again: what it does between two calls of MPI is not the "
                "same in each replay (threads, time, addresses?)"
            )
        hand.counted()

    def _restore(self) -> None:
        """To where the rank stood."""
        if not self.at_line:
            self.debugger.begin(self.now)
            return
        base = max(self.now[self.rank, 0] - 1, 0)
        self.go_to(base, visit=self._count_from(base).visits - self.visits)


def watched(debugger: Debugger, rank: int, expression: str, level: int) -> Watched:
    """What is to be known of a watch to set it in another replay."""
    place: Place = debugger.hand(rank).place(level, expression)
    return Watched(expression, place["depth"], place["function"], place.get("path", ""))


def level_of(debugger: Debugger, rank: int, one: Watched) -> int | None:
    """Which frame of a rank a watch is of, None where that frame is not there."""
    if not one.depth:
        return 0
    hand = debugger.hand(rank)
    for level in range(len(hand.stack())):
        place = hand.place(level)
        if (place["depth"], place["function"]) == (one.depth, one.function):
            return level
    return None


def reverse_line(debugger: Debugger, how: str, rank: int) -> None:
    """Bring a rank to the line before, over functions (`next`) or into them (`step`). UsageError where none is."""
    place = debugger.hand(rank).place()
    native = "lines" in place
    if native and not place["lines"]:
        raise UsageError(f"no lines are known of {place['function']}: compile with -g, or use `prev event`")
    search = Back(debugger, rank, Marks(place, lines="next" if native else how))
    if not search.last():
        raise UsageError(f"no line of rank {rank} lies behind that is after its first call of MPI")
    if native and how == "step":
        _into(search)


def _into(search: Back) -> None:
    """From the line before, over functions, to the last line of a function that it calls, if there is one."""
    steps = 0
    while steps < STEPS and _step(search):
        steps += 1
    if steps == STEPS:
        raise WeftError(f"more than {STEPS} lines lie in what that line calls: `reverse-next`, or `break` and `rc`")
    search.go_to(search.reached[0], tick=search.reached[1])
    for _ in range(steps):
        _step(search)


def _step(search: Back) -> bool:
    """One step on; whether it comes to a line before the place that the search began from."""
    hand, wanted = search.debugger.hand(search.rank), search.marks.place
    hand.step("step")
    hand.resume()
    search.debugger.settle()
    if hand.stopped is None:
        return False
    place = hand.place()
    return [place[name] for name in ("module", "address", "depth")] != [
        wanted[name] for name in ("module", "address", "depth")
    ]


def reverse_run(debugger: Debugger, rank: int, call: EventId | None) -> bool:
    """Bring a rank to the last visit of a breakpoint or change of a watched value, where that lies behind `call`.

    False where none does; the rank is then somewhere before that call, or where it stood if there is no call.
    """
    points = tuple(b.point for b in debugger.breakpoints.all if b.point and b.on(rank) and b.point.task is None)
    watches = tuple(one for of, one in debugger.watched.values() if of == rank)
    if not points and not watches:
        return False
    begun = debugger.breakpoints.begun
    floor = 0
    if call is not None:  # what began before that call needs no search
        later = (
            position for position in range(debugger.replica.at(rank))
            if (event := debugger.record.entry(rank, position)) is not None and begun(event.id) >= begun(call)
        )  # fmt: skip
        floor = max(next(later, debugger.replica.at(rank)) - 1, 0)
    place = debugger.hand(rank).place() if debugger.runs(rank) else {}
    search = Back(debugger, rank, Marks(place, points, watches), floor)
    if not search.last():
        return False
    if call is None:
        return True
    coming = debugger.record.entry(rank, debugger.replica.at(rank))
    return coming is None or begun(coming.id) > begun(call)
