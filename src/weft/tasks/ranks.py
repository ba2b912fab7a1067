"""The tasks of a rank: the prompt of `weft debug` with the commands of `weft tasks`, on a replay whose ranks keep
running.

The commands, the model and the code that drives gdb or asyncio are those of `weft tasks`. What this module adds: while
a task of a rank moves on, the MPI calls on its way are made, with what they need of other ranks.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TextIO

from weft.debug import prompt
from weft.debug.breakpoints import Scope
from weft.debug.debugger import Debugger as Ranks
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Hand, PythonHand
from weft.debug.prompt import Command, Prompt, make_help, parse_command, split_ranks
from weft.debug.replica import Replica
from weft.errors import DebuggerError, UsageError
from weft.gdb.point import Point
from weft.tasks import console
from weft.tasks.answers import render_answer
from weft.tasks.backend import Backend, Movement, NoProgress, Spawn, Stop
from weft.tasks.debugger import Answer, TaskDebugger
from weft.tasks.gdb import TICK, Gdb
from weft.tasks.hang_messages import read_source_line
from weft.tasks.model import SourceLine, TaskRow
from weft.tasks.openmp import NativeBackend
from weft.tasks.python import RankConversation
from weft.tasks.runtime import INSIDE, find_birth_library

ON_TASK = ("next", "step", "finish", "where", "print", "list")
OF_TASKS = ("tasks", "task", "name", "follow", "waits")
COMMANDS: dict[str, Command] = {
    **prompt.COMMANDS,
    **{name: replace(console.COMMANDS[name], usage=f"{console.COMMANDS[name].usage} [@RANK]") for name in OF_TASKS},
    "finish": replace(prompt.COMMANDS["finish"], short=("f",)),
    "break": replace(
        prompt.COMMANDS["break"],
        usage="break WHERE [if EXPR | FILTER | task ID [descendants] [@RANK]]",
    ),
}
LEGEND = "RANKS is 0,2-3 or all; after `task ID`, next, step, finish, where, print and list mean that task; "
STUCK = 3.0
"""Seconds inside the last call that the record lets a rank make, after which it gets no further."""
Idle = Callable[[], bool]


def prepare_replay_folder(folder: Path) -> None:
    """Write into a replay's folder what the agent in a Python rank needs to follow tasks."""
    (folder / "tasks.json").write_text(json.dumps({"inside": str(INSIDE), "births": find_birth_library()}))


def attach_debugger_to_rank(replica: Replica, rank: int) -> Hand:
    """Attach a debugger to a rank of a replay, and return it. Which one depends on what the rank runs: Python, OpenMP
    tasks with Weft's tool, or other native code.
    """
    pid = replica.controls[rank].pid
    if replica.agent(rank).exists():
        return AsyncioHand(replica.agent(rank), replica.folder / f"rank-{rank}.tasks.sock")
    return OpenMPHand(pid) if _was_started_with_ompt_tool(pid) else NativeHand(pid)


def _was_started_with_ompt_tool(pid: int) -> bool:
    """Return whether a process has OMP_TOOL_LIBRARIES in its environment, so that an OpenMP runtime reports its tasks
    to Weft's OMPT tool.
    """
    with suppress(OSError):
        return b"\0OMP_TOOL_LIBRARIES=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    return False


class TaskHand(Protocol):
    """A rank's debugger that can follow tasks.

    `task`: the task that stopped at a line; `commands`: the commands of `weft tasks` for the rank.
    """

    stopped: Frame | None
    task: int | None
    commands: TaskDebugger | None

    @property
    def backend(self) -> Backend | RankConversation:
        """Return the backend that knows the tasks. DebuggerError if the rank has none."""
        ...

    def while_halted(self) -> Any:
        """Return a context manager in which the rank is halted, if only for a moment."""
        ...

    def advance(self, movement: Movement, task: int | None, *, child: bool, idle: Idle) -> Stop:
        """Let the rank run until a task has made a movement, and return the stop. The rank is stopped afterwards,
        unless the stop is `waiting`: then the rank waits for other ranks.

        `idle`: is called repeatedly meanwhile; returns True if the rank makes no progress.
        """
        ...


