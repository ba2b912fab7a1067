"""Read what only the system knows about a job's end: the kernel's out-of-memory kills, limits, the batch system."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CGROUPS: Final = Path("/sys/fs/cgroup")


class Evidence:
    """The system's counters as they were before the job, to be compared with those after it."""

    def __init__(self) -> None:
        self._folders = find_memory_cgroups()
        self._before = count_memory_kills(self._folders)

    def facts(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return run.json's facts about the system's part in the end of the job: kills for lack of memory, limits, and
        the batch job.

        `memory_kills`: how many processes the kernel killed for lack of memory during the job; None without any
        counter. `of`: where they were counted, in the control groups of `weft run` ("group") or, if these have no
        counter, on the whole machine ("machine").
        """
        after = count_memory_kills(self._folders)
        of, count = next(((of, after[of] - self._before[of]) for of in after if of in self._before), (None, None))
        return {
            "memory_kills": count,
            "of": of,
            "memory_limit": read_memory_limit(self._folders),
            "cpu_limit": read_soft_limit(resource.RLIMIT_CPU),
            "batch": describe_batch_job(environment),
        }


def find_memory_cgroups() -> list[Path]:
    """Return the folders of the control groups that this process is in, the innermost first; empty if there are
    none.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if not controllers:
            inner = CGROUPS / place.lstrip("/")
            return [inner, *(up for up in inner.parents if up.is_relative_to(CGROUPS))]
        if "memory" in controllers.split(","):
            return [CGROUPS / "memory" / place.lstrip("/"), CGROUPS / "memory"]
    return []


def count_memory_kills(folders: list[Path]) -> dict[str, int]:
    """Return how many processes the kernel has killed for lack of memory so far: in the control groups under the key
    `group`, on the whole machine under `machine`. A key is missing if the system has no such counter."""
    found = {}
    for folder in folders:
        count = read_counter(folder / "memory.events", "oom_kill")
        count = read_counter(folder / "memory.oom_control", "oom_kill") if count is None else count
        if count is not None:
            found["group"] = count
            break
    machine = read_counter(Path("/proc/vmstat"), "oom_kill")
    if machine is not None:
        found["machine"] = machine
    return found


def read_counter(file: Path, name: str) -> int | None:
    """Return the number that stands after `name` in a file of lines `name number`; None if it is not there."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)


def read_memory_limit(folders: list[Path]) -> int | None:
    """Return the lowest memory limit of these control groups in bytes, None for no limit."""
    limits = []
    for folder in folders:
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) < 2**60:
                limits.append(int(text))
    return min(limits, default=None)


def read_soft_limit(which: int) -> int | None:
    """Return a soft resource limit of this process, which the job inherits; None for no limit."""
    value = resource.getrlimit(which)[0]
    return None if value == resource.RLIM_INFINITY else value


def describe_batch_job(environment: Mapping[str, str]) -> dict[str, object] | None:
    """Return the batch job that this process runs in: system, job number and end of its time (seconds since 1970), or
    None.
    """
    for system, number, end in (
        ("slurm", "SLURM_JOB_ID", "SLURM_JOB_END_TIME"), ("pbs", "PBS_JOBID", None), ("lsf", "LSB_JOBID", None),
        ("grid engine", "JOB_ID", None),
    ):  # fmt: skip
        if environment.get(number):
            text = environment.get(end, "") if end else ""
            return {"system": system, "job": environment[number], "end": int(text) if text.isdigit() else None}
    return None
