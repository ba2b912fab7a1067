"""The tasks of a rank at the prompt of `weft debug`: OpenMP's through gdb, asyncio's through the agent in the rank."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from debug.conftest import PROGRAMS, Recorded
from debug.test_python import SCHEMA
from machine import ability, need
from tests_support import Installed, execute


def line(text: str, program: str) -> int:
    """The number of the only line of a program that holds a text."""
    source = (PROGRAMS / program).read_text().splitlines()
    [found] = [i for i, row in enumerate(source, 1) if text in row]
    return found


@pytest.fixture(scope="module")
def hybrid(
    record: Callable[..., Recorded], mpich: Installed, tmp_path_factory: pytest.TempPathFactory, gdb: None
) -> Recorded:
    """Two ranks of MPI and OpenMP, by gcc."""
    need("OMPT")
    target = tmp_path_factory.mktemp("hybrid") / "hybrid"
    done = execute([mpich.mpicc, "-g", "-O0", "-fopenmp", "-o", target, PROGRAMS / "hybrid.c"])
    assert done.returncode == 0, done.stderr
    return record("hybrid", "-n", "2", "--", target)


@pytest.fixture(scope="module")
def served(record: Callable[..., Recorded], mpich: Installed) -> Recorded:
    """Two ranks of mpi4py and asyncio."""
    return record("served", "-n", "2", "--", sys.executable, PROGRAMS / "served.py")


def of_rank(answers: list[dict[str, Any]]) -> list[Any]:
    """The answers of tasks' commands."""
    for answer in answers:
        jsonschema.validate(answer, SCHEMA)
    return [answer["answer"]["answer"] if answer["ok"] and answer["answer"]["kind"] == "of-rank" else answer
            for answer in answers]  # fmt: skip


@pytest.mark.matrix
def test_openmp_tasks_of_every_rank_are_listed_with_those_that_have_not_begun(hybrid: Recorded) -> None:
    made, sent = line("#pragma omp task shared(sums)", "hybrid.c"), line("if (rank == 0) MPI_Send", "hybrid.c")
    _, zero, one, tree, waits = of_rank(hybrid.answers("tasks", "tasks new @1", "tasks --tree", "waits @1"))
    states = [row["state"] for row in zero["tasks"]]
    assert states.count("new") == 2 and states.count("top") >= 2
    assert {row["created"]["line"] for row in one["tasks"]} <= {made, made - 1, made + 1} and len(one["tasks"]) == 2
    assert any(row["at"] and row["at"]["line"] == sent for row in zero["tasks"])
    assert [row["depth"] for row in tree["tasks"]].count(1) >= 2
    assert waits["deadlocks"] == []


@pytest.mark.matrix
def test_one_openmp_task_is_stepped_through_calls_of_mpi_while_others_run(hybrid: Recorded) -> None:
    answers = of_rank(hybrid.answers("tasks top @1"))
    received = line("if (rank == 1) MPI_Recv", "hybrid.c")
    [main] = [row for row in answers[1]["tasks"] if row["at"] and row["at"]["line"] == received]
    steps = of_rank(hybrid.answers(
        f"task {main['id']} @1", "where", "print value", "next", "print value", "next", "next", "next", "continue",
    ))  # fmt: skip
    assert steps[2]["frames"][0]["line"] == received
    assert steps[3]["value"] == "2"
    assert (steps[4]["task"], steps[4]["at"]["line"]) == (main["id"], received + 1)  # rank 0 has sent meanwhile
    assert steps[5]["value"] == "1"
    assert [s["at"]["line"] for s in steps[6:8]] == [received + 2, received + 3]
    assert steps[8]["at"]["line"] == received + 4  # past the taskwait: the children have run
    assert steps[9]["answer"]["over"]
    assert "rank 1: 69 101" in steps[9]["output"] and "rank 0: 9 101" in steps[9]["output"]


@pytest.mark.matrix
def test_an_openmp_task_that_has_not_begun_is_followed_to_its_join(hybrid: Recorded) -> None:
    body = line("long sum = work", "hybrid.c")
    new = of_rank(hybrid.answers("tasks new"))[1]["tasks"][1]
    steps = of_rank(hybrid.answers(
        f"task {new['id']}", "next", "where", "print i", "step", "finish", "next", "next", "next",
    ))  # fmt: skip
    assert (steps[2]["task"], steps[2]["at"]["line"]) == (new["id"], body)
    assert len(steps[3]["frames"]) == 1 and steps[3]["spawns"][0]["task"] == new["parent"]
    assert steps[4]["value"] == "1"
    assert steps[5]["at"]["function"] == "work"
    seen = [(s["why"], s["task"], s["at"]["line"]) for s in steps[6:9]]
    assert ("joined", new["parent"], line("sums[2] = ", "hybrid.c")) in seen, seen


