"""Processes that were started together and did not find each other: each ran as an MPI world of its own.

Said of what was recorded, never of what a launcher and a library are called: many fit that have other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.launch.job_step import Step
from weft.launch.options import Family
from weft.launch.plan import Plan, spoken
from weft.launch.rankfile import Header, read_definitions
from weft.trace.layout import Def


def note(plan: Plan, ranks: Path, headers: Mapping[str, Header], step: Step | None = None) -> str | None:
    """Say that the ranks of a job are no job, where that is so; `headers` are theirs by the names of their records."""
    starter = plan.line.launcher or (step.system if step else None)
    sizes = {header.world_size for header in headers.values()}
    why = reason(plan, step)
    if starter is not None and sizes and max(sizes) < 1 and is_strange(plan):
        return f"of {len(headers)} processes none got through MPI_Init: {why}"
    if starter is None or len(headers) < 2 or sizes != {1}:
        return None
    if any(read_definitions(ranks / name).ids(Def.WORLD) for name in headers):
        return None  # they were spawned one by one
    return f"each of the {len(headers)} processes ran as an MPI world of its own" + (f": {why}" if why else "")


def reason(plan: Plan, step: Step | None) -> str:
    """Why that is likely so, and what helps."""
    library, family = plan.library, plan.line.family
    program = f"the program loads {library.path} ({spoken(library.family)})"
    if family is Family.SRUN or (step and step.system == "slurm"):
        speaks = {Family.HYDRA: "pmi2", Family.OPENMPI: "pmix"}.get(library.family, "another plugin")
        return f"{program}, which speaks with Slurm by `srun --mpi={speaks}` (`srun --mpi=list` shows what is there)"
    if is_strange(plan):
        return f"{plan.line.launcher} belongs to {spoken(family)} but {program}"
    return ""


def is_strange(plan: Plan) -> bool:
    """Whether the launcher is that of another MPI than the program's."""
    families = plan.line.family, plan.library.family
    return plan.line.launcher is not None and len({*families, Family.OTHER, Family.SRUN}) == 4
