"""Start the checked program, wait for it, and end it when its time is over."""

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
class ProcessEnd:
    """How a process ended: its exit status (negative: a signal), and whether it was ended for the time limit."""

    status: int
    cut_off: bool = False
    seconds: float = 0
    """Wall time of the process."""
    preparing: float = 0
    """Seconds that marking and compiling took before."""


def run_process(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float | None = None,
    *,
    stdin: IO[bytes] | None = None,
    stdout: int | None = None,
    should_end: Callable[[], bool] | None = None,
    launched: bool = False,
) -> ProcessEnd:
    """Run a command to its end and return how it ended. `timeout` is in seconds; the command has this process's
    standard streams unless others are given.

    `should_end` is called every 0.2 seconds; once it returns true, the command is ended. `launched`: the command is a
    launcher; if this process is killed, the launcher gets SIGTERM and ends its ranks.
    """
    began = time.perf_counter()
    with _limited_stack(STACK if command[0] == sys.executable else LARGE_STACK):
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            preexec_fn=bound_to_parent(signal.SIGTERM if launched else signal.SIGKILL),  # noqa: PLW1509 - one thread
        )
    with process:
        ended = _wait_for_end(process, timeout, should_end)
    return dataclasses.replace(ended, seconds=time.perf_counter() - began)


@contextmanager
def _limited_stack(stack_bytes: int) -> Iterator[None]:
    """In a `with` block, give programs that are started a stack limit of at least `stack_bytes`, but never an
    unlimited stack."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = stack_bytes if soft == resource.RLIM_INFINITY else max(soft, stack_bytes)
    resource.setrlimit(resource.RLIMIT_STACK, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def _wait_for_end(
    process: subprocess.Popen[bytes], timeout: float | None, should_end: Callable[[], bool] | None
) -> ProcessEnd:
    """Wait until a process ends, and return how it ended. Terminate it after `timeout` seconds, when `should_end`
    returns true, or when the user interrupts."""
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        pause = left if should_end is None else LOOK_SECONDS if left is None else min(left, LOOK_SECONDS)
        try:
            return ProcessEnd(process.wait(pause))
        except subprocess.TimeoutExpired:
            if (until is not None and time.monotonic() >= until) or (should_end is not None and should_end()):
                return ProcessEnd(_terminate(process, signal.SIGTERM), cut_off=True)
        except KeyboardInterrupt:
            return ProcessEnd(_terminate(process, signal.SIGINT))
        except BaseException:  # such as SystemExit, which SIGTERM raises
            _terminate(process, signal.SIGTERM)
            raise


def _terminate(process: subprocess.Popen[bytes], signal_number: int) -> int:
    """Send a signal to a process, kill it if it does not end within GRACE_SECONDS, and return its exit status."""
    process.send_signal(signal_number)
    try:
        return process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
