"""Print every recorded call with its arguments, results, time and line.

weft dump RUN                            all calls in the order of time
weft dump RUN --rank 0-3,7 --function MPI_Send --tag 7 --time 1.2s-3s --comm world
weft dump RUN --where "fn:Recv is:open"  receives that did not return (keys: fn rank peer tag comm site time is ...)
weft dump RUN --definitions              what the names in the calls mean: communicators, datatypes, windows, ...
weft dump RUN --format json              one JSON object a line
weft dump RUN --format csv -o calls.csv  a table for other tools;  parquet needs `pip install 'weft-debugger[export]'`
weft dump RUN --last 20                  the last calls;  --count: only how many there are

Without RUN, the newest run is taken. A call that never returned is shown as "still in this call". A run of
--level outcomes has no calls: its outcomes are printed instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from weft.base.words import escaped, plural
from weft.cli import _options
from weft.cli._said import find_and_report_failures, say
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.export.time_order import CallRows
    from weft.findings import Finding
    from weft.trace import Event, Rank, Trace
    from weft.trace.filter import Filter

Row = TypeVar("Row")

MEASURED: Final = 500
"""The rows that are read before the first one is printed, to find the columns' widths."""
FORMATS: Final = ("text", "json", "csv", "parquet")
STYLES: Final = {
    "time": "dim",
    "rank": "cyan",
    "event": "dim",
    "took": "dim",
    "where": "green",
    "task": "magenta",
    "call": "",
}


def register(subparsers: Any) -> None:
    """Declare `weft dump` and its options to argparse."""
    parser = subparsers.add_parser(
        "dump", help="print the recorded calls as a table", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="text (default), JSON lines, CSV or Parquet")
    _options.add_output(parser)
    parser.add_argument("--rank", metavar="LIST", help="show only these ranks, such as 0-3,7")
    parser.add_argument(
        "--function", metavar="NAME", help="show only these functions, such as MPI_Send,MPI_Recv or *send*"
    )
    parser.add_argument("--tag", metavar="LIST", help="show only these tags, such as 7 or 100-199")
    parser.add_argument("--time", metavar="SPAN", help="show only calls that were active in this span, such as 1.2s-3s")
    parser.add_argument("--comm", metavar="NAME", help="show only these communicators, such as world or world.dup*")
    parser.add_argument(
        "--where", metavar="FILTER", default="", help='show only calls that match, such as "wait>1ms -fn:Barrier"'
    )
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--first", type=parse_call_count, metavar="N", help="print only the first N calls")
    ends.add_argument("--last", type=parse_call_count, metavar="N", help="print only the last N calls")
    ends.add_argument("--count", action="store_true", help="print only the number of calls")
    parser.add_argument(
        "--definitions",
        action="store_true",
        help="print communicators, datatypes, windows and other definitions instead of calls",
    )


def parse_call_count(text: str) -> int:
    """Return the number of calls that an option's value names."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of calls")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run `weft dump`: print the calls of a run that the options choose."""
    import weft
    from weft.cli._streams import end_when_reader_leaves
    from weft.launch.rundir import find_newest_run
    from weft.report.rings import describe_suffix
    from weft.trace.filter import Filter

    # An error in the filter comes before anything is read.
    Filter(args.where, also=make_option_terms(args), findings=())
    trace = weft.open(args.run or find_newest_run())
    wanted = Filter(args.where, also=make_option_terms(args), findings=find_if_needed(trace, args.where))
    refuse_absent_ranks(trace, wanted)
    end_when_reader_leaves()
    try:
        with open_output(args) as to:
            print_run(trace, wanted, args, to)
            to.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WeftError(f"{args.output or 'standard output'} cannot be written: {error.strerror}") from error
    # Last: reading may have found more to say.
    for problem in (*describe_suffix(trace), *trace.problems):
        print(f"weft: {escaped(problem)}", file=sys.stderr)
    return 0


