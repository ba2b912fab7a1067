"""The user's own virtual machine, joined for one run (`weft run --pvm-join`): it stays as it was."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from weft.launch.pvm.installation import root
from weft.launch.pvm.machine import Machine, MachineError

FIRST_CALL: Final = 5.0
"""Seconds that a spawned task has for its first call once its parent is gone."""


class Joined(Machine):
    """What there is of a run on a machine that others may use: its tasks, and a group server as long as it goes on."""

    no_server = (
        "did not start: your virtual machine has one already, which would take part unrecorded. End it (`pvm`, then "
        "`ps -a` and `kill`), or leave --pvm-join out"
    )

    def start(self, program: str) -> None:
        """See that the user's daemon is there. MachineError where it is not."""
        folder = Path(self.environment.get("PVM_TMP") or Path(os.sep) / "tmp")  # PVM asks no TMPDIR
        place = folder / f"pvmd.{os.getuid()}"
        if not place.exists():
            raise MachineError(
                f"--pvm-join: no virtual machine of yours is running (there is no {place}): start one with `pvm`, or "
                "leave the option out, and the run gets one of its own"
            )
        if self.groups:
            self._start_server(root())

    def lost_for(self, now: float) -> float:
        """The daemon's end is not watched: PVM tells each task of it."""
        return 0.0

    def show(self) -> bool:
        """What spawned tasks print goes where the user's daemon puts it, which has tasks of others too."""
        return False

    def _alive(self, tid: int) -> bool:
        return self._waiting_since is not None and time.monotonic() - self._waiting_since < FIRST_CALL
