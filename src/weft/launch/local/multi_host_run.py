"""`srun weft run --local DIR -- prog`: the tasks of a job step meet in the run's folder, their ranks write elsewhere.

Whoever makes the run listens to the hosts' watchers (hosts.py), as `weft run --local -- srun` does, until all tasks
have ended; it proves, gathers and reports. Where it is gone another task does so, from what watchers without a
connection put into the run's folder. Under Slurm, hosts that do not see that folder find the way all the same
(rendezvous.py, guest.py). Else they keep what they have: each says so, and how all is put together.
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
from weft.launch.job_step import Step
from weft.launch.local import pack, rendezvous
from weft.launch.local.addresses import addresses
from weft.launch.local.guest import Guest
from weft.launch.local.hosts import Host, Hosts
from weft.launch.local.listener_address import Place
from weft.launch.plan import Plan
from weft.launch.process import Process
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import APART, LINGER, Joint, Task, is_task

UNHEARD: Final = 20.0
"""Seconds after which a host without a connection is told of."""
PACKED: Final = 30.0
"""Seconds for a host without a connection to put its records into the run, and for each piece of a large pack."""
GONE: Final = 3.0
"""The same for one that no longer answers: what it puts there later is in the run all the same."""
MISSED: Final = 30.0
"""Seconds that tasks are waited for which did not come, when the ranks of all others have ended."""
PATIENCE: Final = 360.0
"""Seconds that a task whose rank has failed waits for the report of another one."""
POLL: Final = 0.1


class Meeting(Joint):
    """This task's part in such a run."""

    def __init__(self, step: Step, run: RunDirectory, place: Place, base: Path, hosts: Hosts | None) -> None:
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

    def planned(self, plan: Plan, variables: dict[str, str]) -> Plan:
        """The plan of this task: its rank is started by what knows the way to the others."""
        return self.place.planned(plan, self.run, self.base, variables)

    # While it runs

    def due(self, process: Process) -> bool:
        """Whether another task's rank has failed while this one's goes on: then its launcher may end all tasks soon."""
        if self.hosts is None or self.reported:
            return False
        self._note()
        return process.poll() is None and self._since(self._others_failed()) > LINGER

    def stays(self, process: Process) -> bool:
        """Until this task reports or another has; who ended well need not, but for the last one of its host."""
        if not self._has_ended(process) or self.reported or self._over():
            return False
        if self.watches():
            if self._complete(process):
                self._first()
                self.reporter = True
                return False
            return True
        failed = bool(process.status or process.signals)
        return self._since(failed) < PATIENCE if failed else self.answers or self._last_here()

    def reports(self, process: Process, ended: str | None) -> bool:
        """Whether this task reports; `stays` has waited for all that there was to wait for."""
        if self.reported:
            self._see_off()
        elif self.reporter:
            process.status = self.worst(process.status or 0)
        return self.reporter and not self.reported

    def _has_ended(self, process: Process) -> bool:
        """Let the others know that this task's rank has ended; false where nobody asks any more."""
        if self._ended is None:
            self._ended = time.monotonic()
            try:
                self._add_end(f"{self.step.rank} {process.status or 0} {os.getpid()}")
            except FileNotFoundError:
                return False
        return True

    def _over(self) -> bool:
        return not self.folder.exists() or (self.folder / "told").exists()

    def _others_failed(self) -> bool:
        return any(status for _, status, _ in self.ends()) or any(host.failed for host in self._guests())

    def _since(self, failed: bool) -> float:
        """Seconds since a task is known to have failed, or to be ended from outside."""
        if not failed:
            return 0.0
        if self._failed is None:
            self._failed = time.monotonic()
        return time.monotonic() - self._failed

    def _complete(self, process: Process) -> bool:
        """Whether nothing more is to be waited for."""
        left = bool(self._left()) or any(host.lost is None and not host.idle for host in self._guests())
        few = not left and len(self.tasks()) + self._guest_ranks() < self.step.size
        if self._apart_since is None or not (few and self.strangers()):
            self._apart_since = time.monotonic()
        late = time.monotonic() - self._apart_since > APART
        if not few or self._few_since is None:
            self._few_since = time.monotonic()
        late |= time.monotonic() - self._few_since > MISSED
        failed = bool(process.status or process.signals) or self._others_failed()
        return (not left and not few) or (few and late) or self._since(failed) > LINGER

    def _guests(self) -> list[Host]:
        """Hosts that do not see this run, and record into it all the same."""
        own = {task.host for task in self.tasks()}
        return [host for host in (self.hosts.hosts if self.hosts else []) if host.name not in own]

    def _guest_ranks(self) -> int:
        """How many tasks of the step are on those."""
        return sum(host.started for host in self._guests())

    def strangers(self) -> list[int]:
        """As of all joint runs; ranks of hosts that have found the way here are none."""
        if len(self.tasks()) + self._guest_ranks() >= self.step.size:
            return []
        known = {rank for host in self._guests() for rank in host.numbers()}
        return [rank for rank in super().strangers() if rank not in known]

    def _left(self) -> list[Task]:
        """The tasks whose ranks still run, as far as that is known: one that was killed tells of no end."""
        ended = {rank for rank, _, _ in self.ends()}
        return [task for task in self.tasks() if task.rank not in ended and not self._lost(task)]

    def _lost(self, task: Task) -> bool:
        if task.host == os.uname().nodename:
            return task.pid != os.getpid() and not is_task(task.pid)
        known = [host for host in (self.hosts.hosts if self.hosts else []) if host.name == task.host]
        return (bool(known) and all(host.idle for host in known)) or self._pack(task.host).exists()

    def _last_here(self) -> bool:
        own = os.uname().nodename
        return not any(task.host == own and task.rank != self.step.rank for task in self._left())

    def _note(self) -> None:
        """Say once how a hang is noticed, where it is not as ever."""
        late = time.monotonic() - self._began
        if late > APART and "apart" not in self._noted and self.strangers():
            self._noted.add("apart")
            self.say(
                f"note: the hosts of this job step see no common {self.run.path}: a hang over hosts is not proven "
                f"while it lasts. Ctrl-C or scancel ends it; each host then keeps its records. {self.remedy}"
            )
        if late > UNHEARD and self.hosts is not None and "unheard" not in self._noted:
            unheard = sorted({task.host for task in self.tasks()} - {host.name for host in self.hosts.hosts})
            if unheard:
                self._noted.add("unheard")
                self.say(
                    f"note: no connection from {', '.join(unheard)} (WEFT_ADDRESS names other addresses of "
                    f"{os.uname().nodename}): a hang is not proven while it lasts. Ctrl-C or scancel ends it, and the "
                    "records are gathered then"
                )

    # At the end

    def report(self, *, ending: bool = True) -> bool:
        """As of all joint runs; where the job goes on nobody waits for this task any more."""
        reported = super().report(ending=ending)
        if reported and self.hosts is not None:
            self.hosts.close()
        if reported and not ending:
            self.told()
        return reported

    def told(self) -> None:
        """As of all joint runs; from here on nobody is listened to."""
        if self.hosts is not None:
            self.hosts.close()
        super().told()

    def _pack(self, host: str) -> Path:
        return self.run.path / pack.FOLDER / f"{host}{pack.SUFFIX}"

    def collect(self, *, kill: bool) -> None:
        """Bring the records of all hosts into the run; what does not come is named in its facts."""
        self.apart = self.strangers()  # while there are records to tell it by
        if self.hosts is None:
            self.hosts = Hosts(self.run, os.urandom(32))
        self.hosts.gather(kill=kill, after=kill, how=self.how)
        guests = {host.name for host in self._guests()}
        late = {task.host for task in self.tasks()} - self.hosts.whole()
        problems = self._wait_for(self.hosts, late, kill=kill)
        late = (late | guests) - self.hosts.whole()
        self.hosts.account([self._lacking(host, problems.get(host)) for host in sorted(late)])
        self.hosts.put_into_run()

    def _wait_for(self, hosts: Hosts, names: set[str], *, kill: bool) -> dict[str, str]:
        """Wait for hosts that connect only now, and for what those without a connection put into the run.

        Returns what went wrong by host.
        """
        problems: dict[str, str] = {}
        seen, since = -1, time.monotonic()
        gone = {host.name for host in hosts.unreachable}
        while left := names - hosts.whole() - problems.keys():
            if time.monotonic() - since > (PACKED if left - gone else GONE):
                break
            for name in sorted(left):
                if self._pack(name).exists():
                    try:
                        hosts.adopt(self._pack(name))
                    except WeftError as error:
                        problems[name] = str(error)
            if (now := bytes_in(self.run.path / pack.FOLDER)) != seen:
                seen, since = now, time.monotonic()
            hosts.poll(POLL)
            if any(host.lost is None and not host.done for host in hosts.hosts):
                hosts.gather(kill=kill, after=kill, how=self.how)
        return problems

    def _lacking(self, host: str, problem: str | None) -> dict[str, Any]:
        """What run.json says of a host whose records did not come."""
        assert self.hosts is not None
        of = [one for one in self.hosts.hosts if one.name == host]
        reasons = [one.lost for one in of if one.lost]
        ranks = {task.rank for task in self.tasks() if task.host == host} or {n for one in of for n in one.numbers()}
        return {
            "host": host, "ranks": sorted(ranks),
            "why": problem or next(iter(reasons), "there was no connection to it"),
            "folder": str(self.base / self.place.name),
        }  # fmt: skip


