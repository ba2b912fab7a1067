"""Convert a recorded run for another tool: Vampir, pandas, Perfetto and others.

Weft writes to the current directory, under the run's name, or to the PATH of -o, which must not exist yet. Without RUN,
the newest run is taken. Formats marked * need `pip install 'weft-debugger[export]'`. Runs larger than memory can be
exported.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from weft.cli import _options
from weft.export import FORMATS


def register(subparsers: Any) -> None:
    """Declare `weft export` and its options to argparse."""
    parser = subparsers.add_parser(
        "export", help="convert a run for another tool", description=make_description(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument("--format", choices=sorted(FORMATS), required=True, help="format to write")
    _options.add_output(parser, "write to PATH (default: the run's name, in the current directory)", "PATH")


def make_description() -> str:
    """Return the help of `weft export`: the module's docstring, with a line for each format after its first
    sentence."""
    first, rest = str(__doc__).split("\n\n", 1)
    width = max(map(len, FORMATS))
    lines = (
        f"weft export RUN --format {name:<{width}}   {one.what}{' *' * bool(one.needs)}"
        for name, one in sorted(FORMATS.items())
    )
    return "\n".join([first, "", *lines, "", rest])


def run(args: argparse.Namespace) -> int:
    """Run `weft export`: write a run in the format of another tool."""
    import weft
    from weft.base.words import plural
    from weft.cli._progress import show_progress
    from weft.export import default_path, write
    from weft.launch.rundir import find_newest_run
    from weft.report.rings import describe_suffix
    from weft.report.text import printable

    trace = weft.open(args.run or find_newest_run())
    out = args.output or default_path(trace, args.format)
    with show_progress(f"writing {out.name}") as advance:
        told = write(trace, args.format, out, lambda share: advance(share, ""))
    print(
        printable(
            f"{out / FORMATS[args.format].opened}: {', '.join(plural(count, noun) for count, noun in told if count)}"
        )
    )
    for problem in (*describe_suffix(trace), *trace.problems):
        print(f"weft: {printable(problem)}", file=sys.stderr)
    return 0
