"""Reports hosts that no longer answer to `weft run`. The modules for hosts are only imported for such runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weft.cli._said import say

if TYPE_CHECKING:
    from weft.launch.job import Job
    from weft.launch.local.hosts import Hosts

WAITS: Final = {
    "mpiexec": "mpiexec may still wait for {}",
    "slurm": "srun waits for {} until Slurm marks it as down",
}


def make_host_reporter(hosts: Hosts | None) -> Callable[[], None] | None:
    """Return a function that reports hosts that no longer answer; None if all ranks are on this host."""
    if hosts is None:
        return None
    from weft.launch.local.lost_hosts import LostHostReporter

    return LostHostReporter(hosts, say).report_new


def describe_lost_host(job: Job) -> list[str]:
    """Return the lines for a run that was ended because a host did not answer any more. A second line says whether the
    host's launcher still waits, and how to end it."""
    from weft.launch.local.lost_hosts import describe_host_names

    host = describe_host_names(job.run.facts.get("lost") or ())
    lines = [
        f"Weft ended the run: {host} did not answer any more, and the ranks on the other hosts made no progress in MPI"
    ]
    waits = WAITS.get(job.shared_run.step.system) if job.shared_run is not None else None
    if waits is not None:
        lines.append(f"{waits.format(host)}: end it with Ctrl-C, or cancel the batch job. The report is complete")
    return lines


def suggest_remedies(job: Job, run_path: str) -> list[str]:
    """Return lines that say where the records of lost hosts may be, and how to put them into the run; [] if no host
    was lost."""
    lost = job.run.facts.get("lost")
    if not lost:
        return []
    from weft.launch.local.lost_hosts import suggest_recovery

    return list(suggest_recovery(lost, run_path))
