"""The state of a session: its record, the replay that runs, the debuggers of the ranks, and where each rank is.

Every stop is a cut of the recorded run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.base.lifetime import temporary_folder
from weft.debug.checkpoints import Checkpoints
from weft.debug.frames import Frames
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Hand, PythonHand, Tally
from weft.debug.record import Record, call_facts
from weft.debug.replica import Replica
from weft.debug.skips import Skips
from weft.errors import DebuggerError, UsageError, WeftError
from weft.replay import Goals
from weft.replay.layout import ControlState
from weft.trace import Event, Trace

if TYPE_CHECKING:
    from weft.debug.back_lines import KnownWalk

Answer = dict[str, Any]
HandMaker = Callable[[Replica, int], Hand]


def hand_in(replica: Replica, rank: int) -> Hand:
    """Return the debugger of a rank: its agent if it is a Python rank, else gdb."""
    agent = replica.agent(rank)
    return PythonHand(agent) if agent.exists() else NativeHand(replica.controls[rank].pid)


@dataclass(frozen=True, slots=True)
class Known:
    """Where a search has brought a rank: its stop, the tick since a call, and all that was counted there.

    From there a further step back needs no counting.
    """

    stop: Frame
    base: int
    tick: int
    tally: Tally
    key: str


class Standing:
    """One recorded run and its current replay. Questions raise WeftError if they have no answer.

    `hand` makes the debugger of a rank (`hand_in`); `prepare` puts into a replay's folder what its ranks need.
    """

    def __init__(
        self, path: Path, findings: Callable[[Trace], Sequence[Any]], options: Sequence[str] = (),
        program: Sequence[str] = (), *, hand: HandMaker | None = None, prepare: Callable[[Path], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.look_into, self._prepare = hand or hand_in, prepare
        self.record = Record(path)
        self.findings: Callable[[], Sequence[Any]] = cache(lambda: findings(self.record.trace))
        self.options, self.program = list(options), list(program)
        self._home = temporary_folder("debug")
        self._names = itertools.count(1)
        self.hands: dict[int, Hand] = {}
        self.frames = Frames(self.hand)
        self.skips = Skips()
        self.focus = 0
        self.pulse: Callable[[], None] = lambda: None
        """Called all the while that ranks run; where it raises KeyboardInterrupt, they stop at their next calls."""
        self.listed: tuple[str, int] | None = None
        """The file and the line up to which its source was shown last; None after a stop."""
        self.known: Known | None = None
        """Where the last step back has brought a Python rank."""
        self.known_walk: KnownWalk | None = None
        """Where the last step back has brought a native rank."""
        self.checkpoints = Checkpoints(self)
        self.replica = self.replay(self.record.start)

    # The replay

    def replay(self, goals: Goals, look: Callable[[], None] = lambda: None) -> Replica:
        """Start another replay that stops at some goals, and return it. `look` is called until the ranks have begun."""
        folder = Path(self._home.name) / str(next(self._names))
        return Replica(self.record, folder, goals, self.options, self.program, prepare=self._prepare, look=look)

    def begin(self, goals: Goals | None = None, *, only: int | None = None) -> Answer:
        """Replace the replay by another one that runs up to `goals` (default: the start), and return where the ranks
        are. `only`: wait for this rank alone.
        """
        self.replace_replay(
            goals if goals is not None else self.record.start, 0 if goals is None else self.replica.shown
        )
        self.settle(only=only)
        return self.stopped()

    def replace_replay(self, goals: Goals, shown: int) -> None:
        """Replace the replay by a checkpoint that has not passed `goals`, or by a new replay. `shown`: how many bytes
        of the program's output count as shown already.
        """
        found = self.checkpoints.hand_over(goals)
        if found is None:
            self._leave()
            self.replica = self.replay(goals)
        else:
            self.checkpoints.retire(self.replica, dict(self.hands))
            self.forget()
            self.replica, self.hands = found
            self.replica.set_goals(goals)
        self.replica.shown = shown

    def forget(self) -> None:
        """Forget what belonged to a replay that is left."""
        self.hands.clear()
        self.frames.moved()

    def _leave(self) -> None:
        """Detach all debuggers from the ranks, and end the replay."""
        for hand in self.hands.values():
            hand.close()
        self.forget()
        self.replica.end()

    def close(self) -> None:
        """End the replay and all checkpoints, and remove the session's files."""
        self._leave()
        self.checkpoints.close()
        self._home.cleanup()

    def settle(self, goals: Callable[[], Goals] | None = None, only: int | None = None) -> None:
        """Wait until all ranks are stopped, or only the rank `only`. `goals()`: returns new goals for the ranks; it is
        called whenever a rank has stopped at a line.
        """
        known: set[int] = set()  # a rank may have stopped again before we look

        def stopped() -> set[int]:
            """Let the debuggers handle new stops, and return the ranks that are stopped at lines. If one was not
            before, the replay gets new goals.
            """
            nonlocal known
            for hand in self.hands.values():
                hand.poll()
            now = self.at_lines()
            if now - known and goals is not None:
                self.replica.set_goals(goals())
                self.replica.kept_waiting = self.record.find_waiting_threads(
                    self.next_calls_of_stopped_ranks(), self.replica.goals
                )
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

    def at_lines(self) -> set[int]:
        """Return the ranks that are stopped at a line of the program."""
        return {rank for rank, hand in self.hands.items() if hand.stopped is not None}

    def run(self, goals: Goals, polls: Goals | None = None) -> None:
        """Let the ranks run up to goals (numbers of calls), also those that are stopped at lines. `polls`: failed polls
        that they make at their goals.
        """
        self.frames.moved()
        self.replica.release_sends(self.at_lines())
        self.replica.set_goals(goals, polls)
        for rank, hand in self.hands.items():
            if hand.stopped is not None and self.replica.exists(rank):
                hand.resume()

    def hand(self, rank: int) -> Hand:
        """Return the debugger of a rank; it is attached when first asked for. DebuggerError if the rank has ended or is
        not spawned yet.
        """
        self.require_rank(rank)
        if not self.replica.controls[rank].pid:
            raise DebuggerError(f"rank {rank} has not been spawned yet")
        if not self.is_running(rank):
            raise DebuggerError(f"rank {rank} has ended")
        if rank not in self.hands:
            self.hands[rank] = self.look_into(self.replica, rank)
        return self.hands[rank]

    def is_running(self, rank: int) -> bool:
        """Tell whether a rank still runs its program."""
        at = self.replica.at(rank)
        return self.replica.alive(rank) and not (
            self.record.is_finalize_of_interpreter(rank, at) and self.replica.parked(rank)
        )

    def require_rank(self, rank: int) -> int:
        """Return the rank. UsageError if the run has no rank of this number."""
        if not 0 <= rank < self.record.size:
            raise UsageError(f"the run has no rank {rank}, only 0 to {self.record.size - 1}")
        return rank

    def require_running(self) -> None:
        """Raise UsageError if the program has ended, and WeftError if a rank has left its record."""
        if self.replica.over:
            raise UsageError("the program has ended: `restart`, `until WHERE` or `prev event` go back")
        for rank in self.replica.left_record():
            raise WeftError(
                f"rank {rank} no longer follows its record: `restart` begins again; `weft replay` shows where "
                "they differ"
            )

    # Where all stand

    def ranks_of(self, text: str) -> list[int]:
        """Return the ranks that a text such as `0,2-3` or `all` names; for "" the rank in focus. UsageError for
        anything else.
        """
        if text in ("", "."):
            return [self.focus]
        if text in ("all", "*"):
            return list(range(self.record.size))
        if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
            raise UsageError(f"{text!r} is not a set of ranks: write 0,2-3 or all")
        found: set[int] = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            found |= {self.require_rank(rank) for rank in range(int(first), int(last or first) + 1)}
        return sorted(found)

    def describe_thread(self, rank: int, slot: int = 0) -> Answer:
        """Return where a thread of a rank is, as a row: its `state` (before a call, at a line, inside a call, ended …),
        how many calls of its plan it has passed, and the call or line that it is at.
        """
        replica, control = self.replica, self.replica.controls[rank]
        at = control.entries_passed(slot)
        coming, last = self.record.entry(rank, at, slot), self.record.entry(rank, at - 1, slot)
        row: Answer = {"rank": rank, "thread": slot, "passed": at, "of": self.record.entries(rank, slot),
                       "system": self.record.trace.system.name}  # fmt: skip
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
            coming = self.record.next_call(rank, at, control.goal_polls(slot), slot)
            return row | {"state": "before", "next": call_facts(coming) if coming else None}
        if control.is_polling(slot):
            return row | {"state": "polls", "next": call_facts(coming) if coming else None}
        if last is None or not replica.is_inside_mpi(rank):
            return row | {"state": "outside", "next": call_facts(coming) if coming else None}
        return row | {"state": "in", "call": call_facts(last)}

    def ranks(self) -> Answer:
        """Return where every thread of every rank is. Threads other than the first that have made no call are left
        out.
        """
        rows = [
            self.describe_thread(rank, slot) for rank, slot in self.record.threads
            if slot == 0 or self.replica.at(rank, slot) or self.replica.parked(rank, slot)
        ]  # fmt: skip
        return {"kind": "ranks", "ranks": rows, "focus": self.focus}

    def stopped(self) -> Answer:
        """Return the answer of a command that let ranks run: where all ranks are, and whether the program has ended."""
        answer = self.ranks() | {"kind": "stopped", "over": self.replica.over}
        if self.replica.over:
            answer["exit_code"] = self.replica.status()
        self.listed = None
        return answer

    def select(self, text: str) -> Answer:
        """Set the rank in focus, which commands use if they name no rank, and return where it is. `text`: the rank as
        the user wrote it.
        """
        chosen = self.ranks_of(text)
        if len(chosen) != 1:
            raise UsageError("give one rank")
        self.focus = chosen[0]
        self.listed = None
        return {"kind": "rank", "focus": self.focus, "stands": self.describe_thread(self.focus)}

    def focus_on(self, ranks: Sequence[int]) -> None:
        """Put one of some ranks into focus."""
        if ranks and self.focus not in ranks:
            self.focus = ranks[0]

    def frame(self, rank: int) -> Frame:
        """Return the line at which a rank is stopped."""
        return next(iter(self.hands[rank].stack()), Frame("", 0, "?"))

    def next_calls_of_stopped_ranks(self) -> list[EventId]:
        """Return the next calls of the ranks that are stopped at lines. Other ranks may run only as far as they can
        without these calls.
        """
        stopped = self.at_lines()
        coming = [
            self.record.entry(r, self.replica.at(r, slot), slot) for r, slot in self.record.threads if r in stopped
        ]
        return [event.id for event in coming if event is not None]

    def goal_to_stay(self, thread: tuple[int, int]) -> int:
        """Return the goal at which a thread stays where it is."""
        return min(self.replica.goals[thread], max(self.replica.at(*thread), 0))

    def calls_passed(self) -> Goals:
        """Return how many calls each thread has passed."""
        return {thread: self.replica.at(*thread) for thread in self.record.threads}

    # Cuts

    def pass_call(self, event: Event) -> None:
        """Run until a call has returned, or until it has begun if it never returned."""
        self.let_make_call(event)
        self.settle()

    def let_make_call(self, event: Event) -> None:
        """Let a rank run past a call, and the other ranks make the calls that it needs. Does not wait for it."""
        goals = self.record.complete_goals(
            self.record.cuts.least_cut_reaching([event.id], include_calls=not event.open).goals, self.record.start
        )
        thread, position, _ = self.record.position(event.id)
        goals[thread] = max(goals[thread], position + 1)
        self.run({t: max(goal, self.goal_to_stay(t)) for t, goal in goals.items()})

    def back_to(self, event: EventId, now: Goals, *, only: int | None = None) -> Answer:
        """Start a new replay that stops before a call that was made, no rank further than `now`."""
        return self.begin(self.cut_before(event, now), only=only)

    def cut_before(self, event: EventId, now: Goals | None = None) -> Goals:
        """Return how far all threads can run without a call, as goals, but no thread further than `now` (default: where
        it is).
        """
        now = self.calls_passed() if now is None else now
        cut = self.record.complete_goals(self.record.cuts.greatest_cut_without([event]).goals, now)
        return {thread: min(goal, now[thread]) for thread, goal in cut.items()}
