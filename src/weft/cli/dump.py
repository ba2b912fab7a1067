"""Print what a run recorded: every call with its arguments, results, time and line.

weft dump RUN                            all calls in the order of time
weft dump RUN --rank 0-3,7 --function MPI_Send --tag 7 --time 1.2s-3s --comm world
weft dump RUN --where "fn:Recv is:open"  a filter as the view has it (fn rank peer tag comm site time wait count is)
weft dump RUN --definitions              what the names in the calls mean: communicators, datatypes, windows, ...
weft dump RUN --format json              one JSON object a line

RUN is the newest run where it is left out. A call that never returned is shown as "still in this call". Runs of level
`order` hold outcomes in place of calls; these are printed as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.findings import Finding
    from weft.trace import Event, Rank, Trace
    from weft.trace.filter import Filter

MEASURED: Final = 500
"""Rows that are looked at before the first one is printed, to find the columns' widths."""
STYLES: Final = {
    "time": "dim",
    "rank": "cyan",
    "event": "dim",
    "took": "dim",
    "where": "green",
    "task": "magenta",
    "call": "",
}
OPEN: Final = "still in this call"


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "dump", help="print what a run recorded", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (the newest one)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or JSON lines")
    parser.add_argument("--rank", metavar="LIST", help="ranks, such as 0-3,7")
    parser.add_argument("--function", metavar="NAME", help="functions, such as MPI_Send,MPI_Recv or *send*")
    parser.add_argument("--tag", metavar="LIST", help="tags, such as 7 or 100-199")
    parser.add_argument("--time", metavar="SPAN", help="calls under way in a span, such as 1.2s-3s")
    parser.add_argument("--comm", metavar="NAME", help="communicators, such as world or world.dup*")
    parser.add_argument("--where", metavar="FILTER", default="", help='a filter, such as "wait>1ms -fn:Barrier"')
    parser.add_argument("--limit", type=int, metavar="N", help="print N calls at most")
    parser.add_argument("--definitions", action="store_true", help="print definitions in place of calls")


def run(args: argparse.Namespace) -> int:
    """Print a run."""
    import weft
    from weft.launch.rundir import newest
    from weft.trace.filter import Filter

    if args.limit is not None and args.limit < 0:
        raise UsageError(f"--limit {args.limit} is no number of calls")
    Filter(args.where, also=terms(args), findings=())  # what is wrong with it is said before anything is read
    trace = weft.open(args.run or newest())
    wanted = Filter(args.where, also=terms(args), findings=findings(trace, args.where))
    if args.definitions:
        rows = itertools.islice(definitions(trace, wanted), args.limit)
        if args.format == "json":
            print_json({"definition": kind, **facts} for kind, facts in rows)
        else:
            print_definitions(rows)
    else:
        print_calls(trace, wanted, args)
    # Last: reading may have found more to say.
    for problem in trace.problems:
        print(f"weft: {printable(problem)}", file=sys.stderr)
    return 0


def findings(trace: Trace, query: str) -> list[Finding]:
    """The run's findings, where the filter asks for them."""
    from weft.report import analyse

    return analyse(trace) if "finding:" in query else []


def terms(args: argparse.Namespace) -> list[Any]:
    """The terms that the options ask for."""
    from weft.trace.filter import Term

    options = {"rank": args.rank, "fn": args.function, "tag": args.tag, "time": args.time, "comm": args.comm}
    return [Term(key, ":", value) for key, value in options.items() if value is not None]


def print_calls(trace: Trace, wanted: Filter, args: argparse.Namespace) -> None:
    """Print events, or outcomes where the run has these."""
    from weft.terms.shown import event_json
    from weft.trace import Level

    if trace.level == Level.ORDER and not trace.event_count:
        print_outcomes(trace, wanted, args)
        return
    events = itertools.islice(in_time(trace, wanted), args.limit)
    if args.format == "json":
        print_json(map(event_json, events))
    else:
        threaded = any(len(rank.threads) > 1 for rank in trace.ranks)
        heads = tuple(head for head in STYLES if head != "task" or trace.has_tasks)
        print_table(heads, (event_row(event, threaded) for event in events))


def in_time(trace: Trace, wanted: Filter) -> Iterator[Event]:
    """The events that fit, of all ranks in the order of their entry."""

    def keyed(rank: Rank) -> Iterator[tuple[int, int, int]]:
        for block in wanted.indices(rank):
            if len(block):
                first = int(block[0])
                times = rank.enter_ns(slice(first, int(block[-1]) + 1))
                for index in block.tolist():
                    yield int(times[index - first]), rank.index, index

    for _, rank, index in heapq.merge(*map(keyed, wanted.ranks(trace))):
        yield trace.event(rank, index)


# One event


def seconds(ns: int) -> str:
    """Seconds with nine digits, so that a column of them lines up."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 10**9}.{abs(ns) % 10**9:09d}"


def duration(ns: int) -> str:
    """A duration with three digits that count: `820 ns`, `1.25 ms`."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"


