"""The debugger: move the ranks of a replay by commands, and answer with data. prompt.py talks to people.

Every stop is a cut of the recorded run. A breakpoint stops its rank there and the others as far as they get without
what comes after it (the greatest such cut); `until` runs what has to happen before and no more (the least one). Both
depend on the record alone, so each is the same place every time (dbxR-II, Miei & Takahashi 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.base.event_id import EventId
from weft.debug.back import reverse_run
from weft.debug.back_lines import reverse_line
from weft.debug.hands import PythonHand
from weft.debug.looks import Looks
from weft.debug.record import call_facts
from weft.debug.standing import Answer, HandMaker, Standing, hand_in
from weft.debug.stops import Stops
from weft.errors import DebuggerError, UsageError
from weft.replay import Goals, events_to_stop_before
from weft.trace import Event, Trace

__all__ = ["Answer", "Debugger", "HandMaker", "hand_in"]


class Debugger(Standing):
    """One recorded run under the prompt. Commands raise WeftError if they cannot do what is asked.

    `looks` inspects the stopped ranks, `stops` holds breakpoints and watchpoints; this class moves the ranks.
    """

    def __init__(
        self, path: Path, findings: Callable[[Trace], Sequence[Any]], options: Sequence[str] = (),
        program: Sequence[str] = (), *, hand: HandMaker | None = None, prepare: Callable[[Path], None] = lambda _: None,
    ) -> None:  # fmt: skip
        super().__init__(path, findings, options, program, hand=hand, prepare=prepare)
        self.looks = Looks(self)
        self.stops = Stops(self)

    def forget(self) -> None:
        """Forget what belonged to a replay that is left, and what was watched in it."""
        super().forget()
        self.stops.forget()

    def first(self) -> Answer:
        """Return where the ranks are before the first command."""
        self.settle()
        return self.stopped()

    def places_of_findings(self) -> list[str]:
        """Return a breakpoint specification for each finding that is an error or a warning: its line if that is outside
        of MPI, else its calls. Crashes are left out, as gdb stops a rank there anyway.
        """
        prefix, found = self.record.trace.system.prefix, []
        for number, one in enumerate(self.findings(), 1):
            site = one.sites[0] if one.sites else None
            if one.severity == "note" or (one.kind == "crash" and self.record.crashes.issuperset(one.ranks)):
                continue
            if site is not None and site.line and not site.call.startswith(prefix):
                found.append(f"{site.rank}:{Path(site.file).name}:{site.line}")
            elif one.events:
                found.append(f"finding:{number}")
        return found

    def go_on(self) -> Answer:
        """Run to the next breakpoint on any rank, or to the end."""
        self.require_running()
        end = self.record.end
        return self._run_to_goals(
            lambda held: self.record.complete_goals(self.record.cuts.greatest_cut_without(held).goals, end)
        )

    def _run_to_goals(
        self, limit: Callable[[list[EventId]], Goals], polls: Goals | None = None, *, through: bool = False
    ) -> Answer:
        """Let the ranks run up to goals (numbers of calls) or to a breakpoint on the way, and return where they are.

        `limit(calls)`: returns the goals, given the calls that must not be made as ranks stop before them. `polls`:
        failed polls that the ranks make at their goals. `through`: run through breakpoints.
        """
        candidates = [] if through else self.stops.breakpoints.ahead(self.stops.reached)
        if self.stops.breakpoints.of_source and not through:
            self.stops.set_in_ranks()
        else:
            self.stops.remove_from_ranks()

        def goals() -> Goals:
            held = limit([*candidates, *self.next_calls_of_stopped_ranks()])
            return {thread: max(goal, self.replica.at(*thread)) for thread, goal in held.items()}

        resting = self.at_lines()
        for rank in resting:
            self.hands[rank].stopped = None  # their next calls bound nothing any more
        first = goals()
        for rank in resting:
            self.hands[rank].stopped = self.frame(rank)
        self._catch_crashes(first)
        self.run(first, polls)
        self.settle(goals)
        self.focus_on(self.stops.stopped_at(candidates))
        hit = self.stops.breakpoints_hit(candidates)
        if any(b.once for b in hit):
            self.stops.breakpoints.all = [b for b in self.stops.breakpoints.all if not (b.once and b in hit)]
            self.stops.set_in_ranks()
        return self.arrived() | ({"hit": [b.as_dict() for b in hit]} if hit else {})

    def _catch_crashes(self, goals: Goals) -> None:
        """Attach gdb to ranks that crashed when they were recorded, if `goals` lets them run that far, so that they
        stop at the crash.
        """
        for rank in self.record.crashes:
            if self.is_running(rank) and goals[rank, 0] >= self.record.entries(rank):
                with suppress(DebuggerError):
                    self.hand(rank)

    def until(self, text: str, *, through: bool = False) -> Answer:
        """Run only what has to happen before a call, and return where all ranks are. If the call was made already, a
        new replay goes to before the call.

        `text`: the call as the user wrote it. `through`: run through breakpoints on the way.
        """
        if not text:
            raise UsageError("give WHERE: 2:57, solver.py:40#3, MPI_Allreduce, t=0.5, finding:1")
        events = events_to_stop_before(self.record.trace, text, self.findings)
        self.focus_on([event[0] for event in events])
        behind = any(self.record.position(e)[1] < self.replica.at(*self.record.position(e)[0]) for e in events)
        if behind or self.replica.over or self.replica.left_record():
            self.replace_replay(self.record.start, self.replica.shown)
            self.settle()
        past = self.record.cuts.least_cut_reaching(events)

        def limit(held: list[EventId]) -> Goals:
            cut = past.meet(self.record.cuts.greatest_cut_without(held)) if held else past
            return self.record.complete_goals(cut.goals, self.record.start)

        answer = self._run_to_goals(limit, past.polls, through=through)
        return answer | {"elsewhere": found} if (found := self._find_later_stops(events)) else answer

    def _find_later_stops(self, events: Sequence[EventId]) -> list[Answer]:
        """Return a row for each of the calls before which its rank could not be stopped, so that it is stopped before a
        later call.

        A row has `rank`, `call` (the requested one) and `next` (the call before which the rank is stopped).
        """
        found = []
        for event in events:
            (rank, slot), position, _ = self.record.position(event)
            row = self.describe_thread(rank, slot)
            coming = row.get("next")
            if row["state"] == "before" and row["passed"] == position and coming and coming["event"] > list(event):
                found.append({"rank": rank, "call": call_facts(self.record.trace.event(*event)), "next": coming})
        return found

    def next_event(self, count: int, rank: int) -> Answer:
        """Let a rank make its next `count` calls, and the other ranks those that are needed for it. Return where all
        ranks are.
        """
        self.require_running()
        at = self.replica.at(rank)
        target = at
        for _ in range(count):
            target += 1 + self.record.is_receive_of_probe(rank, target + 1)
        target = min(target, self.record.entries(rank))
        last = self.record.entry(rank, target - 1)
        if last is None or target <= at:
            raise UsageError(f"rank {rank} is at the end of its record")
        self.focus_on([rank])
        self.stops.remove_from_ranks()
        self.pass_call(last)
        return self.arrived()

    def prev_event(self, count: int, rank: int) -> Answer:
        """Start a new replay in which a rank is stopped `count` calls earlier than now, and return where all ranks
        are.
        """
        at = self.replica.at(rank)
        if at == 0:
            raise UsageError(f"rank {rank} is at its start")
        target = at - self.record.is_finalize_of_interpreter(rank, at - 1)
        for _ in range(min(count, target)):
            target -= 1 + self.record.is_receive_of_probe(rank, target - 1)
        event = self.record.entry(rank, max(target, 0))
        assert event is not None
        self.focus_on([rank])
        self.checkpoints.asked = True
        self.back_to(event.id, self.calls_passed())
        return self.arrived()

    def arrived(self) -> Answer:
        """Return where all ranks are after a command that let them run; checkpoints follow."""
        self.checkpoints.follow_focus()
        return self.stopped()

    def go_back(self) -> Answer:
        """Go back to the last stop, and return where all ranks are. UsageError if nothing stopped a rank earlier.

        The last stop is the latest recorded call at which a breakpoint stops. On the rank in focus it can also be a
        visit of a breakpoint in the source, or a change of a watched value.
        """
        call = max(
            ((self.stops.breakpoints.begun(event), event) for event in self.stops.passed_calls()), default=(0, None)
        )[1]
        now, kept, rank, at_lines = self.calls_passed(), dict(self.stops.watched), self.focus, self.at_lines()
        self.checkpoints.asked = True
        watches = [one for of, one in self.stops.watched.values() if of == rank]
        in_source = reverse_run(self, rank, call, self.stops.breakpoints, watches)
        if not in_source and call is not None:
            self.focus_on([call[0]])
            self.back_to(call, now)
        self.stops.watch_again(kept)
        if not in_source and call is None:
            changes = ", and no watched value changed" if watches else ""
            raise UsageError(
                f"no breakpoint was passed between the first communicating call of rank {rank} and here{changes}. To "
                "go to "
                "before that call, use `restart`"
            )
        return self._answer_after_going_back(at_lines - {self.focus})

    def _answer_after_going_back(self, at_lines: set[int]) -> Answer:
        """Return where all ranks are after a command that went back on one rank. `at_lines`: the other ranks that were
        stopped at lines; the answer names those that no longer are (`left`).
        """
        answer = self.arrived()
        left = sorted(at_lines - self.at_lines())
        return answer | ({"left": left} if left else {})

    def line_back(self, how: str, rank: int) -> Answer:
        """Go back on a rank to the line before, and return where all ranks are. `how`: `next` passes over called
        functions, `step` goes into them.
        """
        kept, self.checkpoints.asked, at_lines = dict(self.stops.watched), True, self.at_lines()
        try:
            reverse_line(self, how, rank)
        finally:
            self.stops.watch_again(kept)
        self.focus_on([rank])
        return self._answer_after_going_back(at_lines - {rank})

    def step(self, how: str, ranks: Sequence[int]) -> Answer:
        """Go to the next line on some ranks, and return where all ranks are. MPI calls on the way are made, together
        with the calls of other ranks that they need.

        `how`: `next`, `step` or `finish`.
        """
        self.require_running()
        moving = [rank for rank in ranks if self.is_running(rank)]
        if not moving:
            raise UsageError(f"rank {ranks[0]} has ended")
        self.frames.moved()
        self.stops.set_in_ranks()
        for rank in moving:
            hand = self.hand(rank)
            hand.skip(self.skips.names)
            hand.step(how)
            hand.resume()
        waiting: dict[int, Event] = {}
        while moving:
            self.settle()
            for rank in moving:
                if self.hands[rank].refused:
                    self.hands[rank].unstep()
                    raise DebuggerError(self.hands[rank].refused)
            moving = [r for r in moving if self.hands[r].stopped is None and self.replica.alive(r) and r not in waiting]
            if self.replica.left_record():
                break
            for rank in moving:
                event = self.record.entry(rank, self.replica.at(rank))
                if event is None or not self.replica.parked(rank):
                    last = self.record.entry(rank, self.replica.at(rank) - 1) or event
                    waiting |= {rank: last} if last is not None else {}
                    continue
                self.pass_call(event)
        for rank in waiting:
            self.hands[rank].unstep()
        self.focus_on(list(ranks))
        answer = self.arrived()
        if waiting:
            answer["waiting"] = [self._describe_wait(rank, event) for rank, event in waiting.items()]
        return answer

    def _describe_wait(self, rank: int, event: Event) -> Answer:
        """Return a row for a rank that does not return from a call: the call, how many more calls its record has
        (`more`), and which other ranks are stopped (`stopped`).
        """
        more = self.record.entries(rank) - self.replica.at(rank)
        stopped = [r for r in range(self.record.size) if r != rank and (r in self.at_lines() or self.replica.parked(r))]
        return {"rank": rank, "call": call_facts(event), "more": more, "stopped": stopped}

    def python_hand(self, rank: int) -> PythonHand | None:
        """Return the agent of a Python rank; None for a native rank."""
        hand = self.hand(rank)
        return hand if isinstance(hand, PythonHand) else None

    def release(self, rank: int) -> int:
        """Detach Weft's gdb from a native rank so that another debugger can attach, and return the rank's process
        id.
        """
        if rank in self.hands:
            self.hands.pop(rank).close()
        return self.replica.controls[self.require_rank(rank)].pid
