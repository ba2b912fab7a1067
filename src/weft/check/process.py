"""The checked program's process: started, waited for, cut off where its time is up."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

GRACE_SECONDS: Final = 5
"""For a program that was told to end; then it is killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit status (negative: a signal), and whether its time was up."""

    status: int
    cut_off: bool = False
    seconds: float = 0
    """Wall time of the process."""
    preparing: float = 0
    """Seconds that marking and compiling took before."""


def execute(command: Sequence[str], environment: Mapping[str, str], timeout: float | None = None) -> Ended:
    """Run a command with this process's standard streams; `timeout` in seconds."""
    began = time.perf_counter()
    ended = _run(command, environment, timeout)
    return dataclasses.replace(ended, seconds=time.perf_counter() - began)


def _run(command: Sequence[str], environment: Mapping[str, str], timeout: float | None) -> Ended:
    with subprocess.Popen(command, env=environment) as process:
        try:
            return Ended(process.wait(timeout))
        except subprocess.TimeoutExpired:
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
