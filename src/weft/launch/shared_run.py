"""Share one run among all tasks of a job step, each of which is a `weft run` of its own.

The first task makes the run; the others find it by the step's name. One task at a time watches the ranks (it holds a
lock that ends with its process). What it proves it reports at once; then each task ends its own rank. Otherwise the
task that ends last reports, and a task that fails reports before it ends, as launchers then kill the others.

Locks are byte ranges (fcntl): network file systems keep them across hosts, and show a locked file up to date.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from weft.base.lazy import dataclass
from weft.errors import UsageError, WeftError
from weft.launch import rank_processes, rundir
from weft.launch.job_step import JobStep
from weft.launch.process import JobProcess
from weft.launch.rundir import BASE, RunDirectory
from weft.safety.folders import open_own

if TYPE_CHECKING:
    from weft.launch.local.hosts import Hosts
    from weft.launch.plan import LaunchPlan

STEPS: Final = ".steps"
"""In weft-runs, with the user's number: which run belongs to which step."""
DECIDED: Final = "ended_by_weft"
"""In run.json: the tasks have to end their ranks. One that was killed by somebody else ends no other."""
KEPT: Final = 64
"""Steps that are remembered there."""
PATIENCE: Final = 60.0
"""Seconds that a task waits for the run that another one makes: a network file system may show it late."""
LINGER: Final = 1.0
"""Seconds that a task which failed leaves the others to end by themselves before it reports."""
TOLD: Final = 60.0
"""Seconds that a task which failed waits for the report of another one."""
SEEN_OFF: Final = 10.0
"""Seconds that the task which reported a deadlock waits for the ends of the others."""
POLL: Final = 0.05
LINE: Final = 32
"""Bytes of a task's line about its end."""
APART: Final = 5.0
"""Seconds for the lines of all tasks to be seen, once MPI has shown that all have begun."""


@dataclass(frozen=True)
class StepTask:
    """A task of the job step that has joined the run."""

    rank: int
    pid: int
    host: str


