"""Lines and tables of calls: what the kernel writes is what Python says of each call."""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import UsageError
from weft.export.call_lines import CallLineWriter, CallTable
from weft.export.time_order import iterate_call_ids, limit_calls, read_calls_in_time_order
from weft.terms.call_text import event_json
from weft.trace import Event, Flag, Function, Parameter, Rank, Status, Trace
from weft.trace.builder import ANY, Builder
from weft.trace.filter import Filter
from weft.trace.layout import ANY_TAG, IN_PLACE

SEEDS = range(2)
TAKEN = {
    "name",
    "status",
    "site",
    "open",
    "error",
    "enter",
    "exit",
    "thread",
    "ticket",
    "flags",
    "polls",
    "calls",
    "result",
}
"""Words that the builder has another use for."""


def some(draw: random.Random, parameter: Parameter) -> Any:
    """A value for a parameter, of the sort that its place holds."""
    if parameter.array and parameter.place == "tail":
        return [one(draw, parameter) for _ in range(draw.choice((0, 1, 3, 8, 9, 40)))]
    return one(draw, parameter)


def one(draw: random.Random, parameter: Parameter) -> Any:
    small = {"count": 2**31 - 2, "peer": 2000, "tag": 2**31 - 1, "object": 2**32 - 1}.get(parameter.place, 2**62)
    if parameter.handle:
        return draw.choice((0, 1, 2, 3, 4, 255, 256, 257, 300, 90_000))
    if parameter.type == "status":
        return draw.choice((None, Status(3, 7, 2**40, True, 16), Status(-1, -1, 0)))
    if parameter.type == "string":
        return draw.choice(("", "plain", "a\nb \x1b[31m", "ü"))
    if parameter.type == "double":
        return draw.choice((0.0, 1.5, -1e300))
    if parameter.type == "address":
        return draw.choice((0, IN_PLACE, 4096, 2**63))
    low = -3 if parameter.kind in ("RANK", "RANK_NNI", "TAG", "INDEX") else 0
    return draw.choice((low, -1 if low else 0, 0, 1, 7, draw.randint(0, small)))


def record(draw: random.Random, r: Any, function: Function) -> None:
    free = [p for p in function.parameters if p.place not in ("none", "status", "flag") and p.name not in TAKEN]
    given = {p.name: some(draw, p) for p in free}
    status = draw.choice((None, Status(2, 5, 12), Status(0, 0, 2**33), Status(-1, 3, 0)))
    if "status" in function.parameters_by_name and function.parameters_by_name["status"].type != "status":
        status = None
    flags = 0
    for flag, odds in ((Flag.TRUE, 0.5), (Flag.CANCELLED, 0.1), (Flag.BUFFER_CHANGED, 0.1), (Flag.ANY_TAG, 0.2)):
        flags |= flag if draw.random() < odds else 0
    r.call(
        function.name, **given, status=status, flags=int(flags), open=draw.random() < 0.1,
        calls=draw.choice((0, 2, 70_000)) if function.is_folded else 0,
        error=draw.choice((0, 0, 0, 5, 255)), ticket=draw.choice((None, 0, 10**12)),
        site=draw.choice((None, ("a.py", 3, "f"), ("long/name/ü.c", 12345, "g\x07"))),
    )  # fmt: skip


