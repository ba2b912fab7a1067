"""Makes a running Python program execute a script by gdb, which detaches at once; used if no other way works."""

from __future__ import annotations

import platform
import re
import subprocess
import tempfile

from weft.base.debuggers import command
from weft.base.processes import explain_forbidden
from weft.errors import UsageError
from weft.gdb.mi import quoted
from weft.tasks.code_injection import CALLS, RUN

IDLE = re.compile(
    r"\b(epoll_p?wait|p?select|p?poll|clock_nanosleep|read|recv\w*|accept4?|futex\w*|__futex\w*|sem_\w+)\b"
)
"""System calls in which Python has let go of its lock, so that code can be run at once."""
FUTEX = "($orig_rax == 202 && ($rsi & 127) == 9)"
"""A wait for a lock of Python's, by that operation of futex; in the others it may hold what Python's own lock needs."""
SAFE = "set auto-load no"
"""Nothing that stands in another's program or beside it is executed by gdb."""
FAILED = re.compile(
    r"Error in sourced command file:\n(?P<why>.+)|^(?P<word>ptrace: .+|Couldn't .+|No symbol .+)$", re.M
)
SECONDS = 60.0


def run_script_by_gdb(gdb: str, pid: int, script: str) -> str:
    """Make a Python process run a script file by gdb, and return gdb's error message; empty if it worked. UsageError if
    gdb may not attach. `gdb`: the path of gdb.
    """
    code = RUN.format(script=script)
    direct = (
        "set $weft = ((int(*)(void))PyGILState_Ensure)()",
        f"call ((int(*)(const char*))PyRun_SimpleString)({quoted(code)})",
        "call ((void(*)(int))PyGILState_Release)($weft)",
    )  # fmt: skip
    # A pending call runs between two instructions of the program's own Python, in its main thread.
    pending = (
        "set $weft = ((char*(*)(long,long,int,int,int,long))mmap)(0, 4096, 3, 34, -1, 0)",
        f"set var *(char(*)[{len(code.encode()) + 1}])$weft = {quoted(code)}",
        "call ((int(*)(void*,void*))Py_AddPendingCall)((void*)PyRun_SimpleString, $weft)",
    )
    if platform.machine() == "x86_64":  # gdb knows the system call by its number, whatever libc calls it
        waits = " || ".join([FUTEX, *(f"$orig_rax == {number}" for number in sorted(CALLS))])
        return find_gdb_error(_run_gdb(gdb, pid, "thread 1", f"if {waits}", *direct, "else", *pending, "end"))
    idle = IDLE.search(_run_gdb(gdb, pid, "thread 1", "bt 1"))
    return find_gdb_error(_run_gdb(gdb, pid, "thread 1", *(direct if idle else pending)))


def find_gdb_error(output: str) -> str:
    """Return gdb's own words for what went wrong, from its output; empty if nothing did."""
    found = FAILED.search(output)
    return (found["why"] or found["word"]).strip() if found else ""


def _run_gdb(gdb: str, pid: int, *commands: str) -> str:
    """Attach gdb to a process, execute gdb commands, and return gdb's output. gdb has no terminal and a minimal
    environment.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
        script.write("\n".join([*commands, ""]))
        script.flush()
        words = [*command(gdb, SAFE), "--batch", "-p", str(pid), "-x", script.name]
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=SECONDS,
                                  check=False, stdin=subprocess.DEVNULL, start_new_session=True,
                                  env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"gdb does not come into process {pid}") from error
    said = done.stdout + done.stderr
    if "ptrace" in said and "not permitted" in said:
        raise UsageError(explain_forbidden(pid))
    return said
