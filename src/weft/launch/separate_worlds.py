"""Notice that processes which were started together each ran as an MPI world of their own.

This is judged by the records, never by the names of the launcher and the library: many combinations with different
names work.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.launch.job_step import JobStep
from weft.launch.options import Family
from weft.launch.plan import LaunchPlan, format_family
from weft.launch.rankfile import Header, read_definitions
from weft.trace.layout import Def


def describe_separate_worlds(
    plan: LaunchPlan, ranks: Path, headers: Mapping[str, Header], step: JobStep | None = None
) -> str | None:
    """Return a sentence if the processes of a job did not form one MPI world, None if they did.

    `headers`: the headers of the job's records by file name. `step`: the job step that `weft run` itself belongs to.
    """
    starter = plan.line.launcher or (step.system if step else None)
    sizes = {header.world_size for header in headers.values()}
    why = explain_separate_worlds(plan, step)
    if starter is not None and sizes and max(sizes) < 1 and is_foreign_launcher(plan):
        return f"none of {len(headers)} processes got through MPI_Init: {why}"
    if starter is None or len(headers) < 2 or sizes != {1}:
        return None
    if any(read_definitions(ranks / name).ids(Def.WORLD) for name in headers):
        return None  # they were spawned one by one
    return f"each of the {len(headers)} processes ran as an MPI world of its own" + (f": {why}" if why else "")


def explain_separate_worlds(plan: LaunchPlan, step: JobStep | None) -> str:
    """Return the likely reason why launcher and MPI library did not work together, and the remedy; empty if unknown."""
    library, family = plan.library, plan.line.family
    program = f"the program loads {library.path} ({format_family(library.family)})"
    if family is Family.SRUN or (step and step.system == "slurm"):
        speaks = {Family.HYDRA: "pmi2", Family.OPENMPI: "pmix"}.get(library.family, "another plugin")
        return f"{program}, which talks to Slurm by `srun --mpi={speaks}` (`srun --mpi=list` shows what is there)"
    if is_foreign_launcher(plan):
        return f"{plan.line.launcher} belongs to {format_family(family)} but {program}"
    return ""


def is_foreign_launcher(plan: LaunchPlan) -> bool:
    """Return whether the launcher belongs to another MPI implementation than the program's library."""
    families = plan.line.family, plan.library.family
    return plan.line.launcher is not None and len({*families, Family.OTHER, Family.SRUN}) == 4
