"""Prepare a run on several hosts: a port, a secret, and a launcher line that starts each rank by `start_rank.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.launch import remote_hosts
from weft.launch.launcher_line import PRELOAD, LauncherLine, LineContext
from weft.launch.local.addresses import find_own_addresses
from weft.launch.local.hosts import Hosts
from weft.launch.local.rank_setup import SECRET, RankSetup
from weft.launch.options import Family
from weft.launch.plan import LaunchPlan
from weft.launch.rundir import RunDirectory
from weft.safety.started import own_python

ENTRY: Final = Path(__file__).with_name("entry.py")
"""What becomes the program on each host: there Weft lies in the same place."""
KEPT_BACK: Final = frozenset({"genvnone", "genvlist", "envnone", "envlist"})
"""Options of MPICH's mpiexec that keep variables from the ranks."""


def listen_and_plan(
    plan: LaunchPlan, run: RunDirectory, base: Path, variables: Mapping[str, str]
) -> tuple[Hosts, LaunchPlan]:
    """Open a port for the hosts of a run. Return (the listener, a plan by which each rank first connects its host to
    it).

    `base`: the folder of --local. `variables`: the recorder's. Raises UsageError for a line that cannot pass a secret
    on.
    """
    secret = os.urandom(32)
    here = is_single_host(plan.line)
    hosts = Hosts(run, secret, here=here)
    setup = RankSetup(
        base=str(base.absolute()), name=f"{run.path.name}-{os.urandom(8).hex()}",
        addresses=["127.0.0.1"] if here else find_own_addresses(),
        port=hosts.port, library=str(plan.library.path), mpicc=str(plan.mpicc) if plan.mpicc else None,
        variables=select_portable_variables(variables),
        facts=dict(run.facts),
    )  # fmt: skip
    run.facts["local"] = str(setup.folder)
    run.write()
    return hosts, plan_rank_starts(plan, setup, secret)


def is_single_host(line: LauncherLine) -> bool:
    """Return whether all ranks certainly start on this host; another mpiexec than MPICH's may know hosts of its own."""
    return line.launcher is None or (line.family is Family.HYDRA and not remote_hosts.may_use_other_hosts(line))


def select_portable_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the recorder's variables that are the same on every host."""
    return {name: value for name, value in variables.items() if name not in (PRELOAD, "WEFT_INTERNAL_RUN")}


def plan_rank_starts(plan: LaunchPlan, setup: RankSetup, secret: bytes) -> LaunchPlan:
    """Return the plan that starts each rank by `entry.py`, which prepares its host and then becomes the program."""
    start = own_python(str(ENTRY), setup.encode(), "--")
    line = plan.line
    contexts = tuple(
        LineContext(pass_secret_on(line.family, one.options), (*start, *one.program) if one.program else ())
        for one in line.contexts
    )
    started = LauncherLine(line.launcher, line.family, contexts)
    return replace(plan, line=started, environment={**plan.environment, SECRET: secret.hex()})


def pass_secret_on(family: Family, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return a launcher's options that pass the secret's variable on to the ranks; the value is never on the line."""
    names = {option.lstrip("-") for option in options}
    if family is Family.HYDRA and names & KEPT_BACK:
        raise UsageError(
            f"--local has to pass a variable to the ranks, which -{min(names & KEPT_BACK)} prevents: leave that "
            "option out"
        )
    if family is Family.OPENMPI and "mca_base_env_list" in options:
        place = options.index("mca_base_env_list") + 1
        return (*options[:place], ";".join([*options[place : place + 1], SECRET]), *options[place + 1 :])
    if family is Family.OPENMPI:
        return ("-x", SECRET, *options)
    if family is Family.SRUN:
        return export_secret(options)
    return options


def export_secret(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return srun's options with the secret added to the user's own --export; without one srun exports everything."""
    words = list(options)
    for i, word in enumerate(words):
        if word == "--export" and i + 1 < len(words):
            words[i + 1] += f",{SECRET}"
        elif word.startswith("--export="):
            words[i] += f",{SECRET}"
    return tuple(words)
