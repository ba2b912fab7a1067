"""Stores the output of a debugged program in a file, so that a full pipe never blocks the program."""

from __future__ import annotations

import os
import tempfile


class ProgramOutput:
    """Standard output and error of a program, in the order written."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile(prefix="weft-tasks-")  # noqa: SIM115
        self._at = 0

    def read_new_output(self) -> str:
        """Return what the program has written since the last call."""
        found = os.pread(self.file.fileno(), 1 << 24, self._at)
        self._at += len(found)
        return found.decode(errors="replace")