class OpenMPHand(NativeHand):
    """gdb in a rank that runs under Weft's OMPT tool."""

    def __init__(self, pid: int) -> None:
        self.task: int | None = None
        self.commands: TaskDebugger | None = None
        self._lent = False
        self._own = Gdb()
        super().__init__(pid, lambda: self._own)
        with super().halted():
            self.backend = NativeBackend.attach_by_gdb(self._own, pid)

    def while_halted(self) -> Any:
        """Return a context manager in which the rank is halted."""
        return self.halted()

    def advance(self, movement: Movement, task: int | None, *, child: bool, idle: Idle) -> Stop:
        """Let the rank run until a task has made a movement, such as a step, and return the stop there. If `idle`,
        which is asked meanwhile, returns True, the stop is `waiting`, and the rank runs on. `child`: follow the next
        task that `task` creates.
        """
        self.poll()
        if self._own.running:
            self._own.ask("-exec-interrupt")
            self._own.await_stop()
        self.stopped = self.task = None
        self._lent, self._own.idle = True, idle
        try:
            stop = self.backend.advance(movement, task, child=child)
        except NoProgress:
            stop = Stop("waiting")
        except KeyboardInterrupt:
            stop = self.backend.interrupt()
        finally:
            self._lent, self._own.idle = False, None
        if self._own.exited is not None:
            return stop
        self.backend.stop_following()
        if stop.why == "waiting":
            self._run()
        else:
            self.thread = self._own.threads.get(stop.worker or 0, self.thread)
            self.why = (stop.text or "").rstrip(": ") if stop.why == "signal" else stop.why
            self.stopped, self.task, self.news = make_stop_frame(stop), stop.task, make_stop_news(stop)
        return stop

    def is_user_stop(self, stop: dict[str, Any]) -> bool:
        """Return whether a person's breakpoint is for the task that came there."""
        point = self._own.points.get(str(stop.get("bkptno")))
        return point is not None and self.backend.is_meant_for_thread(point, int(stop.get("thread-id", 1) or 1))

    def _keep_stopped(self) -> None:
        super()._keep_stopped()
        if self.stopped is not None:
            self.task = self.backend.task_on_worker(self._own.kernel_thread_id(self.thread))

    def resume(self) -> None:
        """Let a rank that stands at a line go on."""
        self.task = None
        super().resume()

    def poll(self) -> None:
        """Note stops that gdb has reported, unless `advance` waits for them now."""
        if not self._lent:
            super().poll()

    def drive(self) -> None:
        """Let MPI go on for others while the rank stands."""
        if not self._lent:
            super().drive()

    def _evaluate_with_calls(self, text: str, thread: int, level: int) -> dict[str, Any]:
        """Return gdb's answer for an expression that calls a function of the program. Only the given thread runs
        meanwhile, so that the tasks of other threads stay where they are.
        """
        self._own.console("set scheduler-locking on")
        try:
            return super()._evaluate_with_calls(text, thread, level)
        finally:
            self._own.console("set scheduler-locking off")


