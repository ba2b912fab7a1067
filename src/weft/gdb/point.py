"""Describe a breakpoint as a user asked for it."""

from __future__ import annotations

from typing import Any

from weft.base.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A breakpoint at a line or function of the source; `count`: the visit from now on that stops (and all later ones).

    A `function` that begins with `*` is an instruction: *MODULE+OFFSET. `task`: for that task only, or with
    `descendants` also for the tasks that it made; None: for all. `pedigree`: the same for a task that may not exist
    yet.
    """

    id: int
    file: str
    line: int
    function: str
    count: int = 1
    task: int | None = None
    descendants: bool = False
    condition: str = ""
    """An expression of the program's language: it stops only where that is true."""
    pedigree: str = ""
    log: str = ""
    """The message of a log point, with expressions in braces: it is printed at each visit, and nothing stops."""

    @property
    def text(self) -> str:
        """Return the breakpoint as the user wrote it: its place, task and condition."""
        place = f"{self.file}:{self.line}" if self.line else self.function
        task = self.pedigree or self.task
        scope = "" if task is None else f" task {task}" + (" descendants" if self.descendants else "")
        return place + scope + (f" if {self.condition}" if self.condition else "")

    def as_dict(self) -> dict[str, Any]:
        """Return the breakpoint as plain values, for JSON and for the debugger inside the process."""
        return {"id": self.id, "file": self.file or None, "line": self.line or None, "function": self.function or None,
                "count": self.count, "task": self.task, "descendants": self.descendants,
                "condition": self.condition or None, "pedigree": self.pedigree or None,
                "log": self.log or None}  # fmt: skip
