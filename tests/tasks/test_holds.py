"""`hold` of one OpenMP task while the others go on: not begun, suspended and running ones, and what is said of it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import clang
from weft.errors import UsageError
from weft.tasks import Session, session
from weft.tasks.answers import render_answer
from weft.tasks.runtime import tool_environment

PROGRAMS = Path(__file__).parent / "programs"
Build = Callable[..., str]
KEPT = "-14.3579513177 -79.7897565884 -145.221561859"
"""What kept.c prints of its six tasks, whoever ran them."""

pytestmark = pytest.mark.needs("gdb", "gcc", "OMPT")
compilers = pytest.mark.parametrize("compiler", ["gcc", clang()])


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def built(name: str, compiler: str = "gcc", *options: str) -> str:
        need(compiler)
        target = tmp_path / f"{name}-{compiler}"
        command = [compiler, "-g", *(options or ("-O0",)), "-fopenmp", str(PROGRAMS / name), "-o", str(target)]
        subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
        return str(target)

    return built


def to(s: Session, place: str) -> dict[str, Any]:
    """Run to a place that is then none any more."""
    s.do(f"break {place}")
    stop = s.do("continue")
    assert stop["why"] == "breakpoint", stop
    s.do("delete")
    return stop


def row_of(s: Session, task: int) -> dict[str, Any]:
    """A task's row."""
    (found,) = [row for row in s.do("tasks")["tasks"] if row["id"] == task]
    return dict(found)


def paused(s: Session, seconds: float) -> dict[str, Any]:
    """Run for some time, and stop wherever the program is then, as by Ctrl-C."""
    s.debugger.limit = seconds
    stop = s.do("continue")
    s.debugger.limit = 0
    return stop


def ended(s: Session) -> list[str]:
    """On to the end; what the program has written."""
    stop = s.do("continue")
    assert (stop["why"], stop["code"]) == ("ended", 0), stop
    return s.output().splitlines()


@pytest.mark.matrix
@compilers
def test_a_task_that_has_not_begun_is_held_with_the_worker_that_comes_to_it(build: Build, compiler: str) -> None:
    with session([build("kept.c", compiler)]) as s:
        to(s, "reached")
        parent = s.debugger.focus
        made = [row["id"] for row in s.do("tasks")["tasks"] if row["parent"] == parent]
        held = [row["id"] for row in s.do("tasks new")["tasks"]][1]
        assert "is held before it begins" in s.do(f"hold {held}")["text"]
        s.do("break done")
        others = [s.do("continue") for _ in range(5)]
        assert [stop["why"] for stop in others] == ["breakpoint"] * 5
        assert {stop["task"] for stop in others} == set(made) - {held}
        s.do("delete")
        stop = s.do("continue")
        assert (stop["why"], stop["text"].splitlines()[0]) == (
            "stuck", f"nothing else can happen while task {held} is held: `release` lets it go on"
        )  # fmt: skip
        assert re.search(rf"task {parent} waits at kept.c:\d+ \(taskwait\) for task {held}$", stop["text"], re.M)
        row = row_of(s, held)
        assert (row["state"], row["held"]) == ("new", True)
        assert row["with"] in {other["worker"] for other in s.do("tasks")["tasks"]}
        assert f"held, with worker {row['with']}" in "\n".join(render_answer(s.do("tasks")))
        assert s.do(f"where {held}")["frames"] == []
        assert s.do("waits")["deadlocks"] == []
        s.do(f"release {held}")
        assert to(s, "slow")["task"] == held
        results, order = ended(s)
        assert results == KEPT
        assert order.split()[-2:] == [str(made.index(held)), "6"]


@pytest.mark.cases(1)
@compilers
def test_a_task_that_runs_is_held_at_its_line_with_all_that_it_has(build: Build, compiler: str) -> None:
    with session([build("kept.c", compiler)]) as s:
        held = to(s, "slow")["task"]
        assert re.search(r"is held at kept.c:\d+, with worker", s.do(f"hold {held}")["text"])
        before = s.do("where")["frames"], s.do("locals")["values"]
        s.do("tbreak done")
        other = s.do("continue")
        assert (other["why"], other["task"] != held) == ("breakpoint", True)
        s.do(f"task {held}")
        assert (s.do("where")["frames"], s.do("locals")["values"]) == before
        row = row_of(s, held)
        assert (row["state"], row["with"]) == ("top", row["worker"])
        for command in ("next", "step", "finish"):
            with pytest.raises(UsageError, match="is held: `release"):
                s.do(command)
        assert s.do("continue")["why"] == "stuck"
        s.do("release")
        lines = [s.do("next")["at"]["line"] for _ in range(3)]
        assert (lines, s.debugger.focus) == ([16, 17, 18], held)
        assert ended(s)[0] == KEPT


