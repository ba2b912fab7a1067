"""Tasks of the ranks as threads of the editor: stacks, variables, steps that follow a task, breakpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dap.client import Client, Refused
from dap.conftest import SQUARES
from machine import need
from tests_support import WEFT, Installed, execute

pytestmark = pytest.mark.timeout(400)

Start = Callable[..., Client]
SERVED, HYBRID = SQUARES / "served.py", SQUARES / "hybrid.c"


def line(source: Path, text: str) -> int:
    """The number of the only line of a program that holds a text."""
    [found] = [i for i, row in enumerate(source.read_text().splitlines(), 1) if text in row]
    return found


def named(editor: Client, text: str) -> int:
    """The number of the only thread whose name holds a text."""
    [found] = [number for number, name in editor.threads().items() if text in name]
    return found


@pytest.fixture
def served(mpich: Installed, tmp_path: Path) -> Path:
    """Two ranks of mpi4py and asyncio."""
    execute([*WEFT, "run", "--out", "run", "-n", "2", "--", sys.executable, SERVED], cwd=tmp_path)
    return tmp_path / "run"


@pytest.mark.matrix
def test_asyncio_tasks_are_threads_and_a_step_follows_one_where_it_is_suspended(client: Start, served: Path) -> None:
    at = line(SERVED, "n += 1")
    editor = client()
    stop = editor.launch(run=str(served), tasks=True, breakpoints={SERVED: [at]})
    counter, main = stop["threadId"], named(editor, "rank 0 · task 1")
    assert editor.threads()[counter] == f"rank 0 · task 3 (counter) · served.py:{at}"
    assert editor.place(main) == ("main", line(SERVED, "got = await"))
    assert editor.variables(main)["counter"]["type"] == "Task"
    assert editor.variables(counter)["n"]["value"] == "0"
    assert editor.go("next", counter)["threadId"] == counter
    assert editor.place(counter) == ("count", line(SERVED, "for _ in range(3)"))
    editor.go("next", counter)
    stop = editor.go("next", counter)  # over the await: others ran meanwhile
    assert (stop["reason"], stop["threadId"]) == ("breakpoint", counter)
    frames = editor.frames(counter)
    assert [(f["name"], f["line"]) for f in frames] == [
        ("count", at), ("made by task 1", line(SERVED, "counter = asyncio.create_task")),
    ]  # fmt: skip
    assert frames[1]["presentationHint"] == "subtle"
    here = editor.variables(counter)
    assert (here["n"]["value"], here["_"]["value"]) == ("1", "1")


def test_a_value_of_a_task_is_opened_and_set_and_a_step_back_is_refused(client: Start, served: Path) -> None:
    editor = client()
    editor.launch(run=str(served), tasks=True, breakpoints={SERVED: [line(SERVED, "part = comm.recv")]})
    server = named(editor, "rank 0 · task 2 (server)")
    editor.go("next", server)
    assert editor.place(server) == ("serve", line(SERVED, "twice = await doubled"))
    frame = editor.frames(server)[0]["id"]
    assert editor.ask("evaluate", expression="[part, part * 2]", frameId=frame)["result"] == "[2, 4]"
    assert editor.ask("setExpression", expression="part", value="21", frameId=frame)["value"] == "21"
    editor.go("stepIn", server)
    assert editor.place(server)[0] == "doubled" and editor.variables(server)["value"]["value"] == "21"
    with pytest.raises(Refused, match="a task cannot step back"):
        editor.ask("stepBack", threadId=server)


@pytest.mark.matrix
def test_without_being_asked_for_no_task_is_a_thread(client: Start, served: Path) -> None:
    editor = client()
    editor.launch(run=str(served), breakpoints={SERVED: [line(SERVED, "n += 1")]})
    assert editor.threads().keys() == {1, 2}


def test_openmp_tasks_are_threads_and_lead_to_the_one_that_made_them(
    client: Start, mpich: Installed, tmp_path: Path
) -> None:
    need("OMPT", "gdb")
    execute([mpich.mpicc, "-g", "-O0", "-fopenmp", "-o", tmp_path / "hybrid", HYBRID]).check_returncode()
    execute([*WEFT, "run", "--out", "run", "-n", "2", "--", tmp_path / "hybrid"], cwd=tmp_path)
    at = line(HYBRID, "long sum = work")
    editor = client()
    stop = editor.launch(run=str(tmp_path / "run"), tasks=True, breakpoints={HYBRID: [at]})
    task = stop["threadId"]
    assert editor.threads()[task].startswith("rank 0 · task ")
    frames = editor.frames(task)
    assert frames[0]["line"] == at
    assert [f["name"] for f in frames[1:]] == ["made by task 2", "made by task 1"]
    assert editor.variables(named(editor, "rank 0 · task 2 "))["value"]["value"] == "101"
    number = int(editor.variables(task)["i"]["value"])
    for _ in range(3):  # the other task may come to the breakpoint meanwhile
        if editor.place(task)[1] != at:
            break
        editor.go("next", task)
    assert editor.place(task)[1] == at + 1
    assert editor.variables(task)["sum"]["value"] == str(3 * number + 3)
