"""Run a program once for each other outcome of its message races, and say what each outcome leads to.

Use it when `weft report` has warned of a message race: it shows whether another order does harm.

weft explore RUN                          tries every other outcome of receives and probes from any source
weft explore RUN --finding 2              tries only one race, by its number in `weft report RUN`
weft explore RUN --budget 300             stops after 300 s (default: 60); the same command continues later
weft explore -n 4 -- ./prog ARGS          records the program first

Each outcome is a run of its own beside RUN, named RUN-other-1 and so on; replay, view or debug it like any run. Exits
with 1 if an outcome does harm: a deadlock, another status, an error that the record does not have, another result.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _asked, _options
from weft.cli._recorded import hash_recorded_execution, record_program
from weft.cli._said import find_and_report_failures, say, shorten_path
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.explore.explored import Explored
    from weft.explore.runs import ReplayRuns
    from weft.explore.search import Search
    from weft.explore.unvaried import Unvaried
    from weft.trace import Trace

TAKES_PROGRAM = True
"""What follows `--` is a program, not ours to parse: it comes as args.rest."""
HARM = 1
MANY = 10
"""The number of outcomes from which on those with equal effects share a line."""


def register(subparsers: Any) -> None:
    """Declare `weft explore` and its options to argparse."""
    parser = subparsers.add_parser(
        "explore", help="run the other outcomes of a program's message races", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="weft explore [RUN] [--finding N] [--budget SECONDS] [--timeout SECONDS] [--jobs N] [--format FORMAT] "
              "[-n N] [--trust] [-- PROGRAM ARGS]",
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument(
        "--finding", type=_options.parse_positive, metavar="N", help="try only the race with this number in the report"
    )
    parser.add_argument(
        "--budget",
        type=_options.parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="stop after SECONDS (default: 60)",
    )
    _options.add_timeout(parser, "end each run after SECONDS (default: 60)", 60.0)
    parser.add_argument(
        "--jobs",
        type=_options.parse_positive,
        metavar="N",
        help="run N outcomes at once (default: cores divided by ranks)",
    )
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="format of the result (default: text)"
    )
    _options.add_ranks(parser, "with PROGRAM: start N ranks with mpiexec")
    _asked.add_trust_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run `weft explore`: run the other outcomes of a program's races, and print what each leads to."""
    import weft
    from weft.explore.explored import summarize_exploration
    from weft.explore.runs import ReplayRuns
    from weft.explore.search import Search
    from weft.explore.unvaried import find_unvaried
    from weft.launch import rundir
    from weft.trace import Level

    made = record_program(args.rest, args.n) if args.run is None and args.rest else None
    trace = weft.open(args.run or made or rundir.find_newest_run())
    trace.require_beginning("an exploration")
    if trace.level is Level.OUTCOMES:
        raise UsageError(f"{trace.path} was recorded at level `outcomes`, which has no events: run `weft replay "
                         f"{trace.path}` once, and explore that replay")  # fmt: skip
    jobs = args.jobs or max(1, len(os.sched_getaffinity(0)) // len(trace.ranks))
    program = args.rest if args.run is not None else ()
    if made is not None:
        word = hash_recorded_execution(made)
    else:
        word = "" if program else _asked.require_consent(trace.path, trace.run, trust=args.trust)
    runs = ReplayRuns(trace.path, program, args.timeout, jobs=jobs, agreed=word)
    search = Search(runs)
    search.only = find_line_of_finding(trace, args.finding)
    ended = "all"
    try:
        first = search.add_run(trace)
        assert first is not None
        if search.left:
            with runs:
                runs.replay_record_twice(trace)
                add_earlier_outcomes(search, runs)
                ended = run_variants(search, args.budget)
    except KeyboardInterrupt:
        if trace.path not in runs.results:  # nothing is known yet
            raise
        ended = "interrupted"
    if not search.left and len(search.outcomes) == 1 and not search.unreached and not search.cut_off:
        return report_no_variants(trace, args, find_unvaried(search.outcomes))
    explored = summarize_exploration(search, runs, ended)
    write_explored(trace, explored, search, runs)
    tell = print_json if args.format == "json" else print_outcomes
    tell(trace, explored)
    if ended == "interrupted":
        return 130
    return HARM if any(row.harmful for row in explored.rows) else 0


def find_line_of_finding(trace: Trace, finding: int | None) -> str | None:
    """Return the call site (`file:line`) of the race that `finding`, its number in the report, means; None without a
    number. UsageError if the number is too large, or the finding is not a message race."""
    if finding is None:
        return None
    from weft.base.words import plural
    from weft.explore.outcomes import describe_call_site

    found = find_and_report_failures(trace)
    if finding > len(found):
        raise UsageError(f"--finding {finding}: the report of {trace.path} has {plural(len(found), 'finding')}")
    one = found[finding - 1]
    if one.kind != "message-race":
        raise UsageError(f"--finding {finding} is a {one.kind}: only a message-race has other outcomes")
    return describe_call_site(trace, one.events[0])


def add_earlier_outcomes(search: Search, runs: ReplayRuns) -> None:
    """Add the outcomes that an earlier exploration of the same run has recorded to the search."""
    import weft
    from weft.explore.outcomes import Variant, describe_call_site
    from weft.replay.force import parse_force
    from weft.trace.explored import read_explored

    before = read_explored(runs.base)
    numbers = {0: 0}
    for one in before.get("outcomes", [])[1:]:
        path = runs.base.with_name(one["run"])
        if not (path / "run.json").is_file() or one.get("parent") not in numbers:
            continue
        parent = search.outcomes[numbers[one["parent"]]]
        try:
            forced = parse_force(one["forced"], parent.trace)
            variant = Variant(parent.number, forced, describe_call_site(parent.trace, forced.event))
            trace = weft.open(path)
        except WeftError:
            continue
        runs.restore_result(trace, one["status"], one["output"])
        outcome = search.add_run(trace, variant)
        if outcome is not None:
            numbers[one["number"]] = outcome.number
    for one in before.get("unreached", []):
        if isinstance(one, dict) and one.get("parent") in numbers:
            search.known.add((numbers[one["parent"]], str(one.get("forced"))))


def run_variants(search: Search, budget: float) -> str:
    """Run variants until all are run (return `all`) or `budget` seconds are over (return `budget`)."""
    from weft.cli._progress import show_progress

    start = time.monotonic()
    with show_progress("exploring") as advance:
        for _ in search.run_variants():
            spent = time.monotonic() - start
            show_progress_of(advance, search, spent / budget)
            search.stopped = spent > budget
    return "budget" if search.has_untried_variant() else "all"


def show_progress_of(advance: Callable[[float, str], None], search: Search, share: float) -> None:
    """Update the progress bar."""
    advance(min(share, 1.0), f"exploring: {len(search.outcomes)} outcomes, {search.left} still to run")


def write_explored(trace: Trace, explored: Explored, search: Search, runs: ReplayRuns) -> None:
    """Write the results of the exploration into the run, as explored.json. If that fails, print a message and go on."""
    from weft.explore.explored import write_explored

    try:
        write_explored(trace.path, explored, [runs.results[one.trace.path] for one in search.outcomes])
    except OSError as error:
        say(f"{trace.path}: the explored outcomes cannot be stored there ({error.strerror})")


def report_no_variants(trace: Trace, args: argparse.Namespace, left: Unvaried) -> int:
    """Print that no other outcome of the run is possible, and return status 0. `left`: what could have other outcomes
    but is not varied."""
    if args.format == "json":
        stays = {"polls": list(left.polls), "sets": list(left.sets)}
        told = {"schema": "weft-explored/1", "outcomes": [], "races": [], "left": 0, "ended": "all", "unvaried": stays}
        print(json.dumps(told))
    else:
        where = "that race" if args.finding else "its wildcard receives, probes and calls of several requests"
        print(f"{shorten_path(trace.path)}: no other outcome is possible: {where} can only come out as recorded")
        for text in left.describe():
            print(text)
    return 0


def print_json(trace: Trace, explored: Explored) -> None:
    """Print the results of the exploration as JSON, with the content of explored.json."""
    from weft.trace.explored import FILE

    print((trace.path / FILE).read_text(), end="")


def print_outcomes(trace: Trace, explored: Explored) -> None:
    """Print the outcomes as a table, then the races."""
    rows = explored.rows
    tried = f"{len(rows)} outcome{'s' if len(rows) != 1 else ''} with the recorded one"
    how = {"all": "all that there are", "budget": "stopped at the end of --budget", "interrupted": "interrupted"}[
        explored.ended
    ]
    if explored.cut_off and explored.ended == "all":
        how = f"{len(explored.cut_off)} more did not run to their end"
    print(f"{shorten_path(trace.path)}: {tried}: {how}")
    if explored.left and explored.ended != "all":
        print(f"at most {explored.left} more are left: the same command continues with them")
    if not explored.steady:
        print("what the program prints differs from replay to replay, so it is not compared")
    print()
    width = max(len(row.run) for row in rows)
    from_width = max([len("as recorded"), *(len(_variant_text(row)) for row in rows)])
    alike = Counter(row.effects for row in rows[1:])
    shown: set[tuple[str, ...]] = set()
    for row in rows:
        if len(rows) > MANY and row.number and row.effects in shown:
            continue
        what = "; ".join(row.effects) or ("as recorded" if row.number == 0 else "the same result")
        print(f"  {row.number:>3}  {row.run:<{width}}  {_variant_text(row):<{from_width}}  {what}")
        if len(rows) > MANY and row.number and alike[row.effects] > 1:
            print(f"       and {alike[row.effects] - 1} more with the same effect (--format json names them)")
            shown.add(row.effects)
    print()
    for line, label in explored.races:
        first = max((row for row in rows if row.line == line and row.harmful), key=lambda row: row.worst, default=None)
        more = f": {first.effects[0]}: weft replay {shorten_path(trace.path.with_name(first.run))}" if first else ""
        print(f"{line}: {label}{more}")
    print_cut_off_variants(trace, explored)
    if explored.unknown:
        print(
            f"not varied: the order in which {explored.unknown} requests of collectives, files and other operations "
            "without messages complete"
        )
    for text in explored.unvaried.describe():
        print(text)


def print_cut_off_variants(trace: Trace, explored: Explored) -> None:
    """Print which variants were not run to their end and why, each with the command that shows it."""
    for variant, why in explored.cut_off[:MANY]:
        run = shorten_path(trace.path.with_name(explored.rows[variant.parent].run))
        print(f"unknown result: weft replay {run} --force {variant.forced}: {why}")
    if len(explored.cut_off) > MANY:
        print(f"unknown results: {len(explored.cut_off) - MANY} more (--format json names them)")
    if explored.cut_off:
        print("run the same command again to retry these; a larger --timeout gives each of them more time")


def _variant_text(row: Any) -> str:
    if row.parent is None:
        return ""
    return f"{row.forced} of {row.parent}"
