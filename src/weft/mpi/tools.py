"""Makes the environment that an MPI's own tools need to work at all."""

from __future__ import annotations

import os
from pathlib import Path


def tool_environment(mpicc: str | Path) -> dict[str, str]:
    """Return the environment variables with which to call an mpicc.

    Intel MPI's mpicc needs I_MPI_ROOT if it is installed elsewhere than where it was built for, as from PyPI. Programs
    run without it, so users may not have set it; here it is set to the tree of this mpicc.
    """
    root = Path(mpicc).absolute().parent.parent
    is_intel = (root / "bin/mpigcc").is_file() and (root / "include/mpi.h").is_file()
    return dict(os.environ) | ({"I_MPI_ROOT": str(root)} if is_intel else {})
