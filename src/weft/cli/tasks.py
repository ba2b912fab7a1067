"""Debug one task of asyncio, OpenMP or Cilk, line by line, on whichever thread it runs.

weft tasks prog.py ARGS                 stop before the first line, then ask for commands (`help` lists them)
weft tasks ./prog ARGS                  the same for OpenMP tasks: C, C++ and Fortran, by clang, gcc or gfortran
weft tasks fib.cilk ARGS                a program in Cilk-5; needs Cilk-5's compiler in CILK_ROOT or on the PATH
weft tasks -x SCRIPT -- prog.py ARGS    run the commands of a file (- for standard input), then end
weft tasks --record FILE prog.py        record the order in which tasks run; --replay FILE repeats it
weft tasks --as-openmp prog.c ARGS      a source with Cilk's keywords, built as OpenMP
weft tasks --pid PID [--once]           a running Python program, or a native one that was started with
                                        env $(weft tasks --environment) ./prog
weft tasks --core FILE -- ./prog        the core file of a native program

Exits 0, or 1 if a command of a script failed or the program hangs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _options
from weft.cli.debug import FAILED_STATUS, read_script
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.tasks import Session
    from weft.tasks.answers import Answer

SCRIPTED = 600.0
"""Seconds that a command of a script may take, unless --timeout says otherwise."""
TAKES_PROGRAM = True
"""What follows `--` is a program, not ours to parse: it comes as args.rest."""


def register(subparsers: Any) -> None:
    """Declare `weft tasks` and its options to argparse."""
    parser = subparsers.add_parser(
        "tasks", help="debug one task of asyncio, OpenMP or Cilk", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft tasks [-x SCRIPT] [-c COMMAND]... [--format FORMAT] [--pid PID [--once] | --core FILE] "
              "[--] PROGRAM ARGS",
    )  # fmt: skip
    parser.add_argument("-x", dest="script", metavar="SCRIPT", help="run the commands in this file, then exit")
    parser.add_argument(
        "-c", dest="commands", action="append", metavar="COMMAND", help="run this command, then exit; repeatable"
    )
    _options.add_answer_format(parser, "weft-tasks/1")
    parser.add_argument(
        "--runtime", default="", metavar="FILE", help="use this OpenMP runtime (default: the one that Weft finds)"
    )
    parser.add_argument("--pid", type=int, metavar="PID", help="attach to this process")
    parser.add_argument(
        "--once",
        action="store_true",
        help="print tasks and what they wait for, then detach; exit with 1 if the program hangs",
    )
    _options.add_script_timeout(parser)
    parser.add_argument("--core", type=Path, metavar="FILE", help="read this core file")
    parser.add_argument("--record", default="", metavar="FILE", help="write the order in which tasks run to FILE")
    parser.add_argument("--replay", default="", metavar="FILE", help="run the tasks in the order of FILE")
    parser.add_argument("--as-openmp", action="store_true", help="build PROGRAM, a Cilk source, as OpenMP")
    parser.add_argument(
        "--environment",
        action="store_true",
        help="print the environment variables with which to start a native program, so that --pid or --core can "
        "debug it later",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS")


def run(args: argparse.Namespace) -> int:
    """Run `weft tasks`: open the prompt on a program's tasks, or print them once; return the exit status."""
    from weft.debug.prompt import Quit, history
    from weft.tasks.console import COMMANDS

    if args.environment:
        from weft.tasks.runtime import tool_environment

        print(*(f"{name}={value}" for name, value in tool_environment(args.runtime).items()))
        return 0
    as_json = args.format == "json"
    lines = read_script(args)
    opened = open_session(args)
    opened.console.json = as_json
    unattended = SCRIPTED if lines is not None else 0.0
    opened.debugger.limit = unattended if args.timeout is None else args.timeout
    if args.once:
        return show_tasks_once(opened, as_json=as_json)
    prompt = opened.console
    is_hung = False
    try:
        with opened:
            if opened.first["text"]:
                print(f"weft: {opened.first['text']}", file=sys.stderr)
            if lines is None and not as_json and (args.pid is not None or args.core):
                is_hung = has_hung(print_tasks_and_waits(opened))
            elif as_json or lines is None:
                prompt.show("start", opened.first, None)
            if lines is not None:
                prompt.run(lines, echo=True)
            elif sys.stdin.isatty():
                with history(sorted(COMMANDS), "tasks_history"):
                    prompt.run(prompt.read_typed_lines(), echo=False)
            else:
                prompt.run(prompt.read_typed_lines() if as_json else prompt.read_script(), echo=not as_json)
    except Quit:
        pass
    unseen = lines is not None or not sys.stdin.isatty()
    is_hung = is_hung or opened.debugger.stop.why in ("deadlock", "stuck")
    return FAILED_STATUS if unseen and (prompt.failed or is_hung) else 0


def show_tasks_once(opened: Session, *, as_json: bool) -> int:
    """Print all tasks and what they wait for, once; return 1 if the program is in a deadlock, or cannot go on."""
    from weft.tasks.console import SCHEMA

    with opened:
        if as_json:
            tasks, waits = opened.do("tasks"), opened.do("waits")
            answer = {"tasks": tasks["tasks"], "waits": waits, "children": tasks["children"]}
            print(json.dumps({"schema": SCHEMA, **answer}))
        else:
            waits = print_tasks_and_waits(opened)
    return FAILED_STATUS if has_hung(waits) else 0


def has_hung(waits: Answer) -> bool:
    """Return whether the answer to `waits` says that tasks wait for each other, or that the program cannot go on."""
    return bool(waits["deadlocks"] or waits["hung"])


def print_tasks_and_waits(opened: Session) -> Answer:
    """Print all tasks and what they wait for, as text; return the answer to `waits`."""
    from weft.tasks.answers import render_verdict

    tasks, waits = opened.do("tasks"), opened.do("waits")
    print(*render_verdict(waits), *opened.console.render_answer(tasks), sep="\n", flush=True)
    return waits


def open_session(args: argparse.Namespace) -> Session:
    """Open a session on the program that the options name, started, attached to or left as a core file, and return
    it."""
    from weft.tasks import session

    command = [*args.program, *args.rest]
    if args.as_openmp:
        print(
            "weft: built as OpenMP: unlike under Cilk, the parent continues first and a spawned child runs later",
            file=sys.stderr,
        )
    if not command and args.pid is None:
        raise UsageError("name a program, as in: weft tasks prog.py")
    if args.record and args.replay:
        raise UsageError("--record and --replay cannot be combined: leave one of them out")
    if args.replay and not Path(args.replay).is_file():
        raise UsageError(f"--replay {args.replay}: this file does not exist; --record FILE writes one")
    return session(
        command,
        runtime=args.runtime,
        pid=args.pid or 0,
        core=args.core,
        record=args.record,
        replay=args.replay,
        as_openmp=args.as_openmp,
    )
