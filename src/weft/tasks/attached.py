"""The backend for a Python program that runs already: gdb has it load Weft's agent, and lets go of it at once."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from weft.debug.running import forbidden
from weft.errors import UsageError
from weft.tasks.backend import Stop
from weft.tasks.python import Conversation
from weft.tasks.runtime import INSIDE

SECONDS = 20.0
"""For the program to let the agent in: one that computes in native code does not, before it is through."""
IDLE = re.compile(
    r"\b(epoll_p?wait|p?select|p?poll|clock_nanosleep|read|recv\w*|accept4?|futex\w*|__futex\w*|sem_\w+)\b"
)
"""System calls in which Python has let go of its lock, so that code can be run at once."""
SCRIPT = """import runpy, sys
_weft = runpy.run_path({inside!r} + "/__main__.py", run_name="weft_visit")
_weft["visit"]({socket!r})
del _weft
"""


class AttachedBackend(Conversation):
    """A Python program that runs already."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def start(self) -> Stop:
        """Have the agent come; the program runs on meanwhile. UsageError where the system or the program forbids it."""
        if shutil.which("gdb") is None:
            raise UsageError("gdb brings Weft into a program that runs: apt install gdb")
        with tempfile.TemporaryDirectory(prefix="weft-attach-") as folder:
            place = Path(folder)
            owner = Path(f"/proc/{self._pid}").stat()
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(place / "socket"))
            (place / "script.py").write_text(SCRIPT.format(inside=str(INSIDE), socket=str(place / "socket")))
            for path in (place, place / "socket", place / "script.py"):
                if os.geteuid() != owner.st_uid:
                    os.chown(path, owner.st_uid, owner.st_gid)
            listener.listen(1)
            listener.settimeout(SECONDS)
            with listener:
                told = self._inject(f"exec(open({str(place / 'script.py')!r}).read(), {{}})")
                try:
                    self._line = listener.accept()[0]
                except TimeoutError as error:
                    raise UsageError(f"the program does not let Weft in: {told}") from error
            stop = self._stop(SECONDS)
            if stop.why == "ended":
                raise UsageError(f"process {self._pid} has not imported asyncio: it has no tasks")
            return stop

    def _inject(self, code: str) -> str:
        """Have the program run a line of Python; what gdb said, where that went wrong."""
        said = self._gdb("thread 1", "bt 1")
        if "ptrace" in said and "not permitted" in said:
            raise UsageError(forbidden(self._pid))
        text = code.replace("\\", "\\\\").replace('"', '\\"')
        direct = (
            "set $weft = ((int(*)(void))PyGILState_Ensure)()",
            f'call ((int(*)(const char*))PyRun_SimpleString)("{text}")',
            "call ((void(*)(int))PyGILState_Release)($weft)",
        )  # fmt: skip
        # A pending call runs between two instructions of the program's own Python, in its main thread.
        pending = (
            "set $weft = ((char*(*)(long,long,int,int,int,long))mmap)(0, 4096, 3, 34, -1, 0)",
            f'set var *(char(*)[{len(code) + 1}])$weft = "{text}"',
            "call ((int(*)(void*,void*))Py_AddPendingCall)((void*)PyRun_SimpleString, $weft)",
        )
        said = self._gdb("thread 1", *(direct if IDLE.search(said) else pending))
        return next((line for line in said.splitlines() if "No symbol" in line or "Cannot" in line), "it computes")

    def _gdb(self, *commands: str) -> str:
        words = [word for command in commands for word in ("-ex", command)]
        command = ["gdb", "-q", "-nx", "-batch", "-p", str(self._pid), *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"gdb does not come into process {self._pid}") from error
        return done.stdout + done.stderr

    def _status(self, code: int | None) -> int | None:
        """The status of another's child is not ours to know."""
        until = time.monotonic() + 2
        while Path(f"/proc/{self._pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return code

    def output(self) -> str:
        """What it writes goes where it always went."""
        return ""

    def close(self) -> None:
        """Leave the program."""
        if hasattr(self, "_line"):
            self._line.close()