@pytest.mark.matrix
@compilers
def test_what_a_held_task_has_in_registers_is_what_it_had(build: Build, compiler: str) -> None:
    """Stopped at random instructions of optimized code, its thread goes elsewhere and comes back to them."""
    program = build("tight.c", compiler, "-O2")
    plain = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    rng, parked = random.Random(7), 0
    for _ in range(10):  # on a busy machine a run may be over before it is stopped often
        with session([program]) as s:
            while paused(s, 0.02 + 0.03 * rng.random())["why"] == "interrupted":
                rows = [row for row in s.do("tasks top")["tasks"] if row["at"] and row["at"]["function"] == "work"]
                for row in rng.sample(rows, min(len(rows), rng.randint(1, 2))):
                    s.do(f"hold {row['id']}")
                    parked += 1
                paused(s, 0.02)
                if s.debugger.held:
                    s.do("release")
            assert s.output() == plain
        if parked > 1:
            return
    raise AssertionError("hardly a task was held in ten runs")


@pytest.mark.matrix
@compilers
def test_a_task_in_a_library_is_held_when_it_is_back_in_the_program(build: Build, compiler: str) -> None:
    with session([build("kept.c", compiler)]) as s:
        to(s, "kept.c:18")
        s.do("break usleep")
        held = s.do("continue")["task"]
        s.do("delete")
        # On a thread that waits at the region's end, gcc leaves no frame beneath the task: it may be about to begin.
        told = s.do(f"hold {held}")["text"]
        assert re.search("is held as soon as it is (back at kept.c:18|at a line of the program)", told)
        assert "with" not in row_of(s, held)
        s.do("tbreak done")
        assert s.do("continue")["task"] != held
        row = row_of(s, held)
        assert (row["at"]["line"] in (18, 19), row["with"]) == (True, row["worker"])
        assert s.do("continue")["why"] == "stuck"
        s.do("release")
        assert ended(s)[0] == KEPT


@pytest.mark.cases(1)
@compilers
def test_a_task_beneath_others_is_held_when_they_have_gone(build: Build, compiler: str) -> None:
    with session([build("three.c", compiler)]) as s:
        to(s, "leaf")
        rows = {row["id"]: row for row in s.do("tasks")["tasks"]}
        held = rows[s.debugger.focus]["parent"]  # type: ignore[index]
        assert rows[held]["state"] == "middle"
        assert "is held as soon as it is back at three.c:20" in s.do(f"hold {held}")["text"]
        assert s.do("continue")["why"] == "stuck"
        row = row_of(s, held)
        assert (row["state"], row["wait"], row["with"]) == ("top", None, row["worker"])
        assert s.do(f"where {held}")["frames"][0]["line"] in (20, 21)
        s.do("release")
        s.do(f"task {held}")
        assert s.do("next")["at"]["line"] in (21, 22)
        assert ended(s) == ["total 45"]


@pytest.mark.matrix
def test_an_untied_task_on_the_heap_is_held_where_it_would_go_on(build: Build) -> None:
    seen = 0
    for attempt in range(40):
        with session([build("heaped.c", clang())]) as s:
            s.do("break seen")
            for _ in range(random.Random(attempt).randrange(1, 12)):
                if s.do("continue")["why"] != "breakpoint":
                    break
            s.do("delete")
            suspended = [row["id"] for row in s.do("tasks heap")["tasks"]] if s.debugger.stop.why != "ended" else []
            if not suspended:
                continue
            held = suspended[0]
            assert "is held in the queue" in s.do(f"hold {held}")["text"]
            stop = s.do("continue")
            assert stop["why"] == "stuck", stop
            assert f"while task {held} is held" in stop["text"]
            row = row_of(s, held)
            assert (row["state"], row["with"] > 0) == ("heap", True)
            s.do("release")
            assert s.do("continue")["why"] == "ended"
            seen += 1
        if seen == 3:
            break
    assert seen == 3


def test_another_task_goes_on_line_by_line_beside_a_held_one(build: Build) -> None:
    with session([build("kept.c"), "3"]) as s:
        first = to(s, "slow")["task"]
        s.do(f"hold {first}")
        other = to(s, "slow")["task"]
        assert other != first
        lines = [s.do("next")["at"]["line"] for _ in range(6)]
        assert lines == [16, 17, 18, 19, 20, 16]
        assert s.debugger.focus == other
        assert row_of(s, first)["at"]["line"] == 14
        s.do("release")
        assert ended(s)[0] == KEPT


