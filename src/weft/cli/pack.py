"""Put the records of all ranks into one file, for file systems that are slow with many files.

weft pack weft-runs/heat-1       pack one run, or several

`weft run` does so by itself at its end, from 256 ranks on. Every command reads a packed run as before. Exits 0 if every
record is packed, 1 if some stay files of their own; Weft then says which.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli._said import say, shorten_path

if TYPE_CHECKING:
    from weft.trace.packing import PackingResult


def register(subparsers: Any) -> None:
    """Declare `weft pack` and its options to argparse."""
    parser = subparsers.add_parser(
        "pack", help="put the records of all ranks into one file", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="directory of a run that has ended")


def run(args: argparse.Namespace) -> int:
    """Run `weft pack`: put the records of each run into one file; return 1 if some records stay as they are."""
    from weft.launch.rank_processes import is_record_final
    from weft.trace import Trace
    from weft.trace.packing import pack_records

    left = False
    for path in args.runs:
        Trace.open(path)  # what is not a run is an error as always
        left |= report_packing(path, pack_records(path, is_record_final))
    return int(left)


def report_packing(run: Path, packed: PackingResult) -> bool:
    """Say what became of one run; return whether some records stay as they are."""
    for why in packed.left:
        say(f"not packed: {why}")
    if packed.ranks:
        say(f"{packed.ranks:,} records of {shorten_path(run)} are in ranks/{packed.name}: "
            f"{packed.now:,} bytes instead of {packed.before:,}")  # fmt: skip
    elif not packed.left:
        say(f"{shorten_path(run)} has fewer than two record files: nothing to pack")
    return bool(packed.left)
