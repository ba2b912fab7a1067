"""What the machine knows of a job's end that no process can tell: the memory killer, limits, the batch system."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CGROUPS: Final = Path("/sys/fs/cgroup")


class Evidence:
    """Counters read before the job, to be compared with those behind it."""

    def __init__(self) -> None:
        self._folders = memory_folders()
        self._before = kills(self._folders)

    def facts(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """What is to be kept of the run.

        `memory_kills`: processes that the kernel killed for memory meanwhile, in the control groups of `weft run`
        (`of`: "group") or, where those tell nothing, on the whole machine ("machine"); None where nobody counts.
        """
        after = kills(self._folders)
        of, count = next(((of, after[of] - self._before[of]) for of in after if of in self._before), (None, None))
        return {
            "memory_kills": count,
            "of": of,
            "memory_limit": memory_limit(self._folders),
            "cpu_limit": soft(resource.RLIMIT_CPU),
            "batch": batch(environment),
        }


def memory_folders() -> list[Path]:
    """Folders of the control groups that this process is in, the innermost first; empty where there are none."""
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


def kills(folders: list[Path]) -> dict[str, int]:
    """How often the kernel has killed a process for memory, in these groups and on the machine."""
    found = {}
    for folder in folders:
        count = counter(folder / "memory.events", "oom_kill")
        count = counter(folder / "memory.oom_control", "oom_kill") if count is None else count
        if count is not None:
            found["group"] = count
            break
    machine = counter(Path("/proc/vmstat"), "oom_kill")
    if machine is not None:
        found["machine"] = machine
    return found


def counter(file: Path, name: str) -> int | None:
    """A number of a file of lines `name number`."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)


def memory_limit(folders: list[Path]) -> int | None:
    """The least limit of memory in bytes that holds for these groups."""
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


def soft(which: int) -> int | None:
    """A soft limit of this process, which the job inherits; None for none."""
    value = resource.getrlimit(which)[0]
    return None if value == resource.RLIM_INFINITY else value


def batch(environment: Mapping[str, str]) -> dict[str, object] | None:
    """The job of a batch system that this runs in: its number, and the end of its time (seconds since 1970)."""
    for system, number, end in (
        ("slurm", "SLURM_JOB_ID", "SLURM_JOB_END_TIME"), ("pbs", "PBS_JOBID", None), ("lsf", "LSB_JOBID", None),
        ("grid engine", "JOB_ID", None),
    ):  # fmt: skip
        if environment.get(number):
            text = environment.get(end, "") if end else ""
            return {"system": system, "job": environment[number], "end": int(text) if text.isdigit() else None}
    return None
