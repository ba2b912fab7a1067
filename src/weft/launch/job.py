"""Run one recorded job from start to end: launcher, recorder in the ranks, watcher, and what ends the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING

from weft.launch import location_requests, rank_processes
from weft.launch import process as processes
from weft.launch.deadlock_check import DeadlockCheck, StandstillCheck
from weft.launch.evidence import Evidence
from weft.launch.growth import GrowthWatch
from weft.launch.launcher_line import add_rank_variables
from weft.launch.options import Family
from weft.launch.plan import LaunchPlan
from weft.launch.process import GRACE, JobProcess
from weft.launch.rankfile import Header
from weft.launch.rundir import RunDirectory
from weft.launch.shared_run import SharedRun
from weft.launch.watch import INTERVAL, RankWatch

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
"""Seconds between looks if findings are reported while the job runs."""


@dataclass
class Job:
    """A running job, and what the watcher has decided about it."""

    process: JobProcess
    run: RunDirectory
    watch: RankWatch
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
    observer: Callable[[RankWatch], bool] | None = None
    """Looks at the ranks as often as the watcher does; true ends the job."""
    report_news: Callable[[], None] | None = None
    """Passes on what was found so far, as often as the watcher looks."""
    alarm: Callable[[float, int], bool] | None = None
    """Hears for how long no record has changed, and which process began the ranks; true ends the job."""
    growth: GrowthWatch | None = None
    """Says so if a record grows fast."""
    shared_run: SharedRun | None = None
    """The part in a run that several tasks of a job step record together; None where Weft started all ranks."""
    lost_host: bool = False
    """Whether Weft ended it because a host no longer answered and the ranks of the others stood still."""
    fallen_ranks: list[int] = field(default_factory=list)
    """The ranks that had ended in the middle, where Weft ended the job as others waited for them in MPI for ever."""
    hosts: Hosts | None = None
    """Where the ranks write to their hosts' own disks; None where their records are in the run from the start."""
    _began: float = field(default_factory=time.time)
    _question: StandstillCheck | None = None
    _fallen: list[Header] = field(default_factory=list)
    """The ranks that the last question took for gone."""
    _kill_at: float | None = None

    def supervise_ranks(self) -> float:
        """Look at the ranks once, and end the job if it must end. Return the seconds until the next look."""
        if self._kill_at is None and self.is_interrupted_twice:
            self._kill_at = time.monotonic() + AT_ONCE
        if self._kill_at is not None:
            return self._kill_after_grace()
        if self.shared_run is not None and self.shared_run.must_report_early(self.process):
            self.shared_run.report(ending=False)
        if self.shared_run is not None and self.shared_run.reported:
            return ELSEWHERE
        if self.shared_run is not None and self._leave_to_watching_task(self.shared_run):
            return ELSEWHERE
        pause = self.watch.look_at_ranks()
        if self.growth is not None:
            self.growth.compare_sizes(file.path for file in self.watch.files.values())
        if self.report_news is not None:
            self.report_news()
            pause = min(pause, PASSED_ON)
        if self.observer is not None:
            pause = min(pause, OBSERVED)
            if self.observer(self.watch):
                self._start_ending("killed")
                return pause
        if self.alarm is not None and self.alarm(self.watch.silent_for, self.process.pid) and self.ended is None:
            self._start_ending("killed")
            return pause
        if self.watch.left_for >= LEFT:
            self.lost_host = True
            self._start_ending("killed")
        if not self.watch.still_for:
            self._reset_judgement()
        elif self.watch.is_standing_still:
            self._judge_standstill()
            if self.ended is None and self.hang_after is not None and self.watch.still_for >= self.hang_after:
                self.hung_for = self.watch.still_for
                self._start_ending("killed")
        return INTERVAL if self.ended or self._question else pause

    def must_wait(self) -> bool:
        """Return whether this process must go on although its own rank has ended (for other tasks of the job step)."""
        return self.shared_run is not None and self.shared_run.must_stay(self.process)

    def as_whole_job(self) -> Job:
        """Return this job with the status of the whole job step: failed if one of its tasks failed."""
        if self.shared_run is None or self.ended is not None or self.process.status is not None:
            return self
        whole = JobProcess(self.process.pid)
        whole.status, whole.signals = self.shared_run.first_failed_status(0), self.process.signals
        return replace(self, process=whole)

    def _leave_to_watching_task(self, shared_run: SharedRun) -> bool:
        """Return whether another task of the job step watches the ranks; if none does, this task becomes the one that
        watches. If the watching task has ended the run already, also begin to end this task's own rank."""
        ended = shared_run.read_forced_ending()
        if ended is None:
            return not shared_run.try_to_watch()
        self._start_ending(ended)
        return True

    def _judge_standstill(self) -> None:
        """Check once for each standstill whether it is a deadlock; end the job if the deadlock is proven."""
        fallen = self.watch.find_dead_ranks() if self.watch.still_for >= LEFT else []
        if self._question is None:
            if not self.watch.is_judged or len(fallen) > len(self._fallen):
                self._fallen = fallen
                self._question = self._make_deadlock_check()
            return
        proof = self._question.poll_deadlocks()
        if proof is None:
            return
        self._cancel_deadlock_check()
        self.watch.is_judged = True
        if proof and self.warnings:
            self._start_ending("interrupted")  # what stands still since a Ctrl-C stands still by it
        elif proof and self._fallen:
            self.fallen_ranks = sorted({header.rank for header in self._fallen})
            self._start_ending("killed")
        elif proof:
            self.proof = proof
            self._start_ending("deadlock")

    def _make_deadlock_check(self) -> StandstillCheck:
        """Make the check for a deadlock: on the run folder of this host, or, with --local on several hosts, on copies
        of all hosts' records."""
        if self.hosts is None:
            return DeadlockCheck(self.run.path, [header.pid for header in self._fallen])
        # Only runs with --local have hosts.
        from weft.launch.local.hosts_watch import HostsDeadlockCheck

        return HostsDeadlockCheck(self.hosts)

    def _reset_judgement(self) -> None:
        """Forget what was found out about a standstill, as the job has moved."""
        self.watch.is_judged = False
        self._fallen = []
        self._cancel_deadlock_check()

    def _cancel_deadlock_check(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    def request_locations(self) -> None:
        """Have the ranks record where they are, before a signal that may end the job is forwarded."""
        self.warnings += 1
        if self.warnings == 1 and self.hosts is not None and self.shared_run is None:
            self.hosts.wait_until_done(self.hosts.send_command("where"), 2 * location_requests.PATIENCE)
        elif self.warnings == 1:
            records = self.shared_run.records if self.shared_run is not None else self.run.ranks
            location_requests.request_locations(sorted(records.glob("*.weft")))

    @property
    def is_interrupted_twice(self) -> bool:
        """Whether a second Ctrl-C asks the launcher to end its ranks at once, as all launchers take it."""
        return self.family is not Family.OTHER and self.process.signals.count(SIGINT) > 1

    @property
    def interrupting_signal(self) -> int | None:
        """Return the signal to Weft that ended the job; None if the job ended by itself or in good order."""
        if self.ended in ("deadlock", "killed") or not self.process.signals:
            return None
        if self.process.shell_status == 0 and self._have_all_left_mpi():
            return None
        return self.process.signals[-1]

    def _have_all_left_mpi(self) -> bool:
        """Return whether the records of all ranks show that the ranks have left MPI; True also if the job has no status
        yet. The exit status alone does not show it, as an interrupted launcher may exit with status 0.
        """
        if self.process.status is None:
            return True
        headers = [rank_processes.read_rank_header(path) for path in list_rank_files(self.run)]
        return all(header is None or header.over for header in headers)

    def _start_ending(self, ended: str) -> None:
        """Begin to end the job with a signal to the launcher, which knows all its ranks on all hosts; `ended`: how it
        ended.
        """
        self.ended = ended
        if self.shared_run is not None:
            self.shared_run.how = ended
            self.shared_run.report()
        elif self.hosts is not None:
            self._stop_ranks_on_hosts(self.hosts, proven=ended == "deadlock")
        self._kill_at = time.monotonic() + GRACE
        self.process.send(QUIETLY.get(self.family, SIGTERM))
        self.process.send(SIGCONT)

    def _stop_ranks_on_hosts(self, hosts: Hosts, *, proven: bool) -> None:
        """Stop ranks on several hosts before they end, so that no rank takes another's end for an error of MPI.

        `proven`: whether the ranks are in a proven deadlock.
        """
        hosts.wait_until_done(hosts.send_command("end", stop=proven), GRACE)
        if proven and self.family not in QUIETLY:  # their launchers let ranks go on before they end them
            self.process.send(SIGSTOP)  # or it does so when it hears of the first that has ended
            hosts.wait_until_done(hosts.send_command("kill"), GRACE)

    def _kill_after_grace(self) -> float:
        """Kill the launcher once the grace period is over; return the seconds until then."""
        assert self._kill_at is not None
        left = self._kill_at - time.monotonic()
        if left <= 0:
            self.process.send(SIGKILL)
            return GRACE
        return left

    def clean_up(self) -> None:
        """Collect records and end remaining ranks after the launcher has ended, so that nothing of the job stays
        behind.
        """
        self._reset_judgement()
        if self.shared_run is not None and self.ended is None:
            self.ended = self.shared_run.read_forced_ending()  # the watching task ended this one's rank as well
        alone = self.shared_run is None  # else each task passes on to its own rank what came to it
        if self.shared_run is not None and self.shared_run.reporter:
            self.shared_run.collect_records(kill=self.ended is not None)
            self.hosts = self.shared_run.hosts
        elif self.shared_run is None and self.hosts is not None:
            self.hosts.gather_records(kill=self.ended is not None or bool(self.process.signals))
            self.hosts.put_into_run()
        is_replay_cut = self.observer is not None and self.process.signal is not None
        if self.ended is not None or (alone and self.interrupting_signal is not None) or is_replay_cut:
            self.survivors = rank_processes.end_ranks(
                list_rank_files(self.run), AT_ONCE if self.is_interrupted_twice else GRACE
            )
        if self.ended is not None or self.interrupting_signal is not None or self.process.status:
            # Most jobs end in good order.
            from weft.launch import shared_memory

            shared_memory.remove_leftovers(self._began)


def list_rank_files(run: RunDirectory) -> list[Path]:
    """Return the rank files of a run, sorted by name."""
    return sorted(run.ranks.glob("*.weft"))


def create_watch(run: RunDirectory, hosts: Hosts | None) -> RankWatch:
    """Create the watch over a run's ranks: on this host's files, or by what `hosts` report."""
    if hosts is None:
        return RankWatch(run.ranks)
    # Only runs with --local have hosts.
    from weft.launch.local.hosts_watch import HostsWatch

    return HostsWatch(hosts)


def run_job(
    plan: LaunchPlan,
    run: RunDirectory,
    variables: Mapping[str, str],
    hang_after: float | None = None,
    *,
    observer: Callable[[RankWatch], bool] | None = None,
    report_news: Callable[[], None] | None = None,
    alarm: Callable[[float, int], bool] | None = None,
    growth: GrowthWatch | None = None,
    shared_run: SharedRun | None = None,
    conclude: Callable[[Job], object] | None = None,
    hosts: Hosts | None = None,
) -> Job:
    """Start the planned launcher line with the recorder's variables, stay with the job until it has ended, and return
    it.

    `hang_after`: seconds of standstill after which the job is ended. `observer`: looks at the ranks, True ends the
    job. `report_news`: reports findings while the job runs. `alarm`: gets the seconds without a change and the
    launcher's pid, True ends the job. `growth`: warns if a record grows fast. `shared_run`: this task's part in a run
    that several tasks record. `conclude`: finishes the run for `shared_run`.
    """
    argv, environment = add_rank_variables(plan.line, variables, plan.environment)
    job = Job(
        processes.start_job(argv, environment, unblock_forwarded=plan.pvm is None),
        run, create_watch(run, hosts), hang_after, family=plan.line.family,
        observer=observer, report_news=report_news, alarm=alarm, growth=growth,
        shared_run=shared_run, hosts=hosts,
    )  # fmt: skip
    if shared_run is not None and conclude is not None:
        shared_run.reporting = lambda: conclude(job.as_whole_job())
    processes.wait_for_job(job.process, job.supervise_ranks, job.request_locations, job.must_wait)
    job.clean_up()
    processes.unblock_signals(job.process)
    return job
