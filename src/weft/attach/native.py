"""Stacks of native ranks, by one gdb that is attached to all of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weft.attach.model import Frame
from weft.debug.gdb import PARTS
from weft.debug.hands import HandError
from weft.debug.mi import Mi, quoted
from weft.errors import UsageError
from weft.trace.sites import CallSite

SCRIPT = Path(__file__).parent / "stacks_gdb.py"
MARK = "weft-stacks:"
SETTINGS = (
    "set auto-load no",
    "set auto-solib-add off",
    "set print thread-events off",
    "set print inferior-events off",
)
"""Beside those of every gdb of Weft's."""

Place = tuple[int, int, int]
"""A process, one of its threads, and how many frames from its innermost."""


class Native:
    """gdb in some processes, which stand still between `hold` and `let_go`. It never sends them a signal."""

    def __init__(self, pids: Sequence[int]) -> None:
        if shutil.which("gdb") is None:
            raise UsageError("gdb reads the stacks of C, C++ and Fortran: apt install gdb")
        self.problems: dict[int, str] = {}
        self.pids = list(pids)
        self._gdb = Mi()
        try:
            for setting in SETTINGS:
                self._gdb.ask(f"-interpreter-exec console {quoted(setting)}")
            for script in (PARTS, SCRIPT):
                self._gdb.ask(f"-interpreter-exec console {quoted(f'source {script}')}")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def stacks(self) -> dict[int, dict[int, list[Frame]]]:
        """The frames of all threads, innermost first, by process and thread."""
        told = self._python("stacks()")
        return {int(pid): {one["id"]: [frame_of(frame) for frame in one["frames"]] for one in threads}
                for pid, threads in told.items()}  # fmt: skip

    def values(self, wanted: Sequence[tuple[Place, Sequence[str]]]) -> list[list[str | None]]:
        """Numbers that expressions mean in frames; None where an expression is no number, or cannot be read."""
        if not wanted:
            return []
        asked = [[*place, list(texts)] for place, texts in wanted]
        return list(self._python(f"values({asked!r})"))

    def hold(self) -> None:
        """Stop the processes; those that cannot be are problems from here on."""
        told = self._python(f"attach({self.pids})")
        self.problems |= {int(pid): str(why) for pid, why in told.items()}
        self.pids = [pid for pid in self.pids if pid not in self.problems]

    def let_go(self) -> None:
        """Let them run, as if gdb had never been there."""
        self._python("detach()")

    def close(self) -> None:
        """Let all go, and end gdb."""
        with suppress(HandError):
            self.let_go()
        self._gdb.exit()

    def _python(self, call: str) -> Any:
        """What a function of stacks_gdb.py answers. HandError where it cannot."""
        said = self._gdb.said(f"-interpreter-exec console {quoted(f'python weft_{call}')}", MARK).rpartition(MARK)[2]
        if not said:
            raise HandError("stacks need a gdb that was built with Python")
        return json.JSONDecoder().raw_decode(said)[0]  # gdb says other things behind it


def frame_of(told: dict[str, Any]) -> Frame:
    """A frame as gdb tells it."""
    site = CallSite(told["file"], told["line"], told["function"], told["module"])
    return Frame(site, values=tuple(told["values"].items()))
