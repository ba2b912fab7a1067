"""The watchdog of `weft run`: reports if no rank has made a call for some seconds but polls that failed."""

from __future__ import annotations

import os
from pathlib import Path

from weft.watchdogs import reporting
from weft.watchdogs.settings import WatchdogSettings


class SilenceWatchdog:
    """Called at each look at the records, with the seconds since a rank made a call; returns True if the job is to be
    ended.
    """

    def __init__(self, wish: WatchdogSettings) -> None:
        self.wish = wish
        self._look: reporting.JobInspection | None = None
        self._told = False
        self._quiet = 0.0

    def __call__(self, silent_for: float, pid: int) -> bool:
        """Begin a look, or tell what it saw; never waits."""
        if self._look is not None and not self._look.is_running:
            self._write_report(pid)
            return self.wish.abort
        if self._look is None and not self._told and silent_for >= self.wish.seconds:
            self._told, self._quiet = True, silent_for
            self._look = reporting.JobInspection(pid)
        return False

    def _write_report(self, pid: int) -> None:
        """Write what the look at the job found about its ranks. `pid`: the process of the job's launcher."""
        assert self._look is not None
        text, self._look = self._look.wait_for_text(), None
        end = "the run is killed now" if self.wish.abort else "the run continues; this is reported once"
        when = reporting.render_time_and_host()
        head = (
            f"weft: {when}: no rank has begun or ended a call for {self._quiet:.0f} s, apart from failed polls; {end}"
        )
        reporting.write_report(
            f"{head}\n{text}", Path(self.wish.file) if self.wish.file else reporting.default_report_file(os.getpid())
        )
