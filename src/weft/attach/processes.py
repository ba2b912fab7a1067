"""Which processes are the ranks: those that were named, those beneath a launcher, or those of a job of Slurm."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from weft.base.lifetime import start_time
from weft.base.processes import PYTHON, maps_of
from weft.base.words import plural
from weft.errors import UsageError
from weft.launch import job_step

MPI = re.compile(r"/lib(p?mpi|mpich|mpi_abi|mpi_cray|mpi_gnu|mpi_ibm|open-rte|open-pal|open_mpi)\w*[.-][^/\n]*$", re.M)
"""A line of the map of a process that has an MPI library."""


@dataclass(frozen=True)
class Process:
    """A rank's process. `rank` is None where nothing says which it is."""

    pid: int
    rank: int | None
    size: int
    job: str
    program: str

    @cached_property
    def python(self) -> bool:
        """Whether it is a Python. Asked once it stands: of a process that polls its map is long in coming."""
        return bool(PYTHON.search(quietly_mapped(self.pid)))


def began(pid: int) -> float:
    """When a process began, in seconds since 1970, up to a second too late; 0 where there is none."""
    ticks = start_time(pid)
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - since_boot + int(ticks) / os.sysconf("SC_CLK_TCK") + 1 if ticks else 0.0


def parents() -> dict[int, int]:
    """The parent of each process of this host."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return found


def named(pids: Sequence[int]) -> list[Process]:
    """The ranks that are meant by processes: themselves, or those that a launcher among them has started.

    UsageError where a process is not there, or is neither.
    """
    tree = parents()
    found: list[Process] = []
    for pid in pids:
        maps = maps_of(pid)
        beneath = chosen(process for child in descendants(pid, tree) if (process := rank_of(child, tree)) is not None)
        own = rank_of(pid, tree)
        if own is not None and (MPI.search(maps) or not beneath):
            found.append(own)
        elif beneath:
            found += beneath
        elif MPI.search(maps):
            found.append(process_of(pid))
        else:
            raise UsageError(
                f"process {pid} ({program_of(pid) or '?'}) is neither an MPI program nor a launcher with ranks on this "
                "host"
            )
    return numbered(list({process.pid: process for process in found}.values()))


def with_others(pids: Sequence[int]) -> list[Process]:
    """The ranks that are meant by processes, with all others of their jobs on this host."""
    try:
        meant = named(pids)
    except UsageError:  # a watchdog is also in programs without MPI
        meant = [process_of(pid) for pid in pids if maps_of(pid)]
    of = {process.job for process in meant if process.job}
    others = [process for name, ranks in jobs().items() if name in of for process in ranks]
    return numbered(
        sorted({one.pid: one for one in (*meant, *others)}.values(), key=lambda one: (one.rank or 0, one.pid))
    )


def of_slurm(job: str, step_name: str, node: str) -> list[Process]:
    """The ranks of a job of Slurm on this node."""
    tree = parents()
    found = []
    for pid in tree:
        environment = job_step.read_environment(pid)
        if environment.get("SLURM_JOB_ID") != job or node not in ("", environment.get("SLURMD_NODENAME", node)):
            continue
        if step_name in ("", environment.get("SLURM_STEP_ID")) and (process := rank_of(pid, tree)) is not None:
            found.append(process)
    steps = {process.job for process in found}
    newest = max(steps, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default="")
    return chosen(process for process in found if process.job == newest)


def jobs() -> dict[str, list[Process]]:
    """The ranks of all jobs of this host that may be looked into, by the job's name."""
    tree = parents()
    found: dict[str, list[Process]] = {}
    for pid in tree:
        process = rank_of(pid, tree)
        if process is not None and MPI.search(quietly_mapped(pid)):
            found.setdefault(process.job, []).append(process)
    return {name: chosen(processes) for name, processes in found.items()}


def the_only_job() -> list[Process]:
    """The ranks of the job of this host. UsageError where there is none, or several, which are then named."""
    found = jobs()
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise UsageError("no MPI job of yours runs on this host: weft attach PID..., or JOB.STEP of Slurm")
    tree = parents()
    lines = [
        f"  weft attach {launcher_of(ranks[0].pid, tree)}    {plural(len(ranks), 'rank')} of {ranks[0].program}"
        for ranks in found.values()
    ]
    raise UsageError("\n".join(["several MPI jobs run on this host: which one?", *lines]))


def launcher_of(pid: int, tree: dict[int, int]) -> int:
    """The outermost process above a rank that only starts programs."""
    at, found = pid, pid
    while (at := tree.get(at, 0)) > 1:
        name = Path(program_of(at)).name
        if re.match(r"mpi(exec|run)|orterun|prterun|prte|srun|hydra|.*proxy", name):
            found = at
    return found


def descendants(pid: int, tree: dict[int, int]) -> list[int]:
    """All processes beneath one."""
    children: dict[int, list[int]] = {}
    for child, parent in tree.items():
        children.setdefault(parent, []).append(child)
    found, left = [], [pid]
    while left:
        here = children.get(left.pop(), [])
        found += here
        left += here
    return found


def below(pids: Sequence[int]) -> list[int]:
    """All processes beneath some, or they where none is."""
    tree = parents()
    return [child for pid in pids for child in descendants(pid, tree)] or list(pids)


def rank_of(pid: int, tree: dict[int, int]) -> Process | None:
    """What a launcher has said to a process; None where it said nothing."""
    found = job_step.find_step(job_step.read_environment(pid), tree.get(pid, 0))
    return None if found is None else replace(process_of(pid), rank=found.rank, size=found.size, job=found.name)


def process_of(pid: int) -> Process:
    """A process of which no launcher has said anything."""
    return Process(pid, None, 0, "", program_of(pid))


def quietly_mapped(pid: int) -> str:
    """What a process has mapped; nothing where it has gone or may not be looked at."""
    try:
        return maps_of(pid)
    except UsageError:
        return ""


def program_of(pid: int) -> str:
    """What a process runs."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    except OSError:
        return ""


def is_replaced(pid: int) -> bool:
    """Whether the file that a process runs is another one since, or gone."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.endswith(" (deleted)")
    except OSError:
        return False


def chosen(processes: Iterable[Process]) -> list[Process]:
    """One process for each rank of each job: the one with an MPI library, not the shell or `weft run` that began it."""
    groups: dict[tuple[str, int | None], list[Process]] = {}
    for process in processes:
        groups.setdefault((process.job, process.rank), []).append(process)
    best = [
        group[0] if len(group) == 1
        else max(group, key=lambda process: (bool(MPI.search(quietly_mapped(process.pid))), process.pid))
        for group in groups.values()
    ]  # fmt: skip
    return sorted(best, key=lambda process: (process.job, process.rank or 0))


def numbered(processes: list[Process]) -> list[Process]:
    """With a number for each: the ranks', or where those are not known or not those of one job, as they came."""
    if all(process.rank is not None for process in processes) and len({process.job for process in processes}) == 1:
        return processes
    return [replace(process, rank=number, size=len(processes), job="") for number, process in enumerate(processes)]
