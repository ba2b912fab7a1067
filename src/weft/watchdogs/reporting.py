"""Writes the watchdog's report: who makes no progress, and what `weft attach` shows of all ranks of this host."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.safety.folders import append_own
from weft.safety.started import own_python

PATIENCE: Final = 120.0
"""Seconds for the look: where ranks poll, it gets little of the processors until they stand."""


def render_time_and_host() -> str:
    """Return the time and the host for a log: `2026-11-26 02:13:05 on node7`."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {os.uname().nodename}"


def attach_command(pid: int) -> list[str]:
    """Return the command that shows all ranks of this host of the job to which a process belongs."""
    return own_python("-m", "weft", "attach", "--job", str(pid))


def environment_without_weft() -> dict[str, str]:
    """Return the environment for a Weft that observes: it is no rank, and neither records nor watches."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("WEFT_")}


class JobInspection:
    """A running `weft attach`. Its output goes into a file, as the reader of a pipe may be stopped by it."""

    def __init__(self, pid: int) -> None:
        import tempfile  # few programs stand still

        self._into = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - it is read when the look is through
        self._limit = time.monotonic() + PATIENCE
        try:
            self._process: subprocess.Popen[str] | None = subprocess.Popen(
                attach_command(pid), stdin=subprocess.DEVNULL, stdout=self._into, stderr=self._into, text=True,
                env=environment_without_weft(), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._process = None
            self._into.write(f"weft: the stacks of the ranks could not be read: {error}\n")

    @property
    def is_running(self) -> bool:
        """Return whether `weft attach` still looks at the ranks. If it has not finished after PATIENCE seconds, it is
        killed, and the ranks continue.
        """
        if self._process is None or self._process.poll() is not None:
            return False
        if time.monotonic() > self._limit:
            self._process.kill()
            self._process.wait()
            self._into.seek(0, os.SEEK_END)
            self._into.write(f"weft: the stacks of the ranks could not be read within {PATIENCE:.0f} s\n")
            return False
        return True

    def wait_for_text(self) -> str:
        """Wait until `weft attach` ends, and return what it printed."""
        while self.is_running:
            time.sleep(0.05)
        self._into.seek(0)
        with self._into:
            return self._into.read().rstrip("\n")


def write_report(text: str, path: Path) -> None:
    """Write a text to standard error in one piece. Also append it to the file, if that can be written."""
    whole = (text.rstrip("\n") + "\n").encode("utf-8", "replace")
    with suppress(OSError):
        os.write(2, whole)
    with suppress(OSError):
        append_own(path, whole)


def default_report_file(pid: int) -> Path:
    """Return the path of the report if none was chosen."""
    return Path(f"weft-watch-{os.uname().nodename}-{pid}.txt").absolute()


def allow_tracing() -> None:
    """Allow any process of this user to trace this one. Some systems allow only parents to do so (Yama's ptrace_scope
    1).
    """
    with suppress(OSError, ValueError):
        if int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text()) == 1:
            # Only where it is of use, and only at a standstill.
            import ctypes

            ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER, any of this user
