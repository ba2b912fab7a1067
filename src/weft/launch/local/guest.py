"""A task of a Slurm step whose host does not see the run: its rank is recorded on its disk, another host reports.

The watcher of its host tells the other one how far its ranks are, and gives their records at the end; what it writes
into the folder of --local says whether Weft ended the run, and that its records were left there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.launch.job_step import Step
from weft.launch.local.listener_address import Place, leave
from weft.launch.local.rank_setup import ENDED, FAILED, GIVEN, held, tasks_alive
from weft.launch.process import Process
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import Joint

if TYPE_CHECKING:
    from weft.launch.plan import Plan

JUST: Final = 60.0
"""Seconds for a launcher to end them."""


class Guest(Joint):
    """This task's part in a run that lies on another host."""

    def __init__(self, step: Step, run: RunDirectory, place: Place, base: Path) -> None:
        super().__init__(step, run)
        self.own = base / place.name
        self._place, self._base = place, base
        self._ended: str | None = None
        self.say: Callable[[str], object] = lambda _: None

    @property
    def records(self) -> Path:
        """The records of this host."""
        return self.own / "ranks"

    def planned(self, plan: Plan, variables: dict[str, str]) -> Plan:
        """The plan of this task: its host's watcher tells the other host of its rank."""
        return self._place.planned(plan, self.run, self._base, variables)

    def watches(self) -> bool:
        """Another host's task watches."""
        return False

    def decided(self) -> str | None:
        """How the other host ended the run, as its watcher here was told."""
        if self._ended is None:
            try:
                self._ended = (self.own / ENDED).read_text() or None
            except OSError:
                return None
        return self._ended

    def report(self, *, ending: bool = True) -> bool:
        """Another host's task reports."""
        return False

    def stays(self, process: Process) -> bool:
        """Whether this is the last task here, for Slurm ends what is left of a step; or its rank failed, unreported."""
        if not (self.own / "ranks").exists() or not held(self.own / "watcher"):
            return False
        if process.status and not self._ended:
            with suppress(OSError):
                (self.own / FAILED).touch()
            return not (self.own / GIVEN).exists()
        return not tasks_alive(self.own)

    def reports(self, process: Process, ended: str | None) -> bool:
        """Another host's task does; say where the records are that it did not take."""
        if not tasks_alive(self.own):
            if process.signals and self._just_given():
                shutil.rmtree(self.own, ignore_errors=True)
            elif any(self.records.glob("*.weft")):
                host = os.uname().nodename
                what = "what was recorded after the report" if (self.own / GIVEN).exists() else "what was recorded"
                self.say(
                    f"{what} on host {host} was not taken, it lies in {self.own}: `scp -r {host}:{self.own} {host}` "
                    f"and `weft gather RUN {host}` put it into the run"
                )
            leave(self.run.path)
        return False

    def _just_given(self) -> bool:
        """Whether all was taken just now: a launcher ends the ranks that are left when one has failed."""
        try:
            return time.time() - (self.own / GIVEN).stat().st_mtime < JUST
        except OSError:
            return False