def bytes_in(folder: Path) -> int:
    """The bytes of all files of a folder, also of those that are being written."""
    try:
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    except OSError:
        return 0


def enter(
    step: Step, path: Path, base: Path, facts: dict[str, Any], describe: Callable[[RunDirectory], None]
) -> Meeting | Guest:
    """As `shared_run.enter`, for a run whose ranks write below `base` on their hosts."""
    path, base = path.absolute(), base.absolute()
    listening: list[Hosts] = []
    possible = rendezvous.possible(step)
    answering = rendezvous.Answering(step, path / "step") if possible and step.rank == 0 else None

    def prepare(run: RunDirectory) -> None:
        if answering is not None:
            answering.makes()
        elsewhere = rendezvous.ask(step, run.path / "step") if possible and answering is None else None
        if elsewhere is None:
            listening.append(listen(run, base))
        else:
            replace(elsewhere, guest=True).write(run)
        describe(run)

    joined = shared_run.enter(step, path, facts, prepare)
    place = Place.of(joined.folder, path)
    if answering is not None:
        answering.know(place)
    if place.guest:
        return Guest(step, joined.run, place, base)
    met = Meeting(step, joined.run, place, base, next(iter(listening), None))
    met.answers = answering is not None
    if met.hosts is not None:
        met.watches()
    return met


def listen(run: RunDirectory, base: Path) -> Hosts:
    """Listen for the hosts of a run, and write down where."""
    secret = os.urandom(32)
    hosts = Hosts(run, secret)
    place = Place(f"{run.path.name}-{os.urandom(8).hex()}", addresses(), hosts.port, secret.hex())
    run.facts["local"] = str(base / place.name)
    place.write(run)
    return hosts
