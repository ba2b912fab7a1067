"""Look at running processes: whether they may be examined, and whether they are Python interpreters."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from weft.errors import UsageError

PYTHON = re.compile(r"/(libpython3|python3)[^/\n]*$", re.M)
"""A line of a process's map that only a Python has."""
PATIENCE = 30.0
"""Seconds for gdb to answer, counted from when it last did something: the symbols of a large program take their time,
and on a machine with other work more of it."""
BUSY = 0.02
"""Seconds of the processor that gdb does not use while it only waits."""


def read_memory_map(pid: int, asked: str = "") -> str:
    """Return the memory map of a process. Raises UsageError if there is no such process, or it may not be looked at."""
    asked = asked or str(pid)
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise UsageError(f"{asked}: there is no such process") from error
    except PermissionError as error:
        raise UsageError(f"{asked} belongs to another user: run Weft as that user, or as root") from error


def is_python(pid: int, asked: str = "") -> bool:
    """Whether a process is a Python; errors are those of `read_memory_map`."""
    return bool(PYTHON.search(read_memory_map(pid, asked)))


def explain_forbidden(pid: int) -> str:
    """Return the message that the system does not permit anybody to look into a process, with the remedy."""
    from weft.base.abilities import check_tracing  # only where it is forbidden: what looks in must not wait for it

    told = check_tracing()
    if told.lack:
        return f"process {pid} cannot be inspected: {told.lack}; {told.remedy}"
    return f"the system forbids inspecting process {pid}: run Weft as its user, or as root"


def read_status(pid: int) -> tuple[str, int]:
    """Return the state of a process and the pid of its debugger, from the kernel; an empty state if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    told = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return told.get("State", "")[:1], int(told.get("TracerPid", "0"))


def why_not_examinable(pid: int) -> str:
    """Return why a process should not be looked into: it has ended, is stopped, or has a debugger. Empty if it may
    be."""
    state, tracer = read_status(pid)
    if not state or state in "ZX":
        return "it has ended"
    if tracer:
        return f"process {tracer} debugs it already"
    return "it is stopped (kill -CONT lets it continue)" if state in "Tt" else ""


def poll_until_idle(pid: int, patience: float) -> Iterator[bool]:
    """Yield True at each step, and False once a process has used hardly any processor time for `patience` seconds."""
    until, spent = time.monotonic() + patience, _cpu_seconds(pid)
    while True:
        if time.monotonic() >= until and (now := _cpu_seconds(pid)) > spent + BUSY:
            until, spent = time.monotonic() + patience, now
        yield time.monotonic() < until


def wait_or_kill_idle(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until a gdb ends. Kill it once it has done nothing for `patience` seconds: it may wait for ever to read a
    file of the program that is a pipe."""
    still = poll_until_idle(process.pid, patience)
    while next(still):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return
    process.kill()
    process.wait()


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
