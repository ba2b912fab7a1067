"""What a task is called holds in the next run: by its pedigree, by conditions, and in frames further out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.campaign import clang
from tests.tasks.test_asyncio import PYTHONS

from machine import need
from weft.errors import WeftError
from weft.tasks import Session, session

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of OpenMP with three levels of tasks, and one with a buried stack of them."""
    need("gdb", "gcc", "OMPT")
    folder = tmp_path_factory.mktemp("pedigrees")
    for name in ("three", "buried"):
        command = ["gcc", "-g", "-O0", "-fopenmp", str(PROGRAMS / f"{name}.c"), "-o", str(folder / name)]
        subprocess.run(command, check=True, timeout=60)
    return str(folder)


def seen(s: Session) -> dict[str, tuple[str, Any]]:
    """Pedigree of each task with the line that made it."""
    return {row["pedigree"]: (row["name"], (row["created"] or {}).get("line")) for row in s.do("tasks")["tasks"]}


def variables(s: Session) -> dict[str, str]:
    """The variables of the frame in hand."""
    return {one["name"]: one["value"] for one in s.do("locals")["values"]}


@pytest.mark.cases(2)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("built", [True, False])
def test_an_asyncio_task_has_the_same_pedigree_in_every_run(
    python: str, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not built:
        monkeypatch.setattr("weft.tasks.python.find_birth_library", lambda: "")
    with session([python, str(PROGRAMS / "levels.py")]) as s:
        s.do("break leaf")
        s.do("continue")
        assert {row["pedigree"]: row["id"] for row in s.do("tasks")["tasks"]} == {
            "1": 1, "1.1": 2, "1.1.1": 3, "1.1.2": 4, "1.1.1.1": 5, "1.1.2.1": 6}  # fmt: skip


@pytest.mark.matrix
def test_native_tasks_have_the_same_pedigrees_in_every_run_and_each_its_own(three: str) -> None:
    runs = []
    for _ in range(3):
        with session([f"{three}/three"]) as s:
            s.do("break leaf")
            s.do("continue")
            told = seen(s)
            assert len(told) == len(s.do("tasks")["tasks"])  # no two are alike
            where: Any = s.do("where")["spawns"]
            rows = {row["id"]: row["pedigree"] for row in s.do("tasks")["tasks"]}
            runs.append((rows.get(1), {way: line for way, (_, line) in told.items()},
                         [rows[spawn["task"]] for spawn in where if spawn["task"] in rows]))  # fmt: skip
    assert len({first for first, _, _ in runs}) == 1
    for _, told, _ in runs[1:]:
        common = told.keys() & runs[0][1].keys()
        assert len(common) >= 2  # the first task and its region's at least: others run in any order
        assert {way: told[way] for way in common} == {way: runs[0][1][way] for way in common}


@pytest.mark.matrix
def test_a_breakpoint_for_a_pedigree_holds_before_its_task_is_there(three: str) -> None:
    with session([str(PROGRAMS / "levels.py")]) as s:
        s.do("break leaf task 1.1.2 descendants")
        assert s.do("continue")["why"] == "breakpoint"
        assert s.do("print n")["value"] == "20"
        assert s.do("continue")["why"] == "ended"
    with session([f"{three}/three"]) as s:
        s.do("break leaf if n == 20")
        s.do("continue")
        assert s.do("print n")["value"] == "20"
        way = s.do("task")["task"]["pedigree"]
    for _ in range(2):
        with session([f"{three}/three"]) as s:
            s.do(f"break leaf task {way}")
            assert s.do("continue")["why"] == "breakpoint"
            assert s.do("print n")["value"] == "20"
            assert s.do(f"task {way}")["task"]["id"] == s.debugger.focus
            with pytest.raises(WeftError, match="no living task has the pedigree"):
                s.do("task ~0123456789abcdef")


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_tasks_of_a_single_have_the_same_pedigrees_whoever_came_first(compiler: str, tmp_path: Path) -> None:
    need("gdb", "OMPT", compiler)
    program = str(tmp_path / "singles")
    command = [compiler, "-g", "-O0", "-fopenmp", str(PROGRAMS / "singles.c"), "-o", program]
    subprocess.run(command, check=True, timeout=60)
    told = []
    for late in range(2):
        with session([program, str(late)]) as s:
            s.do("break leaf")
            ways: dict[tuple[int, int], set[str]] = {}
            while s.do("continue")["why"] == "breakpoint":
                frame = variables(s)
                assert int(frame["maker"]) == 1 - late or frame["of"] == "3"  # the other one came first
                place = int(frame["of"]), int(frame["n"])
                ways.setdefault(place, set()).add(s.do("task")["task"]["pedigree"])
        told.append(ways)
    assert told[0] == told[1]
    # Two of each of two singles; and, outside of a single, one of each thread.
    assert {place: len(found) for place, found in told[0].items()} == {
        (1, 0): 1, (1, 1): 1, (2, 0): 1, (2, 1): 1, (3, 0): 1, (3, 1): 1}  # fmt: skip
    assert len(set().union(*told[0].values())) == 6


@pytest.mark.parametrize("python", PYTHONS)
def test_a_breakpoint_stops_where_its_condition_is_true(python: str) -> None:
    with session([python, str(PROGRAMS / "levels.py")]) as s:
        s.do("break leaf if n == 20")
        s.do("continue")
        assert s.do("print n")["value"] == "20"
        assert s.do("continue")["why"] == "ended"


@pytest.mark.parametrize("python", PYTHONS)
def test_variables_of_every_frame_are_seen_and_changed(tmp_path: Path, python: str) -> None:
    program = tmp_path / "frames.py"
    program.write_text(
        "import asyncio\n\nasync def inner(n):\n    m = n\n    await asyncio.sleep(0)\n    return m\n\n"
        "async def outer():\n    kept = [1]\n    print(await inner(2), kept)\n\nasync def main():\n"
        "    await asyncio.create_task(outer())\n\nasyncio.run(main())\n"
    )
    with session([python, str(program)]) as s:
        s.do(f"break {program}:5")
        s.do("continue")
        assert variables(s) == {"n": "2", "m": "2"}
        assert s.do("set m = n + 40")["value"] == "m = 42"
        up = s.do("up")
        assert (up["level"], up["function"], up["line"]) == (1, "outer", 10)
        assert variables(s) == {"kept": "[1]"}
        s.do("set kept[0] = 7")
        assert next(row["line"] for row in s.do("list")["lines"] if row["here"]) == 10
        with pytest.raises(WeftError, match="outermost"):
            s.do("up")
        with pytest.raises(WeftError, match="no variable nosuch"):
            s.do("set nosuch = 1")
        assert s.do("down")["level"] == 0
        s.do("delete")
        assert s.do("next")["at"]["line"] == 6
        assert s.do("continue")["code"] == 0
        assert s.output() == "42 [7]\n"


def test_variables_of_a_native_frame_further_out_are_seen_and_changed(three: str) -> None:
    with session([f"{three}/buried"]) as s:
        s.do("break deepest if depth > 1")
        s.do("continue")
        assert variables(s)["depth"] == "6"
        assert s.do("up")["function"] == "called"
        s.do("set mine = 5")
        assert s.do("print mine")["value"] == "5"
        rows = {row["id"]: row for row in s.do("tasks")["tasks"]}
        stack = [row for row in rows.values() if row["worker"] == rows[s.debugger.focus]["worker"]]
        assert sorted(row["beneath"] for row in stack) == list(range(len(stack)))
        assert max(stack, key=lambda row: row["beneath"])["id"] == s.debugger.focus
        assert all(row["address"] for row in rows.values() if row["state"] in ("new", "heap"))


def test_a_line_without_code_is_refused_with_the_next_that_has_some() -> None:
    with session([str(PROGRAMS / "levels.py")]) as s:
        with pytest.raises(WeftError, match=r"no code in line 2 of .*levels.py; the next line with code is"):
            s.do(f"break {PROGRAMS / 'levels.py'}:2")
        assert s.do("breakpoints")["breakpoints"] == []
