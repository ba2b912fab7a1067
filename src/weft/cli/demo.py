"""Try Weft: record a small program that hangs, and print what is wrong with it.

weft demo

The program (heat.py, a heat equation with a halo exchange) comes with Weft, with its corrected twin heat_fixed.py.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from weft.base.lifetime import bound_to_parent
from weft.cli._said import shorten_path
from weft.errors import WeftError
from weft.safety.started import own_python

EXAMPLES = Path(__file__).parent.parent / "examples"
RANKS = 3
FOUND = 3
"""The status of `weft run` when it stopped a proven deadlock."""
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def register(subparsers: Any) -> None:
    """Declare `weft demo` and its options to argparse."""
    subparsers.add_parser("demo", help="try Weft on a small program that hangs", description=__doc__,
                          formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run `weft demo`: record the example with the bug, then its corrected twin, and print the diagnosis first."""
    require_mpi4py()
    wrong, right = EXAMPLES / "heat.py", EXAMPLES / "heat_fixed.py"
    status, said = record_example(wrong)
    if status != FOUND:
        print(said, end="", file=sys.stderr)
        raise WeftError(f"the demo did not show its deadlock (status {status}): see `weft doctor`")
    before, diagnosis = split_at_error(said)
    print(diagnosis.rstrip("\n"))
    print(
        f"\nThat was {shorten_path(wrong)}, a program that hangs, run with\n\n{command_line(wrong)}\n{before}", end=""
    )
    print(f"\nIts corrected twin, {shorten_path(right)}:\n\n{command_line(right)}", flush=True)
    status, said = record_example(right)
    print(said, end="")
    if status != 0:
        raise WeftError(f"the demo's corrected program failed (status {status}): see `weft doctor`")
    print("\nYour own:  weft run -n 4 -- python prog.py     or     weft run -- mpiexec -n 4 ./prog")
    return 0


def split_at_error(said: str) -> tuple[str, str]:
    """Split the output of `weft run` before its first error, and return both parts."""
    lines = said.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if STYLE.sub("", line).startswith("weft: error:")), 0)
    return "".join(lines[:first]), "".join(lines[first:])


def require_mpi4py() -> None:
    """Raise WeftError if this Python cannot run the example."""
    from weft.launch.library import query_mpi4py

    answer = query_mpi4py(Path(sys.executable))
    if answer.library is None:
        raise WeftError(f"the demo needs mpi4py and an MPI: `{sys.executable} -m pip install mpi4py mpich`")


def command_line(program: Path) -> str:
    """Return the command as a user would type it."""
    return f"$ weft run -n {RANKS} -- python {program.name}"


def record_example(program: Path) -> tuple[int, str]:
    """Record one example as a user would: return the status, and all output, as a terminal would show it."""
    command = own_python("-m", "weft.cli.main", "run", "-n", str(RANKS), "--", sys.executable, str(program))
    styled: dict[str, str] = {}
    if sys.stdout.isatty():
        styled = {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", env={**styled, **os.environ},
        preexec_fn=bound_to_parent(signal.SIGTERM),  # noqa: PLW1509 - this process has one thread
    )  # fmt: skip
    try:
        said, _ = process.communicate()
    except BaseException:  # it ends its ranks and takes away what they left
        process.terminate()
        process.communicate()
        raise
    return process.returncode, said