@pytest.fixture(scope="module", params=SEEDS)
def every_function(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Calls of all functions with values of all sorts, on two ranks, one of them with two threads."""
    draw = random.Random(request.param)
    b = Builder(ranks=2, path=tmp_path_factory.mktemp("every"))
    b.dup()
    window = b.window(size=64)
    assert window
    for function in b.functions:
        for r in b.ranks:
            record(draw, r, function)
    if request.param:
        b.ranks[1].call("MPI_Barrier", comm=2, thread=1)
    return b.open()


def events(trace: Trace) -> list[Event]:
    return [trace.event(*one) for rows in read_calls_in_time_order(trace, Filter("")) for one in iterate_call_ids(rows)]


def written(trace: Trace, table: CallTable | None) -> list[str]:
    writer = CallLineWriter(trace, table)
    text = b"".join(part for rows in read_calls_in_time_order(trace, Filter("")) for part in writer.render_lines(rows))
    return text.decode().split("\n")[:-1]


@pytest.mark.cases(1)
def test_text_is_what_python_says_of_each_call(every_function: Trace) -> None:
    found = events(every_function)
    table = CallTable(every_function, found[:100])
    assert written(every_function, table) == ["  ".join(table.align_cells(event)).rstrip() for event in found]


@pytest.mark.cases(1)
def test_json_is_what_python_says_of_each_call(every_function: Trace) -> None:
    assert written(every_function, None) == [json.dumps(event_json(event)) for event in events(every_function)]


def test_python_writes_only_what_is_rare(every_function: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Event] = []
    whole = CallLineWriter._render_call_in_python
    monkeypatch.setattr(
        CallLineWriter, "_render_call_in_python", lambda self, event: left.append(event) or whole(self, event)
    )
    written(every_function, None)
    rare = {"string", "double"}
    assert left
    assert all({p.type for p in event.function.parameters} & rare for event in left)


def merged(trace: Trace) -> list[tuple[int, int]]:
    """The order of time, one call after the other."""

    def keyed(rank: Rank) -> Iterator[tuple[int, int, int]]:
        times = rank.enter_ns()
        for index in range(len(rank)):
            yield int(times[index]), rank.index, index

    return [(rank, index) for _, rank, index in heapq.merge(*map(keyed, trace.ranks))]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_is_that_of_time_whatever_the_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    b = Builder(ranks=5)
    for r in b.ranks:
        at = 0
        for _ in range(draw.randint(0, 60)):
            # Times of a damaged clock go back.
            at += draw.choice((0, 0, 1, 5, 400, -3))
            r.call("MPI_Barrier", comm=2, enter=max(at, 0), exit=max(at, 0) + 1)
    monkeypatch.setattr("weft.export.time_order.LEAST", 4)
    monkeypatch.setattr("weft.export.time_order.AT_ONCE", 7)
    trace = b.open()
    wanted = merged(trace)
    assert [one for rows in read_calls_in_time_order(trace, Filter("")) for one in iterate_call_ids(rows)] == wanted
    for count in (0, 1, 9, 10**6):
        first = [
            one
            for rows in limit_calls(read_calls_in_time_order(trace, Filter("")), count, None)
            for one in iterate_call_ids(rows)
        ]
        last = [
            one
            for rows in limit_calls(read_calls_in_time_order(trace, Filter("")), None, count)
            for one in iterate_call_ids(rows)
        ]
        assert first == wanted[:count]
        assert last == wanted[max(0, len(wanted) - count) :]


@pytest.fixture
def run(tmp_path: Path) -> Trace:
    """Two ranks that send and receive, and one call that never returns."""
    b = Builder(ranks=2, path=tmp_path / "run")
    r0, r1 = b.ranks
    r0.send(1, tag=7, count=3, site=("step.py", 9, "exchange"))
    r1.recv(ANY, got=0, tag=ANY_TAG, got_tag=7, count=5, received=12, site=("step.py", 14, "collect"))
    r0.barrier()
    r1.open.recv(0, tag=99)
    return weft.open(b.write())


def test_arrow_and_pandas_hold_the_columns_of_an_export(run: Trace, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    from weft.export import write

    table = run.to_arrow()
    write(run, "parquet", tmp_path / "out")
    exported = pq.read_table(tmp_path / "out" / "calls.parquet")
    assert table.column_names == exported.column_names
    assert sorted(map(str, table.to_pylist())) == sorted(map(str, exported.to_pylist()))
    assert table["enter_ns"].to_pylist() == sorted(exported["enter_ns"].to_pylist())
    assert run.to_arrow("is:open")["tag"].to_pylist() == [99]
    assert run.to_arrow("fn:Nothing").num_rows == 0


def test_a_frame_of_pandas_has_the_same_rows(run: Trace) -> None:
    pytest.importorskip("pandas")
    frame = run.to_pandas()
    assert frame["function"].tolist() == ["MPI_Send", "MPI_Recv", "MPI_Barrier", "MPI_Recv"]
    assert frame["exit_ns"].isna().tolist() == [False, False, False, True]
    assert str(frame["exit_ns"].dtype) == "Int64"
    assert np.all(frame["rank"] == [0, 1, 0, 1])


def test_a_notebook_shows_the_numbers_and_the_status_above_the_picture(run: Trace) -> None:
    html = run._repr_html_() or ""
    facts, _, picture = html.partition("</p>")
    assert "2 ranks, 4 calls" in facts and "of them" in facts
    assert picture.startswith("<svg")
    evil = Builder(ranks=1, path=run.path.parent / "<b>&", ended="deadlock")
    evil.ranks[0].barrier()
    facts = weft.open(evil.write()).facts_html()
    assert "&lt;b&gt;&amp;" in facts and "stopped in a deadlock" in facts and "1 rank, 1 calls" not in facts


@pytest.mark.parametrize(("form", "package"), [("to_arrow", "pyarrow"), ("to_pandas", "pandas")])
def test_a_missing_package_is_named_with_what_brings_it(
    run: Trace, form: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{package} .*weft-debugger\[export\]"):
        getattr(run, form)()
