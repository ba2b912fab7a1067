"""Collect the records that hosts wrote to their own disks into one run.

Use it if `weft run --local DIR` could not collect all records at its end.

srun --ntasks-per-node=1 weft gather RUN     one process on each host of the run (mpiexec works too), each of
                                             which copies its host's records into RUN, on a shared disk
weft gather RUN HOSTDIR...                   add what you copied from the hosts: folders below DIR, or .weftpack files

Exits 0 if all ranks are in the run, and 1 if some left no record.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli._said import say, shorten_path

if TYPE_CHECKING:
    from weft.launch.local.gather_after_run import GatherResult


def register(subparsers: Any) -> None:
    """Declare `weft gather` and its options to argparse."""
    parser = subparsers.add_parser(
        "gather", help="collect the records of several hosts into one run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of the run; created if HOSTDIRs are given")
    parser.add_argument(
        "folders",
        type=Path,
        nargs="*",
        metavar="HOSTDIR",
        help="a folder or .weftpack file that was copied from a host",
    )


def run(args: argparse.Namespace) -> int:
    """Run `weft gather`: collect the records of hosts into the run, and print which ranks are there."""
    from weft.launch.local import gather_after_run

    gathered = (
        gather_after_run.gather_copies(args.run, args.folders)
        if args.folders
        else gather_after_run.gather_this_host(args.run)
    )
    return report_result(args.run, gathered)


def report_result(run: Path, gathered: GatherResult) -> int:
    """Print what was gathered, and which ranks left no record. Return the exit status."""
    for line in gathered.missing:
        say(line)
    for problem in gathered.problems:
        say(problem)
    came = [f"{one['files']} file{'s' * (one['files'] != 1)} of {one['host']}" for one in gathered.hosts]
    say(f"gathered {', '.join(came) or 'nothing: this host has no record of this run'}; "
        f"{gathered.ranks} rank{'s' * (gathered.ranks != 1)} in {shorten_path(run)}")  # fmt: skip
    return int(bool(gathered.missing))
