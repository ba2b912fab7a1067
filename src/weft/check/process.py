"""The checked program's process: started, waited for, cut off where its time is up."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

GRACE_SECONDS: Final = 5
"""For a program that was told to end; then it is killed."""
LOOK_SECONDS: Final = 0.2


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
) -> Ended:
    """Run a command, with this process's standard streams but for those given; `timeout` in seconds.

    `watch` is asked every now and then whether the command is to be ended: it is then cut off.
    """
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout) as process:
        ended = _wait(process, timeout, watch)
    return dataclasses.replace(ended, seconds=time.perf_counter() - began)


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


def _end(process: subprocess.Popen[bytes], number: int) -> int:
    process.send_signal(number)
    try:
        return process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
