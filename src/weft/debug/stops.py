"""What a run stops at: breakpoints at calls and lines, and watchpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from weft.base.event_id import EventId
from weft.debug.back import find_frame_level, locate_watched
from weft.debug.breakpoints import Breakpoint, Breakpoints, Scope
from weft.debug.hands import Watched
from weft.debug.standing import Answer, Standing
from weft.errors import DebuggerError, UsageError
from weft.gdb.point import Point


class Stops:
    """The breakpoints and watchpoints of a session."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.breakpoints = Breakpoints(standing.record, standing.findings)
        self.watches: dict[int, tuple[int, int, str]] = {}
        """By number: rank, the hand's number, the expression; of this replay only."""
        self.watched: dict[int, tuple[int, Watched]] = {}
        """The same with the frame that each is of, so that it can be watched in another replay."""

    def forget(self) -> None:
        """Forget what was watched in a replay that is left."""
        self.watches.clear()
        self.watched.clear()

    def break_at(self, text: str, scope: Scope | None = None, *, once: bool = False, log: str = "") -> Answer:
        """Set a breakpoint, and return it; without a text, return all breakpoints. `text`: the place as the user wrote
        it.

        `once`: only for the first visit. `log`: print this message instead of stopping (a log point). `scope`: stop in
        this task only.
        """
        if not text:
            return self.show()
        made = replace(self.breakpoints.make(text, scope, log), once=once)
        if made.point is not None:
            self.set_in_ranks([made])
        self.breakpoints.all.append(made)
        return {"kind": "break", "breakpoint": made.as_dict()}

    def set_in_ranks(self, more: Iterable[Breakpoint] = ()) -> None:
        """Set all breakpoints in the source, and those of `more`, in the ranks. DebuggerError if no rank accepts one of
        `more`.
        """
        wanted = [b for b in (*self.breakpoints.all, *more) if b.point is not None]
        refused: dict[int, list[DebuggerError]] = {}
        taken: set[int] = set()
        for rank in range(self._standing.record.size):
            mine = [b for b in wanted if b.on(rank)]
            if not self._standing.is_running(rank) or (not mine and rank not in self._standing.hands):
                continue
            hand = self._standing.hand(rank)
            good: list[Point] = []
            for one in mine:
                assert one.point is not None
                try:
                    hand.replace_breakpoints([*good, one.point])
                    good.append(one.point)
                    taken.add(one.id)
                except DebuggerError as error:
                    refused.setdefault(one.id, []).append(error)
            if not mine:
                hand.replace_breakpoints([])
        for b in more:
            if b.id in refused and b.id not in taken:
                raise DebuggerError(f"{b.text}: {refused[b.id][0]}")

    def remove_from_ranks(self) -> None:
        """Remove the breakpoints in the source from the ranks, until `arm` sets them again."""
        for rank, hand in self._standing.hands.items():
            if self._standing.is_running(rank):
                hand.replace_breakpoints([])

    def show(self) -> Answer:
        """Return all breakpoints and watchpoints."""
        watches = [{"id": n, "rank": rank, "expression": text} for n, (rank, _, text) in self.watches.items()]
        more = {"watches": watches} if watches else {}
        return {"kind": "breakpoints", "breakpoints": [b.as_dict() for b in self.breakpoints.all]} | more

    def ignore(self, text: str) -> Answer:
        """Ignore the next visits of a breakpoint, and return it. `text`: its number and how many visits, `1 5`."""
        number, _, count = text.partition(" ")
        if not count.strip().isdigit():
            raise UsageError("give the breakpoint and how many visits: ignore 1 5")
        made = self.breakpoints.ignore(number, int(count), self.reached)
        if made.point is not None and not self._standing.replica.over:
            self.set_in_ranks()
        return {"kind": "break", "breakpoint": made.as_dict()}

    def watch(self, expression: str, ranks: Sequence[int]) -> Answer:
        """Set a watchpoint on an expression on each of some ranks, and return the numbers of the watchpoints."""
        self._standing.require_running()
        if not expression:
            raise UsageError("give an expression: watch total, watch grid[3] @1")
        made = []
        for rank in ranks:
            level = self._standing.frames.level.get(rank, 0)
            number = self._standing.hand(rank).watch(expression, level)
            made.append(self.breakpoints.number())
            self.watches[made[-1]] = rank, number, expression
            with suppress(DebuggerError):  # a gdb without Python: it is watched in this replay only
                self.watched[made[-1]] = rank, locate_watched(self._standing, rank, expression, level)
        return {"kind": "watch", "expression": expression, "ranks": list(ranks), "ids": made}

    def delete(self, text: str) -> Answer:
        """Delete breakpoints and watchpoints, and return the remaining ones. `text`: their numbers, "" or `all` for
        all.
        """
        everything, words = text in ("", "all"), text.split()
        watched = [number for number in self.watches if everything or str(number) in words]
        for number in watched:
            rank, known, _ = self.watches.pop(number)
            self.watched.pop(number, None)
            if rank in self._standing.hands and self._standing.is_running(rank):
                self._standing.hands[rank].unwatch(known)
        rest = [word for word in words if not (word.isdigit() and int(word) in watched)]
        if everything and (self.breakpoints.all or not watched):
            self.breakpoints.delete("")
        elif rest and not everything:
            self.breakpoints.delete(" ".join(rest))
        if not self._standing.replica.over:
            self.set_in_ranks()
        return self.show()

    def reached(self, event: EventId) -> bool:
        """Return whether a thread has passed a recorded call, or is stopped before it."""
        (rank, slot), position, _ = self._standing.record.position(event)
        at = self._standing.replica.at(rank, slot)
        return position < at or (position == at and self._standing.replica.parked(rank, slot))

    def waits_before(self, candidates: Iterable[EventId]) -> list[EventId]:
        """Return those of the calls before which their threads are stopped."""
        where, parked = self._standing.record.position, self._standing.replica.parked
        return [event for event in candidates if self.reached(event) and parked(*where(event)[0])]

    def breakpoints_hit(self, candidates: Iterable[EventId]) -> list[Breakpoint]:
        """Return the breakpoints at which ranks are stopped now. `candidates`: the recorded calls at which a breakpoint
        could have stopped a rank.
        """
        lines = {self._standing.hands[rank].news.get("point") for rank in self._standing.at_lines()}
        at = self.breakpoints.at(self.waits_before(candidates))
        return [b for b in self.breakpoints.all if b in at or (b.point is not None and b.id in lines)]

    def stopped_at(self, candidates: Iterable[EventId]) -> list[int]:
        """Return the ranks that are stopped at lines, and then those that are stopped before one of the calls."""
        return sorted(self._standing.at_lines()) + [rank for rank, _ in self.waits_before(candidates)]

    def passed_calls(self) -> Iterable[EventId]:
        """Yield the recorded calls at which a breakpoint stops and which their threads have passed already."""
        for b in self.breakpoints.all:
            for event in b.events:
                thread, position, _ = self._standing.record.position(event)
                if position < self._standing.replica.at(*thread):
                    yield event

    def watch_again(self, kept: dict[int, tuple[int, Watched]]) -> None:
        """Set the watchpoints of another replay in this one. A watchpoint whose frame the rank does not have now is
        only remembered, for searches backwards.

        `kept`: rank and expression by the watchpoint's number.
        """
        for number, (rank, one) in kept.items():
            with suppress(DebuggerError):
                level = find_frame_level(self._standing, rank, one)
                if number not in self.watches and level is not None:
                    self.watches[number] = rank, self._standing.hand(rank).watch(one.text, level), one.text
                self.watched[number] = rank, one
