"""Where PVM is installed, and where a run's own virtual machine keeps its files, as long as it lives."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from weft.pvm.tasks import task_file

PREFIX: Final = "weft-pvm-"
INSTALLED: Final = "/usr/lib/pvm3"


def root() -> Path:
    """PVM's own files."""
    return Path(os.environ.get("PVM_ROOT") or INSTALLED)


def daemon() -> str | None:
    """PVM's daemon on this machine."""
    installed = root() / "lib/pvmd"
    return shutil.which("pvmd") or (str(installed) if installed.exists() else None)


def note_of(run: Path) -> Path:
    """The file in which a run's machine tells where it keeps its own files."""
    return task_file(run).with_name("folder.txt")


def clean(run: Path) -> None:
    """Take away what a machine keeps for itself, also where it was killed and could not."""
    note = note_of(run)
    try:
        folder = Path(note.read_text())
    except OSError:
        return
    if folder.name.startswith(PREFIX) and folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
    note.unlink(missing_ok=True)
