"""Join the user's own PVM virtual machine for one run (`weft run --pvm-join`), and leave it as it was."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from weft.launch.pvm.installation import find_pvm_root
from weft.launch.pvm.machine import MachineError, VirtualMachine

FIRST_CALL: Final = 5.0
"""Seconds that a spawned task has for its first call once its parent is gone."""


class UserMachine(VirtualMachine):
    """The user's virtual machine, which others may use as well: the run adds its tasks, and a group server while it
    runs.
    """

    no_server = (
        "did not start: your virtual machine has one already, which Weft cannot record. End it (`pvm`, then "
        "`ps -a` and `kill`), or leave --pvm-join out"
    )

    def start(self, program: str) -> None:
        """Check that the user's daemon runs, and start the group server if needed. Raises MachineError."""
        folder = Path(self.environment.get("PVM_TMP") or Path(os.sep) / "tmp")  # PVM asks no TMPDIR
        place = folder / f"pvmd.{os.getuid()}"
        if not place.exists():
            raise MachineError(
                f"--pvm-join: no virtual machine of yours is running (there is no {place}): start one with `pvm`, or "
                "leave the option out, and the run gets one of its own"
            )
        if self.groups:
            self._start_server(find_pvm_root())

    def seconds_without_daemon(self, now: float) -> float:
        """The daemon's end is not watched: PVM tells each task of it."""
        return 0.0

    def forward_output(self) -> bool:
        """What spawned tasks print goes where the user's daemon puts it, which has tasks of others too."""
        return False

    def _may_still_start(self, tid: int) -> bool:
        return self._waiting_since is not None and time.monotonic() - self._waiting_since < FIRST_CALL
