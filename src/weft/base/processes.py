"""Processes that run already: may they be looked into, and are they Pythons."""

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


def maps_of(pid: int, asked: str = "") -> str:
    """What a process has mapped. UsageError where there is no such process, or it may not be looked at."""
    asked = asked or str(pid)
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise UsageError(f"{asked}: there is no such process") from error
    except PermissionError as error:
        raise UsageError(f"{asked}: it belongs to another user; ask as that user, or as root") from error


def is_python(pid: int, asked: str = "") -> bool:
    """Whether a process is a Python; errors are those of `maps_of`."""
    return bool(PYTHON.search(maps_of(pid, asked)))


def forbidden(pid: int) -> str:
    """What is said where the system lets nobody look into a process."""
    from weft.base.abilities import tracing  # only where it is forbidden: what looks in must not wait for it

    told = tracing()
    if told.lack:
        return f"process {pid} cannot be looked into: {told.lack}; {told.remedy}"
    return f"the system forbids to look into process {pid}: run as its user, or as root"


def status_of(pid: int) -> tuple[str, int]:
    """State and tracer of a process, as the kernel tells them; an empty state where it has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    told = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return told.get("State", "")[:1], int(told.get("TracerPid", "0"))


def refusal(pid: int) -> str:
    """Why a process had better not be looked into; empty where it may be."""
    state, tracer = status_of(pid)
    if not state or state in "ZX":
        return "it has ended"
    if tracer:
        return f"process {tracer} is its debugger already"
    return "it is stopped (kill -CONT lets it go on)" if state in "Tt" else ""


def while_it_works(process: int, patience: float) -> Iterator[bool]:
    """True until so many seconds have passed in which a gdb did nothing."""
    until, spent = time.monotonic() + patience, _spent(process)
    while True:
        if time.monotonic() >= until and (now := _spent(process)) > spent + BUSY:
            until, spent = time.monotonic() + patience, now
        yield time.monotonic() < until


def wait_while_it_works(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait for the end of a gdb; one that did nothing for so many seconds is killed: a program's files may be pipes."""
    still = while_it_works(process.pid, patience)
    while next(still):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return
    process.kill()
    process.wait()


def _spent(process: int) -> float:
    """Seconds of the processor that a process has used."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
