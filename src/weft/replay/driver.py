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


def write_goals(folder: Path, goals: Goals) -> None:
    """Write the first goals of a replay; called in the debugger's process."""
    fields = {"pid": os.getpid(), "goals": [[rank, thread, goal] for (rank, thread), goal in goals.items()]}
    (folder / _GOALS).write_text(json.dumps(fields))


@dataclass
class Driver:
    """A debugger that sets goals while the ranks run, and says when the replay is over. `folder` is shared by these
    two only."""

    folder: Path
    pid: int
    goals: Goals
    _parent: int = field(default_factory=os.getppid)

    @classmethod
    def from_folder(cls, folder: Path) -> Driver:
        """Return the driver whose process made a folder and wrote its first goals there."""
        fields = json.loads((folder / _GOALS).read_text())
        return cls(folder, fields["pid"], {(rank, thread): goal for rank, thread, goal in fields["goals"]})

    @property
    def has_exited(self) -> bool:
        """Return whether the debugger's process has ended."""
        return os.getppid() != self._parent or not Path(f"/proc/{self.pid}").exists()

    @property
    def over(self) -> bool:
        """Return whether the replay has to end."""
        return (self.folder / "end").exists() or self.has_exited

    def remove_folder(self) -> None:
        """Remove the folder if the debugger has ended without doing so."""
        if self.has_exited:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):
                self.folder.parent.rmdir()  # where no other replay of it has something there
