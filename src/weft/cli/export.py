"""Write a recorded run in the format of another tool.

weft export RUN --to otf2          an OTF2 archive, for Vampir, Score-P's and Scalasca's tools
weft export RUN --to perfetto      a trace file for ui.perfetto.dev and the trace processor
weft export RUN --to parquet       a folder of tables for pandas, Polars, DuckDB and all that reads Parquet

It goes to the current directory under the run's name, or to --out PATH, which must not exist. RUN is the newest run
where it is left out. Needs `pip install 'weft-debugger[export]'` for otf2 and parquet. A run larger than memory
goes through.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

_FORMATS: Final = ("otf2", "perfetto", "parquet")


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "export", help="write a run in the format of another tool", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (the newest one)")
    parser.add_argument("--to", choices=_FORMATS, required=True, help="the format")
    parser.add_argument("--out", type=Path, metavar="PATH", help="where to (RUN's name in the current directory)")


def run(args: argparse.Namespace) -> int:
    """Export a run."""
    import weft
    from weft.cli._progress import progress
    from weft.export import FORMATS, default_path, write
    from weft.launch.rundir import newest
    from weft.report.text import printable
    from weft.terms.words import plural

    trace = weft.open(args.run or newest())
    out = args.out or default_path(trace, args.to)
    with progress(f"writing {out.name}") as advance:
        told = write(trace, args.to, out, lambda share: advance(share, ""))
    print(
        printable(f"{out / FORMATS[args.to].opened}: {', '.join(plural(count, noun) for count, noun in told if count)}")
    )
    for problem in trace.problems:
        print(f"weft: {printable(problem)}", file=sys.stderr)
    return 0
