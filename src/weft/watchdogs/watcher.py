"""The watchdog in a Python rank: a thread that checks whether the main thread makes progress."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

from weft.launch import job_step
from weft.safety.peers import claim_name
from weft.terms.library_code import is_library_file
from weft.watchdogs import reporting
from weft.watchdogs.settings import WatchdogSettings

PAUSE: Final = 1.0
DEEPEST: Final = 64
GRACE: Final = 5.0
"""Seconds for a program to end after SIGABRT: it may have a handler of its own."""

VALUED: Final = 8
"""Innermost frames whose variables are compared."""
MOST: Final = 256

Place = tuple[tuple[object, ...], ...]


class RankWatchdog(threading.Thread):
    """Thread that reports once if the main thread was at the same instruction at each look for some seconds."""

    def __init__(self, wish: WatchdogSettings) -> None:
        super().__init__(name="weft watchdog", daemon=True)
        self.wish = wish
        self._main = threading.main_thread()
        self._chosen: socket.socket | None = None
        """Held to the end of this process: another rank of the job then stays silent."""

    def run(self) -> None:
        """Look at the main thread again and again until the program ends. If it makes no progress, report that once,
        and once more when it goes on.
        """
        pause = min(PAUSE, self.wish.seconds / 10)
        place, stood, told, looked = self._read_position(), 0.0, False, time.monotonic()
        while self._main.is_alive():
            time.sleep(pause)
            # While the process was stopped, or a library held the interpreter, nothing was seen.
            now = time.monotonic()
            gap, looked = min(now - looked, 2 * pause), now
            here = self._read_position()
            stood = stood + gap if here == place else 0.0
            if told and here != place:
                head = f"weft: {reporting.render_time_and_host()}: {self._describe_rank()} makes progress again"
                reporting.write_report(head, self._report_file)
                return
            place = here
            if stood >= self.wish.seconds and not told:
                if not self._claim_reporting():
                    return
                told = True
                self._write_report(stood)
                looked = time.monotonic()

    def _read_position(self) -> Place:
        """Return where the main thread is: the instruction of each frame, and the identities of the variables of the
        inner frames. Two equal positions mean that it has made no progress.

        A loop over one long call is at that call at each look, but assigns its variables anew.
        """
        frame = sys._current_frames().get(self._main.ident or 0)
        found: list[tuple[int, int]] = []
        while frame is not None and len(found) < DEEPEST:
            found.append((id(frame), frame.f_lasti, *(_identify_variables(frame) if len(found) < VALUED else ())))
            frame = frame.f_back
        return tuple(found)

    def _write_report(self, seconds_without_progress: float) -> None:
        """Write a report that the main thread makes no progress, and end the program if the settings say so."""
        reporting.allow_tracing()
        frame = sys._current_frames().get(self._main.ident or 0)
        end = "it is killed now" if self.wish.abort else "the program continues; this is reported once"
        where = (
            f"{reporting.render_time_and_host()}: {self._describe_rank()} has stayed at {_render_program_line(frame)}"
        )
        head = f"weft: {where} for {seconds_without_progress:.0f} s; {end}"
        reporting.write_report(head, self._report_file)  # at once: the program may end while others look
        reporting.write_report(reporting.JobInspection(os.getpid()).wait_for_text(), self._report_file)
        if self.wish.abort:
            os.kill(os.getpid(), signal.SIGABRT)
            time.sleep(GRACE)
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def _report_file(self) -> Path:
        return Path(self.wish.file) if self.wish.file else reporting.default_report_file(os.getpid())

    def _claim_reporting(self) -> bool:
        """Try to become the rank that reports for all ranks of its job on this host, and return whether this rank is
        it. The first rank that asks takes a socket's name, which the others then find in use.
        """
        job = job_step.find_own_step()
        if job is None:
            return True
        self._chosen = claim_name(f"weft-watch-{job.name}")
        return self._chosen is not None

    def _describe_rank(self) -> str:
        job = job_step.find_own_step()
        return f"process {os.getpid()}" if job is None else f"rank {job.rank} (process {os.getpid()})"


def _identify_variables(frame: FrameType) -> list[object]:
    """Return a value for each variable of a frame that changes if the variable is assigned: the number itself, or the
    identity of any other object.
    """
    values = list(frame.f_locals.values())[-MOST:]
    return [value if type(value) in (int, float, bool) else id(value) for value in values]


def _render_program_line(frame: FrameType | None) -> str:
    """Return `FILE:LINE FUNCTION` of the innermost frame of the program's own code. If all frames are of libraries,
    return that of the innermost one.
    """
    own = frame
    while own is not None and is_library_file(own.f_code.co_filename):
        own = own.f_back
    at = own or frame
    return "?" if at is None else f"{at.f_code.co_filename}:{at.f_lineno} {at.f_code.co_name}"


_begun: list[RankWatchdog] = []


def start_watchdog(settings: WatchdogSettings | None) -> bool:
    """Start the watchdog of this process, unless it runs already or `settings` is None. Return whether it runs now."""
    if settings is not None and not _begun:
        _begun.append(RankWatchdog(settings))
        _begun[0].start()
    return bool(_begun)
