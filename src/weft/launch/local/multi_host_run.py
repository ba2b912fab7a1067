"""Share a run among the tasks of a job step whose ranks write to their hosts' disks: `srun weft run --local DIR --
prog`.

The task that makes the run listens to the hosts' watchers (hosts.py), as `weft run --local -- srun` does, until all
tasks have ended; it proves deadlocks, gathers and reports. If it is gone, another task does so, from what watchers
without a connection put into the run's folder. Under Slurm, hosts that do not see that folder find the listener all the
same (rendezvous.py, guest.py). Otherwise they keep their records: each says so, and how to merge them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.errors import WeftError
from weft.launch import shared_run
from weft.launch.job_step import JobStep
from weft.launch.local import pack, rendezvous
from weft.launch.local.addresses import find_own_addresses
from weft.launch.local.guest import GuestTask
from weft.launch.local.hosts import Host, Hosts
from weft.launch.local.listener_address import ListenerAddress
from weft.launch.plan import LaunchPlan
from weft.launch.process import JobProcess
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import APART, LINGER, SharedRun, StepTask, is_sibling_task

UNHEARD: Final = 20.0
"""Seconds after which a host without a connection is reported."""
PACKED: Final = 30.0
"""Seconds for a host without a connection to put its records into the run, and for each piece of a large pack."""
GONE: Final = 3.0
"""The same for one that no longer answers: what it puts there later is in the run all the same."""
MISSED: Final = 30.0
"""Seconds that tasks are waited for which did not come, when the ranks of all others have ended."""
PATIENCE: Final = 360.0
"""Seconds that a task whose rank has failed waits for the report of another one."""
POLL: Final = 0.1


class MultiHostRun(SharedRun):
    """The part of this task in a run whose ranks write to their hosts' disks."""

    def __init__(
        self, step: JobStep, run: RunDirectory, place: ListenerAddress, base: Path, hosts: Hosts | None
    ) -> None:
        super().__init__(step, run)
        self.hosts = hosts
        self.place, self.base = place, base
        self.say: Callable[[str], object] = lambda _: None
        self._began = time.monotonic()
        self._ended: float | None = None
        self._failed: float | None = None
        self._apart_since: float | None = None
        self._few_since: float | None = None
        self.answers = False
        """Whether other hosts ask this task where all meet: it stays, also where its rank ended before they came."""
        self._noted: set[str] = set()

    @property
    def records(self) -> Path:
        """The records of this host."""
        return self.base / self.place.name / "ranks"

    def adapt_plan(self, plan: LaunchPlan, variables: dict[str, str]) -> LaunchPlan:
        """The plan of this task: its rank is started by what knows the way to the others."""
        return self.place.adapt_plan(plan, self.run, self.base, variables)

    # While it runs

    def must_report_early(self, process: JobProcess) -> bool:
        """Return whether this task must report although its own rank still runs. That is so if the rank of another task
        has failed, as the launcher may end all tasks soon.
        """
        if self.hosts is None or self.reported:
            return False
        self._note_unseen_hosts()
        return process.poll() is None and self._seconds_since_failure(self._has_another_failed()) > LINGER

    def must_stay(self, process: JobProcess) -> bool:
        """Return whether this task, whose rank has ended, must wait until the run is reported. If its rank ended well,
        it waits only if it watches the run, answers other hosts, or is the last task of its host."""
        if not self._announce_rank_end(process) or self.reported or self._is_reported():
            return False
        if self.try_to_watch():
            if self._may_stop_waiting(process):
                self._claim_report()
                self.reporter = True
                return False
            return True
        failed = bool(process.status or process.signals)
        return self._seconds_since_failure(failed) < PATIENCE if failed else self.answers or self._is_last_on_host()

    def announce_end(self, process: JobProcess, ended: str | None) -> bool:
        """Return whether this task must report; `must_stay` has waited for all others."""
        if self.reported:
            self._wait_for_other_tasks()
        elif self.reporter:
            process.status = self.first_failed_status(process.status or 0)
        return self.reporter and not self.reported

    def _announce_rank_end(self, process: JobProcess) -> bool:
        """Write down once that this task's rank has ended; return False if the run was reported already."""
        if self._ended is None:
            self._ended = time.monotonic()
            try:
                self._add_end(f"{self.step.rank} {process.status or 0} {os.getpid()}")
            except FileNotFoundError:
                return False
        return True

    def _is_reported(self) -> bool:
        return not self.folder.exists() or (self.folder / "told").exists()

    def _has_another_failed(self) -> bool:
        return any(status for _, status, _ in self.read_ends()) or any(host.failed for host in self._guest_hosts())

    def _seconds_since_failure(self, failed: bool) -> float:
        """Return the seconds since this method was first called with `failed` true, 0 before."""
        if not failed:
            return 0.0
        if self._failed is None:
            self._failed = time.monotonic()
        return time.monotonic() - self._failed

    def _may_stop_waiting(self, process: JobProcess) -> bool:
        """Return whether this task need not wait any more for other tasks and hosts: all have ended, or it has waited
        long enough for tasks that did not join, or for the rest after a failure."""
        left = bool(self._running_tasks()) or any(host.lost is None and not host.idle for host in self._guest_hosts())
        few = not left and len(self.read_tasks()) + self._count_guest_ranks() < self.step.size
        if self._apart_since is None or not (few and self.find_absent_ranks()):
            self._apart_since = time.monotonic()
        late = time.monotonic() - self._apart_since > APART
        if not few or self._few_since is None:
            self._few_since = time.monotonic()
        late |= time.monotonic() - self._few_since > MISSED
        failed = bool(process.status or process.signals) or self._has_another_failed()
        return (not left and not few) or (few and late) or self._seconds_since_failure(failed) > LINGER

    def _guest_hosts(self) -> list[Host]:
        """Return the hosts that do not see this run's folder, and record into the run all the same."""
        own = {task.host for task in self.read_tasks()}
        return [host for host in (self.hosts.hosts if self.hosts else []) if host.name not in own]

    def _count_guest_ranks(self) -> int:
        """How many tasks of the step are on those."""
        return sum(host.started for host in self._guest_hosts())

    def find_absent_ranks(self) -> list[int]:
        """Return the ranks of the job step that have not joined this run, neither as a task nor through a host that
        found the run by way of Slurm."""
        if len(self.read_tasks()) + self._count_guest_ranks() >= self.step.size:
            return []
        known = {rank for host in self._guest_hosts() for rank in host.rank_numbers()}
        return [rank for rank in super().find_absent_ranks() if rank not in known]

    def _running_tasks(self) -> list[StepTask]:
        """Return the tasks whose ranks still run, as far as known: a task that was killed announces no end."""
        ended = {rank for rank, _, _ in self.read_ends()}
        return [task for task in self.read_tasks() if task.rank not in ended and not self._is_lost(task)]

    def _is_lost(self, task: StepTask) -> bool:
        """Return whether a task of the job step has ended without reporting, or its host is gone."""
        if task.host == os.uname().nodename:
            return task.pid != os.getpid() and not is_sibling_task(task.pid)
        known = [host for host in (self.hosts.hosts if self.hosts else []) if host.name == task.host]
        return (bool(known) and all(host.idle for host in known)) or self._pack_path(task.host).exists()

    def _is_last_on_host(self) -> bool:
        own = os.uname().nodename
        return not any(task.host == own and task.rank != self.step.rank for task in self._running_tasks())

    def _note_unseen_hosts(self) -> None:
        """Print a note, once each, if hosts do not see the run's folder, or if some have no connection. A deadlock
        over several hosts cannot be proven then."""
        late = time.monotonic() - self._began
        if late > APART and "apart" not in self._noted and self.find_absent_ranks():
            self._noted.add("apart")
            self.say(
                f"note: the hosts of this job step see no common {self.run.path}: Weft cannot prove a hang that "
                f"involves several hosts. End a run that hangs by Ctrl-C or scancel; each host then keeps its "
                f"records. {self.remedy}"
            )
        if late > UNHEARD and self.hosts is not None and "unheard" not in self._noted:
            unheard = sorted({task.host for task in self.read_tasks()} - {host.name for host in self.hosts.hosts})
            if unheard:
                self._noted.add("unheard")
                self.say(
                    f"note: no connection has come from {', '.join(unheard)}, so Weft cannot prove a hang: if the run "
                    "hangs, end it by Ctrl-C or scancel, and Weft gathers the records. For the next run, let "
                    f"WEFT_ADDRESS name an address of {os.uname().nodename} that those hosts reach"
                )

    # At the end

    def report(self, *, ending: bool = True) -> bool:
        """Report the run as every shared run does, and return whether this task did. If the job goes on, no other task
        waits for this one any more."""
        reported = super().report(ending=ending)
        if reported and self.hosts is not None:
            self.hosts.close()
        if reported and not ending:
            self.remove_step_folder()
        return reported

    def remove_step_folder(self) -> None:
        """Stop listening, and remove the step's folder."""
        if self.hosts is not None:
            self.hosts.close()
        super().remove_step_folder()

    def _pack_path(self, host: str) -> Path:
        return self.run.path / pack.FOLDER / f"{host}{pack.SUFFIX}"

    def collect_records(self, *, kill: bool) -> None:
        """Bring the records of all hosts into the run. Hosts whose records do not arrive are listed in the run's
        facts. `kill`: end ranks that still run."""
        self.absent_ranks = self.find_absent_ranks()  # while there are records to tell it by
        if self.hosts is None:
            self.hosts = Hosts(self.run, os.urandom(32))
        self.hosts.gather_records(kill=kill, after=kill, how=self.how)
        guests = {host.name for host in self._guest_hosts()}
        late = {task.host for task in self.read_tasks()} - self.hosts.complete_hosts()
        problems = self._wait_for_records(self.hosts, late, kill=kill)
        late = (late | guests) - self.hosts.complete_hosts()
        self.hosts.note_lost_hosts([self._describe_lost_host(host, problems.get(host)) for host in sorted(late)])
        self.hosts.put_into_run()

    def _wait_for_records(self, hosts: Hosts, host_names: set[str], *, kill: bool) -> dict[str, str]:
        """Wait for hosts that connect only now, and for packs that hosts without a connection put into the run; return
        the damaged packs as host -> problem.

        `host_names`: the hosts whose records are missing.
        """
        problems: dict[str, str] = {}
        seen, since = -1, time.monotonic()
        gone = {host.name for host in hosts.unreachable}
        while left := host_names - hosts.complete_hosts() - problems.keys():
            if time.monotonic() - since > (PACKED if left - gone else GONE):
                break
            for name in sorted(left):
                if self._pack_path(name).exists():
                    try:
                        hosts.unpack_from_run(self._pack_path(name))
                    except WeftError as error:
                        problems[name] = str(error)
            if (now := count_folder_bytes(self.run.path / pack.FOLDER)) != seen:
                seen, since = now, time.monotonic()
            hosts.handle_arrivals(POLL)
            if any(host.lost is None and not host.done for host in hosts.hosts):
                hosts.gather_records(kill=kill, after=kill, how=self.how)
        return problems

    def _describe_lost_host(self, host: str, problem: str | None) -> dict[str, Any]:
        """Return run.json's entry for a host whose records did not arrive."""
        assert self.hosts is not None
        of = [one for one in self.hosts.hosts if one.name == host]
        reasons = [one.lost for one in of if one.lost]
        ranks = {task.rank for task in self.read_tasks() if task.host == host} or {
            n for one in of for n in one.rank_numbers()
        }
        return {
            "host": host, "ranks": sorted(ranks),
            "why": problem or next(iter(reasons), "there was no connection to it"),
            "folder": str(self.base / self.place.name),
        }  # fmt: skip