@pytest.mark.matrix
def test_a_breakpoint_at_which_a_task_was_held_is_told_once(build: Build) -> None:
    with session([build("kept.c")]) as s:
        s.do("break slow")
        held = s.do("continue")["task"]
        s.do(f"hold {held}")
        told = [held]
        while (stop := s.do("continue"))["why"] == "breakpoint":
            told.append(stop["task"])
        assert stop["why"] == "stuck"
        s.do("release")
        assert ended(s)[0] == KEPT
        assert sorted(told) == sorted(set(told))
        assert len(told) == 6


@pytest.mark.matrix
def test_ctrl_c_comes_back_while_tasks_are_held(build: Build) -> None:
    with session([build("kept.c")]) as s:
        held = to(s, "slow")["task"]
        s.do(f"hold {held}")
        for _ in range(2):
            stop = paused(s, 0.7)
            assert (stop["why"], row_of(s, held)["held"]) == ("interrupted", True)
        s.do("release")
        assert ended(s)[0] == KEPT


def test_a_held_thread_that_a_barrier_needs_is_no_deadlock(build: Build) -> None:
    with session([build("fenced.c")]) as s:
        held = to(s, "entered")["task"]
        s.do(f"hold {held}")
        stop = s.do("continue")
        assert stop["why"] == "stuck"
        assert re.search(rf"waits at fenced.c:\d+ \(barrier\) for task {held}$", stop["text"], re.M)
        s.do("release")
        assert ended(s) == ["2 1"]


@pytest.mark.matrix
def test_a_lock_of_a_held_task_is_named_and_is_no_deadlock(build: Build) -> None:
    with session([build("fenced.c")]) as s:
        s.do("break entered")
        s.do("continue")
        held = s.do("continue")["task"]
        s.do("delete")
        s.do(f"hold {held}")
        stop = s.do("continue")
        assert stop["why"] == "stuck"
        assert re.search(rf"waits at fenced.c:30 \(lock lock\) for task {held}$", stop["text"], re.M)
        assert s.do("waits")["deadlocks"] == []
        assert "is held" in s.do("waits")["hung"]
        s.do("release")
        assert ended(s) == ["2 1"]


@pytest.mark.matrix
def test_tasks_that_wait_in_a_circle_are_a_deadlock_beside_a_held_one(build: Build) -> None:
    with session([build("crossed.c")]) as s:
        s.do("step")
        s.do(f"hold {s.debugger.focus}")
        s.do("release")
        assert s.do("continue")["why"] == "deadlock"


def test_one_thread_waits_with_the_task_and_that_is_said(build: Build) -> None:
    with session([build("kept.c"), "1"]) as s:
        held = to(s, "slow")["task"]
        assert "no other thread can run" in s.do(f"hold {held}")["text"]
        assert s.do("continue")["why"] == "stuck"
        s.do("release")
        assert ended(s)[0] == KEPT


def test_what_cannot_be_held_is_refused_with_the_reason(build: Build, tmp_path: Path) -> None:
    program = build("kept.c")
    with session([program], record=str(tmp_path / "order")) as s:
        to(s, "reached")
        with pytest.raises(UsageError, match="--record or --replay"):
            s.do(f"hold {s.debugger.focus}")
    with session([program]) as s:
        to(s, "reached")
        s.backend._gdb.console(f"generate-core-file {tmp_path}/core")  # type: ignore[attr-defined]
    with session([program], core=tmp_path / "core") as s, pytest.raises(UsageError, match="core file"):
        s.do(f"hold {s.debugger.focus}")


@pytest.mark.matrix
def test_a_program_that_is_left_goes_on_with_what_was_held(build: Build) -> None:
    program = build("tight.c", "gcc", "-O2", "-fno-tree-vectorize")  # gcc 14 makes it four times as fast
    plain = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env=os.environ | tool_environment("")) as run:
        time.sleep(0.2)
        with session([], pid=run.pid) as s:
            for row in s.do("tasks")["tasks"]:
                if row["state"] == "new" or (row["at"] and row["at"]["function"] == "work"):
                    s.do(f"hold {row['id']}")
            assert len(s.debugger.held) > 1
            assert paused(s, 0.3)["why"] == "interrupted"
        out, _ = run.communicate(timeout=30)
    assert (out, run.returncode) == (plain, 0)
