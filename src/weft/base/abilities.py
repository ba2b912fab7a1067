"""Find out what this machine permits: to trace processes, call functions in them, share memory.

Each ability is tried once and remembered, not concluded from a version or a setting: a debugger is attached, a system
call is made. A setting is read only to say what to change. `weft doctor` reports the abilities, and tests are skipped
by them.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from weft.base.debuggers import REMEDY, command, describe_unused_gdbs, find_gdb
from weft.base.lazy import dataclass
from weft.safety.started import own_python

SECONDS: Final = 60
"""A debugger that needs more to come up is one that does not."""
SCOPE: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
SHARED: Final = Path("/dev/shm")
ROOM: Final = 32 << 20
"""Bytes in which the ranks of a small job pass their messages: two of MPICH take some 10 MiB."""
CRAMPED: Final = 1 << 30
"""Bytes of it that many ranks may fill; containers have 64 MiB."""
MOUNTED: Final = f"mount -t tmpfs tmpfs {SHARED}"
LARGER: Final = f"as root: mount -o remount,size=1G {SHARED}; for a container --shm-size=1g"
SEIZE: Final = 0x4206
SEIZED: Final = "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); " \
    "sys.exit(ctypes.get_errno() if libc.ptrace({seize}, {pid}, None, None) else 0)"  # fmt: skip
CONTAINER: Final = "in a container `--cap-add=SYS_PTRACE --security-opt seccomp=unconfined`"
QUIET: Final = ("set auto-solib-add off", "set debug-file-directory /nonexistent")


@dataclass(frozen=True)
class Ability:
    """Whether something can be done here; if not, why, and the remedy."""

    detail: str
    lack: str = ""
    """Why it cannot be done, in words that follow a colon; empty where it can."""
    remedy: str = ""


@contextmanager
def waiting_process() -> Iterator[int]:
    """Run a process that does nothing until the end of the `with` block, and yield its pid."""
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.write(process.stdin.fileno(), b"\n")
        os.read(process.stdout.fileno(), 1)  # it has come up: its libraries are there
        try:
            yield process.pid
        finally:
            process.stdin.close()


@cache
def check_tracing() -> Ability:
    """Check whether a process may trace another one of the same user, as every debugger does."""
    with waiting_process() as pid:
        asked = own_python("-I", "-S", "-c", SEIZED.format(seize=SEIZE, pid=pid))
        status = subprocess.run(asked, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False).returncode
    if not status:
        return Ability("a process may trace another one of the same user")
    level = SCOPE.read_text().strip() if SCOPE.exists() else "0"
    if level == "0":
        return Ability("", f"the system forbids it (ptrace: {os.strerror(status)})", CONTAINER)
    remedy = f"`sysctl kernel.yama.ptrace_scope=0` as root; {CONTAINER}"
    if level == "3":
        remedy = (
            "the value 3 stays until the machine restarts: change kernel.yama.ptrace_scope in /etc/sysctl.d and restart"
        )
    return Ability("", f"the system forbids it (kernel.yama.ptrace_scope is {level})", remedy)


@cache
def check_own_memory() -> Ability:
    """Check whether the kernel may read a process's memory for it. A bad address is then an error, where a plain read
    would crash."""
    libc = ctypes.CDLL(None, use_errno=True)
    source, target = ctypes.create_string_buffer(b"weft"), ctypes.create_string_buffer(5)
    there, here = ((ctypes.c_size_t * 2)(ctypes.addressof(one), 5) for one in (source, target))  # struct iovec
    one = ctypes.c_ulong(1)
    got = libc.process_vm_readv(os.getpid(), ctypes.byref(here), one, ctypes.byref(there), one, ctypes.c_ulong(0))
    if got == 5 and target.value == source.value:
        return Ability("process_vm_readv reads it")
    words = os.strerror(ctypes.get_errno())
    with suppress(OSError), Path("/proc/self/mem").open("rb", buffering=0) as memory:
        if os.pread(memory.fileno(), 5, there[0]) == source.raw:
            return Ability("/proc/self/mem has it")
    return Ability("", f"the system forbids process_vm_readv ({words}): buffers and messages are not checked",
                   "in a container `--security-opt seccomp=unconfined`")  # fmt: skip


@cache
def check_gdb() -> Ability:
    """Check whether there is a gdb with Python that attaches to a process."""
    where, told, _ = _try_gdb()
    if not where:
        return Ability(
            "", "gdb is not installed: Weft cannot show stacks, stops and values in C, C++ and Fortran", REMEDY
        )
    if "weft: Python" not in told:
        lack = (
            f"{where} was built without Python"
            if "ython" in told
            else f"{where} does not start: {_find_complaint(told)}"
        )
        return Ability(where, lack, "install a gdb that has Python, such as Debian's")
    if "weft: attached" not in told:
        forbidden = check_tracing()
        if forbidden.lack:
            return Ability(where, f"{where} attaches to no process: {forbidden.lack}", forbidden.remedy)
        return Ability(where, f"{where} attaches to no process: {_find_complaint(told)}", "install another gdb")
    version = re.search(r"weft: Python (\S+) gdb (.*)", told)
    assert version is not None
    return Ability("; ".join([f"{where} {version[2]}, Python {version[1]}", *describe_unused_gdbs()]))


@cache
def check_gdb_calls() -> Ability:
    """Check whether gdb can call a function in a process, by which code is loaded into a running process."""
    if check_gdb().lack:
        return check_gdb()
    where, told, pid = _try_gdb()
    if f"weft: called {pid}" in told:
        return Ability(f"{where} calls functions in a process")
    return Ability(
        where, f"{where} cannot call a function in a process: {_find_complaint(told)}", f"gdb 14 or later: {REMEDY}"
    )


@cache
def _try_gdb() -> tuple[str, str, int]:
    """Try gdb on a process; return gdb's path, its output, and the pid of that process."""
    where = find_gdb()
    if where is None:
        return "", "", 0
    with waiting_process() as pid:
        words = ["-ex", "python import platform; print('weft: Python', platform.python_version(), 'gdb', gdb.VERSION)"]
        words += ["-ex", f"attach {pid}", "-ex", "python if gdb.selected_thread(): print('weft: attached')"]
        words += ["-ex", "sharedlibrary libc", "-ex", "print (int)getpid()", "-ex", 'printf "weft: called %d\\n", $']
        try:
            done = subprocess.run(
                [*command(where, *QUIET), "--batch", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return where, str(error), pid
    return where, done.stdout, pid


def _find_complaint(gdb_output: str) -> str:
    """Return the first line of gdb's output that looks like an error; else its last line, or `it says nothing`."""
    lines = [
        line for line in gdb_output.splitlines() if line and not line.startswith(("weft:", "[", "warning:", "Using "))
    ]
    faults = [line for line in lines if re.search(r"cannot|couldn|not permitted|error|no symbol|unable", line, re.I)]
    return next(iter(faults or lines[-1:]), "it says nothing").rstrip(".")


@cache
def check_shared_memory() -> Ability:
    """Check whether /dev/shm exists and has room: the ranks of one host pass their messages through it."""
    try:
        held = os.statvfs(SHARED)
    except OSError:
        return Ability(
            "", f"{SHARED} does not exist: MPICH's ranks cannot start", f"as root: mkdir {SHARED}; {MOUNTED}"
        )
    free = held.f_bavail * held.f_frsize
    if free < ROOM:
        lack = f"{SHARED} has {free >> 10} KiB free: MPICH's ranks end with a bus error, and Open MPI's are slow"
        return Ability("", lack, LARGER)
    if not os.access(SHARED, os.W_OK | os.X_OK):
        return Ability("", f"{SHARED} cannot be written: MPICH's ranks cannot start", "as root: chmod 1777 /dev/shm")
    return Ability(f"{free >> 20:,} MiB free in {SHARED}")


def explain_shared_memory_crash(bus_error: bool) -> str:
    """Return how a lack of shared memory may have caused a job's crash on this host, with the remedy; empty if there
    is no lack.

    `bus_error`: whether a rank ended by SIGBUS.
    """
    told = check_shared_memory()
    if told.lack:
        return f"{told.lack} ({told.remedy})"
    held = os.statvfs(SHARED)
    if bus_error and (size := held.f_blocks * held.f_frsize) < CRAMPED:
        return f"{SHARED} holds {size >> 20} MiB; when it is full, ranks get a bus error ({LARGER})"
    return ""


ABILITIES: Final[dict[str, Callable[[], Ability]]] = {
    "gdb": check_gdb,
    "calls by gdb": check_gdb_calls,
    "ptrace": check_tracing,
    "own memory": check_own_memory,
    "shared memory": check_shared_memory,
}
"""What `weft doctor` reports, by the name of each line."""
