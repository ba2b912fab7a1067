"""The watchdog in a Python rank: a thread that looks where the main one is."""

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
from weft.terms.library_code import of_library
from weft.watchdogs import telling
from weft.watchdogs.wish import Wish

PAUSE: Final = 1.0
DEEPEST: Final = 64
GRACE: Final = 5.0
"""Seconds for a program to end after SIGABRT: it may have a handler of its own."""

VALUED: Final = 8
"""Innermost frames whose variables are compared."""
MOST: Final = 256

Place = tuple[tuple[object, ...], ...]


class Watcher(threading.Thread):
    """Tells once when the main thread was at one instruction at each look for so long."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(name="weft watchdog", daemon=True)
        self.wish = wish
        self._main = threading.main_thread()
        self._chosen: socket.socket | None = None
        """Held to the end of this process: another rank of the job then stays silent."""

    def run(self) -> None:
        """Watch to the end of the program."""
        pause = min(PAUSE, self.wish.seconds / 10)
        place, stood, told, looked = self._place(), 0.0, False, time.monotonic()
        while self._main.is_alive():
            time.sleep(pause)
            # While the process was stopped, or a library held the interpreter, nothing was seen.
            now = time.monotonic()
            gap, looked = min(now - looked, 2 * pause), now
            here = self._place()
            stood = stood + gap if here == place else 0.0
            if told and here != place:
                telling.tell(f"weft: {telling.moment()}: {self._who()} goes on", self._file)
                return
            place = here
            if stood >= self.wish.seconds and not told:
                if not self._is_chosen():
                    return
                told = True
                self._tell(stood)
                looked = time.monotonic()

    def _place(self) -> Place:
        """Instructions of all frames, and what the variables of the inner ones are: a loop binds them anew.

        A loop over one long call is at that call at each look.
        """
        frame = sys._current_frames().get(self._main.ident or 0)
        found: list[tuple[int, int]] = []
        while frame is not None and len(found) < DEEPEST:
            found.append((id(frame), frame.f_lasti, *(_variables(frame) if len(found) < VALUED else ())))
            frame = frame.f_back
        return tuple(found)

    def _tell(self, stood: float) -> None:
        telling.allow_tracing()
        frame = sys._current_frames().get(self._main.ident or 0)
        end = "it is ended now" if self.wish.abort else "the program goes on; this is reported once"
        head = f"weft: {telling.moment()}: {self._who()} was at {_line(frame)} at each look for {stood:.0f} s; {end}"
        telling.tell(head, self._file)  # at once: the program may end while others look
        telling.tell(telling.Look(os.getpid()).text(), self._file)
        if self.wish.abort:
            os.kill(os.getpid(), signal.SIGABRT)
            time.sleep(GRACE)
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def _file(self) -> Path:
        return Path(self.wish.file) if self.wish.file else telling.default_file(os.getpid())

    def _is_chosen(self) -> bool:
        """Whether this rank tells: the first of its job on this host. A name of the kernel's goes with its process."""
        job = job_step.find_own_step()
        if job is None:
            return True
        self._chosen = claim_name(f"weft-watch-{job.name}")
        return self._chosen is not None

    def _who(self) -> str:
        job = job_step.find_own_step()
        return f"process {os.getpid()}" if job is None else f"rank {job.rank} (process {os.getpid()})"


def _variables(frame: FrameType) -> list[object]:
    """What tells whether variables were bound anew: numbers by their value, all else by identity."""
    values = list(frame.f_locals.values())[-MOST:]
    return [value if type(value) in (int, float, bool) else id(value) for value in values]


def _line(frame: FrameType | None) -> str:
    """The innermost line that is not of a library; where there is none, the innermost."""
    own = frame
    while own is not None and of_library(own.f_code.co_filename):
        own = own.f_back
    at = own or frame
    return "?" if at is None else f"{at.f_code.co_filename}:{at.f_lineno} {at.f_code.co_name}"


_begun: list[Watcher] = []


def begin(wish: Wish | None) -> bool:
    """Watch from here on; whether somebody does. A second wish in a process changes nothing."""
    if wish is not None and not _begun:
        _begun.append(Watcher(wish))
        _begun[0].start()
    return bool(_begun)
