"""What a replay and the debugger that drives it share: a folder, the first goals, and whether both live."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from weft.replay.cuts import Goals

_GOALS = "driver.json"


def leave_goals(folder: Path, goals: Goals) -> None:
    """Write the first goals of a replay; called in the debugger's process."""
    told = {"pid": os.getpid(), "goals": [[rank, thread, goal] for (rank, thread), goal in goals.items()]}
    (folder / _GOALS).write_text(json.dumps(told))


@dataclass
class Driver:
    """A debugger that sets goals while the ranks run, and says when it is over. `folder`: shared by the two only."""

    folder: Path
    pid: int
    goals: Goals
    _parent: int = field(default_factory=os.getppid)

    @classmethod
    def of(cls, folder: Path) -> Driver:
        """Return the driver that made a folder."""
        told = json.loads((folder / _GOALS).read_text())
        return cls(folder, told["pid"], {(rank, thread): goal for rank, thread, goal in told["goals"]})

    @property
    def gone(self) -> bool:
        """Whether the debugger's process has ended."""
        return os.getppid() != self._parent or not Path(f"/proc/{self.pid}").exists()

    @property
    def over(self) -> bool:
        """Whether the replay has to end."""
        return (self.folder / "end").exists() or self.gone

    def clear(self) -> None:
        """Remove the folder if the debugger has ended and could not."""
        if self.gone:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):
                self.folder.parent.rmdir()  # where no other replay of it has something there
