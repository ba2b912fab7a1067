"""The checked program's process: started, waited for, cut off where its time is up."""

from __future__ import annotations

import dataclasses
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

from weft.base.lifetime import bound_to_parent

GRACE_SECONDS: Final = 5
"""For a program that was told to end; then it is killed."""
LOOK_SECONDS: Final = 0.2
STACK: Final = 8 << 20
"""Bytes of stack, at least, and where it has no limit: there Linux puts libraries where the shadow is to lie."""
LARGE_STACK: Final = 1 << 30
"""DVM gives distributed arrays memory of their own; in a checked program those of a procedure lie on its stack.
Not for Python, whose libraries start threads: each of them takes as much.
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit status (negative: a signal), and whether its time was up."""

    status: int
    cut_off: bool = False
    seconds: float = 0
    """Wall time of the process."""
    preparing: float = 0
    """Seconds that marking and compiling took before."""


def execute(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float | None = None,
    *,
    stdin: IO[bytes] | None = None,
    stdout: int | None = None,
    watch: Callable[[], bool] | None = None,
    launched: bool = False,
) -> Ended:
    """Run a command, with this process's standard streams but for those given; `timeout` in seconds.

    `watch` is asked every now and then whether the command is to be ended: it is then cut off. `launched`: it is a
    launcher, which gets SIGTERM where this process is killed, as it ends its ranks then.
    """
    began = time.perf_counter()
    with _limited(STACK if command[0] == sys.executable else LARGE_STACK):
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            preexec_fn=bound_to_parent(signal.SIGTERM if launched else signal.SIGKILL),  # noqa: PLW1509 - one thread
        )
    with process:
        ended = _wait(process, timeout, watch)
    return dataclasses.replace(ended, seconds=time.perf_counter() - began)


@contextmanager
def _limited(stack: int) -> Iterator[None]:
    """Programs that are started here have at least so many bytes of stack, and a limit of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = stack if soft == resource.RLIM_INFINITY else max(soft, stack)
    resource.setrlimit(resource.RLIMIT_STACK, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def _wait(process: subprocess.Popen[bytes], timeout: float | None, watch: Callable[[], bool] | None) -> Ended:
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        pause = left if watch is None else LOOK_SECONDS if left is None else min(left, LOOK_SECONDS)
        try:
            return Ended(process.wait(pause))
        except subprocess.TimeoutExpired:
            if (until is not None and time.monotonic() >= until) or (watch is not None and watch()):
                return Ended(_end(process, signal.SIGTERM), cut_off=True)
        except KeyboardInterrupt:
            return Ended(_end(process, signal.SIGINT))
        except BaseException:  # such as SystemExit, which SIGTERM raises
            _end(process, signal.SIGTERM)
            raise


def _end(process: subprocess.Popen[bytes], number: int) -> int:
    process.send_signal(number)
    try:
        return process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
