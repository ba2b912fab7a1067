"""Threads and the works of pools stand beside the tasks, and a circle through them is a deadlock; others never are."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.test_asyncio import PYTHONS
from tests.tasks.test_attach import NEW, new

from weft.errors import DebuggerError, UsageError
from weft.tasks import Session, session

PROGRAM = Path(__file__).parent / "programs" / "threaded.py"
TEXT = PROGRAM.read_text().splitlines()


def line(text: str) -> int:
    """The number of a line of the program."""
    return TEXT.index(text) + 1


SLEEPS = line("    time.sleep(0 if FIXED else 20)")
GATHERS = line("    await asyncio.gather(reader, first, second)")


def named(opened: Session, *filters: str) -> dict[Any, Any]:
    """The rows by their names; a work's is its function's, with the number of the line that it came from."""
    rows = opened.do(" ".join(["tasks", *filters]))["tasks"]
    return {row["name"] if row["kind"] != "work" else (row["name"], row["parent"]): row for row in rows}


@pytest.fixture(params=PYTHONS)
def at_work(request: pytest.FixtureRequest) -> Any:
    """The program where a thread, a work of to_thread(), and two of a pool of one thread are there."""
    with session([request.param, str(PROGRAM), "at_work"]) as s:
        s.do(f"break {PROGRAM}:{GATHERS}")
        assert s.do("continue")["why"] == "breakpoint"
        yield s


@pytest.mark.cases(1)
def test_threads_and_works_stand_under_their_makers_with_state_and_line(at_work: Session) -> None:
    rows = named(at_work)
    reader, first, second = (rows[name] for name in ("reader", "first", "second"))
    main = next(row["id"] for row in rows.values() if row["id"] == reader["parent"])
    of_reader, of_first, of_second = (rows["load", task["id"]] for task in (reader, first, second))
    states = [(row["kind"], row["state"]) for row in (rows["feeder"], of_reader, of_first, of_second)]
    assert states == [("thread", "running"), ("work", "running"), ("work", "running"), ("work", "queued")]
    assert rows["feeder"]["parent"] == main
    assert [row["at"] and row["at"]["line"] for row in (rows["feeder"], of_reader, of_first, of_second)] == [
        SLEEPS, SLEEPS, SLEEPS, None]  # fmt: skip
    through = line("    return await asyncio.get_running_loop().run_in_executor(pool, load, 3)")
    assert [row["created"]["line"] for row in (of_first, of_second)] == [through, through]
    assert len({row["worker"] for row in (rows["feeder"], of_reader, of_first)}) == 3
    works = {row["id"] for row in (of_reader, of_first, of_second)}
    assert {row["id"] for row in at_work.do("tasks work")["tasks"]} == works
    assert {row["name"] for row in at_work.do("tasks thread")["tasks"]} == {"feeder"}
    assert [row["id"] for row in at_work.do("tasks queued")["tasks"]] == [of_second["id"]]


@pytest.mark.cases(1)
def test_who_waits_for_a_work_names_it_with_its_line_and_since_when(at_work: Session) -> None:
    rows = named(at_work)
    told = [
        at_work.console.render_answer({"kind": "task", "task": rows[name]})[0] for name in ("reader", "first", "second")
    ]
    work = {name: rows["load", rows[name]["id"]]["id"] for name in ("reader", "first", "second")}
    at = rf"load at threaded\.py:{SLEEPS}"
    assert re.search(rf"waits: thread work {work['reader']} \({at}, for 0\.[2-9] s\)$", told[0]), told
    assert re.search(rf"waits: thread work {work['first']} \({at}, given 0\.[2-9] s ago\)$", told[1]), told
    assert re.search(rf"waits: thread work {work['second']} \(load queued, given 0\.\d s ago\)$", told[2]), told
    queued = at_work.console.render_answer({"kind": "task", "task": rows["load", rows["second"]["id"]]})[0]
    assert queued.endswith(f"waits: thread of its pool, at work {work['first']} ({at})".replace("\\", ""))
    assert rows["reader"]["wait"]["tasks"] == [work["reader"]]


@pytest.mark.cases(1)
def test_a_work_is_looked_into_and_not_stepped_nor_held(at_work: Session) -> None:
    rows = named(at_work)
    number = rows["load", rows["first"]["id"]]["id"]
    where = at_work.do(f"where {number}")
    assert [frame["function"] for frame in where["frames"]] == ["load"]
    assert [spawn["task"] for spawn in where["spawns"]] == [rows["first"]["id"], rows["first"]["parent"]]
    assert where["label"] == f"thread work {number} (load)"
    at_work.do(f"task {number}")
    assert {v["name"]: v["value"] for v in at_work.do("locals")["values"]} == {"n": "3", "double": "6"}
    assert at_work.do("print double + n")["value"] == "9"
    for refused in ("next", "step", "finish"):
        with pytest.raises(UsageError, match=rf"thread work {number} \(load\) cannot be stepped"):
            at_work.do(refused)
    for refused in (f"hold {number}", f"break load task {number}"):
        with pytest.raises(UsageError, match="is not a task"):
            at_work.do(refused)
    at_work.do(f"name {number} mine")
    assert named(at_work)["mine", rows["first"]["id"]]["id"] == number
    at_work.do(f"task {rows['load', rows['second']['id']]['id']}")
    with pytest.raises(DebuggerError, match="in no function of the program"):
        at_work.do("locals")


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_breakpoint_in_a_work_stops_in_it(python: str) -> None:
    with session([python, str(PROGRAM), "at_work", "fixed"]) as s:
        s.do(f"break {PROGRAM}:{SLEEPS} if n == 1")
        stop = s.do("continue")
        assert (stop["why"], stop["task_kind"], stop["at"]["line"]) == ("breakpoint", "work", SLEEPS)
        assert s.console.render_answer(stop)[0].startswith(
            f"breakpoint 1: thread work {stop['task']} (load) at threaded.py:"
        )
        assert s.do("print double")["value"] == "2"
        assert s.do("task")["task"]["id"] == stop["task"]
        s.do("delete")
        assert s.do("continue")["why"] == "ended"


CIRCLES = {
    "lock_of_a_loop": r"task 1 @ (thread) for thread work (\d+) (calls_back), thread work \1 (calls_back) @ (result) "
                      r"for task (\d+), task \2 @ (lock guard) for task 1",
    "loop_held_up": r"task 1 @ (result) for thread work (\d+) (calls_back), thread work \1 (calls_back) @ (result) for "
                    r"task 1",
    "lock_over_await": r"task 1 @ (lock inner) for task (\d+) (keeper), task \1 (keeper) @ (its loop is held up) for "
                       r"task 1",
    "nested": r"thread work (\d+) (submits) @ (result) for thread work (\d+) (submits), thread work \2 (submits) @ "
              r"(pool) for thread work \1",
    "crossed": r"thread (\d+) (one) @ (lock outer) for thread (\d+) (MainThread), thread \2 (MainThread) @ "
               r"(lock inner) for thread \1 (one)",
}  # fmt: skip
"""Each circle: `@` is where one waits, and what is in brackets is meant as it stands, but for numbers."""


def is_told(circle: str, text: str) -> bool:
    """Whether a text tells a circle."""
    pattern = re.sub(r"\((?!\\d)([\w ]+)\)", r"\\(\1\\)", circle)
    return re.search(pattern.replace("@", r"waits at threaded\.py:\d+"), text) is not None


STUCK = {
    "no_producer": r"thread \d+ \(taker\) waits at threaded\.py:\d+ for Queue jobs, get: empty; .*\n"
    r"  2 threads, and no",
    "no_answer": r"thread work \d+ \(Event\.wait\) waits at threading\.py:\d+ for Event not set; .*\n"
    r"  1 task and 1 thread, and no",
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", CIRCLES)
def test_a_circle_through_threads_is_a_deadlock_and_each_in_it_is_named(what: str, python: str) -> None:
    with session([python, str(PROGRAM), what]) as s:
        s.debugger.limit = 60
        stop = s.do("continue")
        assert stop["why"] == "deadlock", stop
        assert is_told(CIRCLES[what], stop["text"]), stop["text"]
        (found,) = s.do("waits")["deadlocks"]
        assert found["message"] == stop["text"]


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", STUCK)
def test_threads_that_wait_for_nobody_are_told_where_nothing_can_happen_any_more(what: str, python: str) -> None:
    with session([python, str(PROGRAM), what]) as s:
        s.debugger.limit = 60
        stop = s.do("continue")
        assert stop["why"] == "stuck", stop
        assert re.search("nothing can happen any more: " + STUCK[what], stop["text"]), stop["text"]


@pytest.mark.cases(4)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", [*CIRCLES, *STUCK, "at_work"])
def test_the_corrected_twin_comes_to_its_end(what: str, python: str) -> None:
    with session([python, str(PROGRAM), what, "fixed"]) as s:
        s.debugger.limit = 60
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), (stop, s.output())


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    "wait",
    [
        "ready.wait(1)",
        "threading.Thread(target=time.sleep, args=(1,)).start()",
        "signal.signal(14, lambda *_: ready.set()); signal.alarm(1); ready.wait()",
    ],
)
def test_a_thread_that_may_go_on_by_itself_is_waited_for(tmp_path: Path, wait: str, python: str) -> None:
    program = tmp_path / "waits.py"
    program.write_text(f"import signal, threading, time\nready = threading.Event()\n{wait}\n")
    with session([python, str(program)]) as s:
        s.debugger.limit = 60
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), stop


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_handed_on_is_never_a_deadlock(python: str) -> None:
    with session([python, str(PROGRAM), "handed_on", "4"]) as s:
        s.debugger.limit = 60
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), stop


@new
def test_what_is_handed_on_while_one_looks_is_never_a_deadlock() -> None:
    process = subprocess.Popen([NEW[0], str(PROGRAM), "handed_on", "100"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        kinds = set()
        with session([], pid=process.pid) as s:
            for _ in range(25):
                told = s.do("waits")
                assert (told["deadlocks"], told["hung"]) == ([], None)
                kinds |= {row["kind"] for row in told["waits"]}
        assert "work" in kinds
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.cases(1)
@pytest.mark.needs("ptrace", "calls by gdb")
@pytest.mark.parametrize("python", PYTHONS)
def test_a_program_that_runs_already_shows_its_works_and_a_circle_of_them(python: str) -> None:
    process = subprocess.Popen([python, str(PROGRAM), "loop_held_up"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        with session([], pid=process.pid) as s:
            (work,) = s.do("tasks work")["tasks"]
            assert (work["name"], work["state"], work["parent"]) == ("calls_back", "running", None)
            (found,) = s.do("waits")["deadlocks"]
            assert is_told(CIRCLES["loop_held_up"].replace("task 1", r"task \d+"), found["message"])
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
