"""A breakpoint as a person asked for it."""

from __future__ import annotations

from typing import Any

from weft.base.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A breakpoint at a line or function of the source; `count`: which visit from now on stops (and all later ones).
    A `function` that begins with `*` is an instruction: *MODULE+OFFSET.

    `task`: for that task alone, or with `descendants` for what it made too; None: for all. `pedigree`: the same for one
    that may not be there yet.
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

    @property
    def text(self) -> str:
        """As the person wrote it."""
        place = f"{self.file}:{self.line}" if self.line else self.function
        task = self.pedigree or self.task
        scope = "" if task is None else f" task {task}" + (" descendants" if self.descendants else "")
        return place + scope + (f" if {self.condition}" if self.condition else "")

    def as_dict(self) -> dict[str, Any]:
        """For machines, and for what decides inside the process."""
        return {"id": self.id, "file": self.file or None, "line": self.line or None, "function": self.function or None,
                "count": self.count, "task": self.task, "descendants": self.descendants,
                "condition": self.condition or None, "pedigree": self.pedigree or None}  # fmt: skip
