"""Run one program on a PVM virtual machine of its own: `python -m weft.launch.pvm PROGRAM ARGS`, started by `weft run`.

The process starts a daemon that no other program knows, the group server if the program uses groups, and the program;
shows what spawned tasks print, each line with its task's name; waits until all tasks have ended; ends the daemon, and
ends as the program ended. It leaves nothing behind, whatever ends it, also the death of `weft run`: the daemon and its
tasks end with it (PR_SET_PDEATHSIG), and its folder is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

from weft.base.lifetime import die_with_parent
from weft.launch import rank_processes
from weft.launch.pvm import task_records
from weft.launch.pvm.installation import PREFIX, find_daemon, find_pvm_root, folder_note_path, remove_machine_folder
from weft.launch.rank_processes import maps_file
from weft.native.headers.pvm_tasks import TaskState
from weft.pvm import tasks as registry

PRELOAD: Final = "WEFT_INTERNAL_PVM_PRELOAD"
"""The recorder, for what is started here: this process is not recorded itself."""
GROUPS: Final = "WEFT_INTERNAL_PVM_GROUPS"
"""Set where the program uses groups."""
STARTING: Final = 20.0
"""Seconds that the daemon has to start, and a spawned task to make its first call once its parent is gone."""
GRACE: Final = 2.0
_PRINTED: Final = re.compile(rb"\[t[0-9a-f]+\] \d\d/\d\d \d\d:\d\d:\d\d \[t([0-9a-f]+)\] (.*\n)", re.DOTALL)
"""A line of the daemon's log that a task printed: the daemon, the time, the task, the text."""


class MachineError(Exception):
    """The virtual machine cannot be started."""