class SharedRun:
    """The part of this task in the run of its job step."""

    def __init__(self, step: JobStep, run: RunDirectory) -> None:
        self.step = step
        self.run = run
        self.folder = run.path / "step"
        self.reported = False
        """Whether this task reported while the ranks stood still."""
        self.reporting: Callable[[], object] | None = None
        """Puts the run in order and tells what was found, set by who can."""
        self.absent_ranks: list[int] = []
        """Ranks whose tasks run, and did not come to this run: their hosts do not see its folder."""
        self.how: str | None = None
        """How Weft ends the run, once it does."""
        self.reporter = False
        """Whether this task reports, now that its rank has ended: of those that wait for all to end."""
        self.hosts: Hosts | None = None
        """The hosts that this task listens to, where each writes to its own disk."""
        self._tasks: list[StepTask] = []
        self._watching: IO[bytes] | None = None

    @property
    def records(self) -> Path:
        """Where the ranks of this host write to."""
        return self.run.ranks

    @property
    def remedy(self) -> str:
        """The advice for hosts that see no common directory."""
        launcher = {"slurm": "srun"}.get(self.step.system, self.step.system)
        return f"`weft run --local DIR -- {launcher} ...` needs no common directory"

    # While it runs

    def try_to_watch(self) -> bool:
        """Return whether this task is the one that watches the ranks; it becomes that task if no other is."""
        if self._watching is None:
            try:
                file = (self.folder / "watching").open("ab")
            except OSError:
                return False
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
            self._watching = file
        return True

    def read_forced_ending(self) -> str | None:
        """Return how the watching task ended the run (`deadlock`, `killed` ...). None before that is reported, or if
        it did not end it."""
        if self.folder.exists() and not (self.folder / "told").exists():
            return None
        facts = rundir.read_facts(self.run.path)
        return str(facts.get("ended")) if facts.get(DECIDED) is True else None

    def adapt_plan(self, plan: LaunchPlan, variables: dict[str, str]) -> LaunchPlan:
        """Return the launch plan of this task if its host writes records to its own disk."""
        raise NotImplementedError

    def must_report_early(self, process: JobProcess) -> bool:
        """Return whether this task must report while its own rank runs, as another task has failed and cannot."""
        return False

    def must_stay(self, process: JobProcess) -> bool:
        """Return whether this task must go on although its own rank has ended."""
        return False

    def collect_records(self, *, kill: bool) -> None:
        """Bring the records into the run before they are reported; `kill`: end ranks that still run."""

    def report(self, *, ending: bool = True) -> bool:
        """Report the run now, before this task's rank is ended, as that may end this task, too. Return whether this
        task reported; False if another task has.

        `ending`: whether the other tasks must end their ranks then.
        """
        if self.reporting is None or not self._claim_report():
            return False
        if ending:
            self.run.facts[DECIDED] = True
        self.collect_records(kill=ending)
        self.reporting()
        (self.folder / "told").touch()
        self.reported = True
        return True

    # At the end

    def announce_end(self, process: JobProcess, ended: str | None) -> bool:
        """Write down how this task ended, and wait until it may end. Return whether this task must report the run; it
        then ends with the status of the whole run.

        `ended`: how Weft ended the rank, None if it did not.
        """
        try:
            self._add_end(f"{self.step.rank} {process.status or 0} {os.getpid()}")
        except FileNotFoundError:
            return False  # one that failed did not wait for this one
        if self.reported:
            self._wait_for_other_tasks()
            return False
        failed = bool(process.status) or ended is not None
        begun = time.monotonic()
        while self.folder.exists() and not (self.folder / "told").exists():
            late = time.monotonic() - begun
            few = self._have_present_tasks_ended()
            if (
                self._have_all_ended() or (failed and late > LINGER) or (few and late > APART)
            ) and self._claim_report():
                self.absent_ranks = self.find_absent_ranks()
                process.status = self.first_failed_status(process.status or 0)
                return True
            if not (failed or few) or late > TOLD:
                return False
            time.sleep(POLL)
        return False

    @property
    def is_last_to_end(self) -> bool:
        """Return whether this task ends after all others that Weft ends, so that its status becomes that of the job.
        True for the task that has reported, and for every task if the launcher is not MPICH's mpiexec.

        MPICH's mpiexec kills all tasks once a task fails, and exits with the status of the killed tasks. Under mpiexec
        the other tasks therefore end first, and with status 0.
        """
        return self.reported or self.step.system != "mpiexec"

    def detach_from_launcher(self) -> None:
        """Leave a child process behind for some seconds, so that the launcher does not take this task for lost when it
        ends.

        MPICH's mpiexec also kills all tasks once one that had initialised MPI closes its connection.
        """
        if os.fork():
            return
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        limit = time.monotonic() + SEEN_OFF
        while self.folder.exists() and time.monotonic() < limit:
            time.sleep(POLL)
        time.sleep(LINGER)
        os._exit(0)

    def _wait_for_other_tasks(self) -> None:
        """Wait until the other tasks have ended if this task must end last, and remove the step's folder."""
        limit = time.monotonic() + SEEN_OFF
        waits = self.step.system == "mpiexec" and self.folder.exists()
        while waits and not self._have_all_exited() and time.monotonic() < limit:
            time.sleep(POLL)
        self.remove_step_folder()

    def read_tasks(self) -> list[StepTask]:
        """Return the tasks that have joined this run."""
        if len(self._tasks) >= self.step.size:
            return self._tasks
        try:
            with open_locked(self.folder / "tasks", os.O_RDWR) as file:
                lines = [line.split(" ", 2) for line in file.read().decode(errors="replace").splitlines()]
        except FileNotFoundError:
            return self._tasks
        self._tasks = [StepTask(int(rank), int(pid), host) for rank, pid, host in lines]
        return self._tasks

    def find_absent_ranks(self) -> list[int]:
        """Return the ranks of the job step that have not joined this run. Empty as long as no record shows that the
        MPI world has as many ranks as the step: the other tasks may not be ranks of MPI at all."""
        absent = set(range(self.step.size)) - {task.rank for task in self.read_tasks()}
        known = absent and any(
            header is not None and header.world_size == self.step.size
            for header in map(rank_processes.read_rank_header, self.records.glob("*.weft"))
        )
        return sorted(absent) if known else []

    def _have_present_tasks_ended(self) -> bool:
        """Return whether all tasks that joined have ended, while other tasks run that will not join."""
        return len(self.read_ends()) >= len(self.read_tasks()) and bool(self.find_absent_ranks())

    def add_task(self) -> None:
        """Add this task to the list of tasks. Raises FileNotFoundError once the run was reported."""
        with open_locked(self.folder / "tasks") as file:
            file.seek(0, os.SEEK_END)
            file.write(f"{self.step.rank} {os.getpid()} {os.uname().nodename}\n".encode())

    def _add_end(self, line: str) -> None:
        """Add a line about this task's end. Raises FileNotFoundError once the run was reported."""
        with open_locked(self.folder / "ends") as file:
            file.seek(0, os.SEEK_END)
            file.write(line.ljust(LINE - 1).encode() + b"\n")

    def _have_all_ended(self) -> bool:
        """Return whether all tasks of the job step have noted their end."""
        try:
            with open_locked(self.folder / "ends") as file:
                return file.seek(0, os.SEEK_END) >= self.step.size * LINE
        except FileNotFoundError:
            return False

    def _have_all_exited(self) -> bool:
        """Return whether all tasks have ended, and those on this host have exited: their launcher has their status."""
        return self._have_all_ended() and not any(is_sibling_task(pid) for _, _, pid in self.read_ends())

    def read_ends(self) -> list[tuple[int, int, int]]:
        """Return rank, wait status and pid of each task that has ended."""
        try:
            lines = [line.split() for line in (self.folder / "ends").read_text().splitlines()]
        except OSError:
            return []
        return [(int(line[0]), int(line[1]), int(line[2])) for line in lines if len(line) == 3]

    def _claim_report(self) -> bool:
        """Return True if this task is now the one that reports the run, False if another task has claimed that
        before."""
        try:
            os.close(os.open(self.folder / "reports", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True

    def first_failed_status(self, own_status: int) -> int:
        """Return the wait status of the run: that of the first task that failed by itself. Without such a task, return
        the status of the first task that was ended from outside, or else `own_status`.
        """
        statuses = [status for _, status, _ in self.read_ends()]
        return next((status for status in statuses if status and not is_ended_from_outside(status)), None) or next(
            (status for status in statuses if status), own_status
        )

    def remove_step_folder(self) -> None:
        """Remove the step's folder from the run after the report, so that the other tasks may end."""
        if self._watching is not None:
            self._watching.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if not (self.run.path / rundir.RUN_JSON).exists():
            self.run.discard()  # nothing was recorded


def is_ended_from_outside(status: int) -> bool:
    """Return whether a wait status is that of a task which a launcher ended because another one failed."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGTERM, signal.SIGKILL)


def is_sibling_task(pid: int) -> bool:
    """Return whether a process of this host is another task of the same step, judged by its command line.

    A task that has ended does not count, even if its launcher has not read its status yet: it has no command line any
    more.
    """
    try:
        same = Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return False
    return same and pid != os.getpid()


def create_or_join_run(
    step: JobStep, path: Path, facts: dict[str, Any], describe: Callable[[RunDirectory], None]
) -> SharedRun:
    """Join the run of the job step at `path`, or create it if this task comes first, and return it.

    `facts`: the first facts of run.json. `describe`: completes a new run, for example with its table of functions.
    Raises UsageError if another run is at `path`.
    """
    path = path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / "ranks").mkdir()
    except FileExistsError:
        return join_run_as_task(SharedRun(step, wait_for_run(step, path)))
    except OSError as error:
        raise rundir.unwritable_error(path, error) from error
    run = RunDirectory(path, {**facts, "n": step.size, "step": {"system": step.system, "name": step.name}})
    joint = SharedRun(step, run)
    joint.folder.mkdir()
    joint.add_task()
    describe(run)
    return joint


def join_run_as_task(joint: SharedRun) -> SharedRun:
    """Add this task to a run that another task has made, and return the run."""
    try:
        joint.add_task()
    except FileNotFoundError:
        raise occupied_error(joint.run.path) from None
    return joint


def wait_for_run(step: JobStep, path: Path) -> RunDirectory:
    """Wait until another task has made the run of the step at `path`, and return it."""
    limit = time.monotonic() + PATIENCE
    while not (facts := rundir.read_facts(path)):
        if not _are_own_files(path, "ranks"):
            raise occupied_error(path)
        if time.monotonic() > limit:
            raise WeftError(f"no task of this job step created the run {path} within {PATIENCE:.0f} s")
        time.sleep(POLL)
    if facts.get("step") != {"system": step.system, "name": step.name} or facts.get("finished") is not None:
        raise occupied_error(path)
    if not _are_own_files(path, "ranks", "step", rundir.RUN_JSON):
        raise occupied_error(path)
    return RunDirectory(path, dict(facts), made=False)


def _are_own_files(path: Path, *names: str) -> bool:
    """Return whether files of a run belong to this user: another user may have guessed the name of the run."""
    try:
        return all(os.lstat(path / name).st_uid == os.geteuid() for name in names)
    except OSError:  # the run was reported meanwhile
        return False


def occupied_error(path: Path) -> UsageError:
    """Return the error that another run is at `path`."""
    return UsageError(f"{path} is not empty, and a run is never overwritten: choose another --out")


def choose_folder(step: JobStep, name: str) -> Path:
    """Return the folder of a step's run: named after the step if a batch system numbered it, else with the next free
    number.
    """
    try:
        BASE.mkdir(exist_ok=True)
        if step.lasting:
            return make_own_folder(BASE / f"{name}-{step.name}")
        with open_locked(BASE / f"{STEPS}-{os.geteuid()}") as file:
            known = read_known_steps(file)
            path = BASE / known.get(step.name, "")
            if (
                step.name not in known
                or not _are_own_files(path, "")
                or rundir.read_facts(path).get("finished") is not None
            ):
                path = rundir.make_numbered_folder(name)
                known.pop(step.name, None)
                known[step.name] = path.name
                file.seek(0)
                file.truncate()
                file.write(json.dumps(dict(list(known.items())[-KEPT:])).encode())
        return path
    except OSError as error:
        raise rundir.unwritable_error(BASE, error) from error


def make_own_folder(path: Path) -> Path:
    """Make a folder, or take the one that this user made before, and return its path. Raises OSError if it belongs to
    another user."""
    path.mkdir(exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{path} belongs to another user")
    return path


def read_known_steps(file: IO[bytes]) -> dict[str, str]:
    """Return {name of a job step: name of its run} for the last job steps that are listed in `file`."""
    file.seek(0)
    try:
        known: Any = json.loads(file.read() or b"{}")
    except ValueError:
        return {}
    return {str(step): Path(str(run)).name for step, run in known.items()} if isinstance(known, dict) else {}


@contextmanager
def open_locked(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[IO[bytes]]:
    """In a `with` block, open a file of this user and hold a lock on it, so that no other task reads or writes it
    meanwhile."""
    descriptor = open_own(path, flags, 0o644)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError as error:
            raise WeftError(
                f"{path} cannot be locked ({error.strerror}): choose a file system with locks (--out)"
            ) from error
        yield file
