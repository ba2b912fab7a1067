"""Record a small program that hangs, and say what is wrong with it.

The program (heat.py, a heat equation with a halo exchange) comes with Weft, with its corrected twin heat_fixed.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.safety.started import own_python

EXAMPLES = Path(__file__).parent.parent / "examples"
RANKS = 3
FOUND = 3
"""What `weft run` exits with when it stopped a proven deadlock."""


def register(subparsers: Any) -> None:
    """Declare the command."""
    subparsers.add_parser("demo", help="show what Weft does, on a program with a bug", description=__doc__)


def run(args: argparse.Namespace) -> int:
    """Run the example with the bug, then its corrected twin."""
    require_mpi4py()
    wrong, right = EXAMPLES / "heat.py", EXAMPLES / "heat_fixed.py"
    print(f"A program that hangs: {shown(wrong)}\n", flush=True)
    status = weft_run(wrong)
    if status != FOUND:
        raise WeftError(f"the demo did not show its deadlock (status {status}): see `weft doctor`")
    print(f"\nIts corrected twin: {shown(right)}\n", flush=True)
    status = weft_run(right)
    if status != 0:
        raise WeftError(f"the demo's corrected program failed (status {status}): see `weft doctor`")
    print("\nYour own:  weft run -n 4 -- python prog.py     or     weft run -- mpiexec -n 4 ./prog")
    return 0


def require_mpi4py() -> None:
    """Raise when this Python cannot run the example."""
    from weft.launch.library import ask_python

    answer = ask_python(Path(sys.executable))
    if answer.library is None:
        raise WeftError(f"the demo needs mpi4py and an MPI: `{sys.executable} -m pip install mpi4py mpich`")


def weft_run(program: Path) -> int:
    """Record one example as a user would, and show the command."""
    print(f"$ weft run -n {RANKS} -- python {program.name}", flush=True)
    command = own_python("-m", "weft.cli.main", "run", "-n", str(RANKS), "--", sys.executable, str(program))
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode


def shown(path: Path) -> str:
    """The path as short as it can be."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
