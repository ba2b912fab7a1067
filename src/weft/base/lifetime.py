"""Let nothing outlive Weft: termination signals unwind a command, and its child processes end with it, even by
SIGKILL.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import tempfile

_PR_SET_PDEATHSIG: Final = 1
PREFIX: Final = "weft-"
UNKNOWN: Final = "unknown"
TERMINATION: Final = (signal.SIGTERM, signal.SIGHUP)


def exit_on_termination() -> None:
    """Let SIGTERM and SIGHUP raise SystemExit, so that a command ends what it started and removes what it made.

    An ignored signal stays ignored (`nohup`), and one that has a handler keeps it.
    """
    for number in TERMINATION:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _: Any) -> None:
    sys.exit(128 + number)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this process `number` when its parent ends; exec keeps that."""
    _prctl()(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def bound_to_parent(number: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` for subprocess: the child gets the signal `number` when this process ends, however it
    ends.

    If this process has ended before the child could ask for the signal, the child ends at once. Called from another
    thread than the main one, it does not ask: the kernel watches the thread that forks, which may end long before the
    process.
    """
    prctl, parent = _prctl(), os.getpid()
    is_lasting = _thread.get_native_id() == parent

    def prepare() -> None:
        """Have the kernel send the signal when the parent ends, and exit if it has ended already; runs in the child."""
        if is_lasting:
            prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + number)

    return prepare


def temporary_folder(purpose: str) -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed at the end of the command. Also remove the folders that killed commands of this
    user have left.

    A folder's name holds the process that made it: its id, its start time, and the boot and namespace in which the id
    counts. A folder is only removed if its process certainly has ended.
    """
    import tempfile  # only here: many commands need no folder

    base = Path(tempfile.gettempdir())
    _remove_abandoned_folders(base)
    return tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{purpose}.{os.getpid()}.{start_time(os.getpid())}.{_make_id_scope()}.", dir=base
    )


def _remove_abandoned_folders(base: Path) -> None:
    """Remove the folders of processes of this host that ended without removing them."""
    import shutil  # only here: many commands need no folder

    scope = _make_id_scope()
    if scope == UNKNOWN:  # another machine or container may have a live one of that name here
        return
    for folder in base.glob(f"{PREFIX}*.*.*.{scope}.*"):
        pid, start = folder.name.split(".")[1:3]
        try:
            is_ours = folder.lstat().st_uid == os.geteuid()
        except OSError:
            continue
        if is_ours and pid.isdigit() and start_time(int(pid)) != start:
            shutil.rmtree(folder, ignore_errors=True)


def start_time(pid: int) -> str | None:
    """Return when a process began, in clock ticks since boot; None if it has ended.

    Process ids are used again: only the id and the start time together identify a process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[19] if fields[0] not in "ZX" else None
    except (OSError, IndexError):
        return None


def _make_id_scope() -> str:
    """Return a word in which process ids are unique: it differs for every boot of a machine and every namespace of
    ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}{os.stat('/proc/self/ns/pid').st_ino:x}"  # noqa: PTH116 - no path of a file
    except OSError:
        return UNKNOWN


def _prctl() -> Any:
    import ctypes  # only here: most commands start nothing that lives long

    return ctypes.CDLL(None).prctl
