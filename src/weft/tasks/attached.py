"""The backend for a Python program that runs already: it loads Weft's agent.

From 3.14 on the interpreter is asked to (`sys.remote_exec`); else gdb has it do so, and lets go of it at once.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

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
CALLS = (0, 7, 23, 35, 43, 45, 47, 61, 230, 232, 247, 270, 271, 281, 288, 441)
"""The same by their numbers on x86-64: read, poll, select, nanosleep, accept, epoll, waits for a process."""
FUTEX = "($orig_rax == 202 && ($rsi & 127) == 9)"
"""A wait for a lock of Python's, by that operation of futex; in the others it may hold what Python's own lock needs."""
SCRIPT = """import os, runpy
try:
    os.rename({socket!r}, {socket!r} + "-")  # once, though two may ask for it
    runpy.run_path({inside!r} + "/__main__.py", run_name="weft_visit")["visit"]({socket!r} + "-")
except OSError:  # the debugger does not wait any more
    pass
"""
ASK = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
ASKED = re.compile(r"python3\.(1[4-9]|[2-9]\d)")
"""Interpreters that run a file when they are asked to (PEP 768)."""
SOON = 1.0
"""Seconds for one that was asked, and then for one that was woken."""
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
"""Requests of ptrace(2)."""


class AttachedBackend(Conversation):
    """A Python program that runs already."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid
        self._asked = False

    def start(self) -> Stop:
        """Have the agent come; the program runs on meanwhile. UsageError where the system or the program forbids it."""
        place = Path(tempfile.mkdtemp(prefix="weft-attach-"))
        came = False
        try:
            owner = Path(f"/proc/{self._pid}").stat()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(place / "socket"))
                script = place / "script.py"
                script.write_text(SCRIPT.format(inside=str(INSIDE), socket=str(place / "socket")))
                for path in (place, place / "socket", script):
                    if os.geteuid() != owner.st_uid:
                        os.chown(path, owner.st_uid, owner.st_gid)
                listener.listen(1)
                self._line = self._come(listener, script, owner)
            came = True
            stop = self._stop(SECONDS)
        finally:
            if came or not self._asked:
                shutil.rmtree(place, ignore_errors=True)  # else it may read the file later, and would complain
        if stop.why == "ended":
            raise UsageError(f"process {self._pid} has not imported asyncio: it has no tasks")
        return stop

    def _come(self, listener: socket.socket, script: Path, owner: os.stat_result) -> socket.socket:
        """The agent's line: the interpreter is asked to let it in, else gdb brings it."""
        self._asked = self._invite(script, owner)
        if self._asked:
            if (line := accepted(listener, SOON)) is not None:
                return line
            woken(self._pid)
            if (line := accepted(listener, SOON)) is not None:
                return line
        if shutil.which("gdb") is None:
            doing = (
                "wakes a program that waits in a system call" if self._asked else "brings Weft into a program that runs"
            )
            raise UsageError(f"gdb {doing}: apt install gdb")
        told = self._inject(f"exec(open({str(script)!r}).read(), {{}})")
        if (line := accepted(listener, SECONDS)) is None:
            raise UsageError(f"the program does not let Weft in: {told}")
        return line

    def _invite(self, script: Path, owner: os.stat_result) -> bool:
        """Ask the interpreter to run a file; whether it can be asked. UsageError where it was told to let nobody in."""
        try:
            interpreter = str(Path(f"/proc/{self._pid}/exe").readlink())
        except OSError:
            return False
        if not ASKED.fullmatch(Path(interpreter).name):
            return False
        # Another user's interpreter is not run as root.
        other: dict[str, Any] = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        command = [interpreter, "-I", "-S", "-c", ASK, str(self._pid), str(script)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                                  **(other if os.geteuid() != owner.st_uid else {}))  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return False
        if "debugging is not enabled" in done.stderr:
            raise UsageError(
                f"process {self._pid} lets no debugger in: it was started with PYTHON_DISABLE_REMOTE_DEBUG or "
                "-X disable_remote_debug"
            )
        return done.returncode == 0

    def _inject(self, code: str) -> str:
        """Have the program run a line of Python; what gdb said, where that went wrong."""
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
        if platform.machine() == "x86_64":  # gdb knows the system call by its number, whatever libc calls it
            waits = " || ".join([FUTEX, *(f"$orig_rax == {number}" for number in CALLS)])
            said = self._gdb("thread 1", f"if {waits}", *direct, "else", *pending, "end")
        else:
            idle = IDLE.search(self._gdb("thread 1", "bt 1"))
            said = self._gdb("thread 1", *(direct if idle else pending))
        return next((line for line in said.splitlines() if "No symbol" in line or "Cannot" in line), "it computes")

    def _gdb(self, *commands: str) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
            script.write("\n".join([*commands, ""]))
            script.flush()
            command = ["gdb", "-q", "-nx", "-batch", "-p", str(self._pid), "-x", script.name]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            except subprocess.TimeoutExpired as error:
                raise UsageError(f"gdb does not come into process {self._pid}") from error
        said = done.stdout + done.stderr
        if "ptrace" in said and "not permitted" in said:
            raise UsageError(forbidden(self._pid))
        return said

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


def accepted(listener: socket.socket, seconds: float) -> socket.socket | None:
    """Who comes within so many seconds."""
    listener.settimeout(seconds)
    try:
        return listener.accept()[0]
    except TimeoutError:
        return None


def woken(pid: int) -> None:
    """Stop a process' main thread for an instant: a wait for I/O returns to the interpreter, which goes on with it."""
    ptrace = ctypes.CDLL(None).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(SEIZE, pid, None, None) == 0:
        ptrace(INTERRUPT, pid, None, None)
        os.waitpid(pid, 0x40000000)  # __WALL
        ptrace(DETACH, pid, None, None)
