"""Find the processes of the ranks: those that were named, those below a launcher, or those of a Slurm job."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from weft.base.lifetime import start_time
from weft.base.processes import PYTHON, read_memory_map
from weft.base.words import plural
from weft.errors import UsageError
from weft.launch import job_step

MPI = re.compile(r"/lib(p?mpi|mpich|mpi_abi|mpi_cray|mpi_gnu|mpi_ibm|open-rte|open-pal|open_mpi)\w*[.-][^/\n]*$", re.M)
"""A line of the map of a process that has an MPI library."""


@dataclass(frozen=True)
class RankProcess:
    """A rank's process. `rank` is None if nothing says which it is.

    `world`: 0 for the processes that the launcher started, 1 and so on for those that MPI_Comm_spawn started. `rank`
    and `size` are those of the world until `number_ranks` has counted all worlds; then `world_start` is the number of
    the world's first rank.
    """

    pid: int
    rank: int | None
    size: int
    job: str
    program: str
    world: int = 0
    world_start: int = 0

    @cached_property
    def python(self) -> bool:
        """Return whether it is a Python. Asked once it stands: of a process that polls its map is long in coming."""
        return bool(PYTHON.search(read_maps_or_nothing(self.pid)))


def read_start_time(pid: int) -> float:
    """Return when a process began, in seconds since 1970. The time may be up to a second too late. 0 if the process
    does not exist.
    """
    ticks = start_time(pid)
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - since_boot + int(ticks) / os.sysconf("SC_CLK_TCK") + 1 if ticks else 0.0


def read_parents() -> dict[int, int]:
    """Return the parent of each process on this host: pid -> the parent's pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return found


def find_named_ranks(pids: Sequence[int]) -> list[RankProcess]:
    """Return the ranks that a user means by pids. A pid may be that of a rank, or of a launcher, which stands for the
    ranks that it has started.

    UsageError if a process does not exist, or is neither.
    """
    tree = read_parents()
    found: list[RankProcess] = []
    for pid in pids:
        maps = read_memory_map(pid)
        beneath = choose_rank_processes(
            process for child in find_descendants(pid, tree) if (process := read_rank(child, tree)) is not None
        )
        own = read_rank(pid, tree)
        if own is not None and (MPI.search(maps) or not beneath):
            found.append(own)
        elif beneath:
            found += beneath
        elif MPI.search(maps):
            found.append(make_process(pid))
        else:
            raise UsageError(
                f"process {pid} ({read_program(pid) or '?'}) is neither an MPI program nor a launcher with ranks on "
                "this host"
            )
    return number_ranks(list({process.pid: process for process in found}.values()))


def find_ranks_of_same_jobs(pids: Sequence[int]) -> list[RankProcess]:
    """Return the ranks that a user means by pids, and all other ranks of their jobs on this host."""
    try:
        meant = find_named_ranks(pids)
    except UsageError:  # a watchdog is also in programs without MPI
        meant = [make_process(pid) for pid in pids if read_memory_map(pid)]
    of = {process.job for process in meant if process.job}
    others = [process for name, ranks in find_jobs().items() if name in of for process in ranks]
    return number_ranks(
        sorted({one.pid: one for one in (*meant, *others)}.values(), key=lambda one: (one.rank or 0, one.pid))
    )


def find_slurm_ranks(job_number: str, step_name: str, node: str) -> list[RankProcess]:
    """Return the ranks of a Slurm job on this node: those of the step with the given name, or of the newest step."""
    tree = read_parents()
    found = []
    for pid in tree:
        environment = job_step.read_environment(pid)
        if environment.get("SLURM_JOB_ID") != job_number or node not in ("", environment.get("SLURMD_NODENAME", node)):
            continue
        if step_name in ("", environment.get("SLURM_STEP_ID")) and (process := read_rank(pid, tree)) is not None:
            found.append(process)
    steps = {process.job for process in found}
    newest = max(steps, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], default="")
    return choose_rank_processes(process for process in found if process.job == newest)


def find_jobs() -> dict[str, list[RankProcess]]:
    """Return the ranks of all MPI jobs on this host, by the job's name. Jobs whose processes may not be looked into are
    left out.
    """
    tree = read_parents()
    found: dict[str, list[RankProcess]] = {}
    for pid in tree:
        process = read_rank(pid, tree)
        if process is not None and MPI.search(read_maps_or_nothing(pid)):
            found.setdefault(process.job, []).append(process)
    return {name: choose_rank_processes(processes) for name, processes in found.items()}


def find_only_job() -> list[RankProcess]:
    """Return the ranks of the only MPI job on this host. UsageError if there is none, or several; its text
    names them.
    """
    found = find_jobs()
    if len(found) == 1:
        return number_ranks(next(iter(found.values())))
    if not found:
        raise UsageError(
            "no MPI job of yours runs on this host: name processes (weft attach PID...) or a Slurm job (... JOB)"
        )
    tree = read_parents()
    lines = [
        f"  weft attach {find_launcher(ranks[0].pid, tree)}    {plural(len(ranks), 'rank')} of {ranks[0].program}"
        for ranks in found.values()
    ]
    raise UsageError("\n".join(["several MPI jobs run on this host: choose one", *lines]))


