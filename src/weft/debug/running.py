"""Processes that run already: may they be looked into, and are they Pythons."""

from __future__ import annotations

import re
from pathlib import Path

from weft.errors import UsageError

PYTHON = re.compile(r"/(libpython3|python3)[^/\n]*$", re.M)
"""A line of a process's map that only a Python has."""


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
    return (
        f"the system forbids to look into process {pid}: run as its user, and see "
        "/proc/sys/kernel/yama/ptrace_scope (0 lets you)"
    )