class AsyncioHand(PythonHand):
    """The two agents in a Python rank: that of `weft debug`, and, once a task is followed, that of asyncio.

    Both trace the thread by sys.settrace, so that from then on the second agent handles breakpoints and steps.
    """

    def __init__(self, path: Path, tasks: Path) -> None:
        self.task: int | None = None
        self.commands: TaskDebugger | None = None
        self._path = tasks
        self._talk: RankConversation | None = None
        self._follows = self._lent = False
        self._points: Sequence[Point] = ()
        self._wish: tuple[Movement, int | None] | None = None
        super().__init__(path)

    @property
    def backend(self) -> RankConversation:
        """Return the conversation with the agent that knows the rank's tasks; it is begun at first use. DebuggerError
        if the program has not imported asyncio.
        """
        if self._talk is None:
            if not self._path.exists():
                raise DebuggerError("the rank has no tasks: it has not imported asyncio, so far")
            self._talk = RankConversation(self._path)
        return self._talk

    def while_halted(self) -> Any:
        """Return an empty context manager: the agent reads between two instructions and needs no halt."""
        return nullcontext()

    def _advance_from_agent_stop(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Advance a task from a line at which the rank's own agent has stopped it, and return the next stop. The task
        to follow is passed to asyncio's agent first, and then the rank's own agent lets it continue.
        """
        self.backend.resume_task(movement, task, child=child)
        self.backend.tasks()  # answered after it
        super().resume()
        return self.backend.wait_for_stop()

    @property
    def follows(self) -> bool:
        """Return whether what stops the rank are its tasks."""
        return self._follows

    def follow_tasks(self) -> None:
        """From now on, stop the rank at lines of its tasks only, by asyncio's agent. A task that the rank's own agent
        has stopped continues.
        """
        if not self._follows:
            self._take_over()
            super().resume()

    def _take_over(self) -> None:
        """Let asyncio's agent handle breakpoints and steps from now on, in place of the rank's own agent."""
        talk, points = self.backend, self._points
        super().replace_breakpoints([])
        super().unstep()
        self._follows = True
        talk.replace_breakpoints(points)

    def advance(self, movement: Movement, task: int | None, *, child: bool, idle: Idle) -> Stop:
        """Let the rank run until a task has made a movement, such as a step, and return the stop there. If `idle`,
        which is asked meanwhile, returns True, the stop is `waiting`. `child`: follow the next task that `task`
        creates.
        """
        stands = not self._follows and self.stopped is not None
        if stands:
            self._take_over()
        self.follow_tasks()
        self.poll()
        self.task = None
        if not stands:
            self.stopped = None
        self._lent, self.backend.idle = True, idle
        try:
            stop = (
                self._advance_from_agent_stop(movement, task, child=child)
                if stands
                else self.backend.advance(movement, task, child=child)
            )
        except (NoProgress, KeyboardInterrupt) as error:
            self.backend.idle = None
            self.backend.stop_following()
            return Stop("waiting" if isinstance(error, NoProgress) else "interrupted")
        finally:
            self._lent, self.backend.idle = False, None
        if stop.why not in ("ended", "deadlock"):  # a deadlock is said of a program that runs
            self.stopped, self.task, self.news = make_stop_frame(stop), stop.task, make_stop_news(stop)
        return stop

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Replace the breakpoints of the rank by `points`. DebuggerError for a condition, if the rank's tasks are
        followed.
        """
        self._points = list(points)
        if self._follows and any(point.condition for point in points):
            raise DebuggerError(
                "Weft follows the tasks of this rank, so its breakpoints cannot have conditions: leave the condition "
                "out"
            )
        if any(point.task is not None for point in points):
            self.follow_tasks()
        if self._follows:
            self.backend.replace_breakpoints(points)
        else:
            super().replace_breakpoints(points)

    def step(self, how: str) -> None:
        """Plan a step (`step`, `next` or `finish`) of the task that runs in the rank; the next `resume` makes it.
        DebuggerError if no task runs.
        """
        if not self._follows:
            super().step(how)
            return
        running = self.task or next((row.id for row in self.backend.tasks() if row.state == "top"), None)
        if running is None:
            raise DebuggerError("no task runs in that rank now: choose one with `task ID`")
        self._wish = "step" if how == "step" else "finish" if how == "finish" else "next", running

    def unstep(self) -> None:
        """Drop the planned step, and follow no task any more."""
        if self._follows:
            self._wish = None
            self.backend.stop_following()
        else:
            super().unstep()

    def resume(self) -> None:
        """Let a rank that is stopped at a line continue, or let a running rank make its planned step."""
        if not self._follows:
            super().resume()
        elif self.stopped is not None or self._wish is not None:
            wish, self._wish = self._wish or ("continue", None), None
            self.stopped = self.task = None
            self.backend.resume_task(*wish)

    def poll(self) -> None:
        """Store a stop that the rank has made since the last call, with its frame and task. Does nothing while
        `advance` waits for the stop itself.
        """
        if self._lent:
            return
        super().poll()
        if self._follows and self.stopped is None:
            with suppress(DebuggerError):
                stop = self.backend.poll_stop()
                if stop is not None and stop.why != "ended":
                    self.stopped, self.task, self.news = make_stop_frame(stop), stop.task, make_stop_news(stop)

    def close(self) -> None:
        """Disconnect from the rank's agents."""
        if self._talk is not None:
            self._talk.close()
        super().close()


def make_stop_frame(stop: Stop) -> Frame:
    """Return the frame at which a task stopped, with the text of its line."""
    at = stop.at or SourceLine("", 0, "no line of the program")
    return Frame(at.file, at.line, at.function, read_source_line(at))


def make_stop_news(stop: Stop) -> dict[str, Any]:
    """Return {"point": number of the breakpoint} for a stop at a breakpoint, which the prompt reports beside the line;
    empty for other stops.
    """
    return {"point": stop.breakpoint} if stop.breakpoint is not None else {}


class RankBackend:
    """The tasks of one rank as a backend for the commands of `weft tasks`."""

    def __init__(self, ranks: Ranks, rank: int, hand: TaskHand) -> None:
        self._ranks, self._rank, self._hand = ranks, rank, hand
        self.runtime = hand.backend.runtime
        self._looked = self._since = 0.0

    def start(self) -> Stop:
        """Return a stop at once: the rank runs already."""
        return Stop("start")

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks."""
        with self._hand.while_halted():
            return self._hand.backend.tasks()

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let a task of the rank make a movement, such as a step, wait until the other ranks are stopped again, and
        return the stop of the task.
        """
        self._ranks.require_running()
        self._since = 0.0
        stop = self._hand.advance(movement, task, child=child, idle=self._drive_other_ranks)
        self._ranks.settle()
        self._ranks.focus_on([self._rank])
        return stop

    def _drive_other_ranks(self) -> bool:
        """Let the other ranks make the calls for which this rank waits. Return True if this rank has made no progress
        for STUCK seconds, or the replay has left its record.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return False
        self._looked = now
        self._ranks.pulse()
        for rank, hand in self._ranks.hands.items():
            if rank != self._rank:
                hand.poll()
                hand.drive()
        replica, record, rank = self._ranks.replica, self._ranks.record, self._rank
        replica.watch.look_at_ranks()
        if replica.left_record():
            return True
        parked = [slot for r, slot in record.threads if r == rank and replica.parked(rank, slot)]
        calls = [event for slot in parked if (event := record.entry(rank, replica.at(rank, slot), slot)) is not None]
        for event in calls:
            self._ranks.let_make_call(event)
        at_end = bool(parked) or (replica.at(rank) >= replica.goals[rank, 0] and replica.is_inside_mpi(rank))
        if calls or not at_end:
            self._since = 0.0
        self._since = self._since or now
        return at_end and not calls and now - self._since > STUCK

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """Return a task's frames, innermost first, and where the task and its ancestors were created."""
        with self._hand.while_halted():
            return self._hand.backend.frames(task, with_libraries=with_libraries)

    def evaluate(self, task: int | None, expression: str, level: int, gdb_format: str = "") -> str:
        """Return the value of an expression in a task's frame as text."""
        with self._hand.while_halted():
            return self._hand.backend.evaluate(task, expression, level, gdb_format)

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """Return the names and values of the variables of a task's frame."""
        with self._hand.while_halted():
            return self._hand.backend.locals(task, level)

    def assign(self, task: int | None, name: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable of a task's frame; return the value as text."""
        with self._hand.while_halted():
            return self._hand.backend.assign(task, name, expression, level)

    def find_task_of_value(self, frame_task: int | None, expression: str) -> int:
        """Return the number of the task that an expression refers to. DebuggerError if there is none."""
        with self._hand.while_halted():
            return self._hand.backend.find_task_of_value(frame_task, expression)

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Breakpoints are those of all ranks (debug/breakpoints.py)."""
        raise NotImplementedError

    def watch(self, number: int, task: int | None, expression: str, level: int) -> str:
        """Watches are those of all ranks (debug/stops.py)."""
        raise NotImplementedError

    def unwatch(self, number: int) -> None:
        """Likewise."""
        raise NotImplementedError

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        with self._hand.while_halted():
            self._hand.backend.name(task, name)

    def explain_hang(self) -> str:
        """Return nothing: what a rank waits for may come from another rank."""
        return ""

    def explain_delay(self) -> str:
        """Return nothing: likewise."""
        return ""

    def explain_missing_tasks(self) -> str:
        """Return that the rank's program has tasks of another library; empty if it has none."""
        with self._hand.while_halted():
            return self._hand.backend.explain_missing_tasks()

    def hold(self, task: int, *, on: bool) -> str:
        """Hold a task, so that it makes no step, or release it."""
        with self._hand.while_halted():
            return self._hand.backend.hold(task, on=on)

    def workers_of_held(self) -> dict[int, int]:
        """Return the worker that waits with each held task."""
        with self._hand.while_halted():
            return self._hand.backend.workers_of_held()

    def catch(self, exception_name: str, *, on: bool) -> None:
        """Stop if a task ends by an exception."""
        with self._hand.while_halted():
            self._hand.backend.catch(exception_name, on=on)

    def output(self) -> str:
        """Return the ranks' output comes together."""
        return ""

    def interrupt(self) -> Stop:
        """Done where the rank is driven."""
        return Stop("interrupted")

    def close(self) -> None:
        """The rank is the replay's."""


class TaskPrompt(Prompt):
    """The console of a replay, with the commands for tasks. `on`: the rank whose task commands refer to, None for
    ranks.
    """

    def __init__(self, debugger: Ranks, *, as_json: bool, out: TextIO | None = None) -> None:
        super().__init__(debugger, as_json=as_json, out=out)
        self.on: int | None = None

    def render_answer(self, answer: Answer) -> list[str]:
        """Return the lines of text that show an answer. Lines for a task of a rank begin with the rank's number."""
        if answer["kind"] != "of-rank":
            return super().render_answer(answer)
        lines, name = render_answer(answer["answer"]), f"rank {answer['rank']}"
        return [f"{name}: {lines[0].strip()}"] if len(lines) == 1 else [f"{name}:", *(f"  {line}" for line in lines)]

    def answer(self, line: str) -> Answer:
        """Execute one typed command, for the ranks or for the task in focus, and return its answer. WeftError if it
        cannot be executed.
        """
        name, rest = parse_command(line, COMMANDS)
        text, ranks = split_ranks(rest)
        if name == "help":
            return make_help(rest, COMMANDS, prompt.WHERE, LEGEND)
        if name in OF_TASKS:
            return self._answer_task_command(name, text, ranks)
        if name == "break" and (found := re.fullmatch(r"(\S+)\s+task\s+(\S+)(\s+descendants)?", text)):
            return self._break_in_task(found[1], found[2], bool(found[3]), ranks)
        if self.on is not None and not ranks and name in ON_TASK and "native" not in text.split():
            return self._answer_task_command(name, text, "")
        if name in ("rank", "restart", "until", "prev event", "reverse-continue", "reverse-next", "reverse-step"):
            self.on = None
        for hand in self.debugger.hands.values():
            if (commands := getattr(hand, "commands", None)) is not None:
                commands.stop = Stop("start")  # where its task stood before the ranks moved
        answer = super().answer(f"{name} {rest}".rstrip())
        if name == "continue":
            self._focus_stopped_task()
        return answer

    def _focus_stopped_task(self) -> None:
        """If a breakpoint has stopped a task of the rank in focus, let the commands that follow refer to this task."""
        hand: Any = self.debugger.hands.get(self.debugger.focus)
        task = getattr(hand, "task", None)
        if task is not None and (self.on is not None or any(p.task for p in self._breakpoint_points())):
            self.on = self.debugger.focus
            self.debugger_of_rank(self.on).focus = task

    def _breakpoint_points(self) -> Iterator[Point]:
        return (b.point for b in self.debugger.stops.breakpoints.all if b.point is not None)

    def debugger_of_rank(self, rank: int) -> TaskDebugger:
        """Return the debugger that executes the commands of `weft tasks` for a rank; it is made at the first call.
        UsageError if the rank has no tasks to follow.
        """
        hand: Any = self.debugger.hand(rank)
        if not hasattr(hand, "commands"):
            raise UsageError(f"rank {rank} has no tasks to follow: neither asyncio, nor OpenMP with a runtime that "
                             "supports OMPT (apt install libomp5, or pip install pyomp)")  # fmt: skip
        if hand.commands is None:
            hand.commands = TaskDebugger(RankBackend(self.debugger, rank, hand))
        found: TaskDebugger = hand.commands
        return found

    def _choose_rank(self, ranks: str) -> int:
        """Return the one rank that a command names, such as `2`; if it names none, the rank in focus."""
        if not ranks:
            return self.debugger.focus if self.on is None else self.on
        chosen = self.debugger.ranks_of(ranks)
        if len(chosen) != 1:
            raise UsageError("give one rank")
        return chosen[0]

    def _answer_task_command(self, name: str, arguments: str, ranks: str) -> Answer:
        """Execute a command of `weft tasks` for the task of a rank, and return its answer with the rank's number."""
        rank = self._choose_rank(ranks)
        d = self.debugger_of_rank(rank)
        answer = console.TaskConsole(d, as_json=self.json).answer(f"{name} {arguments}".rstrip())
        if name == "task" and arguments:
            self.on = self.debugger.focus = rank
        if name in ("next", "step", "finish") and d.focus is None:
            self.on = None  # its last task is done
        return {"kind": "of-rank", "rank": rank, "answer": answer}

    def _break_in_task(self, place: str, task: str, descendants: bool, ranks: str) -> Answer:
        """Set a breakpoint that stops one task of a rank, and return the answer. `place`: where, as the user wrote it;
        `task`: the task's number, name or pedigree; `descendants`: also stop the tasks that it creates; `ranks`: the
        rank as the user wrote it, empty for the rank in focus.
        """
        rank = self._choose_rank(ranks)
        return self.debugger.stops.break_at(
            place, Scope(rank, self.debugger_of_rank(rank).find_task(task).id, descendants)
        )
