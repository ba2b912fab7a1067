"""What a backend gives the commands, beside the table that its hooks keep true (see model.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from weft.errors import DebuggerError
from weft.gdb.point import Point
from weft.tasks.model import SourceLine, TaskRow

How = Literal["next", "step", "finish", "continue"]
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
    """The program runs, and cannot come to where it is wanted: what it waits for is not ours to give."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where and why the program stands. `task` None: outside of any; `name`: the one that somebody gave it; `kind`: it
    may be a thread, or the work of one, too.

    `over`: the numbers of what was watched, is out of scope, and no longer watched.
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
        """For machines."""
        at = self.at.as_dict() if self.at else None
        return {"why": self.why, "task": self.task, "at": at, "worker": self.worker, "breakpoint": self.breakpoint,
                "text": self.text or None, "code": self.code, "task_kind": self.kind}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spawn:
    """A task that made another one, and where."""

    task: int
    name: str
    at: SourceLine | None


@runtime_checkable
class ForkingBackend(Protocol):
    """A backend that knows the child processes of its program."""

    def children(self) -> list[tuple[int, str]]:
        """Those that live, by number and name."""
        ...


class Backend(Protocol):
    """One program under `weft tasks`. `runtime`: what its tasks are made of, for people."""

    runtime: str

    def start(self) -> Stop:
        """Bring the program up; it stands before its first line."""
        ...

    def tasks(self) -> list[TaskRow]:
        """The table, in the order of creation."""
        ...

    def advance(self, movement: How, task: int | None, *, child: bool) -> Stop:
        """Let the program run until one task has come on by `movement`. `child`: a task it makes is the one from there.

        At a task's end it goes on to the join of the task that waits for it. `task` None: the program's first task.
        """
        ...

    def frames(self, task: int | None, *, with_libraries: bool = False) -> tuple[list[SourceLine], list[Spawn]]:
        """A task's own frames, innermost first, and who made it, and who made that one. `with_libraries`: libraries' too."""
        ...

    def evaluate(self, task: int | None, text: str, level: int, form: str = "") -> str:
        """The value of an expression in a task's frame; `form`: a format of gdb's (`x`)."""
        ...

    def locals(self, task: int | None, level: int) -> list[tuple[str, str]]:
        """The variables of a task's frame, and their values."""
        ...

    def assign(self, task: int | None, name: str, text: str, level: int) -> str:
        """Give a variable of a task's frame the value of an expression there; how it is told."""
        ...

    def find_task(self, task: int | None, text: str) -> int:
        """The task that an expression in a task's frame leads to. DebuggerError where it leads to none."""
        ...

    def arm(self, points: Sequence[Point]) -> None:
        """Take these as the breakpoints."""
        ...

    def watch(self, number: int, task: int | None, text: str, level: int) -> str:
        """Stop as `number` where the value of an expression in a task's frame changes; its value now, in words."""
        ...

    def unwatch(self, number: int) -> None:
        """Watch it no more."""
        ...

    def name(self, task: int, name: str) -> None:
        """Give a task a name."""
        ...

    def explain_hang(self) -> str:
        """That nothing can happen any more, and why; empty where something can, or where it is not known."""
        ...

    def explain_missing_tasks(self) -> str:
        """That the program has tasks of another kind, which are not followed; empty where none are known."""
        ...

    def hold(self, task: int, *, on: bool) -> str:
        """Let a task make no step while the others go on, or again. How it is held, where there is more to say."""
        ...

    def workers_of_held(self) -> dict[int, int]:
        """The worker that waits with each held task, where it takes one."""
        ...

    def catch(self, name: str, *, on: bool) -> None:
        """Stop where a task dies of an exception of that name (empty: of any), or not any more."""
        ...

    def output(self) -> str:
        """What the program has written since it was last asked."""
        ...

    def interrupt(self) -> Stop:
        """Stop the program where it is."""
        ...

    def close(self) -> None:
        """End the program, or leave it where it was not ours."""
        ...
