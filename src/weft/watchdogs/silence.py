"""The watchdog beside `weft run`: no rank has recorded anything for so long."""

from __future__ import annotations

import os
from pathlib import Path

from weft.watchdogs import telling
from weft.watchdogs.wish import Wish


class Silence:
    """Called at each look at the records with the seconds for which none has changed; true ends the job."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self._look: telling.Look | None = None
        self._told = False
        self._quiet = 0.0

    def __call__(self, silent_for: float, pid: int) -> bool:
        """Begin a look, or tell what it saw; never waits."""
        if self._look is not None and not self._look.under_way:
            self._tell(pid)
            return self.wish.abort
        if self._look is None and not self._told and silent_for >= self.wish.seconds:
            self._told, self._quiet = True, silent_for
            self._look = telling.Look(pid)
        return False

    def _tell(self, pid: int) -> None:
        assert self._look is not None
        text, self._look = self._look.text(), None
        end = "the run is ended now" if self.wish.abort else "the run goes on; this is reported once"
        head = f"weft: {telling.moment()}: no rank has begun or ended a call for {self._quiet:.0f} s; {end}"
        telling.tell(f"{head}\n{text}", Path(self.wish.file) if self.wish.file else telling.default_file(os.getpid()))
