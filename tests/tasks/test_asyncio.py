"""asyncio's tasks: real programs, each with its own record of what must be seen."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from weft.errors import WeftError
from weft.tasks import Session, session

PROGRAMS = Path(__file__).parent / "programs"
PYTHONS = [sys.executable, *sorted(str(p) for p in Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(
    "versions/3.1[1-9]*/bin/python3"))]  # fmt: skip


def debug(program: str, *arguments: str, python: str = sys.executable) -> Session:
    """A session with one of the test programs, by any Python."""
    return session([python, str(PROGRAMS / program), *arguments])


def trace(opened: Session, how: str, limit: int = 200) -> list[tuple[str, int | None, int, str]]:
    """Step to the end: why, task, line, function of every stop."""
    stops = []
    for _ in range(limit):
        stop = opened.do(how)
        if stop["why"] == "ended":
            assert stop["code"] == 0
            return stops
        at = stop["at"] or {"line": 0, "function": ""}
        stops.append((stop["why"], stop["task"], at["line"], at["function"]))
    raise AssertionError(f"no end: {stops[-3:]}")


def lines(stops: list[tuple[str, int | None, int, str]], function: str) -> list[int]:
    """The lines seen in a function."""
    return [line for why, _, line, name in stops if name == function and why == "line"]


TRACED = [33, 34, 35, 34, 36, 37, 36, 37, 36, 38, 39, 40, 39, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 49, 51, 52, 53,
          54]  # fmt: skip
"""What Python executes of `traced` after its first line; `async with` and `async for` come back to their line."""


@pytest.mark.parametrize("python", PYTHONS)
def test_a_task_is_traced_from_its_first_line_to_its_join(python: str) -> None:
    with debug("twisted.py", python=python) as s:
        s.do("break traced")
        hit = s.do("continue")
        assert (hit["why"], hit["at"]["line"], hit["label"]) == ("breakpoint", 32, "task 7 (traced)")
        stops = trace(s, "next")
        assert [line for _, task, line, _ in stops if task == 7] == TRACED
        assert stops[len(TRACED) :] == [("joined", 1, 61, "main"), ("line", 1, 62, "main"), ("line", 1, 63, "main"),
                                         ("done", 1, 0, "")]  # fmt: skip
        assert s.output() == "value 2221\n"


@pytest.mark.parametrize("python", PYTHONS)
def test_steps_see_the_functions_of_the_task_and_no_line_of_another(python: str) -> None:
    with debug("twisted.py", python=python) as s:
        s.do("break traced")
        s.do("continue")
        stops = trace(s, "step")
        assert lines(stops, "traced") == TRACED
        assert lines(stops, "helper") == [26, 27, 28]
        assert lines(stops, "plain") == [21, 22]
        assert lines(stops, "numbers") == [15, 16, 17, 15, 16, 17, 15]
        assert lines(stops, "noise") == []


def test_the_child_is_followed_down_three_levels_and_its_joins_up_again() -> None:
    with debug("levels.py") as s:
        s.do("follow child")
        stops = trace(s, "next")
        functions = [name for _, _, _, name in stops]
        assert [f for i, f in enumerate(functions) if i == 0 or functions[i - 1] != f][:7] == [
            "main", "top", "middle", "leaf", "middle", "top", "main"] or functions  # fmt: skip
        assert lines(stops, "leaf") == [7, 8, 9, 10, 11, 12]
        joins = [(line, name) for why, _, line, name in stops if why == "joined"]
        assert joins == [(19, "middle"), (28, "top"), (35, "main")]


def test_the_parent_is_followed_past_its_children() -> None:
    with debug("levels.py") as s:
        stops = trace(s, "next")
        assert [line for why, _, line, _ in stops if why == "line"] == [34, 35, 36]
        assert {task for _, task, _, _ in stops} == {1}


def test_a_task_that_has_not_begun_can_be_chosen_and_stepped() -> None:
    with debug("levels.py") as s:
        s.do("break levels.py:28")
        s.do("continue")
        new = s.do("tasks new")["tasks"]
        assert [(task["name"], task["created"]["line"]) for task in new] == [("one", 26), ("two", 27)]
        assert s.do("task two")["task"]["state"] == "new"
        stop = s.do("next")
        assert (stop["label"], stop["at"]["line"]) == ("task 4 (two)", 16)
        assert [s.do("next")["at"]["line"] for _ in range(3)] == [17, 18, 19]
        assert s.do("print n, b")["value"] == "(2, 3)"


def test_two_tasks_are_named_and_stepped_in_turn() -> None:
    with debug("levels.py") as s:
        s.do("break levels.py:28")
        s.do("continue")
        s.do("name 3 left")
        s.do("name 4 right")
        s.do("task right")
        assert s.do("next")["label"] == "task 4 (right)"
        s.do("task left")
        assert s.do("next 2")["label"] == "task 3 (left)"
        shown = {task["name"]: task for task in s.do("tasks")["tasks"]}
        assert shown["left"]["at"]["line"] == 21  # it ran on to its await meanwhile
        assert (shown["left"]["focus"], shown["right"]["focus"]) == (True, False)


def test_where_crops_to_the_task_and_tells_its_spawns() -> None:
    with debug("levels.py") as s:
        s.do("break leaf")
        s.do("continue")
        where = s.do("where")
        assert [(f["function"], f["line"]) for f in where["frames"]] == [("leaf", 7)]
        assert [(spawn["at"]["function"], spawn["at"]["line"]) for spawn in where["spawns"]] == [
            ("middle", 17), ("top", 26), ("main", 34)]  # fmt: skip


def test_a_breakpoint_can_be_for_one_task_and_its_descendants() -> None:
    with debug("levels.py") as s:
        s.do("break levels.py:28")
        s.do("continue")
        s.do("delete 1")
        s.do("break leaf task two descendants")
        stop = s.do("continue")
        assert s.do("print n")["value"] == "20"
        assert next(spawn["label"] for spawn in s.do("where")["spawns"]) == "task 4 (two)"
        assert stop["breakpoint"] == 2
        assert s.do("continue")["why"] == "ended"


def test_a_task_in_a_thread_of_its_own_is_followed_there() -> None:
    with debug("threads.py") as s:
        s.do("follow child")
        assert s.do("step")["at"]["function"] == "main"
        first = s.do("next")
        stops = [s.do("next") for _ in range(8)]
        assert {(stop["task"], stop["worker"]) for stop in stops} == {(first["task"], first["worker"])}
        assert [stop["at"]["line"] for stop in stops] == [8, 9, 10, 11, 9, 10, 11, 9] or stops


@pytest.mark.parametrize(("program", "names", "kinds", "where"), [
    ("circle.py", {"a", "b", "c"}, {"await"}, {13}),
    ("gathered.py", {"parent", ""}, {"await", "gather"}, {12, 17}),
    ("locks.py", {"one", "two"}, {"lock"}, {12}),
])  # fmt: skip
@pytest.mark.parametrize("python", PYTHONS)
def test_a_deadlock_is_named_with_its_circle_and_lines(
    program: str, names: set[str], kinds: set[str], where: set[int], python: str
) -> None:
    with debug(program, python=python) as s:
        stop = s.do("continue")
        assert stop["why"] == "deadlock"
        (found,) = s.do("waits")["deadlocks"]
        rows: dict[int, Any] = {task["id"]: task for task in s.do("tasks")["tasks"]}
        circle = [rows[task] for task in found["tasks"]]
        assert {task["name"] or "" for task in circle} == names
        assert {task["wait"]["kind"] for task in circle} == kinds
        assert {site["line"] for site in found["sites"]} == where
        assert found["message"] == stop["text"]


@pytest.mark.parametrize("program", ["circle.py", "gathered.py", "locks.py"])
def test_the_corrected_twin_of_a_deadlock_runs_to_its_end(program: str) -> None:
    with debug(program, "fixed") as s:
        assert s.do("continue")["why"] == "ended"


def test_a_wait_that_a_timeout_ends_is_no_deadlock() -> None:
    with debug("timed.py") as s:
        assert s.do("continue")["why"] == "ended"


def test_ten_thousand_tasks_are_listed_with_parent_state_and_wait() -> None:
    with debug("pool.py", "10000") as s:
        s.do("break pool.py:23")
        s.do("continue")
        begun = time.perf_counter()
        rows = s.do("tasks")["tasks"]
        assert time.perf_counter() - begun < 30
        assert len(rows) == 10000 + 1
        parents = [row for row in rows if row["parent"] == 1]
        children = [row for row in rows if row["parent"] not in (1, None)]
        assert {row["wait"]["kind"] for row in parents} == {"wait"}
        assert all(
            row["wait"]["tasks"] == [c["id"] for c in children if c["parent"] == row["id"]] for row in parents[:3]
        )


def test_a_mistake_at_the_prompt_is_told_and_changes_nothing() -> None:
    with debug("levels.py") as s:
        for wrong in ("task 99", "break", "follow me", "next zero", "tasks purple", "nxt"):
            with pytest.raises(WeftError):
                s.do(wrong)
        assert s.do("step")["at"]["line"] == 34


def test_the_status_of_the_program_is_told() -> None:
    with debug("gathered.py", "fixed") as s:
        assert s.do("continue")["code"] == 0
        with pytest.raises(WeftError, match="has ended"):
            s.do("tasks")
