"""Start a gdb that reads stacks of some processes, early, so that it is ready while Weft imports what it needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.attach.priority import raised_priority
from weft.base.debuggers import REMEDY, find_gdb
from weft.errors import UsageError
from weft.gdb.scripted import ScriptedGdb

PARTS = Path(__file__).parents[1] / "gdb/parts_gdb.py"
SCRIPT = Path(__file__).parent / "stacks_gdb.py"
SETTINGS = (
    "set auto-load no",
    "set auto-solib-add off",
    "set debug-file-directory /nonexistent",  # lines of the system's libraries cost more than all else
    "set may-call-functions off",  # an operator of C++, or what a pointer leads to, is code of the program
    "set print thread-events off",
    "set print inferior-events off",
)
FEW = 12
"""Ranks for which a second gdb, which reads all symbols again, does not pay."""
GDBS = 8


class Reader(ScriptedGdb):
    """The gdb that reads the stacks of some native processes, `pids`."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, [PARTS, SCRIPT])
        self.pids: list[int] = []


def is_reader(process: int) -> bool:
    """Return whether a process is one of the gdbs that read stacks for Weft. `process`: its pid."""
    try:
        return os.fsencode(SCRIPT) in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


@contextmanager
def started_readers(pids: Sequence[int]) -> Iterator[list[Reader]]:
    """Start gdbs for native processes, and yield them: for many processes, one for each core. Each gdb gets a share of
    the pids; all detach at the end of the `with` block.
    """
    if pids and find_gdb() is None:
        raise UsageError(f"Weft reads the stacks of C, C++ and Fortran with gdb, which is not installed: {REMEDY}")
    # Who started this may have blocked signals, as `weft run` does: gdb waits for SIGCHLD.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    cores = len(os.sched_getaffinity(0))
    made = [Reader() for _ in range(min(cores, -(-len(pids) // FEW), GDBS))]
    try:
        for number, pid in enumerate(pids):
            made[number % len(made)].pids.append(pid)
        yield made
    finally:
        with raised_priority([reader.process for reader in made]):
            for end in (Reader.let_end, Reader.close):
                for reader in made:
                    with suppress(OSError):
                        end(reader)
