"""Makes the place at which the agent in a running program finds Weft: a folder of the program's user, with a socket.

Weft may be root, and the program another user's, who can change everything in that folder at any moment. So files there
are created and removed by a process that has become that user before: it can do no more than they can.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from weft.errors import UsageError
from weft.tasks.runtime import INSIDE

SCRIPT = """try:
    __import__("os").rename({socket!r}, {socket!r} + "-")  # once, though two may ask for it
    __import__("runpy").run_path({inside!r}, run_name="weft_visit")["answer_debugger"]({socket!r} + "-")
except OSError:  # the debugger does not wait any more
    pass
"""
"""What the program runs: it binds no name in it."""
ENTRY = INSIDE / "__main__.py"
MOST = 4096
"""Bytes that the other process may say."""
SECONDS = 20.0
"""For it to say them."""


class Rendezvous:
    """A folder with a socket and a script, at which Weft waits for one process. UsageError if it cannot be made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._user = find_process_user(pid)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._place = Path()
        try:
            self._place = Path(os.fsdecode(self._as_user(self._make_folder)))
            self._listener.listen(1)
        except OSError as error:
            self._listener.close()
            raise UsageError(
                f"process {pid} cannot be reached: its user (number {self._user[0]}) must be able to make a folder for "
                f"temporary files and to read {ENTRY}: {error.strerror or error}"
            ) from error

    @property
    def script(self) -> Path:
        """Return the file that the program is to run."""
        return self._place / "script.py"

    def _make_folder(self) -> bytes:
        """Create the folder, bind the socket and write the script in it; return the folder's path as bytes."""
        ENTRY.read_bytes()
        place = Path(tempfile.mkdtemp(prefix="weft-attach-"))
        try:
            self._listener.bind(str(place / "socket"))
            text = SCRIPT.format(inside=str(ENTRY), socket=str(place / "socket"))
            with (place / "script.py").open("x") as script:
                script.write(text)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return os.fsencode(place)

    def accept(self, seconds: float) -> socket.socket | None:
        """Return the connection that the agent in the process makes. None if it does not come within `seconds`.
        Connections of other processes are closed.
        """
        until = time.monotonic() + seconds
        while True:
            self._listener.settimeout(max(0.0, until - time.monotonic()))  # strangers must not hold it up
            try:
                line, _ = self._listener.accept()
            except (TimeoutError, BlockingIOError):
                return None
            told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            if struct.unpack("3i", told)[0] == self._pid:
                return line
            line.close()

    def close(self) -> None:
        """Remove the folder, unless the agent has done so already."""
        self._listener.close()
        with suppress(OSError):  # its user may have taken care that it cannot be
            self._as_user(self._remove)

    def _remove(self) -> bytes:
        shutil.rmtree(self._place, ignore_errors=True)
        return b""

    def _as_user(self, function: Callable[[], bytes]) -> bytes:
        """Call a function as the program's user, and return its result. If this process has another user, the function
        is called in a child process. OSError with the reason if it fails.
        """
        if self._user[0] == os.geteuid():
            return function()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _call_as_user_and_exit(self._user, function, writer)
        os.close(writer)
        told = os.read(reader, MOST) if select.select([reader], [], [], SECONDS)[0] else b""
        os.close(reader)
        os.kill(child, signal.SIGKILL)  # it is through, or its user has stopped it
        os.waitpid(child, 0)
        if told[:1] == b"+":
            return told[1:]
        raise OSError(1, told[1:].decode(errors="replace") or f"it did not answer within {SECONDS:.0f} seconds")


def _call_as_user_and_exit(user: tuple[int, int], function: Callable[[], bytes], writer: int) -> NoReturn:
    """Become a user without other rights, terminal or environment, call a function, write its result into a pipe, and
    exit. `user`: (user number, group number); `writer`: the pipe.
    """
    told = b"-it came to nothing"
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.environ.clear()
        tempfile.tempdir = None  # the system's, not that of who looks
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
        os.umask(0o077)
        told = b"+" + function()
    except OSError as error:
        told = b"-" + str(error.strerror or error).encode()
    finally:
        os.write(writer, told)
        os._exit(0)


def find_process_user(pid: int) -> tuple[int, int]:
    """Return (number of the user, number of the group) that a process acts as. UsageError if the process has gone."""
    try:
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError as error:
        raise UsageError(f"{pid}: there is no such process") from error
    return int(told["Uid"].split()[1]), int(told["Gid"].split()[1])
