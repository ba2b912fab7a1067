"""The debugger: what each command does to the replay, and what it finds, as data. prompt.py speaks with people.

Every stop is a cut of the recorded run. A breakpoint stops its rank there and the others as far as they get without
what comes after it (the greatest such cut); `until` runs what has to happen before and no more (the least one). Both
depend on the record alone, so that each is the same place every time (dbxR-II, Miei & Takahashi 1996).
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.debug.back import Known, level_of, reverse_line, reverse_run, watched
from weft.debug.breakpoints import Breakpoint, Breakpoints, Scope
from weft.debug.frames import Frames, split_format
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Hand, HandError, Point, PythonHand, Watched
from weft.debug.queues import Queues
from weft.debug.record import Record, call_facts
from weft.debug.replica import Replica
from weft.debug.sent import Messages
from weft.debug.skips import Skips
from weft.debug.spares import Spares
from weft.errors import UsageError, WeftError
from weft.replay import Goals, resolve
from weft.replay.layout import ControlState
from weft.replay.points import EventId
from weft.trace import Event, Trace

Answer = dict[str, Any]


HandMaker = Callable[[Replica, int], Hand]


def hand_in(replica: Replica, rank: int) -> Hand:
    """What looks into a rank: its agent where it is of Python, else gdb."""
    agent = replica.agent(rank)
    return PythonHand(agent) if agent.exists() else NativeHand(replica.controls[rank].pid)


class Debugger:
    """One recorded run under the prompt. Commands raise WeftError where they cannot do what is asked.

    `hand`: makes what looks into a rank (`hand_in`); `prepare`: puts into a replay's folder what its ranks need more.
    """

    def __init__(
        self, path: Path, findings: Callable[[Trace], Sequence[Any]], options: Sequence[str] = (),
        program: Sequence[str] = (), *, hand: HandMaker | None = None, prepare: Callable[[Path], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.look_into, self._prepare = hand or hand_in, prepare
        self.record = Record(path)
        self.findings: Callable[[], Sequence[Any]] = lambda: findings(self.record.trace)
        self.options, self.program = list(options), list(program)
        self._home = tempfile.TemporaryDirectory(prefix="weft-debug-")
        self._names = itertools.count(1)
        self.messages = Messages(self.record, self.replay)
        self.breakpoints = Breakpoints(self.record, self.findings)
        self.hands: dict[int, Hand] = {}
        self.frames = Frames(self.hand)
        self.skips = Skips()
        self.watches: dict[int, tuple[int, int, str]] = {}
        """By number: rank, the hand's number, the expression; of this replay only."""
        self.watched: dict[int, tuple[int, Watched]] = {}
        """The same with the frame that each is of, so that it can be watched in another replay."""
        self.focus = 0
        self.pulse: Callable[[], None] = lambda: None
        """Called all the while that ranks run; where it raises KeyboardInterrupt, they stop at their next calls."""
        self.listed: tuple[str, int] | None = None
        self.known: Known | None = None
        """Where the last step back has brought a rank."""
        self.spares = Spares(self)
        self.replica = self.replay(self.record.start)

    # The replay

    def replay(self, goals: Goals, look: Callable[[], None] = lambda: None) -> Replica:
        """Begin another replay that stops at some goals. `look`: called until the ranks have begun."""
        folder = Path(self._home.name) / str(next(self._names))
        return Replica(self.record, folder, goals, self.options, self.program, prepare=self._prepare, look=look)

    def first(self) -> Answer:
        """Where the ranks stand before the first command."""
        self.settle()
        return self.stopped()

    def begin(self, goals: Goals | None = None, *, only: int | None = None) -> Answer:
        """Another replay, up to some goals (the start). `only`: it is enough that this rank stands."""
        self._exchange(goals if goals is not None else self.record.start, 0 if goals is None else self.replica.shown)
        self.settle(only=only)
        return self.stopped()

    def _exchange(self, goals: Goals, shown: int) -> None:
        """Leave the replay for one that waits behind those goals, or for a new one. `shown`: as Replica's."""
        found = self.spares.take(goals)
        if found is None:
            self._leave()
            self.replica = self.replay(goals)
        else:
            self.spares.retire(self.replica, dict(self.hands))
            self._forget()
            self.replica, self.hands = found
            self.replica.set_goals(goals)
        self.replica.shown = shown

    def _forget(self) -> None:
        """What was of a replay that is left."""
        self.hands.clear()
        self.watches.clear()
        self.watched.clear()
        self.frames.moved()

    def _leave(self) -> None:
        for hand in self.hands.values():
            hand.close()
        self._forget()
        self.replica.end()

    def close(self) -> None:
        """End the replay and take everything away."""
        self._leave()
        self.spares.close()
        self._home.cleanup()

    def settle(self, goals: Callable[[], Goals] | None = None, only: int | None = None) -> None:
        """Wait until all ranks stand (or `only` one). `goals`: asked anew whenever a rank has stopped at a line."""
        known: set[int] = set()  # a rank may have stopped again before we look

        def stopped() -> set[int]:
            nonlocal known
            for hand in self.hands.values():
                hand.poll()
            now = self._lines()
            if now - known and goals is not None:
                self.replica.set_goals(goals())
                self.replica.kept_waiting = self.record.kept_waiting(self._next_of_lines(), self.replica.goals)
            known = now
            return now

        def tick() -> None:
            self.pulse()
            for hand in self.hands.values():
                hand.drive()

        try:
            self.replica.settle(stopped, tick, only)
        except KeyboardInterrupt:
            self.replica.freeze()
            raise

    def _lines(self) -> set[int]:
        return {rank for rank, hand in self.hands.items() if hand.stopped is not None}

    def run(self, goals: Goals, polls: Goals | None = None) -> None:
        """Let the ranks go on: those that stand at lines too."""
        self.frames.moved()
        self.replica.set_goals(goals, polls)
        for rank, hand in self.hands.items():
            if hand.stopped is not None and self.replica.exists(rank):
                hand.resume()

    def hand(self, rank: int) -> Hand:
        """The hand in a rank. HandError where there can be none."""
        self._check(rank)
        if not self.replica.controls[rank].pid:
            raise HandError(f"rank {rank} has not been spawned yet")
        if not self.runs(rank):
            raise HandError(f"rank {rank} has ended")
        if rank not in self.hands:
            self.hands[rank] = self.look_into(self.replica, rank)
        return self.hands[rank]

    def runs(self, rank: int) -> bool:
        """Whether a rank still runs its program."""
        at = self.replica.at(rank)
        return self.replica.alive(rank) and not (self.record.closing(rank, at) and self.replica.parked(rank))

    def _check(self, rank: int) -> int:
        if not 0 <= rank < self.record.size:
            raise UsageError(f"the run has no rank {rank}, only 0 to {self.record.size - 1}")
        return rank

    def not_over(self) -> None:
        """UsageError where the program has ended, WeftError where a rank has left its record."""
        if self.replica.over:
            raise UsageError("the program has come to its end: `restart`, `until WHERE` or `prev event` go back")
        for rank in self.replica.left_record():
            raise WeftError(f"rank {rank} has left its record: `restart`, and `weft replay` says where it did")

    def ranks_of(self, text: str) -> list[int]:
        """`0,2-3`, `all`, or nothing for the rank in focus. UsageError for anything else."""
        if text in ("", "."):
            return [self.focus]
        if text in ("all", "*"):
            return list(range(self.record.size))
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
            raise UsageError(f"{text!r} is not a set of ranks: give 0,2-3 or all")
        found: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            found |= {self._check(rank) for rank in range(int(first), int(last or first) + 1)}
        return sorted(found)

    # Where all stand

    def stands(self, rank: int, slot: int = 0) -> Answer:
        """Where a thread stands."""
        replica, control = self.replica, self.replica.controls[rank]
        at = control.at(slot)
        coming, last = self.record.entry(rank, at, slot), self.record.entry(rank, at - 1, slot)
        row: Answer = {"rank": rank, "thread": slot, "passed": at, "of": self.record.entries(rank, slot)}
        hand = self.hands.get(rank)
        if control.state in (ControlState.DIVERGED, ControlState.REFUSED):
            return row | {"state": "diverged", "next": call_facts(coming) if coming else None}
        if control.state is ControlState.ENDED:
            return row | {"state": "ended"}
        if not control.pid:
            return row | {"state": "unborn", "next": call_facts(coming) if coming else None}
        if not replica.exists(rank):
            return row | {"state": "gone", "last": call_facts(last) if last else None}
        if hand is not None and hand.stopped is not None:
            why = getattr(hand, "why", "")
            state: Answer = {
                "state": "line",
                "at": hand.stopped.as_dict(),
                "next": call_facts(coming) if coming else None,
            }
            task = getattr(hand, "task", None)
            if task is not None:
                state["task"] = task
            news = {"news": hand.news} if hand.news else {}
            return row | state | news | ({"signal": why} if why.startswith("SIG") else {})
        if replica.parked(rank, slot):
            coming = self.record.coming(rank, at, control.goal_polls(slot), slot)
            return row | {"state": "before", "next": call_facts(coming) if coming else None}
        if control.polling(slot):
            return row | {"state": "polls", "next": call_facts(coming) if coming else None}
        if last is None or not replica.in_call(rank):
            return row | {"state": "outside", "next": call_facts(coming) if coming else None}
        return row | {"state": "in", "call": call_facts(last)}

    def ranks(self) -> Answer:
        """Where every thread of every rank stands."""
        rows = [
            self.stands(rank, slot) for rank, slot in self.record.threads
            if slot == 0 or self.replica.at(rank, slot) or self.replica.parked(rank, slot)
        ]  # fmt: skip
        return {"kind": "ranks", "ranks": rows, "focus": self.focus}

    def stopped(self) -> Answer:
        """What a command that let ranks run ends with."""
        answer = self.ranks() | {"kind": "stopped", "over": self.replica.over}
        if self.replica.over:
            answer["exit_code"] = self.replica.process.returncode
        self.listed = None
        return answer

    def select(self, text: str) -> Answer:
        """The rank that commands mean where they name none."""
        chosen = self.ranks_of(text)
        if len(chosen) != 1:
            raise UsageError("give one rank")
        self.focus = chosen[0]
        self.listed = None
        return {"kind": "rank", "focus": self.focus, "stands": self.stands(self.focus)}

    # Looking

    def where(self, text: str, *, native: bool = False) -> Answer:
        """The stack of ranks: of the program's language, or native frames too."""
        found = []
        for rank in self.ranks_of(text):
            frames = self._native_stack(rank) if native else self.hand(rank).stack()
            found.append({"rank": rank, "frames": [frame.as_dict() for frame in frames], "stands": self.stands(rank)})
        return {"kind": "where", "stacks": found}

    def _native_stack(self, rank: int) -> list[Frame]:
        hand = self.hand(rank)
        if isinstance(hand, NativeHand):
            return hand.stack()
        python = hand.stack()
        beside = NativeHand(self.replica.controls[rank].pid)
        try:
            frames = [f for f in beside.stack() if not f.of_interpreter]
            return python + frames
        finally:
            beside.close()

    def evaluate(self, expression: str, text: str) -> Answer:
        """The value of an expression on ranks, side by side."""
        form, expression = split_format(expression)
        if not expression:
            raise UsageError("give an expression: print x, print x[0] @0,2-3, p/x flags")
        rows = [self.frames.evaluate(rank, expression, form) for rank in self.ranks_of(text or "all")]
        if not text and len(rows) > 1 and any("value" in row for row in rows):
            # Where the name is nothing on a rank (another function), the others' values are the answer.
            rows = [row for row in rows if "value" in row or row["rank"] == self.focus]
        return {"kind": "print", "expression": expression, "values": rows}

    def source(self, text: str) -> Answer:
        """Lines of the source around where the rank stands, then the ones behind; or around FILE:LINE, LINE."""
        file, line = self._place_of_focus() if self.listed is None or text else self.listed
        middle = line
        if text:
            name, _, number = text.rpartition(":")
            if not number.isdigit():
                raise UsageError("give LINE or FILE:LINE")
            file, line = (self._source(name) if name else file), int(number)
            middle = line
        first = max(middle - 5, 1) if self.listed is None or text else middle
        try:
            lines = Path(file).read_text(errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        chosen = lines[first - 1 : first + 9]
        self.listed = file, first + 10
        here = self._place_of_focus(quiet=True)
        return {
            "kind": "list", "file": file,
            "lines": [{"line": first + i, "text": t, "here": (file, first + i) == here} for i, t in enumerate(chosen)],
        }  # fmt: skip

    def _place_of_focus(self, *, quiet: bool = False) -> tuple[str, int]:
        with suppress(HandError):
            for frame in self.hand(self.focus).stack():
                if frame.file and frame.line:
                    return frame.file, frame.line
        row = self.stands(self.focus)
        call = row.get("next") or row.get("call") or row.get("last") or {}
        if not call.get("file") and not quiet:
            raise UsageError(f"no line of source is known where rank {self.focus} stands")
        return str(call.get("file") or ""), int(call.get("line") or 0)

    def _source(self, name: str) -> str:
        return next((file for file in self.record.files() if file == name or file.endswith("/" + name)), name)

    # Breakpoints

    def break_at(self, text: str, scope: Scope | None = None, *, once: bool = False) -> Answer:
        """Stop there, from now on; or only the first time (`once`)."""
        if not text:
            return self.show_breakpoints()
        made = replace(self.breakpoints.make(text, scope), once=once)
        if made.point is not None:
            self._arm([made])
        self.breakpoints.all.append(made)
        return {"kind": "break", "breakpoint": made.as_dict()}

    def _arm(self, more: Iterable[Breakpoint] = ()) -> None:
        """Give the hands the breakpoints by line. HandError where no rank takes one of them."""
        wanted = [b for b in (*self.breakpoints.all, *more) if b.point is not None]
        refused: dict[int, list[HandError]] = {}
        taken: set[int] = set()
        for rank in range(self.record.size):
            mine = [b for b in wanted if b.on(rank)]
            if not self.runs(rank) or (not mine and rank not in self.hands):
                continue
            hand = self.hand(rank)
            good: list[Point] = []
            for one in mine:
                assert one.point is not None
                try:
                    hand.arm([*good, one.point])
                    good.append(one.point)
                    taken.add(one.id)
                except HandError as error:
                    refused.setdefault(one.id, []).append(error)
            if not mine:
                hand.arm([])
        for b in more:
            if b.id in refused and b.id not in taken:
                raise HandError(f"{b.text}: {refused[b.id][0]}")

    def show_breakpoints(self) -> Answer:
        """All breakpoints."""
        watches = [{"id": n, "rank": rank, "expression": text} for n, (rank, _, text) in self.watches.items()]
        more = {"watches": watches} if watches else {}
        return {"kind": "breakpoints", "breakpoints": [b.as_dict() for b in self.breakpoints.all]} | more

    def ignore(self, text: str) -> Answer:
        """Take no notice of the next visits of a breakpoint."""
        number, _, count = text.partition(" ")
        if not count.strip().isdigit():
            raise UsageError("give the breakpoint and how many visits: ignore 1 5")
        made = self.breakpoints.ignore(number, int(count), self._reached)
        if made.point is not None and not self.replica.over:
            self._arm()
        return {"kind": "break", "breakpoint": made.as_dict()}

    def watch(self, expression: str, ranks: Sequence[int]) -> Answer:
        """Stop where the value of an expression changes on some ranks."""
        self.not_over()
        if not expression:
            raise UsageError("give an expression: watch total, watch grid[3] @1")
        made = []
        for rank in ranks:
            level = self.frames.level.get(rank, 0)
            number = self.hand(rank).watch(expression, level)
            made.append(self.breakpoints.number())
            self.watches[made[-1]] = rank, number, expression
            with suppress(HandError):  # a gdb without Python: it is watched in this replay only
                self.watched[made[-1]] = rank, watched(self, rank, expression, level)
        return {"kind": "watch", "expression": expression, "ranks": list(ranks), "ids": made}

    def delete(self, text: str) -> Answer:
        """Take a breakpoint or a watch away, or all."""
        everything, words = text in ("", "all"), text.split()
        watched = [number for number in self.watches if everything or str(number) in words]
        for number in watched:
            rank, known, _ = self.watches.pop(number)
            self.watched.pop(number, None)
            if rank in self.hands and self.runs(rank):
                self.hands[rank].unwatch(known)
        rest = [word for word in words if not (word.isdigit() and int(word) in watched)]
        if everything and (self.breakpoints.all or not watched):
            self.breakpoints.delete("")
        elif rest and not everything:
            self.breakpoints.delete(" ".join(rest))
        if not self.replica.over:
            self._arm()
        return self.show_breakpoints()

    def _reached(self, event: EventId) -> bool:
        """Whether a call of the record has been passed, or its rank stands before it."""
        (rank, slot), position, _ = self.record.position(event)
        at = self.replica.at(rank, slot)
        return position < at or (position == at and self.replica.parked(rank, slot))

    # Running

    def go_on(self) -> Answer:
        """To the next breakpoint on any rank, or to the end."""
        self.not_over()
        end = self.record.end
        return self._run_to(lambda held: self.record.full(self.record.cuts.before_future(held).goals, end))

    def _run_to(self, limit: Callable[[list[EventId]], Goals], polls: Goals | None = None) -> Answer:
        """Let the ranks run up to goals, or to a breakpoint on the way.

        `limit`: the goals, given the calls that are not to be made, as ranks stop before them or at lines before them.
        """
        candidates = self.breakpoints.ahead(self._reached)
        if self.breakpoints.of_source:
            self._arm()
        else:
            self._arm_nothing()

        def goals() -> Goals:
            held = limit([*candidates, *self._next_of_lines()])
            return {thread: max(goal, self.replica.at(*thread)) for thread, goal in held.items()}

        resting = self._lines()
        for rank in resting:
            self.hands[rank].stopped = None  # their next calls bound nothing any more
        first = goals()
        for rank in resting:
            self.hands[rank].stopped = self._frame(rank)
        self.run(first, polls)
        self.settle(goals)
        self.look_at(self._stopped_at(candidates))
        hit = self._hit(candidates)
        if any(b.once for b in hit):
            self.breakpoints.all = [b for b in self.breakpoints.all if not (b.once and b in hit)]
            self._arm()
        return self.arrived() | ({"hit": [b.as_dict() for b in hit]} if hit else {})

    def _hit(self, candidates: Iterable[EventId]) -> list[Breakpoint]:
        """The breakpoints that ranks stand at."""
        lines = {self.hands[rank].news.get("point") for rank in self._lines()}
        calls = [e for e in candidates if self._reached(e) and self.replica.parked(*self.record.position(e)[0])]
        at = self.breakpoints.at(calls)
        return [b for b in self.breakpoints.all if b in at or (b.point is not None and b.id in lines)]

    def _frame(self, rank: int) -> Frame:
        return next(iter(self.hands[rank].stack()), Frame("", 0, "?"))

    def _next_of_lines(self) -> list[EventId]:
        """The calls that ranks which stand at lines would make next: what depends on them is the future."""
        found = []
        for rank in self._lines():
            coming = self.record.entry(rank, self.replica.at(rank))
            if coming is not None:
                found.append(coming.id)
        return found

    def _stopped_at(self, candidates: Iterable[EventId]) -> list[int]:
        lines = sorted(self._lines())
        calls = [
            event[0]
            for event in candidates
            if self._reached(event) and self.replica.parked(*self.record.position(event)[0])
        ]
        return lines + calls

    def look_at(self, ranks: Sequence[int]) -> None:
        """Have one of these in focus."""
        if ranks and self.focus not in ranks:
            self.focus = ranks[0]

    def until(self, text: str) -> Answer:
        """Run what has to happen before a call, and no more; back by another replay where it lies behind."""
        if not text:
            raise UsageError("give WHERE: 2:57, solver.py:40#3, MPI_Allreduce, t=0.5, finding:1")
        events = resolve(self.record.trace, text, self.findings)
        self.look_at([event[0] for event in events])
        behind = any(self.record.position(e)[1] < self.replica.at(*self.record.position(e)[0]) for e in events)
        if behind or self.replica.over or self.replica.left_record():
            self._exchange(self.record.start, self.replica.shown)
            self.settle()
        past = self.record.cuts.past(events)

        def limit(held: list[EventId]) -> Goals:
            cut = past.meet(self.record.cuts.before_future(held)) if held else past
            return self.record.full(cut.goals, self.record.start)

        return self._run_to(limit, past.polls)

    def _goal(self, thread: tuple[int, int]) -> int:
        """The goal of a thread that is to stay where it is."""
        return min(self.replica.goals[thread], max(self.replica.at(*thread), 0))

    def _arm_nothing(self) -> None:
        for rank, hand in self.hands.items():
            if self.runs(rank):
                hand.arm([])

    def next_event(self, count: int, rank: int) -> Answer:
        """Let a rank make its next calls; the others what these need."""
        self.not_over()
        at = self.replica.at(rank)
        target = at
        for _ in range(count):
            target += 1 + self.record.second_half(rank, target + 1)
        target = min(target, self.record.entries(rank))
        last = self.record.entry(rank, target - 1)
        if last is None or target <= at:
            raise UsageError(f"rank {rank} stands at the end of its record")
        self.look_at([rank])
        self._arm_nothing()
        self._pass(last)
        return self.arrived()

    def _pass(self, event: Event) -> None:
        """Run until a call has returned, or for one that never did until it has begun."""
        self.allow(event)
        self.settle()

    def allow(self, event: Event) -> None:
        """Let a rank make a call, and the others what it needs, without waiting for it."""
        goals = self.record.full(self.record.cuts.past([event.id], ended=not event.open).goals, self.record.start)
        thread, position, _ = self.record.position(event.id)
        goals[thread] = max(goals[thread], position + 1)
        self.run({t: max(goal, self._goal(t)) for t, goal in goals.items()})

    def prev_event(self, count: int, rank: int) -> Answer:
        """A new replay that stops before the call that the rank made last (or earlier ones), and what came of it."""
        at = self.replica.at(rank)
        if at == 0:
            raise UsageError(f"rank {rank} stands at its start")
        target = at - self.record.closing(rank, at - 1)
        for _ in range(min(count, target)):
            target -= 1 + self.record.second_half(rank, target - 1)
        event = self.record.entry(rank, max(target, 0))
        assert event is not None
        self.look_at([rank])
        self.spares.asked = True
        self.back_to(event.id, self.now())
        return self.arrived()

    def back_to(self, event: EventId, now: Goals, *, only: int | None = None) -> Answer:
        """A new replay that stops before a call that has been made, no rank further than `now`, and what came of it."""
        return self.begin(self.cut_before(event, now), only=only)

    def now(self) -> Goals:
        """How many calls each thread has passed."""
        return {thread: self.replica.at(*thread) for thread in self.record.threads}

    def cut_before(self, event: EventId, now: Goals | None = None) -> Goals:
        """How far all get before a call, and no rank further than `now` (where it stands)."""
        now = self.now() if now is None else now
        cut = self.record.full(self.record.cuts.before_future([event]).goals, now)
        return {thread: min(goal, now[thread]) for thread, goal in cut.items()}

    def arrived(self) -> Answer:
        """Where all stand behind a command that let ranks run: spares follow."""
        self.spares.follow()
        return self.stopped()

    def go_back(self) -> Answer:
        """To the last stop behind us: a call that a breakpoint names, by the time of the record, or on the rank in
        focus a visit of a breakpoint in the source or the change of a watched value.
        """
        call = max(((self.breakpoints.begun(event), event) for event in self._behind()), default=(0, None))[1]
        now, kept, rank = self.now(), dict(self.watched), self.focus
        self.spares.asked = True
        in_source = reverse_run(self, rank, call)
        if not in_source and call is not None:
            self.look_at([call[0]])
            self.back_to(call, now)
        self._watch_again(kept)
        if not in_source and call is None:
            raise UsageError(f"between rank {rank}'s first call that communicates and here no breakpoint is met and "
                             "nothing watched changes, and no call that a breakpoint names lies behind: `restart` and "
                             "`until WHERE` go further back")  # fmt: skip
        return self.arrived()

    def _behind(self) -> Iterable[EventId]:
        """The calls that breakpoints name and that have been made."""
        for b in self.breakpoints.all:
            for event in b.events:
                thread, position, _ = self.record.position(event)
                if position < self.replica.at(*thread):
                    yield event

    def line_back(self, how: str, rank: int) -> Answer:
        """To the line before on a rank, over functions (`next`) or into them (`step`)."""
        kept, self.spares.asked = dict(self.watched), True
        try:
            reverse_line(self, how, rank)
        finally:
            self._watch_again(kept)
        self.look_at([rank])
        return self.arrived()

    def _watch_again(self, kept: dict[int, tuple[int, Watched]]) -> None:
        """Watch in this replay what was watched in another; what has no frame here is looked for only going back."""
        for number, (rank, one) in kept.items():
            with suppress(HandError):
                level = level_of(self, rank, one)
                if number not in self.watches and level is not None:
                    self.watches[number] = rank, self.hand(rank).watch(one.text, level), one.text
                self.watched[number] = rank, one

    def step(self, how: str, ranks: Sequence[int]) -> Answer:
        """To the next line on some ranks; calls of MPI on the way are made, with what they need of the others."""
        self.not_over()
        moving = [rank for rank in ranks if self.runs(rank)]
        if not moving:
            raise UsageError(f"rank {ranks[0]} has ended")
        self.frames.moved()
        self._arm()
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
                    raise HandError(self.hands[rank].refused)
            moving = [r for r in moving if self.hands[r].stopped is None and self.replica.alive(r) and r not in waiting]
            if self.replica.left_record():
                break
            for rank in moving:
                event = self.record.entry(rank, self.replica.at(rank))
                if event is None or not self.replica.parked(rank):
                    last = self.record.entry(rank, self.replica.at(rank) - 1) or event
                    waiting |= {rank: last} if last is not None else {}
                    continue
                self._pass(event)
        for rank in waiting:
            self.hands[rank].unstep()
        self.look_at(list(ranks))
        answer = self.arrived()
        if waiting:
            answer["waiting"] = [self._waits(rank, event) for rank, event in waiting.items()]
        return answer

    def _waits(self, rank: int, event: Event) -> Answer:
        """A rank that gets no further in a call: how many more its record has, and which ranks were stopped."""
        more = self.record.entries(rank) - self.replica.at(rank)
        stopped = [r for r in range(self.record.size) if r != rank and (r in self._lines() or self.replica.parked(r))]
        return {"rank": rank, "call": call_facts(event), "more": more, "stopped": stopped}

    # Messages

    def message(self, text: str) -> Answer:
        """What a send or receive of a rank sent: the call that it stands at, the one it made last, or RANK:EVENT."""
        return self.messages.of(self._message_event(text), self.replica)

    def queues(self, text: str) -> Answer:
        """What was sent and not received, and which receives wait, of some ranks (all)."""
        replica = self.replica

        def inside(rank: int, slot: int) -> bool:
            return not replica.parked(rank, slot) and rank not in self._lines() and replica.in_call(rank)

        return Queues(self.record, replica.at, inside).at(self.ranks_of(text or "all"))

    def _message_event(self, text: str) -> Event:
        if found := re.fullmatch(r"(\d+):(\d+)", text):
            return self.record.trace.event(*resolve(self.record.trace, found[0], self.findings)[0])
        rank = self.ranks_of(text)[0]
        at = self.replica.at(rank)
        coming, last = self.record.entry(rank, at), self.record.entry(rank, at - 1)
        order = (coming, last) if self.replica.parked(rank) else (last, coming)
        around = [event for event in order if event is not None]
        for event in around:
            if self.record.message(event) != (None, None):
                return event
        if not around:
            raise UsageError(f"rank {rank} has made no call")
        return around[0]

    # A rank of one's own

    def python_hand(self, rank: int) -> PythonHand | None:
        """The agent of a Python rank, None for a native one."""
        hand = self.hand(rank)
        return hand if isinstance(hand, PythonHand) else None

    def release(self, rank: int) -> int:
        """Leave a native rank to another debugger; its process."""
        if rank in self.hands:
            self.hands.pop(rank).close()
        return self.replica.controls[self._check(rank)].pid