def find_launcher(pid: int, parents: dict[int, int]) -> int:
    """Return the pid of the outermost launcher, such as `mpiexec`, among the ancestors of a rank. Without a launcher,
    return the rank's own pid. `parents`: the parent of each process.
    """
    at, found = pid, pid
    while (at := parents.get(at, 0)) > 1:
        name = Path(read_program(at)).name
        if re.match(r"mpi(exec|run)|orterun|prterun|prte|srun|hydra|.*proxy", name):
            found = at
    return found


def find_descendants(pid: int, parents: dict[int, int]) -> list[int]:
    """Return the pids of all descendants of a process. `parents`: the parent of each process."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found, left = [], [pid]
    while left:
        here = children.get(left.pop(), [])
        found += here
        left += here
    return found


def find_processes_below(pids: Sequence[int]) -> list[int]:
    """Return the pids of all descendants of some processes; those themselves if they have none."""
    tree = read_parents()
    return [child for pid in pids for child in find_descendants(pid, tree)] or list(pids)


def read_rank(pid: int, parents: dict[int, int]) -> RankProcess | None:
    """Return a process as a rank, if the environment variables of its launcher say which one it is. None if they do
    not. `parents`: the parent of each process.
    """
    environment = job_step.read_environment(pid)
    found = job_step.find_step(environment, parents.get(pid, 0))
    if found is None:
        return None
    # Open MPI numbers the worlds of a job from 1 on; Hydra says only that one was spawned.
    job, _, number = found.name.rpartition("@") if "@" in found.name else (found.name, "", "")
    world = int(number) - 1 if number.isdigit() and int(number) > 0 else int(environment.get("PMI_SPAWNED") == "1")
    return replace(make_process(pid), rank=found.rank, size=found.size, job=job, world=world)


def make_process(pid: int) -> RankProcess:
    """Return a process whose rank no launcher has set."""
    return RankProcess(pid, None, 0, "", read_program(pid))


def read_maps_or_nothing(pid: int) -> str:
    """Return the memory map of a process, empty if it has ended or may not be looked at."""
    try:
        return read_memory_map(pid)
    except UsageError:
        return ""


def read_program(pid: int) -> str:
    """Return the path of the program that a process runs, as its command line has it; empty if it has ended."""
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    except OSError:
        return ""


def is_replaced(pid: int) -> bool:
    """Return whether the program's file was replaced or removed after a process began to run it."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.endswith(" (deleted)")
    except OSError:
        return False


def choose_rank_processes(processes: Iterable[RankProcess]) -> list[RankProcess]:
    """Return one process for each rank of each world of each job, sorted by these. If several have a rank's number, it
    is the one with an MPI library: not the shell or `weft run` around it. Several spawned processes with MPI are of
    several worlds, in the order in which they began.
    """
    groups: dict[tuple[str, int, int | None], list[RankProcess]] = {}
    for process in processes:
        groups.setdefault((process.job, process.world, process.rank), []).append(process)
    best: list[RankProcess] = []
    for (_, world, _), group in groups.items():
        with_mpi = [one for one in group if len(group) > 1 and MPI.search(read_maps_or_nothing(one.pid))]
        chosen = sorted(with_mpi or group, key=lambda one: one.pid)
        best += [replace(one, world=world + k) for k, one in enumerate(chosen)] if world else chosen[-1:]
    return sorted(best, key=lambda one: (one.job, one.world, one.rank or 0))


def number_ranks(processes: list[RankProcess]) -> list[RankProcess]:
    """Return the processes, each with a rank. If all ranks are known and belong to one job, they are kept, those of
    spawned worlds counted on after the others as in a record; otherwise all are numbered in order.
    """
    if all(process.rank is not None for process in processes) and len({process.job for process in processes}) == 1:
        return _count_worlds(processes)
    return [replace(process, rank=number, size=len(processes), job="") for number, process in enumerate(processes)]


def _count_worlds(processes: list[RankProcess]) -> list[RankProcess]:
    """Return the processes of one job with ranks that are counted over all of its worlds."""
    sizes: dict[int, int] = {}
    for one in processes:
        sizes[one.world] = max(sizes.get(one.world, 0), one.size)
    if len(sizes) < 2:
        return processes
    starts = dict(zip(sorted(sizes), accumulate((sizes[world] for world in sorted(sizes)), initial=0), strict=False))
    return [
        replace(one, rank=starts[one.world] + (one.rank or 0), size=sum(sizes.values()), world_start=starts[one.world])
        for one in sorted(processes, key=lambda one: (one.world, one.rank or 0))
    ]
