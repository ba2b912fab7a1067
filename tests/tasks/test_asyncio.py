"""asyncio's tasks: real programs, each with its own record of what must be seen."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import pythons
from weft.errors import UsageError, WeftError
from weft.tasks import Session, session
from weft.tasks.model import TaskRow

PROGRAMS = Path(__file__).parent / "programs"
PYTHONS = pythons()


def script(name: str) -> Any:
    """One of the scripts beside this file, as a module."""
    spec = importlib.util.spec_from_file_location(f"tasks_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


stops, TRACED = script("stops"), script("campaign").TRACED


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


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_step_onto_a_breakpoint_stops_there_once_as_it(python: str, tmp_path: Path) -> None:
    program = tmp_path / "steps.py"
    program.write_text(
        "import asyncio\n\nasync def main():\n    n = 0\n    n += 1\n    await asyncio.sleep(0)\n    n += 2\n"
        "    while n < 6: n += 1\n    return n\n\nasyncio.run(main())\n"
    )
    with session([python, str(program)]) as s:
        for place in ("steps.py:5", "steps.py:7", "steps.py:9 if n < 0"):
            s.do(f"break {place}")
        met = [s.do(how) for how in ("continue", "next", "next", "next", "next")]
        assert [(stop["why"], stop["at"]["line"]) for stop in met[:4]] == [
            ("breakpoint", 5), ("line", 6), ("breakpoint", 7), ("line", 8),
        ]  # fmt: skip
        while met[-1]["at"]["line"] == 8:
            met.append(s.do("next"))
        assert (met[-1]["why"], met[-1]["at"]["line"]) == ("line", 9)
        assert s.do("continue")["why"] == "ended"


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


@pytest.mark.cases(1)
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


def test_a_task_runs_until_it_comes_to_a_line_whatever_others_do() -> None:
    with session([str(PROGRAMS / "levels.py")]) as s:
        s.do("tbreak middle")
        task = s.do("continue")["task"]
        stop = s.do("until 20")
        assert (stop["task"], stop["at"]["line"]) == (task, 20)
        with pytest.raises(UsageError, match="until where"):
            s.do("until")
        with pytest.raises(UsageError, match=r"print hex\(n\)"):
            s.do("print/x b")
        assert s.do("until levels.py:6")["why"] == "ended"  # another task's line
        assert s.do("breakpoints")["breakpoints"] == []


def test_a_task_in_a_thread_of_its_own_is_followed_there() -> None:
    with debug("threads.py") as s:
        s.do("follow child")
        assert s.do("step")["at"]["function"] == "main"
        first = s.do("next")
        stops = [s.do("next") for _ in range(8)]
        assert {(stop["task"], stop["worker"]) for stop in stops} == {(first["task"], first["worker"])}
        assert [stop["at"]["line"] for stop in stops] == [8, 9, 10, 11, 9, 10, 11, 9] or stops


@pytest.mark.cases(1)
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


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_table_is_what_the_programs_own_log_says_at_random_stops(python: str) -> None:
    wrong, seen = stops.asyncio_(25, python, seed=os.getpid())
    assert wrong == []
    assert min(seen[what] for what in ("parents", "states", "waits")) > 50, seen


BIRTHS = "type(__import__('sys').modules['_weft_inside.births']._births).__name__"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("built", "kind"), [(True, "FastBirths"), (False, "Births")])
def test_births_are_the_same_by_c_and_by_python(
    monkeypatch: pytest.MonkeyPatch, python: str, built: bool, kind: str
) -> None:
    if built:
        need("cc")
    if not built:
        monkeypatch.setattr("weft.tasks.python.find_birth_library", lambda: "")
    with debug("levels.py", python=python) as s:
        s.do("break leaf")
        s.do("continue")
        assert s.do(f"print {BIRTHS}")["value"] == repr(kind)
        rows = [(row["id"], row["parent"], row["created"]["line"]) for row in s.do("tasks")["tasks"]]
        assert rows == [(1, None, 39), (2, 1, 34), (3, 2, 26), (4, 2, 27), (5, 3, 17), (6, 4, 17)]
        assert [spawn["task"] for spawn in s.do("where")["spawns"]] == [3, 2, 1]


EAGER = """import asyncio
async def leaf():
    await asyncio.sleep(0.01)
async def eager():
    child = asyncio.create_task(leaf(), name="leaf")
    await child
async def main():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    task = asyncio.create_task(eager(), name="eager")
    await task
