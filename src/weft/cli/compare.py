"""Say where two recorded runs of a program differ.

weft compare REFERENCE RUN                 the first call or message that differs, what follows, and where time went
weft compare REFERENCE RUN --format json   weft-compare/1, for scripts

Calls are aligned by what they are, rank by rank, not by time. Exits 0 where every call is alike and both runs end
alike, 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.trace import Trace

DIFFERENT_STATUS = 1


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare", help="say where two runs of a program differ", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="directory of the run that is right")
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of the run to hold against it")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text by default")


def run(args: argparse.Namespace) -> int:
    """Compare two runs."""
    from weft.compare import compare, slower
    from weft.compare.told import lines, to_json, worth_telling
    from weft.report import Ground, examine
    from weft.report.text import printable

    before, after = Ground(opened(args.reference)), Ground(opened(args.run))
    comparison = compare(before.match, after.match, after.order)
    places = slower(comparison)
    known, new = (worth_telling(examine(ground.trace, ground=ground).findings) for ground in (before, after))
    if args.format == "json":
        print(json.dumps(to_json(comparison, places, (known, new)), indent=1))
    else:
        for line in lines(comparison, places, (known, new)):
            print(printable(line) if not line.startswith(" ") else f"    {printable(line.strip())}")
    ended = [(ground.trace.run.get("ended"), ground.trace.run.get("exit_code")) for ground in (before, after)]
    return 0 if comparison.alike and ended[0] == ended[1] else DIFFERENT_STATUS


def opened(path: Path) -> Trace:
    """A run with events. UsageError where it has none to compare."""
    import weft
    from weft.trace import Level

    trace = weft.open(path)
    if trace.level == Level.OUTCOMES:
        raise UsageError(
            f"{path} was recorded at level `outcomes`, which has no events to compare: `weft replay {path}` records it"
        )
    return trace
