"""A gdb that reads stacks of some processes: started first, so that it comes up while Weft imports what it needs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.attach.precedence import first
from weft.base.debuggers import REMEDY, find_gdb
from weft.base.processes import wait_while_it_works, while_it_works
from weft.errors import UsageError, WeftError

PARTS = Path(__file__).parents[1] / "debug" / "gdb_parts.py"
SCRIPT = Path(__file__).parent / "stacks_gdb.py"
SETTINGS = (
    "set auto-load no",
    "set auto-solib-add off",
    "set debuginfod enabled off",
    "set debug-file-directory /nonexistent",  # lines of the system's libraries cost more than all else
    "set may-call-functions off",  # an operator of C++, or what a pointer leads to, is code of the program
    "set print thread-events off",
    "set print inferior-events off",
    "set pagination off",
    "set confirm off",
)
PATIENCE = 30.0
"""Seconds in which a gdb that does nothing is waited for."""
FEW = 12
"""Ranks for which a second gdb, which reads all symbols again, does not pay."""
GDBS = 8


class GoneError(WeftError):
    """A gdb that cannot do what it is asked for; its own words."""


class Reader:
    """One gdb, which does what a line of JSON asks, and answers by another."""

    def __init__(self) -> None:
        asked, self._asking = os.pipe()
        self._answers, answering = os.pipe()
        words = [word for setting in SETTINGS for word in ("-iex", setting)]
        words += ["-x", str(PARTS), "-x", str(SCRIPT), "-ex", f"python weft_serve({asked}, {answering})"]
        self._gdb = subprocess.Popen(
            [find_gdb() or "gdb", "--nx", "--quiet", "--batch", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(asked, answering), start_new_session=True,
        )  # fmt: skip
        os.close(asked)
        os.close(answering)
        self._said = b""
        self.pids: list[int] = []

    @property
    def process(self) -> int:
        """The number of gdb's process."""
        return self._gdb.pid

    def ask(self, do: str, *given: Any) -> None:
        """Say what is to be done."""
        try:
            os.write(self._asking, (json.dumps([do, *given]) + "\n").encode())
        except OSError as error:
            raise GoneError(f"gdb has gone: {error.strerror}") from error

    def answer(self) -> Any:
        """What came of it. GoneError where gdb has gone, or does nothing any more."""
        still = while_it_works(self._gdb.pid, PATIENCE)
        while b"\n" not in self._said:
            if not next(still):
                self._gdb.kill()  # the kernel lets go of what it holds
                raise GoneError(f"gdb gave no answer within {PATIENCE:.0f} seconds")
            if select.select([self._answers], [], [], 0.1)[0]:
                said = os.read(self._answers, 1 << 16)
                if not said:
                    raise GoneError("gdb ended: stacks need one that was built with Python")
                self._said += said
        line, _, self._said = self._said.partition(b"\n")
        told = json.loads(line)
        if "error" in told:
            raise GoneError(str(told["error"]))
        return told["done"]

    def let_end(self) -> None:
        """It lets all go and ends when nobody speaks to it any more, and nobody reads what it still answers."""
        os.close(self._asking)
        os.close(self._answers)

    def close(self) -> None:
        """Wait until it has ended."""
        wait_while_it_works(self._gdb, PATIENCE)


def is_reader(process: int) -> bool:
    """Whether a process is a gdb that reads stacks for Weft."""
    try:
        return os.fsencode(SCRIPT) in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


@contextmanager
def readers(pids: Sequence[int]) -> Iterator[list[Reader]]:
    """The gdbs for native processes: one for each core, if there are many. They let all go at the end of this."""
    if pids and find_gdb() is None:
        raise UsageError(f"gdb reads the stacks of C, C++ and Fortran: {REMEDY}")
    # Who started this may have blocked signals, as `weft run` does: gdb waits for SIGCHLD.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    cores = len(os.sched_getaffinity(0))
    made = [Reader() for _ in range(min(cores, -(-len(pids) // FEW), GDBS))]
    try:
        for number, pid in enumerate(pids):
            made[number % len(made)].pids.append(pid)
        yield made
    finally:
        with first([reader.process for reader in made]):
            for end in (Reader.let_end, Reader.close):
                for reader in made:
                    with suppress(OSError):
                        end(reader)
