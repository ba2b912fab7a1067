"""Debug a recorded run: one prompt for all ranks of a replay, which stops at the same place every time.

weft debug -n 4 -- ./prog                 record the program, then open the prompt with a breakpoint at each finding
weft debug RUN                            stop before the first event, then ask for commands (`help` lists them)
weft debug RUN -x SCRIPT                  run the commands of a file (- for standard input), then end
weft debug RUN -c 'until 2:57' -c ranks   run commands, then end (2:57: event 57 of rank 2)
weft debug RUN --format json              read commands from standard input, answer each with a JSON object
weft debug RUN -- ./prog-with-g           another build of the program, with the recorded arguments

Without RUN or program, the newest run is taken. Ctrl-C during the recording ends it and opens the prompt. Values and
stacks come from gdb for C, C++ and Fortran ranks, from Weft for Python ranks; neither changes the program or its
record. Exits 0, or 1 if a command of a script failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _asked, _options
from weft.cli._recorded import hash_recorded_execution, record_program
from weft.cli._said import find_and_report_failures
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.debug.debugger import Debugger

FAILED_STATUS = 1
MOST_FINDINGS = 10
"""Findings of a program recorded just now that get a breakpoint."""
MOST_ERRORS = 3
"""Errors of an older run that are shown at the start."""
SCRIPTED = 600.0
"""Seconds for a command of a script: nobody is there to interrupt it."""
TAKES_PROGRAM = True
"""What follows `--` is a program, not ours to parse: it comes as args.rest."""


def register(subparsers: Any) -> None:
    """Declare `weft debug` and its options to argparse."""
    parser = subparsers.add_parser(
        "debug", help="step through a recorded run, all ranks at one prompt", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft debug [RUN | -n N -- PROGRAM ARGS] [-x SCRIPT] [-c COMMAND]... [--format FORMAT] [--stdin FILE] "
              "[--timeout SECONDS] [--trust] [-- OTHER_BUILD ARGS]",
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument("-x", dest="script", metavar="SCRIPT", help="run the commands in this file, then exit")
    parser.add_argument(
        "-c", dest="commands", action="append", metavar="COMMAND", help="run this command, then exit; repeatable"
    )
    _options.add_answer_format(parser, "weft-debug/1")
    parser.add_argument("--stdin", type=Path, metavar="FILE", help="give FILE to the program as its standard input")
    _options.add_script_timeout(parser)
    _options.add_ranks(parser)
    _asked.add_trust_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run `weft debug`: open the prompt on a replay of the run; return the exit status."""
    lines = read_script(args)
    as_json = args.format == "json"
    if args.run is None and args.rest:
        path = record_first(args, as_json=as_json)
        replay = [*replay_options(None, args.stdin), "--agreed", hash_recorded_execution(path)]
        return run_debugger(path, replay, [], lines, as_json=as_json, limit=args.timeout, at_findings=True)
    path, replay = require_consent(args)
    return run_debugger(path, replay, args.rest, lines, as_json=as_json, limit=args.timeout)


def record_first(args: argparse.Namespace, *, as_json: bool) -> Path:
    """Record the program that the line names, and return the run to debug. Ctrl-C ends the program, and what was
    recorded until then is the run."""
    try:
        stdin = open(args.stdin or os.devnull, "rb")  # noqa: SIM115, PTH123 - a with block would need a case of its own
    except OSError as error:
        raise UsageError(f"--stdin {args.stdin}: {error.strerror}") from error
    sys.stdout.flush()
    stdout = sys.stderr.fileno() if as_json else None
    with stdin:
        return record_program(args.rest, args.n, stdin=stdin, stdout=stdout, keep_interrupted=True)


def debug_replay(args: argparse.Namespace) -> int:
    """Debug a replay of the run, as `weft replay --debug` does; return the exit status."""
    if args.force or args.hold or args.out:
        raise UsageError("--debug can be combined with --until and --break only: leave out the other options")
    places = [("until", text) for text in args.until] + [("break", text) for text in args.breaks]
    path, replay = require_consent(args)
    return run_debugger(path, replay, args.rest, None, first=[f"{name} {text}" for name, text in places])


