"""Calls and tasks are joined by counting calls, thread by thread; what is damaged is believed in nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.cli.main import main
from weft.endings import describe_ends as ends
from weft.report import run_analyses
from weft.trace import TaskKind, layout
from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import Def
from weft.trace.rankfile import RankFile
from weft.trace.tasks import SWITCH, TaskFile
from weft.trace.varint import encode_string, encode_unsigned


def place(rank: RankBuilder, line: int) -> int:
    """A site for tasks, at a line of solve.py."""
    table = bytes([0x80 | 13 << 3 | 7]) + encode_unsigned(0)
    rank.define_task(
        Def.PYCODE,
        encode_unsigned(line)
        + encode_string("/x/solve.py")
        + encode_string("main")
        + encode_unsigned(line)
        + encode_string(table),
    )
    rank.define_task(
        Def.SITE,
        encode_unsigned(line)
        + encode_unsigned(0)
        + encode_unsigned(0)
        + encode_unsigned(line)
        + encode_unsigned(0)
        + encode_unsigned(0),
    )
    return line


def test_a_call_is_of_the_task_that_was_switched_to_before_it() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.send(1, tag=1)
    r0.switch_task(7, parent=2, name="worker", site=place(r0, 41))
    r0.send(1, tag=2)
    r0.send(1, tag=3)
    r0.switch_task(1, kind=1)
    r0.send(1, tag=4)
    r1.recv(0, tag=1)
    trace = b.open()
    tasks = trace.ranks[0].tasks
    assert tasks is not None and trace.ranks[1].tasks is None and trace.has_tasks and not trace.problems
    assert tasks.ids.tolist() == [0, 7, 7, 1]
    worker = trace.event(0, 2).task
    assert worker is not None and worker == tasks.get(7) and len(tasks) == 2
    assert (worker.label, worker.parent, worker.kind) == ("task 7 (worker)", 2, TaskKind.EXPLICIT)
    assert worker.site.text == "solve.py:41 main"
    assert trace.event(0, 0).task is None and trace.event(1, 0).task is None and tasks.get(2) is None


def test_a_task_whose_end_was_not_written_ends_where_it_says() -> None:
    b = Builder(ranks=1)
    [r0] = b.ranks
    r0.switch_task(7, until=2)
    for tag in range(4):
        r0.send(0, tag=tag)
    assert b.open().ranks[0].tasks.ids.tolist() == [7, 7, 0, 0]  # type: ignore[union-attr]


@pytest.mark.matrix
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=40))
def test_the_join_is_that_of_the_definition(steps: list[tuple[int, bool, int]]) -> None:
    b = Builder(ranks=1)
    [r0] = b.ranks
    current, expected = [0, 0, 0], []
    fresh = [True, True, True]
    for at, (thread, switches, task) in enumerate(steps):
        if switches and fresh[thread]:
            r0.switch_task(task, thread=thread)
            current[thread], fresh[thread] = task, False
        elif not switches:
            r0.call("MPI_Barrier", comm=2, thread=thread, enter=100 * at + 1, exit=100 * at + 50)
            expected.append(current[thread])
            fresh[thread] = True
    tasks = b.open().ranks[0].tasks
    if tasks is not None:
        assert tasks.ids.tolist() == expected


def test_threads_that_had_one_number_in_turn_are_not_told_apart() -> None:
    b = Builder(ranks=1)
    [r0] = b.ranks
    r0.switch_task(7)
    r0.send(0)
    r0.define(
        Def.THREAD,
        encode_unsigned(0)
        + encode_unsigned(1)
        + encode_unsigned(1000)
        + encode_unsigned(0)
        + encode_string("")
        + encode_unsigned(0),
    )
    r0.send(0)
    trace = b.open()
    assert trace.ranks[0].tasks.ids.tolist() == [0, 0]  # type: ignore[union-attr]
    assert "two threads had the number 1000" in trace.problems[0]


@pytest.mark.parametrize("damage", ["cut", "count", "magic", "slot", "order"])
def test_what_is_damaged_is_said_and_believed_in_nothing(damage: str) -> None:
    b = Builder(ranks=1)
    [r0] = b.ranks
    for k in range(6):
        r0.switch_task(k + 1, name=f"task number {k}")
        r0.send(0)
    if damage == "order":
        r0._switches[0][3] = (1, *r0._switches[0][3][1:])
    path = b.write()
    [file] = (path / "tasks").iterdir()
    data = bytearray(file.read_bytes())
    raw = np.frombuffer(data, layout.HEADER, count=1)
    if damage == "cut":
        os.truncate(file, int(raw["chunks"][0]["offset"][0]) + 3 * SWITCH.itemsize)
    elif damage == "count":
        raw["chunks"][0]["used"][1] = 2**50
    elif damage == "magic":
        data[0] ^= 1
    elif damage == "slot":
        raw["slot_size"] = 56
    if damage in ("count", "magic", "slot"):
        file.write_bytes(data)
    import weft

    trace = weft.open(path)
    tasks = trace.ranks[0].tasks
    ids = tasks.ids.tolist() if tasks is not None else [0] * 6
    assert trace.problems and file.name in " ".join(trace.problems)
    assert ids == ([1, 2, 0, 0, 0, 0] if damage == "order" else [0] * 6)
    assert main(["dump", str(path)]) == 0


def test_a_file_of_tasks_is_no_record_and_a_record_no_file_of_tasks() -> None:
    b = Builder(ranks=1)
    [r0] = b.ranks
    r0.switch_task(7)
    r0.send(0)
    path = b.write()
    with pytest.raises(weft_error(), match="not a file of tasks"):
        TaskFile(next((path / "ranks").iterdir()))
    with pytest.raises(weft_error(), match="not a record"):
        RankFile(next((path / "tasks").iterdir()))


def weft_error() -> type[Exception]:
    """What readers raise."""
    from weft.trace import RunError

    return RunError


def test_dump_has_a_column_only_where_there_are_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    with_tasks, without = Builder(ranks=1), Builder(ranks=1)
    for b in (with_tasks, without):
        b.ranks[0].send(0, tag=1)
    with_tasks.ranks[0].switch_task(7, name="left", parent=1)
    with_tasks.ranks[0].send(0, tag=2)
    main(["dump", str(without.write())])
    assert "task" not in capsys.readouterr().out
    path = str(with_tasks.write())
    main(["dump", path])
    head, first, second = capsys.readouterr().out.splitlines()
    assert "task" in head.split() and "left" not in first and "7 left" in second
    main(["dump", path, "--where", "task:7", "--format", "json"])
    [row] = capsys.readouterr().out.splitlines()
    assert '"task": {"id": 7, "name": "left", "kind": "explicit", "parent": 1, "made": null}' in row


def test_calls_that_never_returned_are_told_with_their_tasks() -> None:
    def hung(*tasks: tuple[str, int]) -> Builder:
        b = Builder(ranks=2)
        for rank, (name, line) in zip(b.ranks, tasks, strict=True):
            rank.switch_task(5, name=name, site=place(rank, line))
            rank.open.recv(1 - rank.index, tag=3, site=("solve.py", 9, "step"))
        return b

    [other] = [f for f in run_analyses(hung(("left", 30), ("right", 31)).open()).findings if f.kind == "deadlock"]
    [same] = [f for f in run_analyses(hung(("left", 30), ("left", 30)).open()).findings if f.kind == "deadlock"]
    assert "in task" not in other.message  # of two ranks, and another task of each
    assert "at solve.py:9 in task 5 (left), made at solve.py:30;" in same.message
    b = hung(("left", 30), ("right", 31))
    b.ended = "killed"
    assert ends(b.open()) == [
        "rank 0 was in recv(source=1, tag=3) at solve.py:9 in task 5 (left), made at solve.py:30",
        "rank 1 was in recv(source=0, tag=3) at solve.py:9 in task 5 (right), made at solve.py:31",
    ]
