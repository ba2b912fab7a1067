"""Print which MPIs, launchers, compilers and mpi4py are installed, whether they work together, and what to do if not.

weft doctor                                        this machine
weft doctor --hosts a,b                            test messages between hosts a and b, with mpiexec from the PATH
weft doctor --hosts a,b -- mpirun --mca ...        with your own launcher and its options: mpiexec, mpirun, srun

Exits 0 if everything that a recorded run needs is there, else 1.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.launch.checkup import Checkup

TAKES_PROGRAM = True
"""What follows `--` is a launcher with its options."""
COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(subparsers: Any) -> None:
    """Declare `weft doctor` and its options to argparse."""
    parser = subparsers.add_parser(
        "doctor", help="check whether MPI, launcher and compiler fit together", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft doctor [--format text|json] [--bug-report] [--hosts A,B,... [-- LAUNCHER OPTIONS]]",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of the result (default: text)"
    )
    parser.add_argument("--bug-report", action="store_true", help="print what a bug report to Weft's authors needs")
    parser.add_argument(
        "--hosts",
        metavar="A,B,...",
        help="send test messages between these hosts, and print settings that help if none arrive",
    )


def run(args: argparse.Namespace) -> int:
    """Run `weft doctor`: check this machine and print the results; return the exit status."""
    from weft.launch.checkup import Checkup, check_machine

    if args.hosts is None and args.rest:
        raise UsageError(
            "a launcher after -- needs --hosts, the hosts to try it on: weft doctor --hosts a,b -- mpiexec"
        )
    if args.hosts is not None:
        from weft.launch.host_checks import check_hosts

        checkup = Checkup([], check_hosts(args.hosts.split(","), args.rest))
    else:
        checkup = check_machine()
    if args.bug_report:
        from weft.launch.bugreport import report_lines

        print("\n".join(report_lines(checkup)))
    elif args.format == "json":
        print(json.dumps(checkup.to_json(), indent=1))
    else:
        show_checkup(checkup)
    return 0 if checkup.healthy else 1


def show_checkup(checkup: Checkup) -> None:
    """Print the checkup for people: the MPIs, then the checks, with what to do under each that failed."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for one in checkup.installations:
        console.print(Text(one.version, style="bold"))
        rows = [("library", [one.library]), ("mpicc", one.compilers), ("mpiexec", one.launchers)]
        for name, words in rows:
            console.print(Text(f"  {name:<8} {', '.join(words) or 'none'}"))
    if checkup.installations:
        console.print()
    for check in checkup.checks:
        line = Text(f"{check.status:<8}", style=COLOURS[check.status])
        line.append(f"{check.name}: {check.detail}", style="default")
        console.print(line)
        if check.remedy and check.status != "ok":
            console.print(Text(f"        -> {check.remedy}"))