def refuse_absent_ranks(trace: Trace, wanted: Filter) -> None:
    """Raise UsageError if the filter names ranks or functions that do not exist; ranges are cut with a note."""
    names = [function.name for function in trace.functions]
    if unknown := wanted.find_unknown_functions(names):
        from weft.cli._wrong_words import suggest

        raise UsageError(f"there is no function {escaped(unknown[0])}{suggest(unknown[0], names)}")
    if beyond := wanted.absent_ranks(len(trace.ranks), in_part=True):
        say(f"note: the run has {plural(len(trace.ranks), 'rank')}: without {', '.join(beyond)}")
    absent = wanted.absent_ranks(len(trace.ranks))
    if absent:
        has = f"ranks 0 to {len(trace.ranks) - 1}" if len(trace.ranks) > 1 else "rank 0 only"
        lacking = f"{'rank' if len(absent) == 1 and absent[0].isdigit() else 'ranks'} {', '.join(absent)}"
        raise UsageError(f"the filter names {lacking}, but {escaped(str(trace.path))} has {has}")


def open_output(args: argparse.Namespace) -> Any:
    """Return the file that --output names, or standard output, as a stream for text or bytes. UsageError for Parquet
    to a terminal."""
    binary = args.format in ("csv", "parquet") and not args.count and not args.definitions
    if args.output is not None:
        return args.output.open("wb") if binary else args.output.open("w", encoding="utf-8", errors="backslashreplace")
    if args.format == "parquet" and binary and sys.stdout.isatty():
        raise UsageError("Parquet is binary, which a terminal cannot show: name a file with -o FILE")
    if binary and sys.stdout.isatty():
        return nullcontext(TerminalBytes())
    return nullcontext(sys.stdout.buffer if binary else sys.stdout)


