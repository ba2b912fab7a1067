"""Find out whether a launcher line may start ranks on other hosts, so that their records may not be on this host."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from weft.launch.launcher_line import LauncherLine
from weft.launch.options import Family

NAMES_HOSTS: Final = re.compile(
    r"-(H|w|f)|--?(hosts?|hostfile|machinefile|machine|default-hostfile|add-host|add-hostfile|nodelist)(=.*)?"
)
"""Options that name hosts, of MPICH's and Open MPI's launchers."""
FILES: Final = ("HYDRA_HOST_FILE", "PBS_NODEFILE", "LSB_HOSTS", "OMPI_MCA_orte_default_hostfile",
                "PRTE_MCA_prte_default_hostfile")  # fmt: skip
"""Variables by which launchers know hosts that no option names."""


def may_use_other_hosts(line: LauncherLine, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether ranks of a line may run on other hosts; True for a launcher whose options Weft does not know."""
    if line.launcher is None:
        return False
    if line.family in (Family.SRUN, Family.OTHER):
        return True
    named = any(NAMES_HOSTS.fullmatch(option) for one in line.contexts for option in one.options)
    nodes = environment.get("SLURM_JOB_NUM_NODES", "1")
    return named or nodes not in ("", "1") or any(environment.get(name) for name in FILES)
