"""Find where two recorded runs of a program differ.

Use it when a program gives another result than before, or than on another number of ranks.

weft compare REFERENCE RUN                 the first value, call or message that differs, and what follows
weft compare REFERENCE RUN --relative 1e-9 with a tolerance for the values of probes (see `weft probes`)
weft compare REFERENCE RUN --format json   weft-compare/1, for scripts
weft compare REFERENCE RUN --bisect        if hashes of probed arrays differ, replays both runs to find the element
weft compare REFERENCE RUN --debug         opens the debugger at the first difference, in a replay of RUN
weft compare REFERENCE RUN --view          shows both runs in the browser at the first difference

Weft aligns the values of probes by loop, iteration and global index, so the runs may have different numbers of ranks.
It aligns calls rank by rank. By default values are equal if == says so (0.0 equals -0.0); if you give several
tolerances, one that holds suffices. Contents of messages are compared if both runs were recorded with --hash-messages.
Exits 0 if values, calls and the ends of both runs are equal, and 1 if not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _asked
from weft.cli._bisect import bisect_difference
from weft.cli._said import find_and_report_failures
from weft.cli._values import add_tolerances, debug_at, debug_values, given_tolerances
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.compare import Comparison
    from weft.compare.contents import ExemptCalls
    from weft.compare.result_report import ContentReport
    from weft.compare.values import ValueComparison
    from weft.trace import Trace

DIFFERENT_STATUS = 1


def register(subparsers: Any) -> None:
    """Declare `weft compare` and its options to argparse."""
    parser = subparsers.add_parser(
        "compare", help="find the first difference between two runs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="directory of the run to compare with")
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of the other run")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="format of the result (default: text)"
    )
    parser.add_argument("--view", action="store_true", help="show both runs in the browser at the first difference")
    parser.add_argument(
        "--bisect", action="store_true",
        help="if hashes of probed arrays differ, replay both runs to find the first element that differs",
    )  # fmt: skip
    parser.add_argument(
        "--debug", action="store_true", help="open the debugger at the first difference, in a replay of RUN"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--values", action="store_true", help="compare only the values of probes")
    what.add_argument("--calls", action="store_true", help="compare only the MPI calls")
    parser.add_argument(
        "--polls", action="store_true",
        help="also compare tests, nonblocking probes and MPI_Waitsome, whose outcomes depend on timing",
    )  # fmt: skip
    parser.add_argument(
        "--except", action="append", default=[], metavar="FILE:LINE", dest="exempt",
        help="do not compare the contents of messages, such as times, of the calls at this line; repeatable",
    )  # fmt: skip
    add_tolerances(parser)
    _asked.add_trust_option(parser)
    parser.add_argument(
        "--probes",
        type=Path,
        metavar="CONFIG",
        help="take the tolerance of each probe from CONFIG (default: that of RUN)",
    )


def run(args: argparse.Namespace) -> int:
    """Run `weft compare`: print where two runs differ first, or show it; return the exit status."""
    if args.bisect and (args.view or args.calls or args.format != "text"):
        raise UsageError("--bisect compares values and prints text: leave out --view, --calls and --format")
    if args.debug and (args.view or args.format != "text"):
        raise UsageError("--debug opens a prompt: leave out --view and --format")
    if args.view:
        return _view_runs(args)
    values = None if args.calls else _compare_probe_values(args)
    if args.bisect and values is not None:
        from weft.launch.rundir import read_facts

        agreed = [
            (one, _asked.require_consent(one, read_facts(one), trust=args.trust)) for one in (args.reference, args.run)
        ]
        for line in bisect_difference(values, agreed, _read_tolerances(args)):
            print(_indent_line(f"bisected: {line}" if not line.startswith(" ") else line, str))
    if values is not None and (args.values or not _is_same_program(args)):
        status = _print_comparison(args, values, [], {"schema": "weft-compare/1"}, alike=True)
        if not values.alike and args.format == "text":
            _print_commands(args)
        if args.debug and not values.alike:
            debug_values(values, args.run, trust=args.trust)
        return status
    return _compare_calls(args, values)


def _view_runs(args: argparse.Namespace) -> int:
    """Show both runs in the browser, their values, their calls, or both, and return the exit status."""
    from weft.cli.view import view_both

    values = None if args.calls else _compare_probe_values(args)
    calls = values is None or not (args.values or not _is_same_program(args))
    if calls:
        return view_both(open_with_events(args.reference).path, open_with_events(args.run).path, values, calls=True)
    return view_both(args.reference, args.run, values, calls=False)


def _find_exempt_calls(args: argparse.Namespace, trace: Trace) -> ExemptCalls | None:
    """Return the calls that --except names; None without it. UsageError if the run makes no call from such a place."""
    from weft.compare.contents import ExemptCalls

    if not args.exempt:
        return None
    exempt = ExemptCalls(args.exempt)
    if unknown := exempt.find_unknown_places(trace):
        raise UsageError(f"--except {unknown[0]}: {trace.path} has no call at this line (`weft dump` shows the lines)")
    return exempt


def _compare_calls(args: argparse.Namespace, values: ValueComparison | None) -> int:
    """Print where the calls, messages and findings of two runs differ, and return the exit status. With --debug also
    open the debugger at the first difference."""
    from weft.compare import compare, content_report, find_slower_places, result_report
    from weft.compare.report import errors_and_warnings, render_comparison, to_json
    from weft.compare.result_report import compare_message_contents
    from weft.compare.values.tolerance import Tolerance
    from weft.match import match_operations
    from weft.order import order_events

    before, after = open_with_events(args.reference), open_with_events(args.run)
    one, two = match_operations(before), match_operations(after)
    ordered = order_events(after, two)
    comparison = compare(one, two, ordered, with_polls=args.polls)
    tolerance = Tolerance.from_settings(given_tolerances(args))
    messages = compare_message_contents(comparison, ordered, tolerance, _find_exempt_calls(args, after))
    places = find_slower_places(comparison)
    findings = (
        errors_and_warnings(find_and_report_failures(before)),
        errors_and_warnings(find_and_report_failures(after)),
    )
    ended = [(trace.run.get("ended"), trace.run.get("exit_code")) for trace in (before, after)]
    calls = messages.results is None
    said = [
        *messages.lines,
        *render_comparison(comparison, places, findings, with_calls=calls),
        *_describe_missing_values(args, values),
    ]
    document = to_json(comparison, places, findings) | {
        "contents": content_report.to_json(messages.contents, comparison),
        "results": result_report.to_json(messages.results, comparison),
    }
    alike = (comparison.alike or not calls) and messages.alike is not False and ended[0] == ended[1]
    status = _print_comparison(args, values, said, document, alike=alike)
    if args.debug and values is not None and not values.alike:
        debug_values(values, args.run, trust=args.trust)
    elif args.debug and (event := _first_event(comparison, messages)) is not None:
        debug_at(args.run, [f"until {event[0]}:{event[1]}"], trust=args.trust)
    return status


def _describe_missing_values(args: argparse.Namespace, values: ValueComparison | None) -> Iterator[str]:
    """Yield a line if only one of two runs has values."""
    from weft.values.folder import FOLDER

    have = [(run / FOLDER).is_dir() for run in (args.reference, args.run)]
    if values is None and not args.calls and have[0] != have[1]:
        yield f"values were not compared: no probe of the {'run' if have[0] else 'reference'} recorded a value"


def _print_commands(args: argparse.Namespace) -> None:
    """Print how the commands of the two runs differ, if they do."""
    from weft.compare.report import render_commands
    from weft.launch.rundir import read_facts
    from weft.report.text import printable

    for line in render_commands(*(read_facts(run).get("command") for run in (args.reference, args.run))):
        print(printable(line))


def _first_event(comparison: Comparison, messages: ContentReport) -> tuple[int, int] | None:
    """Return (rank, event index) of the call at which the second run differs first: by a message's content, else as a
    call."""
    if messages.first is not None or messages.results is not None:
        return messages.first
    return next((one.after for one in comparison.first if one.after is not None), None)


def _print_comparison(
    args: argparse.Namespace, values: ValueComparison | None, said: list[str], document: dict[str, Any], *, alike: bool
) -> int:
    """Print a comparison as text (lines `said`) or JSON (`document`); return the exit status, 0 if the runs are
    `alike`."""
    from weft.compare.values.report import render_values, to_json
    from weft.report.text import printable

    if args.format == "json":
        more = {} if values is None else {"values": to_json(values)}
        print(json.dumps(document | more, indent=1))
    else:
        shown = [] if values is None else [f"values: {line}" if said else line for line in render_values(values)]
        for line in [*shown, *said]:
            print(_indent_line(line, printable))
    return 0 if alike and (values is None or values.alike) else DIFFERENT_STATUS


def _indent_line(line: str, printable: Any) -> str:
    """Return a line of a comparison with four blanks before a detail, and unprintable characters escaped."""
    plain = line.removeprefix("values: ")
    if not plain.startswith(" "):
        return str(printable(line))
    # The cells of a picture are blanks, too.
    return f"    {plain[4:]}" if plain.startswith("    |") else f"    {printable(plain.strip())}"


def _compare_probe_values(args: argparse.Namespace) -> ValueComparison | None:
    """Return the comparison of what probes recorded; None if a run has no values and nobody asked for them."""
    from weft.compare.values import compare_values
    from weft.values.folder import FOLDER
    from weft.values.trace import ValueTrace

    runs = (args.reference, args.run)
    have = [(run / FOLDER).is_dir() for run in runs]
    # Without calls, either, it is an error that one has no values.
    calls = not any(have) or all(any((run / "ranks").glob("*")) for run in runs)
    if not all(have) and not args.values and (calls or not all(run.is_dir() for run in runs)):
        return None
    return compare_values(ValueTrace.open(args.reference), ValueTrace.open(args.run), _read_tolerances(args))


def _read_tolerances(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return tolerances by probe: those of the command line, else of the configuration."""
    from weft.values.configuration import read_tolerances

    return read_tolerances(args.run, given_tolerances(args), args.probes)


def _is_same_program(args: argparse.Namespace) -> bool:
    """Return whether calls can be compared: the same program with the same number of ranks."""
    from weft.launch.rundir import read_facts

    facts = [read_facts(run) for run in (args.reference, args.run)]
    programs = [[Path(str(word)).name for word in _command_words(one)] for one in facts]
    ranks = [one.get("ranks") for one in facts]
    return bool(ranks[0]) and ranks[0] == ranks[1] and programs[0][:2] == programs[1][:2]


def _command_words(facts: dict[str, object]) -> list[object]:
    command = facts.get("command")
    return command if isinstance(command, list) else []


def open_with_events(path: Path) -> Trace:
    """Open a run and return it. UsageError if it has no events to compare."""
    import weft
    from weft.trace import Level

    trace = weft.open(path)
    trace.require_beginning("a comparison")
    if trace.level == Level.OUTCOMES:
        raise UsageError(
            f"{path} was recorded at level `outcomes`, which has no events to compare: replay it (`weft replay "
            f"{path}`) and compare the replay"
        )
    return trace