class TerminalBytes:
    """Writes a table of bytes to a terminal, which shows control characters and does not obey them."""

    def write(self, data: Any) -> int:
        """Print lines in UTF-8."""
        sys.stdout.write(bytes(data).decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()


def print_run(trace: Trace, wanted: Filter, args: argparse.Namespace, to: IO[Any]) -> None:
    """Print calls, outcomes or definitions, as the arguments say."""
    from weft.trace import Level

    if args.definitions:
        if args.format in ("csv", "parquet"):
            raise UsageError(
                f"--format {args.format} is a table of calls: with --definitions, leave --format out or use --format "
                "json"
            )
        rows = select_rows(list_definitions(trace, wanted), args, to)
        if args.format == "json":
            print_json(({"definition": kind, **facts} for kind, facts in rows), to)
        elif not args.count:
            print_definitions(rows, to)
    elif trace.level == Level.OUTCOMES and not trace.event_count:
        print_outcomes(trace, wanted, args, to)
    elif args.count:
        print(wanted.count(trace), file=to)
    else:
        print_calls(trace, wanted, args, to)


def select_rows(rows: Iterable[Row], args: argparse.Namespace, to: IO[Any]) -> Iterator[Row]:
    """Return the first or last rows, as --first or --last asks. With --count print how many rows there are, and return
    none."""
    if args.count:
        print(sum(1 for _ in rows), file=to)
        return iter(())
    return iter(deque(rows, args.last)) if args.last is not None else itertools.islice(rows, args.first)


def find_if_needed(trace: Trace, query: str) -> list[Finding]:
    """Return the run's findings, if the filter needs them."""
    return find_and_report_failures(trace) if "finding:" in query else []


def make_option_terms(args: argparse.Namespace) -> list[Any]:
    """Return the filter terms for the options --rank, --function, --tag, --time and --comm that were given."""
    from weft.trace.filter import Term

    options = {"rank": args.rank, "fn": args.function, "tag": args.tag, "time": args.time, "comm": args.comm}
    return [Term(key, ":", value) for key, value in options.items() if value is not None]


def print_calls(trace: Trace, wanted: Filter, args: argparse.Namespace, to: IO[Any]) -> None:
    """Print the calls that pass the filter, in order of time; a file that is written shows its progress."""
    from weft.cli._progress import show_progress
    from weft.export.time_order import limit_calls, read_calls_in_time_order

    found = limit_calls(read_calls_in_time_order(trace, wanted), args.first, args.last)
    if args.output is None:
        write_calls(trace, found, args, to)
        return
    with show_progress(f"writing {args.output.name}") as advance:
        write_calls(trace, report_progress_of_rows(found, trace, advance), args, to)


def report_progress_of_rows(
    found: Iterator[CallRows], trace: Trace, advance: Callable[[float, str], None]
) -> Iterator[CallRows]:
    """Yield the rows of calls unchanged. After each part report which share of the run's calls is written."""
    done = 0
    for rows in found:
        yield rows
        done += len(rows)
        advance(done / max(trace.event_count, 1), "")


def write_calls(trace: Trace, found: Iterator[CallRows], args: argparse.Namespace, to: IO[Any]) -> None:
    """Write calls to an open stream as text, JSON lines, CSV or Parquet."""
    if args.format == "csv":
        from weft.export.csv_table import write_csv

        write_csv(trace, found, to)
        return
    if args.format == "parquet":
        from weft.export.arrow_tables import write_parquet

        write_parquet(trace, found, to)
        return
    from weft.export.call_lines import CallLineWriter, CallTable

    if args.format == "json":
        writer = CallLineWriter(trace, None)
        write_lines((text for rows in found for text in writer.render_lines(rows)), to)
        return
    first = next(found, None)
    table = CallTable(trace, list(itertools.islice(iterate_events(trace, first), MEASURED)) if first else [])
    show = make_line_printer(table.heads, to)
    show(table.header_cells(), True)
    if first is None:
        return
    if to.isatty():
        for rows in itertools.chain([first], found):
            for event in iterate_events(trace, rows):
                show(table.align_cells(event), False)
        return
    writer = CallLineWriter(trace, table)
    write_lines((text for rows in itertools.chain([first], found) for text in writer.render_lines(rows)), to)


def write_lines(parts: Iterable[bytes], to: IO[Any]) -> None:
    """Write lines in UTF-8, without decoding them if possible."""
    buffer = getattr(to, "buffer", None)
    if buffer is None or (getattr(to, "encoding", None) or "").lower().replace("-", "") != "utf8":
        to.writelines(part.decode() for part in parts)
        return
    to.flush()
    for part in parts:
        buffer.write(part)


def iterate_events(trace: Trace, rows: CallRows) -> Iterator[Event]:
    """Return an iterator over the calls of some rows, one Event each."""
    from weft.export.time_order import iterate_call_ids

    return (trace.event(rank, index) for rank, index in iterate_call_ids(rows))


# Runs of level `outcomes`


def print_outcomes(trace: Trace, wanted: Filter, args: argparse.Namespace, to: IO[Any]) -> None:
    """Print the recorded outcomes of wildcards, tests and waits that a replay would force."""
    from weft.trace.layout import LogKind

    def find_outcomes() -> Iterator[tuple[int, int, int, str, int]]:
        """Yield (rank, thread slot, position, name, value) of each outcome."""
        for rank in wanted.ranks(trace):
            for thread in rank.threads:
                for position, (kind, value) in enumerate(thread.outcome_log):
                    name = LogKind(kind).name.lower() if kind in list(LogKind) else f"kind {kind}"
                    yield rank.index, thread.slot, position, name, value

    if args.format in ("csv", "parquet"):
        raise UsageError(f"{trace.path} is a run of level outcomes, which holds no calls: record it with --level trace")
    rows = select_rows(find_outcomes(), args, to)
    heads = ("rank", "thread", "outcome", "kind", "value")
    if args.format == "json":
        print_json((dict(zip(heads, row, strict=True)) for row in rows), to)
    elif not args.count:
        print_table(heads, (tuple(map(str, row)) for row in rows), to)


# Definitions


def list_definitions(trace: Trace, wanted: Filter) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield all definitions as (heading, facts)."""
    for comm in trace.communicators:
        facts: dict[str, Any] = {"name": comm.name, "members": list(comm.members)}
        facts |= {"remote_members": list(comm.remote_members)} if comm.inter else {}
        facts |= {"label": comm.label} if comm.label else {}
        facts |= {"made_by": comm.function} if comm.function else {}
        yield "communicator", facts
    for rank in wanted.ranks(trace):
        for kind, facts in list_rank_definitions(rank):
            yield kind, {"rank": rank.index, **facts}


def list_rank_definitions(rank: Rank) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the definitions of one rank as (kind, facts)."""
    from weft.trace.layout import Def

    d = rank.definitions
    header = rank.header
    if header is None:
        yield "process", {"state": rank.state}
        return
    facts = {"state": rank.state, "host": header.host, "pid": header.pid, "world": rank.world, "argv": d.argv}
    facts |= {"cwd": d.cwd, "library": list(d.library or ()), "python": d.python, "notes": d.notes}
    yield "process", {key: value for key, value in facts.items() if value not in (None, [], "")}
    for thread in d.threads:
        yield "thread", dataclasses.asdict(thread)
    for id in d.ids(Def.DATATYPE):
        made = rank.datatype(id)
        if made is not None:
            signature = made.signature()
            yield "datatype", {"id": id, "name": made.name, "combiner": made.combiner, "size": made.size,
                               "lb": made.lb, "extent": made.extent,
                               "signature": signature and [list(r) for r in signature[:64]]}  # fmt: skip
    for id in d.ids(Def.GROUP):
        runs = d.get(Def.GROUP, id)
        yield "group", {"id": id, "members": [dataclasses.astuple(run) for run in runs or ()]}
    for kind in (Def.WINDOW, Def.FILE, Def.WORLD, Def.MODULE):
        for value in d.all(kind):
            facts = dataclasses.asdict(value)
            if kind in (Def.WINDOW, Def.FILE):
                facts["comm"] = rank.object_name("COMM", value.comm)
            yield kind.name.lower(), facts
    for id in d.ids(Def.OP):
        yield "op", {"id": id, "commutes": d.get(Def.OP, id)}
    for id in d.ids(Def.SITE):
        yield "site", {"id": id, "text": rank.site(id).text}
    for (cls, id), name in d.names.items():
        yield "name", {"class": cls, "id": id, "name": name}
    for name, value in d.environment.items():
        yield "environment", {"name": name, "value": value}


def print_definitions(rows: Iterator[tuple[str, dict[str, object]]], to: IO[Any]) -> None:
    """Print definitions, one on each line."""

    def format_rows() -> Iterator[tuple[str, ...]]:
        """Yield rank, kind and facts of each definition, as cells."""
        for kind, facts in rows:
            rank = facts.pop("rank", None)
            text = ", ".join(f"{key} {format_value(value)}" for key, value in facts.items())
            yield ("" if rank is None else str(rank), kind, text)

    print_table(("rank", "kind", "what"), format_rows(), to)


def format_value(value: object) -> str:
    """Return the value of a definition as text on one line; lists of numbers become ranges, long texts are cut."""
    from weft.trace.communicators import format_members

    if isinstance(value, list) and value and all(isinstance(v, int) for v in value):
        return f"[{format_members(value)}]"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


# Output


def print_json(rows: Iterator[dict[str, object]], to: IO[Any]) -> None:
    """Print objects as JSON lines."""
    for row in rows:
        print(json.dumps(row, default=str), file=to)


def print_table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]], to: IO[Any]) -> None:
    """Print aligned columns as they come: the first rows decide the widths. Coloured on a terminal only."""
    first = list(itertools.islice(rows, MEASURED))
    widths = [max(len(escaped(cell)) for cell in column) for column in zip(heads, *first, strict=True)]
    widths = [*(min(width, 60) for width in widths[:-1]), 0]
    right = {"rank", "thread", "outcome", "value"}

    def pad_cells(cells: tuple[str, ...]) -> list[str]:
        """Return the cells of a row, padded to the columns' widths."""
        clean = map(escaped, cells)
        return [
            cell.rjust(width) if head in right else cell.ljust(width)
            for head, cell, width in zip(heads, clean, widths, strict=True)
        ]

    show = make_line_printer(heads, to)
    show(pad_cells(heads), True)
    for row in itertools.chain(first, rows):
        show(pad_cells(row), False)


def make_line_printer(heads: tuple[str, ...], to: IO[Any]) -> Callable[[list[str], bool], None]:
    """Return a function `(cells, head)` that prints one line of a table, in colours at a terminal."""
    if not to.isatty():
        return lambda cells, head: print("  ".join(cells).rstrip(), file=to)
    from rich.console import Console
    from rich.text import Text

    from weft.terms.call_text import OPEN

    console = Console(file=to, soft_wrap=True, highlight=False)
    calls = STYLES if "call" in heads else dict.fromkeys(heads[:-1], "cyan")
    styles = [calls.get(head, "") for head in heads]

    def print_line(cells: list[str], head: bool) -> None:
        """Print cells in the colours of their columns; a heading is bold."""
        text = Text()
        for cell, style in zip(cells, styles, strict=True):
            text.append(cell, "bold" if head else "bold red" if cell.strip() == OPEN else style)
            text.append("  ")
        console.print(text)

    return print_line
