"""Find data races, misplaced barriers and wrong directives in OpenMP, Numba and DVM programs.

Weft runs the program once, sequentially, and looks for what can go wrong in any parallel run with the same input.

weft check prog.c part.cpp             OpenMP in C, C++ or Fortran; Weft compiles it with $CC (default gcc) and -fopenmp
weft check src/                        all sources of a folder, or those of its compile_commands.json
weft check -- ./prog ARGS              a program built with `weft cc`: its sources, compiled with the same options
weft check prog.py ARGS                Python with Numba: every prange of its @njit(parallel=True) functions
weft check --args '100 in.txt' prog.c  with arguments for the program
weft check --only stale-halo-read src/ only findings of a kind, a file or a procedure; --skip leaves them out
weft check --directives prog.c         also lists the directives that ran, in their order, with counts
weft check --baseline old.json prog.c  only findings that an earlier report (--format json -o) does not have
weft check --format json prog.c        weft-report/1; sarif: SARIF 2.1.0; html: a page; -o FILE writes it

DVM programs, whose directives spread arrays over processors:

weft check jac.cdv                     a C-DVMH program (.cdv or .c), unchanged
weft check sor.fdv sub.fdv             a Fortran-DVM(H) program (fixed or free form) of several files
weft check -p 2x2 jac.cdv              on 2 x 2 simulated processors (by default each array element has its own)
weft check --trace CONFIG jac.cdv      run it without directives, then on each processor; print where values differ

The program runs once, and what it prints passes through (to standard error, if a report in JSON, SARIF or HTML goes to
standard output). Exits 0 with nothing found, 1 with a finding of error severity, 2 if the program cannot be checked (it
does not compile, a directive is wrong) or has nothing to check (no directive, no prange ran), 3 if nothing was found
but the program failed (it crashed, exited with a status of its own, or --timeout ended it), 4 if Weft failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from weft.base.lifetime import temporary_folder
from weft.cli import _findings_output, _options
from weft.cli._said import say
from weft.cli._traced import refuse_trace_options, trace_and_compare
from weft.cli._values import add_tolerances
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.check import CheckResult
    from weft.report.selection import SelectionOptions

T = TypeVar("T")
TAKES_PROGRAM = True
"""What follows `--` is the program's own: it comes as args.rest."""
TAKES_DASHED = ("--flags", "--link", "--args")
"""Options whose values may begin with a dash."""


def register(subparsers: Any) -> None:
    """Declare `weft check` and its options to argparse."""
    parser = subparsers.add_parser(
        "check", help="find races in OpenMP, Numba and DVM programs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft check [options] FILE... [-- ARGS]   or   weft check [options] -- ./prog ARGS   or   "
        "weft check [options] prog.py ARGS",
    )  # fmt: skip
    parser.add_argument(
        "program", nargs="*", metavar="FILE", help="source files, a folder, or a Python program and its arguments"
    )
    parser.add_argument(
        "--args",
        metavar="ARGS",
        default="",
        help="pass these arguments to the program, split as a shell does; the same as writing them after -- at the end",
    )
    parser.add_argument(
        "-p", "--processors", metavar="GRID", default="", help="DVM: simulate this grid of processors: 4, 2x2, 2x2x1"
    )
    parser.add_argument(
        "-I",
        dest="include",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="look for include files in DIR",
    )
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME[=VALUE]", help="define a macro")
    parser.add_argument("--flags", metavar="FLAGS", default="", help="pass these options to the compiler")
    parser.add_argument("--link", metavar="FLAGS", default="", help="pass these options to the linker, such as -lm")
    parser.add_argument(
        "--keep-build", type=Path, metavar="DIR", help="keep the instrumented sources and the program in DIR"
    )
    _options.add_timeout(parser, "end the program after SECONDS")
    for name, what in (
        ("--only", "show, and count for the exit status, only findings of this kind, file or procedure; repeatable"),
        ("--skip", "leave out findings of this kind, file or procedure; repeatable"),
    ):
        parser.add_argument(name, action="append", default=[], metavar="WORD", help=what)
    parser.add_argument("--directives", action="store_true", help="also list the directives that ran, with counts")
    _findings_output.add_selection_options(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="CONFIG",
        help="DVM: compare the values of a run without directives with those of each processor; CONFIG lists the "
        "values; if it does not exist, Weft writes it with all values: edit it and repeat the command",
    )  # fmt: skip
    parser.add_argument("--live", action="store_true", help="with --trace: stop at the first value that differs")
    _options.add_out(parser, "with --trace: directory of both runs (default: below weft-runs)")
    add_tolerances(parser)
    _findings_output.add_format(parser)
    _findings_output.add_output_files(parser)


