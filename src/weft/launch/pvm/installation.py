"""Find PVM's installation, and the folder in which a run's own virtual machine keeps its files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from weft.pvm.tasks import task_file

PREFIX: Final = "weft-pvm-"
INSTALLED: Final = "/usr/lib/pvm3"


def find_pvm_root() -> Path:
    """PVM's own files."""
    return Path(os.environ.get("PVM_ROOT") or INSTALLED)


def find_daemon() -> str | None:
    """PVM's daemon on this machine."""
    installed = find_pvm_root() / "lib/pvmd"
    return shutil.which("pvmd") or (str(installed) if installed.exists() else None)


def folder_note_path(run: Path) -> Path:
    """Return the file in which a run's virtual machine notes its folder."""
    return task_file(run).with_name("folder.txt")


def remove_machine_folder(run: Path) -> None:
    """Remove the folder of a run's virtual machine, also one that was killed and could not do it."""
    note = folder_note_path(run)
    try:
        folder = Path(note.read_text())
    except OSError:
        return
    if folder.name.startswith(PREFIX) and folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
    note.unlink(missing_ok=True)
