"""Start the job and wait beside it: its streams, its terminal and its signals stay the user's.

The job runs in Weft's own process group with Weft's own file handles, so a key like Ctrl-C reaches it from the terminal
directly, once. A signal that was sent to Weft only (kill PID) is forwarded. The two differ in their sender: the
terminal's signals come from the kernel (SI_KERNEL), kill's from a process.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from signal import Signals

from weft.base.lifetime import bound_to_parent
from weft.errors import UsageError, WeftError

PASSED = frozenset(
    {
        Signals.SIGINT, Signals.SIGTERM, Signals.SIGHUP, Signals.SIGQUIT, Signals.SIGUSR1, Signals.SIGUSR2,
        Signals.SIGWINCH, Signals.SIGTSTP, Signals.SIGCONT,
    }
)  # fmt: skip
ENDING = frozenset({Signals.SIGINT, Signals.SIGTERM, Signals.SIGHUP, Signals.SIGQUIT})
SI_KERNEL = 0x80
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when Weft ends a job."""


class JobProcess:
    """The process of the running job: the launcher, or the program itself without a launcher."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.signals: list[int] = []
        """Signals that could end it and that the user sent, in order."""

    def send(self, number: int) -> None:
        """Send a signal to the job, if it is still there."""
        if self.status is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Return the wait status once the job has ended, None before."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status

    @property
    def exit_code(self) -> int | None:
        """Its exit code, None while it runs or when a signal ended it."""
        return os.WEXITSTATUS(self.status) if self.status is not None and os.WIFEXITED(self.status) else None

    @property
    def signal(self) -> int | None:
        """The signal that ended it, None otherwise."""
        return os.WTERMSIG(self.status) if self.status is not None and os.WIFSIGNALED(self.status) else None

    @property
    def shell_status(self) -> int:
        """The status as a shell would give it: the exit code, or 128 + the signal."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


def start_job(argv: Sequence[str], environment: Mapping[str, str], *, unblock_forwarded: bool = True) -> JobProcess:
    """Start the job with our streams, in our process group, and return its process. `wait_for_job` must run from then
    on.

    `unblock_forwarded`: if false, the signals that we forward stay blocked in the job, which then waits for a job of
    its own. Raises UsageError if there is no such program.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED | {signal.SIGCHLD})
    try:
        return JobProcess(spawn_job(list(argv), environment, mask if unblock_forwarded else mask | PASSED))
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise explain_failed_start(argv[0], error) from error


def spawn_job(argv: list[str], environment: Mapping[str, str], mask: set[int] | set[Signals]) -> int:
    """Start a program with the signal handling that Weft itself was started with, and return its pid.

    If Weft is killed, the program gets SIGTERM: launchers then end their ranks, so that nothing runs on unnoticed.
    Raises OSError if the program cannot be executed.
    """
    path = shutil.which(argv[0], path=environment.get("PATH"))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, "not found", argv[0])
    prepare = bound_to_parent(signal.SIGTERM)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            prepare()
            _execute(path, argv, environment, mask)
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(writer)
    with open(reader, "rb") as failure:  # noqa: PTH123 - a descriptor, which exec closes at the other end
        number = failure.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), argv[0])
    return pid


def _execute(path: str, argv: list[str], environment: Mapping[str, str], mask: set[int] | set[Signals]) -> None:
    """Replace this process by the program, with default signal handlers. Raises OSError if that fails."""
    # Python ignores these two for itself; the program must not inherit that. Nor may a signal that comes before it
    # begins be lost to a handler of ours.
    handled = [number for number in PASSED if callable(signal.getsignal(number))]
    for number in (signal.SIGPIPE, signal.SIGXFSZ, *handled):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execve(path, argv, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", ["sh", path, *argv[1:]], environment)  # a script without #! line, as a shell takes it


def explain_failed_start(program: str, error: OSError) -> WeftError:
    """Return the error that explains why a program could not be started."""
    if error.errno == errno.ENOENT:
        return UsageError(f"there is no program {program!r}")
    if error.errno == errno.EACCES:
        return UsageError(f"{program} may not be executed")
    return WeftError(f"cannot start {program}: {error.strerror}")


def wait_for_job(
    process: JobProcess, tick: Callable[[], float], before_signal: Callable[[], None] = lambda: None,
    must_wait: Callable[[], bool] = lambda: False,
) -> None:  # fmt: skip
    """Wait until the job ends. Meanwhile forward signals to it, and call `tick`, which returns the seconds until its
    next call.

    `before_signal` is called before a signal that could end the job is forwarded. While `must_wait` returns True, wait
    on although the job has ended.
    """
    wanted = PASSED | {signal.SIGCHLD}
    pause = tick()
    while process.poll() is None or must_wait():
        received = signal.sigtimedwait(wanted, pause)
        if received is None or received.si_signo == signal.SIGCHLD:
            if process.poll() is None or must_wait():
                pause = tick()
        else:
            if received.si_signo in ENDING:
                before_signal()
            forward_signal(process, received.si_signo, reached_whole_group(received.si_signo, received.si_code))
            if received.si_signo in ENDING:
                pause = tick()


def reached_whole_group(number: int, code: int) -> bool:
    """Return whether a signal reached the job as well, because the terminal sent it to the whole process group.
    `code`: its si_code.

    A closed terminal sends SIGHUP to the leader of its session only (Linux, tty_signal_session_leader).
    """
    return code == SI_KERNEL and not (number == signal.SIGHUP and os.getsid(0) == os.getpid())


def forward_signal(process: JobProcess, number: int, from_terminal: bool) -> None:
    """Forward a signal to the job, unless the terminal has sent the signal to both Weft and the job. SIGTSTP also stops
    this process.
    """
    if number in ENDING:
        process.signals.append(number)
    if not from_terminal and process.poll() is None:
        process.send(number)
    if number == signal.SIGTSTP:
        os.kill(os.getpid(), signal.SIGSTOP)


def unblock_signals(process: JobProcess) -> None:
    """Unblock the forwarded signals once the job is over; drop those that were meant for the job."""
    while signal.sigtimedwait(ENDING, 0) is not None:
        pass
    if signal.SIGHUP in process.signals:
        signal.signal(
            signal.SIGHUP, signal.SIG_IGN
        )  # a closed terminal may say so twice: the run is still put in order
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED | {signal.SIGCHLD})