def run(args: argparse.Namespace) -> int:
    """Run `weft check`: run the program, print the findings about its directives, and return the exit status."""
    from weft.check import CheckRequest, check_program
    from weft.check.finding_selection import apply_selection, verify_selection
    from weft.check.front_ends import is_script
    from weft.check.source_discovery import find_built_program, find_sources
    from weft.report.selection import select_findings

    refuse_trace_options(args)
    if args.processors and not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", args.processors):
        raise UsageError(f"-p {args.processors} is not a grid of processors: write 4, 2x2 or 2x2x1")
    given, launcher, program = shlex.split(args.args), [], ""
    if not args.program:
        if not args.rest:
            raise UsageError("name a program's sources, or after -- one that `weft cc` built: weft check -- ./prog")
        at, build = find_built_program(args.rest)
        launcher, program, arguments = args.rest[:at], args.rest[at], [*args.rest[at + 1 :], *given]
    elif is_script(Path(args.program[0])):
        build, arguments = find_sources([Path(args.program[0])]), [*args.program[1:], *given, *args.rest]
    else:
        build, arguments = find_sources([Path(name) for name in args.program]), [*given, *args.rest]
    request = CheckRequest(
        sources=build.sources,
        arguments=tuple(arguments),
        grid=args.processors,
        include=tuple(args.include),
        define=tuple(args.define),
        flags=tuple(shlex.split(args.flags)),
        link=(*build.link_options, *shlex.split(args.link)),
        timeout=args.timeout,
        per_source=build.own,
        unchecked=build.left,
        launcher=tuple(launcher),
        program=program,
        say=say,
    )
    if args.trace is not None:
        return work_in_folder(args, lambda folder: trace_and_compare(args, request, folder))
    choice = _findings_output.read_selection(args, only=args.only, skip=args.skip)
    verify_selection(choice, request.sources)
    with output_to_stderr() if _findings_output.is_stdout_machine_read(args) else nullcontext():
        checked = work_in_folder(args, lambda folder: check_program(request, folder))
    checked = apply_selection(checked, select_findings(checked.findings, choice))
    _findings_output.write_each_format(args, lambda form, to: write_result(checked, form, to, args.directives))
    return exit_status(checked, choice)


@contextmanager
def output_to_stderr() -> Iterator[None]:
    """In a `with` block, send everything written to standard output to standard error, so that a report for another
    program stands alone on standard output."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(original, 1)
        os.close(original)


def work_in_folder(args: argparse.Namespace, work: Callable[[Path], T]) -> T:
    """Call `work` with the folder that the user wants to keep, or with a temporary one, and return its result."""
    if args.keep_build is None:
        with temporary_folder("check") as folder:
            return work(Path(folder))
    args.keep_build.mkdir(parents=True, exist_ok=True)
    return work(args.keep_build.absolute())


def exit_status(checked: CheckResult, choice: SelectionOptions) -> int:
    """Return the exit status: 1 if a finding counts as a failure, else 3 if not everything was checked, 2 if nothing
    was, 0 otherwise."""
    if failed := _findings_output.find_status(checked.findings, choice):
        return failed
    if not checked.whole:
        return 3
    return 2 if checked.looked.is_empty else 0


def write_result(checked: CheckResult, form: str, to: TextIO, directives: bool = False) -> None:
    """Write the findings in one of the forms."""
    if form == "json":
        from weft.report import to_json

        document = to_json(checked, checked.findings)
        document["run"] |= {"status": checked.status, "looked": checked.looked.to_json()}
        if directives:
            document["directives"] = [one.to_json() for one in checked.looked.ran]
        print(json.dumps(document, indent=1), file=to)
    elif form == "sarif":
        from weft.check.sarif import to_sarif

        print(json.dumps(to_sarif(checked), indent=1), file=to)
    elif form == "html":
        from weft.check.html_page import to_html

        to.write(to_html(checked))
    else:
        from weft.check.terminal import print_result as tell

        tell(checked, to, directives)
