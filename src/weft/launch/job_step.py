"""The job step that a `weft run` is itself a task of: `srun weft run -- prog`, `mpiexec weft run -- prog`.

Launchers and batch systems say it by variables, the more special ones first: an mpiexec inside of a Slurm job starts
its proxies by a step of Slurm's, whose variables its ranks then have as well.
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
class Step:
    """One job step: `name` is the same for all its tasks, and for no other that runs now."""

    system: str
    name: str
    rank: int
    size: int
    lasting: bool
    """Whether a batch system numbered it: then its name stays its own, and people know it."""


def of_this_process(environment: Mapping[str, str] = os.environ) -> Step | None:
    """The step that this process is one of several tasks of; None where it stands alone."""
    step = of(environment, os.getppid())
    return step if step is not None and step.size > 1 else None


def of(environment: Mapping[str, str], parent: int) -> Step | None:
    """The step that a process is a task of, by what it was started with, and its parent."""
    return hydra(environment, parent) or next((step for known in KNOWN if (step := known(environment))), None)


def from_variables(environment: Mapping[str, str]) -> Step | None:
    """The step that a process was a task of which has ended, so that nobody stands above it any more."""
    found = next((step for known in KNOWN if (step := known(environment))), None)
    return found or numbered("mpiexec", "", environment, "PMI_RANK", "PMI_SIZE")


def beneath_mpi(step: Step) -> bool:
    """Whether a process above this one, of the same task, has MPI itself: that one is the task, this its command."""
    pid = os.getppid()
    for _ in range(ANCESTORS):
        parent = parent_of(pid)
        if parent is None or of(environment_of(pid), parent) != step:
            return False
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            return False
        if any(LIBRARY_NAME.match(line.rpartition("/")[2]) for line in maps):
            return True
        pid = parent
    return False


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; nothing where that may not be read."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in text.split("\0") if "=" in word)


def parent_of(pid: int) -> int | None:
    """The parent of a process; None where it is not there."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def hydra(environment: Mapping[str, str], parent: int) -> Step | None:
    """A task of MPICH's mpiexec or one that comes from it, which gives its job no name: its control port is one."""
    if "PMI_RANK" not in environment:  # beneath srun it is set as well, and no proxy stands above
        return None
    port = control_port(parent)
    return None if port is None else numbered("mpiexec", port, environment, "PMI_RANK", "PMI_SIZE")


def openmpi(environment: Mapping[str, str]) -> Step | None:
    """A task of Open MPI's mpirun."""
    name = environment.get("PMIX_NAMESPACE", "")
    if not name or name.startswith("slurm."):
        return None
    return numbered("mpirun", name, environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


def slurm(environment: Mapping[str, str]) -> Step | None:
    """A task of srun. A batch script has no number of a step, and is none."""
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    if not job or not (step or "").isdigit():
        return None
    size = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    again = environment.get("SLURM_RESTART_COUNT", "0")
    name = f"{job}.{step}" + (f"-{again}" if again != "0" else "")
    return numbered("slurm", name, environment, "SLURM_PROCID", size, lasting=True)


def flux(environment: Mapping[str, str]) -> Step | None:
    """A task of `flux run`."""
    name = environment.get("FLUX_JOB_ID")
    return numbered("flux", name, environment, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", lasting=True) if name else None


def lsf(environment: Mapping[str, str]) -> Step | None:
    """A task of LSF's jsrun."""
    job, name = environment.get("LSB_JOBID"), environment.get("JSM_NAMESPACE_ID")
    if not job or not name:
        return None
    return numbered("lsf", f"{job}.{name}", environment, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", lasting=True)


def pbs(environment: Mapping[str, str]) -> Step | None:
    """A task of PALS, the launcher of Cray's systems under PBS."""
    job, name = environment.get("PBS_JOBID", ""), environment.get("PALS_APID")
    if not name:
        return None
    label = f"{job.split('.')[0]}.{name}" if job else name
    return numbered("pbs", label, environment, "PALS_RANKID", "PMI_SIZE", lasting=True)


KNOWN: Final[tuple[Callable[[Mapping[str, str]], Step | None], ...]] = (openmpi, flux, lsf, pbs, slurm)


def numbered(
    system: str, name: str, environment: Mapping[str, str], rank: str, size: str, *, lasting: bool = False
) -> Step | None:
    """The step, where both variables hold numbers that a job may have: they may be another user's, who attaches."""
    words = environment.get(rank, ""), environment.get(size, "")
    if not all(re.fullmatch(r"\d{1,9}", word, re.ASCII) and int(word) <= MOST_RANKS for word in words):
        return None
    return Step(system, re.sub(r"[^A-Za-z0-9_.@:-]+", "-", name)[:LONGEST], int(words[0]), int(words[1]), lasting)


def control_port(pid: int) -> str | None:
    """Where the proxy of hydra at or above a process reaches its mpiexec: one place for all proxies of all hosts."""
    for _ in range(ANCESTORS):
        parent = parent_of(pid)
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return None
        if parent is None:
            return None
        if "hydra" in Path(words[0]).name and (port := port_of(words)):
            return port
        pid = parent
    return None


def port_of(words: list[str]) -> str | None:
    """The place that a proxy's command line names."""
    told = dict(pairwise(words))
    if "--control-port" in told:
        return told["--control-port"]
    if "--upstream-host" in told and "--upstream-port" in told:  # Intel MPI
        return f"{told['--upstream-host']}:{told['--upstream-port']}"
    return None
