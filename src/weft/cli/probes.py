"""List the values that a program recorded at its probes, or print the compiler flags for a program with probes.

A probe is a line that you add to the program: it names a value, and `weft run` records the value each time (it has
nothing to do with MPI_Probe). Add probes, compile, `weft run` twice: `weft compare` then finds the first value that
differs.

weft.probe("residual", r)                  Python: import weft
weft_probe("residual", &r, double);        C and C++: #include <weft.h>; an array: weft_probe_n("u", u, double, n);
call weft_probe("residual", r)             Fortran: use weft

weft probes RUN                            each probe of a run: its line, how often it ran, its type and shape
cc $(weft probes --cflags) -o prog prog.c  C and C++: the -I option for weft.h
gfortran $(weft probes --fortran) prog.f90 Fortran: the source of module weft, compiled along with yours

Without RUN, the newest run is taken. All probes are recorded; to choose some: `weft run --probes CONFIG`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    """Declare `weft probes` and its options to argparse."""
    parser = subparsers.add_parser(
        "probes", help="list the probes of a run, or print the flags to compile with probes", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cflags", action="store_true", help="print the C and C++ compiler flags that find weft.h")
    what.add_argument("--fortran", action="store_true", help="print the path of the Fortran module's source")


def run(args: argparse.Namespace) -> int:
    """Run `weft probes`: list the probes of a run, or print the compiler's flags for probes."""
    from weft.values.finalization import MODULE
    from weft.values.recording import INCLUDE

    if args.cflags:
        print(f"-I{INCLUDE}")
    elif args.fortran:
        print(INCLUDE / MODULE)
    else:
        _print_probes(args.run)
    return 0


def _print_probes(run: Path | None) -> None:
    """Print a line for each probe of a run, of the newest run if none is named."""
    from weft.launch.rundir import find_newest_run
    from weft.report.text import printable
    from weft.values.listing import list_probes
    from weft.values.trace import ValueTrace

    for line in list_probes(ValueTrace.open(run or find_newest_run())):
        print(printable(line))