def prepare_helper_process() -> None:
    """Have a new helper process end with this one, and unblock its signals; runs between fork and exec."""
    die_with_parent(signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class VirtualMachine:
    """The PVM daemon of one run, its folder and its tasks."""

    def __init__(self, run: Path, environment: Mapping[str, str]) -> None:
        self.run = run
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        registry.create_task_file(run, 1)
        folder_note_path(run).write_text(str(self.folder))
        self.environment = dict(environment)
        self.preload = self.environment.pop(PRELOAD, "")
        self.groups = bool(self.environment.pop(GROUPS, ""))
        self._daemon: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._shown = 0
        self._buried: set[int] = set()
        self._waiting_since: float | None = None
        self._lost_at: float | None = None
        registry.create_task_file(run, 2 if self.groups else 1)
        self.tasks = registry.LiveTasks(run)
        self._file = registry.task_file(run)

    no_server = "did not start"
    """What is said of a group server that cannot be used."""

    def start(self, program: str) -> None:
        """Start the daemon, and the group server if the program uses groups. Raises MachineError if that fails."""
        installed = find_pvm_root()
        arch = self.environment.get("PVM_ARCH") or find_architecture(installed)
        own = {"PVM_ROOT": str(self.folder / "root"), "PVM_TMP": str(self.folder / "tmp"), "PVM_ARCH": arch,
               "PVMLOGMAX": str(1 << 40)}  # fmt: skip
        if os.geteuid() == 0:
            own["PVM_ALLOW_ROOT"] = "1"
        for name in ("PVMSOCK", "PVMTID", "PVMEPID", "PVMTMASK"):
            self.environment.pop(name, None)  # of a machine that this is not
        self.environment |= own
        self._make_pvm_root(installed, arch)
        command = find_daemon() or "pvmd"
        hosts = self.folder / "hosts"
        hosts.write_text(f"* ep={self._build_search_path(installed, arch, program)}\n127.0.0.1\n")
        with (self.folder / "daemon.log").open("wb") as log:
            try:
                self._daemon = self._start_helper(
                    [command, "-n127.0.0.1", str(hosts)], self._unrecorded_environment(), log
                )
            except OSError as error:
                raise MachineError(f"cannot start {command}: {error.strerror}") from error
        self._await_daemon()
        if self.groups:
            self._start_server(installed)

    @staticmethod
    def _start_helper(command: list[str], environment: Mapping[str, str], log: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the daemon or the group server, and return its process. The terminal's signals do not reach it."""
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            preexec_fn=prepare_helper_process,  # noqa: PLW1509 - this process has one thread
        )  # fmt: skip

    def _unrecorded_environment(self) -> dict[str, str]:
        """Return the environment of a process that is not recorded."""
        return {name: value for name, value in self.environment.items() if not name.startswith("WEFT_")}

    def recorded_environment(self, rank: int) -> dict[str, str]:
        """Return the environment of a process that is recorded as rank `rank`."""
        before = self.environment.get("LD_PRELOAD")
        preload = f"{self.preload}:{before}" if before else self.preload
        return {**self.environment, "LD_PRELOAD": preload, "WEFT_INTERNAL_PVM_RANK": str(rank)}

    def _make_pvm_root(self, installed: Path, arch: str) -> None:
        """Make a PVM root folder of its own, with links to what is installed."""
        (self.folder / "tmp").mkdir()
        programs = self.folder / "root/bin" / arch
        programs.mkdir(parents=True)
        for name in ("lib", "conf"):
            if (installed / name).exists():
                (self.folder / "root" / name).symlink_to(installed / name)
        found = {path.name: path for path in (installed / "bin" / arch).glob("*")}
        if server := shutil.which(registry.SERVER):
            found.setdefault(registry.SERVER, Path(server))
        for name, path in found.items():
            (programs / name).symlink_to(path)

    def _build_search_path(self, installed: Path, arch: str, program: str) -> str:
        """Return the folders in which the daemon looks for programs that are spawned: PVM's own first, then that of
        the program, then those of PATH."""
        home = Path.home() / "pvm3/bin" / arch
        beside = Path(shutil.which(program) or program).absolute().parent
        path = self.environment.get("PATH", "").split(os.pathsep)
        places = [home, self.folder / "root/bin" / arch, installed / "bin" / arch, beside, Path.cwd(), *map(Path, path)]
        return ":".join(dict.fromkeys(str(place) for place in places if not set(" :\t") & set(str(place))))

    def _await_daemon(self) -> None:
        """Wait until the PVM daemon has started. MachineError, with the daemon's last output, if it does not."""
        limit = time.monotonic() + STARTING
        # The file is there before the daemon's address is in it.
        while not any(path.stat().st_size for path in (self.folder / "tmp").glob("pvmd.*")):
            if self._daemon is None or self._daemon.poll() is not None or time.monotonic() > limit:
                said = (self.folder / "daemon.log").read_text(errors="replace").strip().splitlines()[-3:]
                raise MachineError("the PVM daemon did not start: " + ("; ".join(said) or "it said nothing"))
            time.sleep(0.005)

    def _start_server(self, installed: Path) -> None:
        """Start the group server now and wait until it serves. Otherwise whichever task needs it first would start it.
        MachineError if it does not start."""
        command = shutil.which(registry.SERVER) or str(installed / "lib" / registry.SERVER)
        with (self.folder / "server.log").open("wb") as log:
            try:
                self._server = self._start_helper([command], self.recorded_environment(1), log)
            except OSError as error:
                raise MachineError(
                    f"the program uses groups, and {command} cannot be started: {error.strerror}"
                ) from error
        limit = time.monotonic() + STARTING
        while self.tasks.read_tasks()[1].state != TaskState.SERVING:
            if self._server.poll() is not None or time.monotonic() > limit:
                raise MachineError(f"the program uses groups, and PVM's group server ({command}) {self.no_server}")
            time.sleep(0.005)

    # While it runs

    def seconds_without_daemon(self, now: float) -> float:
        """Return the seconds since the daemon was killed, 0 while it runs; report its end once."""
        if self._daemon is None or self._daemon.poll() is None:
            return 0.0
        if self._lost_at is None:
            self._lost_at = now
            status = self._daemon.returncode
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            print(f"weft: the PVM daemon ended ({how}) while tasks were running", file=sys.stderr, flush=True)
        return max(now - self._lost_at, 1e-9)

    def forward_output(self) -> bool:
        """Print what spawned tasks have printed, each whole line with its task's name; return whether there was
        anything.
        """
        before = self._shown
        for log in (self.folder / "tmp").glob("pvml.*"):
            with log.open("rb") as file:
                file.seek(self._shown)
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._shown += whole
            lines = [self._label_line(line) for line in data[:whole].splitlines(keepends=True)]
            text = b"".join(line for line in lines if line is not None)
            if text:
                os.write(sys.stderr.fileno(), text)
        return self._shown > before

    def _label_line(self, line: bytes) -> bytes | None:
        """Return a line of the daemon's log with the name of its task before it; None for a line about the daemon
        itself.
        """
        found = _PRINTED.match(line)
        if found is None:
            return None
        tasks, tid, text = self.tasks.read_tasks(), int(found[1], 16), found[2]
        rank = next((task.rank for task in reversed(tasks) if task.tid == tid), None)
        if rank is None or text.strip() in (b"EOF", b"BEGIN"):
            return None
        return f"[{self.format_task(rank)}] ".encode() + text

    def find_running_rank(self) -> int | None:
        """Return the rank of a task that still runs, also if it has called pvm_exit; None if none runs. The group
        server does not count."""
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        for task in self.tasks.read_tasks():
            if task.is_group_server or not task.tid:
                continue
            if task.pid == 0 and now - self._waiting_since < STARTING and self._may_still_start(task.tid):
                return task.rank
            if task.pid and not has_ended(task.pid) and maps_file(task.pid, self._file) is not False:
                return task.rank
        return None

    def format_task(self, rank: int) -> str:
        """A task as it is called."""
        return f"rank {rank}, {registry.render_label(self.tasks.read_tasks(), rank)}"

    def _may_still_start(self, tid: int) -> bool:
        """Return whether a spawned task may still make its first call of PVM: the daemon has a child process, or the
        system does not say."""
        children = Path(f"/proc/{self._daemon.pid}/task/{self._daemon.pid}/children") if self._daemon else None
        try:
            return bool(children and children.read_text().split())
        except OSError:
            return True

    def mark_killed_tasks(self) -> None:
        """Mark in their records that killed tasks have ended, as other tasks may wait for them."""
        for task in self.tasks.read_tasks():
            if task.pid and task.rank not in self._buried and has_ended(task.pid):
                self._buried.add(task.rank)
                task_records.mark_task_ended(self.run, task.rank)

    # The end

    def stop(self) -> None:
        """End all tasks, then the daemon, so that no task sees another one's end; remove the folder."""
        self._end_tasks()
        for process in (self._daemon, self._server):
            if process is not None and process.poll() is None:
                process.terminate()
        limit = time.monotonic() + GRACE
        for process in (self._daemon, self._server):
            if process is None:
                continue
            try:
                process.wait(max(limit - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)  # else the kernel keeps it: nothing can be done here, and nobody waits for it
        self._end_tasks()
        self.forward_output()
        registry.trim_task_file(self.run)
        remove_machine_folder(self.run)

    def _end_tasks(self) -> None:
        """End the tasks that still run, by SIGTERM and then SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = self._find_living_tasks()
            for pid in left:
                rank_processes.signal_process(pid, self._file, number)
            limit = time.monotonic() + GRACE
            while left and time.monotonic() < limit:
                time.sleep(0.02)
                left = self._find_living_tasks()
            if not left:
                return

    def _find_living_tasks(self) -> list[int]:
        """Return the pids of this run's tasks: processes that map its file of tasks, as a pid alone proves nothing."""
        return [task.pid for task in self.tasks.read_tasks() if task.pid and maps_file(task.pid, self._file)]


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


def find_architecture(installed: Path) -> str:
    """Return PVM's name for the architecture of this machine."""
    for command in (shutil.which("pvmgetarch"), str(installed / "lib/pvmgetarch")):
        if command and Path(command).exists():
            done = subprocess.run([command], capture_output=True, text=True, timeout=20, check=False)
            if done.stdout.strip():
                return done.stdout.strip()
    return "LINUX64"
