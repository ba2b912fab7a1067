"""Supervise a program on its PVM virtual machine, and end what is left of it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from weft.base.lifetime import die_with_parent
from weft.launch import process as processes
from weft.launch.process import ENDING, JobProcess
from weft.launch.pvm.machine import GRACE, MachineError, VirtualMachine
from weft.launch.pvm.user_machine import UserMachine

JOIN: Final = "WEFT_INTERNAL_PVM_JOIN"
"""Set where the user's own virtual machine is to be joined."""
LOOK: Final = 0.03
"""Seconds between looks at the tasks and what they print."""
BURY: Final = 0.2
"""Seconds between looks for tasks that were killed."""
LAST_LOOKS: Final = 4
PATIENCE: Final = 5.0
"""Seconds after the program's end until Weft says what it waits for."""
LOST: Final = 3.0
"""Seconds that a program has to end by itself when the daemon is gone."""
FAILED: Final = 4


class Supervisor:
    """Forwards what the tasks of a program print, and ends the program if it cannot go on."""

    def __init__(self, machine: VirtualMachine, process: JobProcess, parent: int) -> None:
        self.machine, self.process, self.parent = machine, process, parent
        self._ended_at: float | None = None
        self._bury_at = 0.0

    def tick(self) -> float:
        """Look at the tasks once; return the seconds until the next look."""
        now = time.monotonic()
        self._look(now)
        if self._ended_at is None:
            if self.orphaned:
                self._end(now)
            elif self.machine.seconds_without_daemon(now) > LOST:
                print(
                    "weft: Weft ends the program: no task can continue without the daemon", file=sys.stderr, flush=True
                )
                self._end(now)
        elif now - self._ended_at > GRACE:
            self.process.send(signal.SIGKILL)
        return LOOK

    def _look(self, now: float) -> None:
        """Forward the output of the tasks. From time to time also mark in the records which tasks were killed."""
        self.machine.forward_output()
        if now >= self._bury_at:
            self.machine.mark_killed_tasks()
            self._bury_at = now + BURY

    @property
    def orphaned(self) -> bool:
        """Whether `weft run` is gone."""
        return os.getppid() != self.parent

    def _end(self, now: float) -> None:
        self._ended_at = now
        self.process.send(signal.SIGTERM)

    def wait_for_tasks(self) -> None:
        """Wait after the program's end until all its tasks have left, or the user asks for the end."""
        if self._ended_at is not None or any(number in ENDING for number in self.process.signals):
            return
        tell_at = time.monotonic() + PATIENCE
        while (rank := self.machine.find_running_rank()) is not None and not self.orphaned:
            now = time.monotonic()
            if self.machine.seconds_without_daemon(now):
                break
            self._look(now)
            if now > tell_at:
                tell_at = float("inf")
                told = f"weft: the program has ended, but {self.machine.format_task(rank)}, still runs; Ctrl-C ends it"
                print(told, file=sys.stderr, flush=True)
            if signal.sigtimedwait(ENDING, LOOK) is not None:
                return
        still = 0
        while still < LAST_LOOKS:  # what tasks printed at last comes to us through the daemon
            still = 0 if self.machine.forward_output() else still + 1
            time.sleep(LOOK)


def create_machine(run: Path, environment: dict[str, str]) -> VirtualMachine:
    """Create the virtual machine of a run: its own, or that of the user if the run is to join it."""
    if environment.pop(JOIN, ""):
        return UserMachine(run, environment)
    return VirtualMachine(run, environment)


def run_supervised(command: list[str]) -> int:
    """Run a program on a virtual machine, supervise it, and return its wait status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, processes.PASSED | {signal.SIGCHLD})
    parent = os.getppid()
    die_with_parent(signal.SIGTERM)
    machine = create_machine(Path(os.environ["WEFT_INTERNAL_RUN"]), dict(os.environ))
    try:
        machine.start(command[0])
        process = JobProcess(processes.spawn_job(command, machine.recorded_environment(0), set()))
    except Exception:
        machine.stop()
        raise
    attendant = Supervisor(machine, process, parent)
    processes.wait_for_job(process, attendant.tick)
    attendant.wait_for_tasks()
    machine.stop()
    return process.status or 0


def end_with_status(status: int) -> None:
    """End this process with the exit status or the signal with which the program ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    sys.stdout.flush()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else FAILED)


def run_and_exit(command: list[str]) -> None:
    """Run a program on a virtual machine, and end as the program ended."""
    try:
        ended = run_supervised(command)
    except (MachineError, OSError) as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(FAILED)
    end_with_status(ended)