def test_a_breakpoint_stops_one_openmp_task_of_one_rank(hybrid: Recorded) -> None:
    body = line("sums[i] = sum", "hybrid.c")
    new = of_rank(hybrid.answers("tasks new @1"))[1]["tasks"][1]
    out = hybrid.debug(
        f"break hybrid.c:{body} task {new['id']} @1", "continue", "print i", "tasks top", "breakpoints", "continue"
    )
    assert f"rank 1  task {new['id']} at hybrid.c:{body}" in out
    assert "(weft) print i\nrank 1: 1\n" in out
    assert f"1: hybrid.c:{body}, in the source on rank 1, task {new['id']}" in out
    assert out.endswith("the program has ended\n")
    assert out.count(f" at hybrid.c:{body} ") == 1  # the other task passes there too, and on rank 0 both


@pytest.mark.matrix
def test_asyncio_tasks_of_every_rank_are_listed_with_what_they_wait_for(served: Recorded) -> None:
    send = line("comm.send(", "served.py")
    _, zero, one, waits = of_rank(served.answers("tasks", "tasks @1", "waits"))
    rows = {row["name"] or "main": row for row in zero["tasks"]}
    assert {name: row["state"] for name, row in rows.items()} == {"main": "heap", "server": "top", "counter": "new"}
    assert rows["server"]["at"]["line"] == send
    assert rows["server"]["created"]["line"] == line("server = ", "served.py")
    assert rows["main"]["wait"]["tasks"] == [rows["server"]["id"]]
    assert [row["state"] for row in one["tasks"]] == ["heap", "top", "new"]
    assert [row["id"] for row in waits["waits"]] == [rows["main"]["id"]] and waits["deadlocks"] == []


@pytest.mark.matrix
def test_one_asyncio_task_is_stepped_through_calls_of_mpi_to_its_join(served: Recorded) -> None:
    send = line("comm.send(", "served.py")
    steps = of_rank(served.answers(
        "task server @1", "where", "next", "next", "print part", "next", "next", "next", "next", "where", "continue",
    ))  # fmt: skip
    where = steps[2]
    assert where["frames"][0]["line"] == send and where["spawns"][0]["at"]["function"] == "main"
    assert [s["at"]["line"] for s in (steps[3], steps[4])] == [send + 1, send + 2]
    assert steps[5]["value"] == "1"  # what rank 0 has sent
    assert [s["at"]["line"] for s in (steps[6], steps[7])] == [send + 3, send + 4]
    assert {s["task"] for s in steps[3:8] if "task" in s} == {steps[3]["task"]}
    joined = next(s for s in steps[8:10] if s["why"] == "joined")
    assert joined["at"]["line"] in (line("got = await", "served.py"), line("n = await", "served.py"))
    assert steps[-1]["answer"]["over"]
    assert "rank 1: 3 3" in steps[-1]["output"] and "rank 0: 5 3" in steps[-1]["output"]


@pytest.mark.matrix
def test_an_asyncio_task_that_has_not_begun_is_stepped_while_the_others_run(served: Recorded) -> None:
    first = line("n = 0", "served.py")
    steps = of_rank(served.answers("task counter", "next", "next", "next", "next", "tasks", "follow child", "print n"))
    assert [s["at"]["line"] for s in steps[2:6]] == [first, first + 1, first + 2, first + 3]
    assert {s["label"] for s in steps[2:6]} == {f"task {steps[2]['task']} (counter)"}
    assert next(row for row in steps[6]["tasks"] if row["name"] == "counter")["state"] == "top"
    assert steps[8]["value"] == "0"


def test_a_breakpoint_stops_one_asyncio_task_of_one_rank(served: Recorded) -> None:
    number = line("n += 1", "served.py")
    out = served.debug(
        "tasks @1", f"break served.py:{number} task counter @1", "continue", "print n", "next", "delete", "continue"
    )
    assert re.search(rf"rank 1  task \d+ at served.py:{number} in count  n \+= 1", out)
    assert "(weft) print n\nrank 1: 0\n" in out
    assert out.endswith("the program has ended\n")
    assert "rank 0: 5 3" in out and "rank 1: 3 3" in out


@pytest.mark.matrix
def test_a_task_in_the_last_call_of_its_rank_gets_no_further_and_that_is_said(
    record: Callable[..., Recorded], mpich: Installed
) -> None:
    hung = record("hung", "-n", "2", "--", sys.executable, PROGRAMS / "served.py", "hang")
    number = line("comm.recv(", "served.py")
    steps = of_rank(hung.answers("task server @1", "next", "next", "tasks top", "task server @0", "next", "next"))
    assert (steps[2]["why"], steps[2]["at"]["line"]) == ("line", number)
    assert steps[3]["why"] == "waiting"
    assert [(row["name"], row["at"]["line"]) for row in steps[4]["tasks"]] == [("server", number)]
    assert [s["at"]["line"] for s in steps[6:8]] == [number, number + 1]  # the other rank still can


@pytest.mark.matrix
def test_a_rank_without_tasks_says_so(collect: Recorded, cells: Recorded) -> None:
    assert "weft: the rank has no tasks: it has not imported asyncio, so far\n" in collect.debug("tasks")
    if not ability("gdb").lack:
        assert "weft: rank 0 has no tasks to follow" in cells.debug("tasks", "finish")
