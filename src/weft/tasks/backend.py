"""What a backend offers to the commands, beside the table of tasks (see model.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from weft.errors import DebuggerError
from weft.gdb.point import Point
from weft.tasks.model import Deadlock, SourceLine, TaskRow

Movement = Literal["next", "step", "finish", "continue"]
Why = Literal[
    "start",
    "line",
    "breakpoint",
    "watch",
    "joined",
    "done",
    "died",
    "deadlock",
    "stuck",
    "waiting",
    "interrupted",
    "signal",
    "ended",
    "core",
]


class NoProgress(DebuggerError):
    """Raised if the program runs and cannot reach its goal, as it waits for something that the
    debugger cannot supply.
    """


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why the program has stopped.

    `task`: the task that stopped, None outside of tasks; `kind`: whether it is a task, a thread, or the work of one;
    `name`: a name that somebody gave it. `over`: the numbers of watchpoints that went out of scope and were removed.
    """

    why: Why
    task: int | None = None
    at: SourceLine | None = None
    worker: int | None = None
    breakpoint: int | None = None
    text: str = ""
    code: int | None = None
    name: str = ""
    over: tuple[int, ...] = ()
    kind: str = "task"

    def as_dict(self) -> dict[str, Any]:
        """Return the stop as a dictionary for JSON."""
        at = self.at.as_dict() if self.at else None
        return {"why": self.why, "task": self.task, "at": at, "worker": self.worker, "breakpoint": self.breakpoint,
                "text": self.text or None, "code": self.code, "task_kind": self.kind}  # fmt: skip


def make_deadlock_stop(deadlock: Deadlock) -> Stop:
    """Return the stop for a deadlock."""
    first = deadlock.tasks[0]
    return Stop("deadlock", first.id, first.at, text=deadlock.message, name=first.name)


@dataclass(frozen=True, slots=True)
class Spawn:
    """A task that created another one, and where."""

    task: int
    name: str
    at: SourceLine | None


@runtime_checkable
class ForkingBackend(Protocol):
    """A backend that knows the child processes of its program."""

    def children(self) -> list[tuple[int, str]]:
        """Return number and name of each living child process."""
        ...


class Backend(Protocol):
    """One program under `weft tasks`. `runtime`: the name of the runtime of its tasks."""

    runtime: str

    def start(self) -> Stop:
        """Start the program, and stop before its first line."""
        ...

    def tasks(self) -> list[TaskRow]:
        """Return the table of tasks, in the order of creation."""
        ...

    def advance(self, movement: Movement, task: int | None, *, child: bool) -> Stop:
        """Let the program run until one task has made a movement, such as a step to the next line, and return the stop
        there.

        `task`: None for the program's first task. `child`: follow the next task that `task` creates, and stop in that
        task. If the followed task ends, the task that joins it is followed.
        """
        ...

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """Return (a task's frames, innermost first; where the task and each of its ancestors was created, the task's
        own first).

        `with_libraries`: keep the frames of libraries.
        """
        ...

    def evaluate(self, task: int | None, expression: str, level: int, gdb_format: str = "") -> str:
        """Return the value of an expression in a task's frame as text. `level`: of the frame, 0 for the innermost;
        `gdb_format`: a letter such as `x`, empty for none.
        """
        ...

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """Return the names and values of the variables of a task's frame."""
        ...

    def assign(self, task: int | None, name: str, expression: str, level: int) -> str:
        """Assign the value of an expression to a variable of a task's frame; return the value as text."""
        ...

    def find_task_of_value(self, frame_task: int | None, expression: str) -> int:
        """Return the number of the task to which the value of an expression leads, such as an asyncio Task or a pointer
        into the frames of a task. DebuggerError if it leads to none.

        `frame_task`: the expression is evaluated in this task's innermost frame; None for the thread that has stopped.
        """
        ...

    def replace_breakpoints(self, points: Sequence[Point]) -> None:
        """Replace all breakpoints by these."""
        ...

    def watch(self, number: int, task: int | None, expression: str, level: int) -> str:
        """Watch an expression in a task's frame as breakpoint `number`; return its value now, as text."""
        ...

    def unwatch(self, number: int) -> None:
        """Remove a watchpoint."""
        ...

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        ...

    def explain_hang(self) -> str:
        """Return why nothing can happen in the program any more; empty if something can, or if that is not known."""
        ...

    def explain_delay(self) -> str:
        """Return what holds up a program that is not hung; empty if nothing is known to."""
        ...

    def explain_missing_tasks(self) -> str:
        """Return why the table is empty, for example as the program's tasks are of another kind; empty if not known."""
        ...

    def hold(self, task: int, *, on: bool) -> str:
        """Hold a task if `on`, so that it makes no step while the others run; else release it. Return in words how the
        task is held; empty if nothing has to be said.
        """
        ...

    def workers_of_held(self) -> dict[int, int]:
        """Return the worker that waits with each held task, if holding it takes a worker."""
        ...

    def catch(self, exception_name: str, *, on: bool) -> None:
        """Stop if a task ends by an exception of a name (empty: of any), or no longer."""
        ...

    def output(self) -> str:
        """Return what the program has written since the last call."""
        ...

    def interrupt(self) -> Stop:
        """Stop the program at its current position."""
        ...

    def close(self) -> None:
        """End the program, or detach from it if it ran before the debugger came."""
        ...
