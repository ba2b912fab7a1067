"""One run of all tasks of a job step, each of which is a `weft run` of its own.

Whoever comes first makes the run; the others find it by the step's name. One of them at a time watches the ranks (who
holds a lock that ends with its process). What it proves it reports at once; then each ends its own rank. Else who ends
last reports, and a task that fails before it ends, since launchers then kill the others.

Locks are byte ranges (fcntl): network file systems keep them over hosts, and show a locked file as it is.
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
from weft.launch.job_step import Step
from weft.launch.process import Process
from weft.launch.rundir import BASE, RunDirectory
from weft.safety.folders import open_own

if TYPE_CHECKING:
    from weft.launch.local.hosts import Hosts
    from weft.launch.plan import Plan

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
class Task:
    """A task that has come to the run."""

    rank: int
    pid: int
    host: str


class Joint:
    """This task's part in the run of its step."""

    def __init__(self, step: Step, run: RunDirectory) -> None:
        self.step = step
        self.run = run
        self.folder = run.path / "step"
        self.reported = False
        """Whether this task reported while the ranks stood still."""
        self.reporting: Callable[[], object] | None = None
        """Puts the run in order and tells what was found, set by who can."""
        self.apart: list[int] = []
        """Ranks whose tasks run, and did not come to this run: their hosts do not see its folder."""
        self.how: str | None = None
        """How Weft ends the run, once it does."""
        self.reporter = False
        """Whether this task reports, now that its rank has ended: of those that wait for all to end."""
        self.hosts: Hosts | None = None
        """The hosts that this task listens to, where each writes to its own disk."""
        self._tasks: list[Task] = []
        self._watching: IO[bytes] | None = None

    @property
    def records(self) -> Path:
        """Where the ranks of this host write to."""
        return self.run.ranks

    @property
    def remedy(self) -> str:
        """What to do where hosts see no common directory."""
        launcher = {"slurm": "srun"}.get(self.step.system, self.step.system)
        return f"`weft run --local DIR -- {launcher} ...` needs no common directory"

    # While it runs

    def watches(self) -> bool:
        """Whether this task is the one that watches; it becomes it when the one before has ended."""
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

    def decided(self) -> str | None:
        """How the watching task ended the run, once it has reported that; None while the run goes on."""
        if self.folder.exists() and not (self.folder / "told").exists():
            return None
        facts = rundir.facts_of(self.run.path)
        return str(facts.get("ended")) if facts.get(DECIDED) is True else None

    def planned(self, plan: Plan, variables: dict[str, str]) -> Plan:
        """The plan of this task where its host writes to its own disk."""
        raise NotImplementedError

    def due(self, process: Process) -> bool:
        """Whether this task has to report although its own rank runs: where one that failed cannot do it itself."""
        return False

    def stays(self, process: Process) -> bool:
        """Whether this task has to go on although its own rank has ended."""
        return False

    def collect(self, *, kill: bool) -> None:
        """Bring the records into the run, before they are reported; `kill`: ranks that still run are to end then."""

    def report(self, *, ending: bool = True) -> bool:
        """Report now, while the ranks stand still, if nobody has: what comes of ending one may end this task, too."""
        if self.reporting is None or not self._first():
            return False
        if ending:
            self.run.facts[DECIDED] = True
        self.collect(kill=ending)
        self.reporting()
        (self.folder / "told").touch()
        self.reported = True
        return True

    # At the end

    def reports(self, process: Process, ended: str | None) -> bool:
        """Write down how this task ended; whether it is the one that reports (its process then has the run's status).

        Returns once this task may end.
        """
        try:
            self._add_end(f"{self.step.rank} {process.status or 0} {os.getpid()}")
        except FileNotFoundError:
            return False  # one that failed did not wait for this one
        if self.reported:
            self._see_off()
            return False
        failed = bool(process.status) or ended is not None
        begun = time.monotonic()
        while self.folder.exists() and not (self.folder / "told").exists():
            late = time.monotonic() - begun
            few = self._few_ended()
            if (self._all_ended() or (failed and late > LINGER) or (few and late > APART)) and self._first():
                self.apart = self.strangers()
                process.status = self.worst(process.status or 0)
                return True
            if not (failed or few) or late > TOLD:
                return False
            time.sleep(POLL)
        return False

    @property
    def last(self) -> bool:
        """Whether this task ends last of those that Weft ends, and so gives the job its status.

        MPICH's mpiexec kills all tasks once one fails, and gives the status of those that it killed: there the others
        end first, and well.
        """
        return self.reported or self.step.system != "mpiexec"

    def leave(self) -> None:
        """Let this task end without its launcher's taking it for lost: what connects the two outlives it a little.

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

    def _see_off(self) -> None:
        """Wait for the others where this task is to end last, and clear up."""
        limit = time.monotonic() + SEEN_OFF
        waits = self.step.system == "mpiexec" and self.folder.exists()
        while waits and not self._all_gone() and time.monotonic() < limit:
            time.sleep(POLL)
        self.told()

    def tasks(self) -> list[Task]:
        """The tasks that have come to this run."""
        if len(self._tasks) >= self.step.size:
            return self._tasks
        try:
            with locked(self.folder / "tasks", os.O_RDWR) as file:
                lines = [line.split(" ", 2) for line in file.read().decode(errors="replace").splitlines()]
        except FileNotFoundError:
            return self._tasks
        self._tasks = [Task(int(rank), int(pid), host) for rank, pid, host in lines]
        return self._tasks

    def strangers(self) -> list[int]:
        """Ranks whose tasks did not come here although they run: a record knows as many ranks as the step has tasks."""
        absent = set(range(self.step.size)) - {task.rank for task in self.tasks()}
        known = absent and any(
            header is not None and header.world_size == self.step.size
            for header in map(rank_processes.read, self.records.glob("*.weft"))
        )
        return sorted(absent) if known else []

    def _few_ended(self) -> bool:
        """Whether all tasks that came here have ended, and others run that will not come."""
        return len(self.ends()) >= len(self.tasks()) and bool(self.strangers())

    def add_task(self) -> None:
        """Let the others know of this task. FileNotFoundError once the run was reported."""
        with locked(self.folder / "tasks") as file:
            file.seek(0, os.SEEK_END)
            file.write(f"{self.step.rank} {os.getpid()} {os.uname().nodename}\n".encode())

    def _add_end(self, line: str) -> None:
        """Add a line about this task's end. FileNotFoundError once the run was reported."""
        with locked(self.folder / "ends") as file:
            file.seek(0, os.SEEK_END)
            file.write(line.ljust(LINE - 1).encode() + b"\n")

    def _all_ended(self) -> bool:
        try:
            with locked(self.folder / "ends") as file:
                return file.seek(0, os.SEEK_END) >= self.step.size * LINE
        except FileNotFoundError:
            return False

    def _all_gone(self) -> bool:
        """Whether all have ended, and those on this host are no processes any more: their launcher has their status."""
        return self._all_ended() and not any(is_task(pid) for _, _, pid in self.ends())

    def ends(self) -> list[tuple[int, int, int]]:
        """Rank, wait status and process of each task that has ended."""
        try:
            lines = [line.split() for line in (self.folder / "ends").read_text().splitlines()]
        except OSError:
            return []
        return [(int(line[0]), int(line[1]), int(line[2])) for line in lines if len(line) == 3]

    def _first(self) -> bool:
        """Whether nobody reports yet; from here on this task does."""
        try:
            os.close(os.open(self.folder / "reports", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True

    def worst(self, own: int) -> int:
        """The wait status of the run: of the first task that did not end well."""
        statuses = [status for _, status, _ in self.ends()]
        return next((status for status in statuses if status and not terminated(status)), None) or next(
            (status for status in statuses if status), own
        )

    def told(self) -> None:
        """The report is made: the other tasks may end, and nothing of the step's own stays in the run."""
        if self._watching is not None:
            self._watching.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if not (self.run.path / rundir.RUN_JSON).exists():
            self.run.discard()  # nothing was recorded


def terminated(status: int) -> bool:
    """Whether a task was ended from outside, as launchers do to the others of one that failed."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGTERM, signal.SIGKILL)


def is_task(pid: int) -> bool:
    """Whether a process of this host is another task of this one's step, as far as its command line tells.

    One that has ended is none, though its launcher may not have asked for its status yet: it has no command line.
    """
    try:
        same = Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return False
    return same and pid != os.getpid()


def enter(step: Step, path: Path, facts: dict[str, Any], describe: Callable[[RunDirectory], None]) -> Joint:
    """Join the run of the step at `path`, or make it of `facts`: then `describe` puts into it what belongs there.

    Raises UsageError where another run is there.
    """
    path = path.absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / "ranks").mkdir()
    except FileExistsError:
        return come(Joint(step, joined(step, path)))
    except OSError as error:
        raise rundir.unwritable(path, error) from error
    run = RunDirectory(path, {**facts, "n": step.size, "step": {"system": step.system, "name": step.name}})
    joint = Joint(step, run)
    joint.folder.mkdir()
    joint.add_task()
    describe(run)
    return joint


def come(joint: Joint) -> Joint:
    """Take part in a run that another task has made."""
    try:
        joint.add_task()
    except FileNotFoundError:
        raise occupied(joint.run.path) from None
    return joint


def joined(step: Step, path: Path) -> RunDirectory:
    """The run that another task makes, once it is there."""
    limit = time.monotonic() + PATIENCE
    while not (facts := rundir.facts_of(path)):
        if not _made_by_us(path, "ranks"):
            raise occupied(path)
        if time.monotonic() > limit:
            raise WeftError(f"no task of this job step made the run {path} within {PATIENCE:.0f} s")
        time.sleep(POLL)
    if facts.get("step") != {"system": step.system, "name": step.name} or facts.get("finished") is not None:
        raise occupied(path)
    if not _made_by_us(path, "ranks", "step", rundir.RUN_JSON):
        raise occupied(path)
    return RunDirectory(path, dict(facts), made=False)


def _made_by_us(path: Path, *names: str) -> bool:
    """Whether what is in a run was made by a task of this user's: others may have foretold the name of the run."""
    try:
        return all(os.lstat(path / name).st_uid == os.geteuid() for name in names)
    except OSError:  # the run was reported meanwhile
        return False


def occupied(path: Path) -> UsageError:
    """Another run is there."""
    return UsageError(f"{path} is not empty, and a run is never overwritten: choose another --out")


def place(step: Step, name: str) -> Path:
    """The folder of a step's run: named by the step where a batch system numbered it, else by the next free number."""
    try:
        BASE.mkdir(exist_ok=True)
        if step.lasting:
            return own_folder(BASE / f"{name}-{step.name}")
        with locked(BASE / f"{STEPS}-{os.geteuid()}") as file:
            known = remembered(file)
            path = BASE / known.get(step.name, "")
            if step.name not in known or not _made_by_us(path, "") or rundir.facts_of(path).get("finished") is not None:
                path = rundir.claim(name)
                known.pop(step.name, None)
                known[step.name] = path.name
                file.seek(0)
                file.truncate()
                file.write(json.dumps(dict(list(known.items())[-KEPT:])).encode())
        return path
    except OSError as error:
        raise rundir.unwritable(BASE, error) from error


def own_folder(path: Path) -> Path:
    """A folder that this user has made, now or before. OSError where it is another's, who foretold its name."""
    path.mkdir(exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{path} belongs to another user")
    return path


def remembered(file: IO[bytes]) -> dict[str, str]:
    """Which run each of the last steps has."""
    file.seek(0)
    try:
        known: Any = json.loads(file.read() or b"{}")
    except ValueError:
        return {}
    return {str(step): Path(str(run)).name for step, run in known.items()} if isinstance(known, dict) else {}


@contextmanager
def locked(path: Path, how: int = os.O_RDWR | os.O_CREAT) -> Iterator[IO[bytes]]:
    """A file of this user's that no other task reads or writes meanwhile; made where there is none."""
    descriptor = open_own(path, how, 0o644)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError as error:
            raise WeftError(f"{path} cannot be locked ({error.strerror}): the tasks of a step need locks") from error
        yield file
