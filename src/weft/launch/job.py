"""One recorded run from start to end: the recorder in the ranks, the watcher beside them, the record put in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING

from weft.launch import location_requests, rank_processes
from weft.launch import process as processes
from weft.launch.deadlock_check import Asked, Question
from weft.launch.evidence import Evidence
from weft.launch.launcher_line import with_environment
from weft.launch.options import Family
from weft.launch.plan import Plan
from weft.launch.process import GRACE, Process
from weft.launch.rankfile import Header
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import Joint
from weft.launch.watch import INTERVAL, Watch

if TYPE_CHECKING:
    from weft.launch.local.hosts import Hosts

QUIETLY = {Family.HYDRA: SIGKILL}
"""Hydra tells of a bad termination on SIGTERM; killed, it takes its ranks along without a word."""
AT_ONCE = 0.3
"""Seconds that the launcher has for its own cleaning up after a second Ctrl-C."""
OBSERVED = 0.05
"""Seconds between looks where somebody waits for what the ranks do."""

ELSEWHERE = 0.5
"""Seconds between looks at what another task of the job step has decided."""
LEFT = 10.0
"""Seconds that ranks may stand still without those that are gone: their launcher ends them, if it does, before."""
PASSED_ON = 0.5
"""Seconds between looks where findings are told while the job runs."""


@dataclass
class Job:
    """A running job and what the watcher has decided about it."""

    process: Process
    run: RunDirectory
    watch: Watch
    hang_after: float | None = None
    ended: str | None = None
    """`deadlock`, `killed` or `interrupted` once Weft has ended it, else None."""
    proof: list[str] = field(default_factory=list)
    hung_for: float = 0.0
    survivors: int = 0
    family: Family = Family.OTHER
    evidence: Evidence = field(default_factory=Evidence)
    warnings: int = 0
    """How many signals that could end it came to Weft while it ran."""
    observer: Callable[[Watch], bool] | None = None
    """Looks at the ranks as often as the watcher does; true ends the job."""
    told: Callable[[], None] | None = None
    """Passes on what was found so far, as often as the watcher looks."""
    alarm: Callable[[float, int], bool] | None = None
    """Hears for how long no record has changed, and which process began the ranks; true ends the job."""
    joint: Joint | None = None
    """The part in a run that several tasks of a job step record together; None where Weft started all ranks."""
    cut_off: bool = False
    """Whether Weft ended it because a host no longer answered and the ranks of the others stood still."""
    without: list[int] = field(default_factory=list)
    """The ranks that had ended in the middle, where Weft ended the job as others waited for them in MPI for ever."""
    hosts: Hosts | None = None
    """Where the ranks write to their hosts' own disks; None where their records are in the run from the start."""
    _began: float = field(default_factory=time.time)
    _question: Asked | None = None
    _fallen: list[Header] = field(default_factory=list)
    """The ranks that the last question took for gone."""
    _kill_at: float | None = None

    def tick(self) -> float:
        """Look at the ranks and act; return the seconds until the next look."""
        if self._kill_at is None and self.insisted:
            self._kill_at = time.monotonic() + AT_ONCE
        if self._kill_at is not None:
            return self._insist()
        if self.joint is not None and self.joint.due(self.process):
            self.joint.report(ending=False)
        if self.joint is not None and self.joint.reported:
            return ELSEWHERE
        if self.joint is not None and self._left_to_another(self.joint):
            return ELSEWHERE
        pause = self.watch.look()
        if self.told is not None:
            self.told()
            pause = min(pause, PASSED_ON)
        if self.observer is not None:
            pause = min(pause, OBSERVED)
            if self.observer(self.watch):
                self._end("killed")
                return pause
        if self.alarm is not None and self.alarm(self.watch.silent_for, self.process.pid) and self.ended is None:
            self._end("killed")
            return pause
        if self.watch.left_for >= LEFT:
            self.cut_off = True
            self._end("killed")
        if not self.watch.still_for:
            self._forget()
        elif self.watch.standstill:
            self._judge()
            if self.ended is None and self.hang_after is not None and self.watch.still_for >= self.hang_after:
                self.hung_for = self.watch.still_for
                self._end("killed")
        return INTERVAL if self.ended or self._question else pause

    def stays(self) -> bool:
        """Whether there is more to wait for once the own rank has ended."""
        return self.joint is not None and self.joint.stays(self.process)

    def of_all(self) -> Job:
        """This job as the others see it: where one of its tasks has failed, it has."""
        if self.joint is None or self.ended is not None or self.process.status is not None:
            return self
        whole = Process(self.process.pid)
        whole.status, whole.signals = self.joint.worst(0), self.process.signals
        return replace(self, process=whole)

    def _left_to_another(self, joint: Joint) -> bool:
        """Whether another task of the step watches, or has decided that the run ends (then this one's rank ends)."""
        ended = joint.decided()
        if ended is None:
            return not joint.watches()
        self._end(ended)
        return True

    def _judge(self) -> None:
        """Ask once for each standstill whether it is a deadlock; end the job when it is proven."""
        fallen = self.watch.fallen() if self.watch.still_for >= LEFT else []
        if self._question is None:
            if not self.watch.judged or len(fallen) > len(self._fallen):
                self._fallen = fallen
                self._question = self._ask()
            return
        proof = self._question.answer()
        if proof is None:
            return
        self._drop()
        self.watch.judged = True
        if proof and self.warnings:
            self._end("interrupted")  # what stands still since a Ctrl-C stands still by it
        elif proof and self._fallen:
            self.without = sorted({header.rank for header in self._fallen})
            self._end("killed")
        elif proof:
            self.proof = proof
            self._end("deadlock")

    def _ask(self) -> Asked:
        if self.hosts is None:
            return Question(self.run.path, [header.pid for header in self._fallen])
        # Only runs with --local have hosts.
        from weft.launch.local.hosts_watch import HostsQuestion

        return HostsQuestion(self.hosts)

    def _forget(self) -> None:
        """The job has moved: whatever was asked about it no longer counts."""
        self.watch.judged = False
        self._fallen = []
        self._drop()

    def _drop(self) -> None:
        if self._question is not None:
            self._question.drop()
            self._question = None

    def warned(self) -> None:
        """A signal that may end the job is about to be passed on: keep where its ranks are."""
        self.warnings += 1
        if self.warnings == 1 and self.hosts is not None and self.joint is None:
            self.hosts.wait(self.hosts.ask("where"), 2 * location_requests.PATIENCE)
        elif self.warnings == 1:
            records = self.joint.records if self.joint is not None else self.run.ranks
            location_requests.where(sorted(records.glob("*.weft")))

    @property
    def insisted(self) -> bool:
        """Whether a second Ctrl-C asks a launcher to end its ranks at once, as all of them take it."""
        return self.family is not Family.OTHER and self.process.signals.count(SIGINT) > 1

    @property
    def interrupted(self) -> int | None:
        """The signal to Weft that the job has ended by; None where it ended by itself, or in good order."""
        if self.ended in ("deadlock", "killed") or not self.process.signals:
            return None
        if self.process.shell_status == 0 and self._in_good_order():
            return None
        return self.process.signals[-1]

    def _in_good_order(self) -> bool:
        """Whether all ranks left MPI, or still run: a launcher that was ended may give status 0, too."""
        if self.process.status is None:
            return True
        headers = [rank_processes.read(path) for path in rank_files(self.run)]
        return all(header is None or header.over for header in headers)

    def _end(self, ended: str) -> None:
        """Begin to end the job: the launcher first, as it knows all its ranks on all hosts."""
        self.ended = ended
        if self.joint is not None:
            self.joint.how = ended
            self.joint.report()
        elif self.hosts is not None:
            self._hold(self.hosts, proven=ended == "deadlock")
        self._kill_at = time.monotonic() + GRACE
        self.process.send(QUIETLY.get(self.family, SIGTERM))
        self.process.send(SIGCONT)

    def _hold(self, hosts: Hosts, *, proven: bool) -> None:
        """Before ranks over hosts end: none that is in a proven deadlock may take another's end for an error of MPI."""
        hosts.wait(hosts.ask("end", stop=proven), GRACE)
        if proven and self.family not in QUIETLY:  # their launchers let ranks go on before they end them
            self.process.send(SIGSTOP)  # or it does so when it hears of the first that has ended
            hosts.wait(hosts.ask("kill"), GRACE)

    def _insist(self) -> float:
        """After the grace period, end what did not end by itself."""
        assert self._kill_at is not None
        left = self._kill_at - time.monotonic()
        if left <= 0:
            self.process.send(SIGKILL)
            return GRACE
        return left

    def close(self) -> None:
        """The launcher has ended: nothing of a job that Weft ended may stay behind."""
        self._forget()
        if self.joint is not None and self.ended is None:
            self.ended = self.joint.decided()  # the watching task ended this one's rank as well
        alone = self.joint is None  # else each task passes on to its own rank what came to it
        if self.joint is not None and self.joint.reporter:
            self.joint.collect(kill=self.ended is not None)
            self.hosts = self.joint.hosts
        elif self.joint is None and self.hosts is not None:
            self.hosts.gather(kill=self.ended is not None or bool(self.process.signals))
            self.hosts.put_into_run()
        is_replay_cut = self.observer is not None and self.process.signal is not None
        if self.ended is not None or (alone and self.interrupted is not None) or is_replay_cut:
            self.survivors = rank_processes.end(rank_files(self.run), AT_ONCE if self.insisted else GRACE)
        if self.ended is not None or self.interrupted is not None or self.process.status:
            from weft.launch import shared_memory

            shared_memory.remove(self._began)


