"""The begin of a run over hosts: a port for them, a secret, and a line that starts each rank by `start.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.launch import remote_hosts
from weft.launch.launcher_line import PRELOAD, Context, Line
from weft.launch.local.addresses import addresses
from weft.launch.local.hosts import Hosts
from weft.launch.local.rank_setup import SECRET, Setup
from weft.launch.options import Family
from weft.launch.plan import Plan
from weft.launch.rundir import RunDirectory
from weft.safety.started import own_python

ENTRY: Final = Path(__file__).with_name("entry.py")
"""What becomes the program on each host: there Weft lies in the same place."""
KEPT_BACK: Final = frozenset({"genvnone", "genvlist", "envnone", "envlist"})
"""Options of MPICH's mpiexec that keep variables from the ranks."""


def begin(plan: Plan, run: RunDirectory, base: Path, variables: Mapping[str, str]) -> tuple[Hosts, Plan]:
    """Listen for the hosts of a run; returns who listens, and the plan that starts ranks which tell of themselves.

    `variables`: what the recorder is told. UsageError for a line that no secret can be passed with.
    """
    secret = os.urandom(32)
    here = stays_here(plan.line)
    hosts = Hosts(run, secret, here=here)
    setup = Setup(
        base=str(base.absolute()), name=f"{run.path.name}-{os.urandom(8).hex()}",
        addresses=["127.0.0.1"] if here else addresses(),
        port=hosts.port, library=str(plan.library.path), mpicc=str(plan.mpicc) if plan.mpicc else None,
        variables=of_ranks(variables),
        facts=dict(run.facts),
    )  # fmt: skip
    run.facts["local"] = str(setup.folder)
    run.write()
    return hosts, started_by(plan, setup, secret)


def stays_here(line: Line) -> bool:
    """Whether all ranks are surely started on this host; another mpiexec than MPICH's may know hosts of its own."""
    return line.launcher is None or (line.family is Family.HYDRA and not remote_hosts.may_be(line))


def of_ranks(variables: Mapping[str, str]) -> dict[str, str]:
    """What the recorder is told that does not depend on the host."""
    return {name: value for name, value in variables.items() if name not in (PRELOAD, "WEFT_INTERNAL_RUN")}


def started_by(plan: Plan, setup: Setup, secret: bytes) -> Plan:
    """The plan that starts ranks which tell of themselves."""
    start = own_python(str(ENTRY), setup.word(), "--")
    line = plan.line
    contexts = tuple(
        Context(passing(line.family, one.options), (*start, *one.program) if one.program else ())
        for one in line.contexts
    )
    started = Line(line.launcher, line.family, contexts)
    return replace(plan, line=started, environment={**plan.environment, SECRET: secret.hex()})


def passing(family: Family, options: tuple[str, ...]) -> tuple[str, ...]:
    """The options of a launcher with what passes the secret on. It stands in the launcher's environment, never here."""
    names = {option.lstrip("-") for option in options}
    if family is Family.HYDRA and names & KEPT_BACK:
        raise UsageError(f"--local passes a variable to the ranks: leave out -{min(names & KEPT_BACK)}")
    if family is Family.OPENMPI and "mca_base_env_list" in options:
        place = options.index("mca_base_env_list") + 1
        return (*options[:place], ";".join([*options[place : place + 1], SECRET]), *options[place + 1 :])
    if family is Family.OPENMPI:
        return ("-x", SECRET, *options)
    if family is Family.SRUN:
        return exporting(options)
    return options


def exporting(options: tuple[str, ...]) -> tuple[str, ...]:
    """srun's options; it exports all but where the user's own --export says less."""
    words = list(options)
    for i, word in enumerate(words):
        if word == "--export" and i + 1 < len(words):
            words[i + 1] += f",{SECRET}"
        elif word.startswith("--export="):
            words[i] += f",{SECRET}"
    return tuple(words)