def printable(text: str) -> str:
    """Text out of a record without what would steer a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", lambda m: f"\\x{ord(m[0]):02x}", text)


def event_row(event: Event, threaded: bool) -> tuple[str, ...]:
    """One line of the table."""
    from weft.terms.shown import call_text

    took = OPEN if event.exit_ns is None else duration(event.exit_ns - event.enter_ns)
    rank = f"{event.rank.index}.{event.thread.slot}" if threaded else str(event.rank.index)
    task = [task_cell(event)] if event.rank.trace.has_tasks else []
    return seconds(event.enter_ns), rank, str(event.index), took, event.site.text, *task, call_text(event)


def task_cell(event: Event) -> str:
    """`7 worker`, `1 initial`, or nothing."""
    from weft.trace import TaskKind

    task = event.task
    return (
        ""
        if task is None
        else f"{task.id} {task.name or ('' if task.kind == TaskKind.EXPLICIT else task.kind.name.lower())}".strip()
    )


# Runs of level `order`


def print_outcomes(trace: Trace, wanted: Filter, args: argparse.Namespace) -> None:
    """Print the outcomes that a replay would force."""
    from weft.trace.layout import OrderKind

    def outcomes() -> Iterator[tuple[int, int, int, str, int]]:
        for rank in wanted.ranks(trace):
            for thread in rank.threads:
                for position, (kind, value) in enumerate(thread.order):
                    name = OrderKind(kind).name.lower() if kind in list(OrderKind) else f"kind {kind}"
                    yield rank.index, thread.slot, position, name, value

    rows = itertools.islice(outcomes(), args.limit)
    heads = ("rank", "thread", "outcome", "kind", "value")
    if args.format == "json":
        print_json(dict(zip(heads, row, strict=True)) for row in rows)
    else:
        print_table(heads, (tuple(map(str, row)) for row in rows))


# Definitions


def definitions(trace: Trace, wanted: Filter) -> Iterator[tuple[str, dict[str, Any]]]:
    """All definitions as (heading, facts)."""
    for comm in trace.communicators:
        facts: dict[str, Any] = {"name": comm.name, "members": list(comm.members)}
        facts |= {"remote_members": list(comm.remote_members)} if comm.inter else {}
        facts |= {"label": comm.label} if comm.label else {}
        facts |= {"made_by": comm.function} if comm.function else {}
        yield "communicator", facts
    for rank in wanted.ranks(trace):
        for kind, facts in rank_definitions(rank):
            yield kind, {"rank": rank.index, **facts}


def rank_definitions(rank: Rank) -> Iterator[tuple[str, dict[str, Any]]]:
    """The definitions of one rank as (kind, facts)."""
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


def print_definitions(rows: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Print definitions, a line each."""

    def lines() -> Iterator[tuple[str, ...]]:
        for kind, facts in rows:
            rank = facts.pop("rank", None)
            text = ", ".join(f"{key} {value_line(value)}" for key, value in facts.items())
            yield ("" if rank is None else str(rank), kind, text)

    print_table(("rank", "kind", "what"), lines())


def value_line(value: Any) -> str:
    """A fact on one line."""
    from weft.trace.communicators import members_text

    if isinstance(value, list) and value and all(isinstance(v, int) for v in value):
        return f"[{members_text(value)}]"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


# Output


def print_json(rows: Iterator[dict[str, Any]]) -> None:
    """Print objects as JSON lines."""
    for row in rows:
        print(json.dumps(row, default=str))


def print_table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    """Print aligned columns as they come: the first rows decide the widths. Coloured on a terminal only."""
    first = list(itertools.islice(rows, MEASURED))
    widths = [max(len(printable(cell)) for cell in column) for column in zip(heads, *first, strict=True)]
    widths = [*(min(width, 60) for width in widths[:-1]), 0]
    right = {"time", "rank", "event", "thread", "outcome", "value"}

    def line(cells: tuple[str, ...]) -> list[str]:
        clean = map(printable, cells)
        return [
            cell.rjust(width) if head in right else cell.ljust(width)
            for head, cell, width in zip(heads, clean, widths, strict=True)
        ]

    show = painter(heads)
    show(line(heads), True)
    for row in itertools.chain(first, rows):
        show(line(row), False)


def painter(heads: tuple[str, ...]) -> Callable[[list[str], bool], None]:
    """What prints one line of cells."""
    if not sys.stdout.isatty():
        return lambda cells, head: print("  ".join(cells).rstrip())
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    calls = STYLES if "call" in heads else dict.fromkeys(heads[:-1], "cyan")
    styles = [calls.get(head, "") for head in heads]

    def paint(cells: list[str], head: bool) -> None:
        text = Text()
        for cell, style in zip(cells, styles, strict=True):
            text.append(cell, "bold" if head else "bold red" if cell.strip() == OPEN else style)
            text.append("  ")
        console.print(text)

    return paint