def rank_files(run: RunDirectory) -> list[Path]:
    """The rank files of a run, in order."""
    return sorted(run.ranks.glob("*.weft"))


def watch_of(run: RunDirectory, hosts: Hosts | None) -> Watch:
    """What looks at the ranks."""
    if hosts is None:
        return Watch(run.ranks)
    # Only runs with --local have hosts.
    from weft.launch.local.hosts_watch import HostsWatch

    return HostsWatch(hosts)


def run_job(
    plan: Plan,
    run: RunDirectory,
    variables: Mapping[str, str],
    hang_after: float | None = None,
    *,
    observer: Callable[[Watch], bool] | None = None,
    told: Callable[[], None] | None = None,
    alarm: Callable[[float, int], bool] | None = None,
    joint: Joint | None = None,
    concluded: Callable[[Job], object] | None = None,
    hosts: Hosts | None = None,
) -> Job:
    """Start the planned line with the recorder's variables and stay with it until it has ended."""
    argv, environment = with_environment(plan.line, variables, plan.environment)
    job = Job(
        processes.start(argv, environment, free=plan.pvm is None), run, watch_of(run, hosts), hang_after,
        family=plan.line.family, observer=observer, told=told, alarm=alarm,
        joint=joint, hosts=hosts,
    )  # fmt: skip
    if joint is not None and concluded is not None:
        joint.reporting = lambda: concluded(job.of_all())
    processes.attend(job.process, job.tick, job.warned, job.stays)
    job.close()
    processes.unblock(job.process)
    return job