def count_folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder, including those that are being written."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    except OSError:
        return 0


def create_or_join_run(
    step: JobStep, path: Path, base: Path, facts: dict[str, Any], describe: Callable[[RunDirectory], None]
) -> MultiHostRun | GuestTask:
    """Join the run of a job step, or create it if this task comes first, as `shared_run.create_or_join_run` does. The
    ranks write below the folder `base` on their own hosts."""
    path, base = path.absolute(), base.absolute()
    listening: list[Hosts] = []
    possible = rendezvous.is_possible(step)
    answering = rendezvous.RendezvousServer(step, path / "step") if possible and step.rank == 0 else None

    def prepare(run: RunDirectory) -> None:
        """In a new run, listen for other hosts; if another host listens already, join it."""
        if answering is not None:
            answering.note_run_creation()
        elsewhere = rendezvous.find_listener(step, run.path / "step") if possible and answering is None else None
        if elsewhere is None:
            listening.append(start_listening(run, base))
        else:
            replace(elsewhere, guest=True).write(run)
        describe(run)

    joined = shared_run.create_or_join_run(step, path, facts, prepare)
    place = ListenerAddress.read_from(joined.folder, path)
    if answering is not None:
        answering.publish_address(place)
    if place.guest:
        return GuestTask(step, joined.run, place, base)
    met = MultiHostRun(step, joined.run, place, base, next(iter(listening), None))
    met.answers = answering is not None
    if met.hosts is not None:
        met.try_to_watch()
    return met


def start_listening(run: RunDirectory, base: Path) -> Hosts:
    """Open a port for the hosts of a run, and write the port and the secret into the step's folder. Return the
    listener."""
    secret = os.urandom(32)
    hosts = Hosts(run, secret)
    place = ListenerAddress(f"{run.path.name}-{os.urandom(8).hex()}", find_own_addresses(), hosts.port, secret.hex())
    run.facts["local"] = str(base / place.name)
    place.write(run)
    return hosts