asyncio.run(main())
"""


@pytest.mark.parametrize("python", [p for p in PYTHONS if "/3.11" not in p and p != sys.executable])
def test_an_eager_task_has_its_parent_and_place_though_it_begins_before_it_is_known(
    python: str, tmp_path: Path
) -> None:
    program = tmp_path / "eager.py"
    program.write_text(EAGER)
    with session([python, str(program)]) as s:
        s.do(f"break {program}:10")
        s.do("continue")
        rows = {row["name"]: row for row in s.do("tasks")["tasks"]}
        assert rows["eager"]["created"]["line"] == 9
        assert rows["leaf"]["created"]["line"] == 5
        assert rows["leaf"]["parent"] == rows["eager"]["id"]
        assert rows["eager"]["parent"] == s.debugger.focus


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


MANY = Path(__file__).parents[2] / "benchmarks" / "programs" / "tasks" / "many.py"


def table_of_many(kind: str, count: int, python: str) -> list[TaskRow]:
    """The table where many.py has made its tasks."""
    with session([python, str(MANY), kind, str(count)]) as s:
        s.do("break reached")
        assert s.do("continue")["why"] == "breakpoint"
        return [timeless(row) for row in s.backend.tasks()]


def timeless(row: TaskRow) -> TaskRow:
    """A row without what is another in each run: thread, address, and how long a timer still has."""
    wait = row.wait._replace(what=re.sub(r"[\d.]+ s more", "a time", row.wait.what)) if row.wait else None
    return row._replace(worker=None, address=None, wait=wait)


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["future", "task", "event", "sleep", "lock", "timeout", "new"])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_table_by_c_is_the_one_by_python(python: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = table_of_many(kind, 30, python)
    monkeypatch.setattr("weft.tasks.python.find_birth_library", lambda: "")
    slow = table_of_many(kind, 30, python)
    assert fast == slow
    main, first, *_ = fast
    assert len(fast) == 31 and (main.state, first.parent) == ("top", main.id)
    assert first.state == ("new" if kind == "new" else "heap")
    kinds = {row.wait.kind if row.wait else "" for row in fast[1:]}
    assert kinds == {{"task": "await", "timeout": "wait_for", "new": ""}.get(kind, kind)} | (
        {"future"} if kind == "task" else set()
    )


def test_people_see_a_thousand_tasks_and_machines_all() -> None:
    with session([sys.executable, str(MANY), "future", "1500"]) as s:
        s.do("break reached")
        s.do("continue")
        assert len(s.do("tasks")["tasks"]) == 1501
        s.console.json = False
        lines = s.console.render_answer(s.do("tasks"))
        assert len(lines) == 1001 and lines[-1] == "and 501 more tasks"


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_table_of_many_tasks_comes_at_once(python: str) -> None:
    with session([python, str(MANY), "future", "20000"]) as s:
        s.do("break reached")
        s.do("continue")
        program: int = s.backend.program.pid  # type: ignore[attr-defined]

        def spent() -> float:
            words = Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()
            return time.process_time() + sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")

        begun = spent()
        assert len(s.backend.tasks()) == 20001
        assert spent() - begun < 1  # five times what is aimed at: a machine may be slow, and busy


def test_a_task_is_found_by_what_the_program_holds_of_it() -> None:
    with debug("apart.py") as s:
        s.do("break seen")
        s.do("continue")
        s.do("delete")
        s.do("task 1")
        assert s.do("task tasks[2]")["task"]["name"] == "number2"
        s.do("task 1")
        assert s.do("task tasks[3].get_coro()")["task"]["name"] == "number3"
        assert s.do("next")["label"].endswith("(number3)")
        for text, why in (("mine", "not a living task"), ("nosuch", "NameError")):
            with pytest.raises(UsageError, match=why):
                s.do(f"task {text}")


IN_HAND = """import asyncio

async def other(n):
    for i in range(3):
        await asyncio.sleep(0)
        n += i
    return n

async def main():
    task = asyncio.create_task(other(10), name="other")
    a = 1
    await asyncio.sleep(0.05)
    b = a + 1
    await task
    print(b)

asyncio.run(main())
"""


def test_a_step_that_ends_at_a_breakpoint_in_another_task_keeps_its_task_in_hand(tmp_path: Path) -> None:
    program = tmp_path / "in_hand.py"
    program.write_text(IN_HAND)
    with session([str(program)]) as s:
        s.do("step")
        s.do("next 2")
        s.do(f"break {program}:6 if i == 1")
        stop = s.do("next")
        told = s.console.render_answer(stop)
        assert told[0].startswith("breakpoint 1: task 2 (other) at in_hand.py:6 in other")
        assert told[1] == (
            "task 1 stays the current task, at in_hand.py:12: `next` continues it, `task 2` chooses the other"
        )
        assert s.do("print a")["value"] == "1"
        stop = s.do("next")
        assert (stop["why"], stop["task"], stop["at"]["line"]) == ("line", 1, 13)


@pytest.mark.parametrize("how", ["at a breakpoint", "where nothing can happen any more"])
def test_what_a_program_has_printed_is_shown_at_a_stop(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps output to a file in a buffer."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    program = tmp_path / "prints.py"
    program.write_text(
        "import asyncio\n"
        "async def main():\n    print('before')\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with session([str(program)]) as s:
        if how == "at a breakpoint":
            s.do("break prints.py:4")
        stop = s.do("continue")
        assert stop["why"] == ("breakpoint" if how == "at a breakpoint" else "stuck")
        assert s.output() == "before\n"
