"""Find the job step that a `weft run` is itself a task of: `srun weft run -- prog`, `mpiexec weft run -- prog`.

Launchers and batch systems show it by variables. The more special ones are read first: an mpiexec inside a Slurm job
starts its proxies as a Slurm step, whose variables its ranks then have as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.launch.library import LIBRARY_NAME

ANCESTORS: Final = 16
"""Processes above this one among which a launcher's proxy is looked for: shells, `env`, `timeout` may stand between."""
MOST_RANKS: Final = 1 << 20
"""Ranks of a job."""
LONGEST: Final = 200
"""Characters of the name of a step."""


@dataclass(frozen=True)
class JobStep:
    """One job step: `name` is the same for all its tasks, and for no other step that runs now."""

    system: str
    name: str
    rank: int
    size: int
    lasting: bool
    """Whether a batch system numbered it: then its name stays its own, and people know it."""


def find_own_step(environment: Mapping[str, str] = os.environ) -> JobStep | None:
    """Return the step that this process is one of several tasks of, None if it is alone."""
    step = find_step(environment, os.getppid())
    return step if step is not None and step.size > 1 else None


def find_step(environment: Mapping[str, str], parent: int) -> JobStep | None:
    """Return the step of a process, given its environment and the pid of its parent; None if there is none."""
    return find_hydra_step(environment, parent) or next((step for known in KNOWN if (step := known(environment))), None)


def step_from_variables(environment: Mapping[str, str]) -> JobStep | None:
    """Return the step of a process that has ended, so that its parents cannot be looked at."""
    found = next((step for known in KNOWN if (step := known(environment))), None)
    return found or make_step("mpiexec", "", environment, "PMI_RANK", "PMI_SIZE")


def is_below_mpi_process(step: JobStep) -> bool:
    """Return whether a process that uses MPI is above this one in the same task. That process is then the rank, and
    this one a command which the rank started."""
    pid = os.getppid()
    for _ in range(ANCESTORS):
        parent = read_parent(pid)
        if parent is None or find_step(read_environment(pid), parent) != step:
            return False
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            return False
        if any(LIBRARY_NAME.match(line.rpartition("/")[2]) for line in maps):
            return True
        pid = parent
    return False


def read_environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with, {} if it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in text.split("\0") if "=" in word)


def read_parent(pid: int) -> int | None:
    """Return the parent of a process, None if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def find_hydra_step(environment: Mapping[str, str], parent: int) -> JobStep | None:
    """Return the job step of a task that Hydra started (mpiexec of MPICH and its derivatives), named by the launcher's
    control port. None if Hydra did not start the task.
    """
    if "PMI_RANK" not in environment:  # beneath srun it is set as well, and no proxy stands above
        return None
    port = find_control_port(parent)
    return None if port is None else make_step("mpiexec", port, environment, "PMI_RANK", "PMI_SIZE")


def find_openmpi_step(environment: Mapping[str, str]) -> JobStep | None:
    """Return the job step that Open MPI's mpirun started this task for, read from its variables. None if mpirun did
    not start it, or did so in a step of Slurm."""
    name = environment.get("PMIX_NAMESPACE", "")
    if not name or name.startswith("slurm."):
        return None
    return make_step("mpirun", name, environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


def find_slurm_step(environment: Mapping[str, str]) -> JobStep | None:
    """Return the job step that srun started this task for, read from Slurm's variables. None outside of a step: a
    batch script has a job number, but no step number."""
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    if not job or not (step or "").isdigit():
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    again = environment.get("SLURM_RESTART_COUNT", "0")
    name = f"{job}.{step}" + (f"-{again}" if again != "0" else "")
    return make_step("slurm", name, environment, "SLURM_PROCID", size, lasting=True)


def flux_step(environment: Mapping[str, str]) -> JobStep | None:
    """Return the step of a task of `flux run`."""
    name = environment.get("FLUX_JOB_ID")
    return make_step("flux", name, environment, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", lasting=True) if name else None


def find_lsf_step(environment: Mapping[str, str]) -> JobStep | None:
    """Return the job step that LSF's jsrun started this task for, read from its variables. None if jsrun did not start
    it."""
    job, name = environment.get("LSB_JOBID"), environment.get("JSM_NAMESPACE_ID")
    if not job or not name:
        return None
    return make_step("lsf", f"{job}.{name}", environment, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", lasting=True)


def find_pbs_step(environment: Mapping[str, str]) -> JobStep | None:
    """Return the job step that PALS (the launcher of Cray's systems under PBS) started this task for, None if it did
    not."""
    job, name = environment.get("PBS_JOBID", ""), environment.get("PALS_APID")
    if not name:
        return None
    label = f"{job.split('.')[0]}.{name}" if job else name
    return make_step("pbs", label, environment, "PALS_RANKID", "PMI_SIZE", lasting=True)


KNOWN: Final[tuple[Callable[[Mapping[str, str]], JobStep | None], ...]] = (
    find_openmpi_step,
    flux_step,
    find_lsf_step,
    find_pbs_step,
    find_slurm_step,
)


def make_step(
    system: str,
    name: str,
    environment: Mapping[str, str],
    rank_variable: str,
    size_variable: str,
    *,
    lasting: bool = False,
) -> JobStep | None:
    """Make the job step from the environment of a task. `rank_variable` and `size_variable`: the names of
    the variables that hold the task's rank and the number of tasks. None if these do not hold valid numbers."""
    words = environment.get(rank_variable, ""), environment.get(size_variable, "")
    if not all(re.fullmatch(r"\d{1,9}", word, re.ASCII) and int(word) <= MOST_RANKS for word in words):
        return None
    return JobStep(system, re.sub(r"[^A-Za-z0-9_.@:-]+", "-", name)[:LONGEST], int(words[0]), int(words[1]), lasting)


def find_control_port(pid: int) -> str | None:
    """Return the address at which the hydra proxy above a process reaches its mpiexec, None if there is no proxy above
    it. The address is the same for all proxies of a job."""
    for _ in range(ANCESTORS):
        parent = read_parent(pid)
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return None
        if parent is None:
            return None
        if "hydra" in Path(words[0]).name and (port := parse_control_port(words)):
            return port
        pid = parent
    return None


def parse_control_port(words: list[str]) -> str | None:
    """Return the control port in the command line of a hydra proxy, None if there is none."""
    told = dict(pairwise(words))
    if "--control-port" in told:
        return told["--control-port"]
    if "--upstream-host" in told and "--upstream-port" in told:  # Intel MPI
        return f"{told['--upstream-host']}:{told['--upstream-port']}"
    return None
