"""Take part in the run of a Slurm step from a host that does not see the run's folder; another host's task reports.

The watcher of this host tells the other host about the progress of its ranks, and sends their records at the end. Files
in the folder of --local say whether Weft ended the run, and that the records were taken.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.launch.job_step import JobStep
from weft.launch.local.listener_address import ListenerAddress, remove_guest_run
from weft.launch.local.rank_setup import ENDED, FAILED, GIVEN, has_living_ranks, is_locked
from weft.launch.process import JobProcess
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import SharedRun

if TYPE_CHECKING:
    from weft.launch.plan import LaunchPlan

JUST: Final = 60.0
"""Seconds for a launcher to end them."""


class GuestTask(SharedRun):
    """The part of this task in a run whose folder is on another host."""

    def __init__(self, step: JobStep, run: RunDirectory, place: ListenerAddress, base: Path) -> None:
        super().__init__(step, run)
        self.own = base / place.name
        self._place, self._base = place, base
        self._ended: str | None = None
        self.say: Callable[[str], object] = lambda _: None

    @property
    def records(self) -> Path:
        """The records of this host."""
        return self.own / "ranks"

    def adapt_plan(self, plan: LaunchPlan, variables: dict[str, str]) -> LaunchPlan:
        """The plan of this task: its host's watcher tells the other host of its rank."""
        return self._place.adapt_plan(plan, self.run, self._base, variables)

    def try_to_watch(self) -> bool:
        """Another host's task watches."""
        return False

    def read_forced_ending(self) -> str | None:
        """Return how the other host ended the run (`deadlock`, `killed` ...), as this host's watcher has noted. None
        as long as it has noted nothing."""
        if self._ended is None:
            try:
                self._ended = (self.own / ENDED).read_text() or None
            except OSError:
                return None
        return self._ended

    def report(self, *, ending: bool = True) -> bool:
        """Another host's task reports."""
        return False

    def must_stay(self, process: JobProcess) -> bool:
        """Return whether this task must not end yet. It must stay if it is the last one on this host, as Slurm kills
        the rest of a step, or if its failure is not reported yet. False if this host has no watcher.
        """
        if not (self.own / "ranks").exists() or not is_locked(self.own / "watcher"):
            return False
        if process.status and not self._ended:
            with suppress(OSError):
                (self.own / FAILED).touch()
            return not (self.own / GIVEN).exists()
        return not has_living_ranks(self.own)

    def announce_end(self, process: JobProcess, ended: str | None) -> bool:
        """Return False, as a task of another host reports the run. If that host did not take the records of this one,
        tell the user where they are."""
        if not has_living_ranks(self.own):
            if process.signals and self._were_records_just_taken():
                shutil.rmtree(self.own, ignore_errors=True)
            elif any(self.records.glob("*.weft")):
                host = os.uname().nodename
                what = "what was recorded after the report" if (self.own / GIVEN).exists() else "what was recorded"
                self.say(
                    f"{what} on host {host} is not in the run, but in {self.own}: `scp -r {host}:{self.own} {host}` "
                    f"and `weft gather RUN {host}` put it into the run"
                )
            remove_guest_run(self.run.path)
        return False

    def _were_records_just_taken(self) -> bool:
        """Return whether the run's host took this host's records at most JUST seconds ago. A task that ends so soon
        afterwards was probably ended by the launcher, as it does with all ranks once one has failed."""
        try:
            return time.time() - (self.own / GIVEN).stat().st_mtime < JUST
        except OSError:
            return False