def require_consent(args: argparse.Namespace) -> tuple[Path, list[str]]:
    """Return the run, and the options for its replays. If the record names the program, the user is asked first in
    case of doubt; UsageError if the user does not agree."""
    import weft
    from weft.launch.rundir import find_newest_run

    path = args.run or find_newest_run()
    given = replay_options(args.n, args.stdin)
    if args.rest:
        return path, given
    return path, [*given, "--agreed", _asked.require_consent(path, weft.open(path).run, trust=args.trust)]


def replay_options(n: int | None, stdin: Path | None) -> list[str]:
    """Return the options of the replay."""
    return ([] if n is None else ["-n", str(n)]) + ([] if stdin is None else ["--stdin", str(stdin.absolute())])


def read_script(args: argparse.Namespace) -> list[str] | None:
    """Return the debugger commands of the script file and the options. None if there are none: a person types them."""
    lines: list[str] = []
    if args.script is not None:
        try:
            lines = (sys.stdin.read() if args.script == "-" else Path(args.script).read_text()).splitlines()
        except OSError as error:
            raise UsageError(f"-x {args.script}: {error.strerror}") from error
    lines += args.commands or []
    return lines if args.script is not None or args.commands else None


def run_debugger(
    path: Path, replay: list[str], program: list[str], lines: list[str] | None,
    *, as_json: bool = False, first: list[str] | None = None, limit: float | None = None, at_findings: bool = False,
) -> int:  # fmt: skip
    """Start a replay of a run under the debugger, and serve its prompt until the end; return the exit status.

    `replay`: options of `weft replay`. `program`: another program with its arguments, [] for the recorded one.
    `lines`: the commands of a script, None if a person types. `first`: commands that come before. `limit`: seconds per
    command. `at_findings`: set a breakpoint at each finding.
    """
    from weft.debug.debugger import Debugger
    from weft.debug.prompt import Quit, completions, history
    from weft.tasks.ranks import TaskPrompt, attach_debugger_to_rank, prepare_replay_folder

    debugger = Debugger(
        path, find_and_report_failures, replay, program, hand=attach_debugger_to_rank, prepare=prepare_replay_folder
    )
    prompt = TaskPrompt(debugger, as_json=as_json)
    unattended = lines is not None or as_json or not sys.stdin.isatty()
    prompt.limit = (SCRIPTED if unattended else 0.0) if limit is None else limit
    try:
        show_start(debugger, prompt, quiet=lines is not None)
        if lines is None and not as_json and not first and not at_findings:
            print_ways_to_errors(debugger)
        for place in debugger.places_of_findings()[:MOST_FINDINGS] if at_findings else ():
            prompt.do(f"break {place}")
        for line in first or []:
            prompt.do(line)
        if first and all(line.startswith("break ") for line in first):
            prompt.do("continue")
        if lines is not None:
            prompt.run(lines, echo=True)
        elif sys.stdin.isatty():
            with history(completions(debugger)):
                prompt.run(prompt.read_typed_lines(), echo=False)
        else:
            prompt.run(prompt.read_typed_lines() if as_json else prompt.read_script(), echo=not as_json)
    except Quit:
        pass
    finally:
        debugger.close()
    return FAILED_STATUS if prompt.failed and (lines is not None or not sys.stdin.isatty()) else 0


def print_ways_to_errors(debugger: Debugger) -> None:
    """Print each error of a run that did not end well, with the command that goes there; nothing for other runs, which
    are not analysed.
    """
    if debugger.record.trace.run.get("ended") in (None, "finished"):
        return
    from weft.report.text import finding_line

    errors = [(number, one) for number, one in enumerate(debugger.findings(), 1) if one.severity == "error"]
    for number, one in errors[:MOST_ERRORS]:
        way = "continue" if one.kind == "crash" else f"until finding:{number}" if one.events else ""
        print(finding_line(one) + (f" `{way}` goes there." if way else ""))


def show_start(debugger: Debugger, prompt: Any, *, quiet: bool) -> None:
    """Show where the ranks are before the first command."""
    answer = debugger.first()
    if prompt.json or not quiet:
        prompt.show("start", answer, None)
