"""Find out whether a thread sleeps until another thread of its process wakes it: in OpenMP's barrier, a lock, a join.

The kernel shows the system call that a thread is in, with its arguments, to who may trace it. A wait for a futex in the
process's own memory without a time limit ends only by a thread of that process, or by a signal. (pthread_join waits for
one that is not marked private, as the kernel ends it.)
"""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_PRIVATE: Final = 128
_CLOCK_REALTIME: Final = 256
_WAITS: Final = (0, 6, 9)
"""FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET."""
_SWITCHES: Final = re.compile(r"ctxt_switches:\s*(\d+)")


def read_sleep(pid: int, tid: int) -> tuple[int, ...] | None:
    """Return what tells one such sleep of a thread from a later one: the futex, and how often the thread was switched.
    None if the thread does not sleep so, or if that cannot be seen.
    """
    task = Path(f"/proc/{pid}/task/{tid}")
    try:
        words = (task / "syscall").read_text().split()
        switches = map(int, _SWITCHES.findall((task / "status").read_text()))
    except (OSError, ValueError):
        return None
    if len(words) < 5 or words[0] != str(_FUTEX.get(platform.machine())):
        return None
    futex, operation, _, limit = (int(word, 16) for word in words[1:5])
    command = operation & ~(_PRIVATE | _CLOCK_REALTIME)
    if command not in _WAITS or limit or not (operation & _PRIVATE or _is_in_own_memory(pid, futex)):
        return None
    return futex, *switches


def _is_in_own_memory(pid: int, address: int) -> bool:
    """Return whether an address of a process is in memory that it shares with no other process."""
    with suppress(OSError), Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            area, access, _ = line.split(maxsplit=2)
            first, _, end = area.partition("-")
            if int(first, 16) <= address < int(end, 16):
                return access.endswith("p")
    return False
