"""What was found at the console before programs that others wrote (bots.py), each by a program of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tasks.test_openmp import Build, build, clang, pytestmark, script

from weft.errors import WeftError
from weft.tasks import layout, session

__all__ = ["build", "pytestmark"]
typed_at = script("typed")
WAITED = (Path(__file__).parent / "programs" / "waited.c").read_text().splitlines()
SINGLE = (Path(__file__).parent / "programs" / "single.c").read_text().splitlines()
PARTED = (Path(__file__).parent / "programs" / "parted.c").read_text().splitlines()
PRINTED = PARTED.index('    printf("%d\\n", got);') + 1
BEHIND = (Path(__file__).parent / "programs" / "behind.c").read_text().splitlines().index(
    '    printf("%d\\n", total);'
) + 1
CALL = SINGLE.index("            got[i] = leaf(i);") + 1
AFTER = WAITED.index("    after(n);") + 1


@contextmanager
def typed(program: Path, *arguments: str) -> Iterator[typed_at.Typed]:  # type: ignore[name-defined]
    """The console in a process of its own."""
    console = typed_at.Typed([str(program), *arguments], 2)
    try:
        yield console
    finally:
        console.close()


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_task_that_waits_is_followed_though_its_thread_comes_to_the_same_line_in_another_one(
    build: Build, compiler: str
) -> None:
    with session([str(build("waited.c", compiler))]) as s:
        s.do("break reached")
        stop = s.do("continue")
        s.do("delete")
        child = next(row for row in s.do("tasks")["tasks"] if row["id"] == stop["task"])
        waits = next(row for row in s.do("tasks")["tasks"] if row["id"] == child["parent"])
        assert (waits["state"], waits["wait"]["kind"]) == ("top", "taskwait")
        s.do(f"task {waits['id']}")
        stop = s.do("next")
        assert (stop["why"], stop["task"], stop["at"]["line"]) == ("line", waits["id"], AFTER)
        assert s.do("print n")["value"] == "2"


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_task_whose_maker_waits_at_the_end_of_its_region_is_joined_behind_the_region(
    build: Build, compiler: str
) -> None:
    with session([str(build("parted.c", compiler, "-O0"))]) as s:
        s.do("break parted.c:15")
        stop = s.do("continue")
        assert (stop["why"], stop["at"]["line"]) == ("breakpoint", 15)
        stop = s.do("next")
        assert (stop["why"], stop["at"] and stop["at"]["line"]) == ("joined", PRINTED)
        assert s.do("print got")["value"] == "2"


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_main_is_told_with_its_line_beneath_its_region(build: Build, compiler: str) -> None:
    with session([str(build("waited.c", compiler))]) as s:
        s.do("break reached")
        s.do("continue")
        first = s.do("tasks")["tasks"][0]
        assert (first["state"], first["at"]["function"]) == ("middle", "main")
        assert first["at"]["line"] == s.do("where 1")["frames"][0]["line"]


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_task_about_to_begin_is_not_shown_with_the_frames_of_the_one_beneath_it(build: Build, compiler: str) -> None:
    with session([str(build("many.c", compiler)), "5"]) as s:
        s.do("break reached")
        s.do("continue")
        s.do("delete")
        new = next(row for row in s.do("tasks")["tasks"] if row["state"] == "new")
        backend = s.debugger.backend
        backend._set_trace_flags(backend._find_record(new["id"]), layout.RUNS)
        backend._gdb.run("-exec-continue")
        assert "bkptno" in backend._gdb.wait(30)  # its worker has it on top, and has not come to its code
        rows = {row["id"]: row for row in s.do("tasks")["tasks"]}
        assert (rows[new["id"]]["state"], rows[new["id"]]["at"]) == ("top", new["created"])
        assert s.do(f"where {new['id']}")["frames"] == []
        beneath = next(
            row for row in rows.values() if row["worker"] == rows[new["id"]]["worker"] and row["parent"] == 1
        )
        assert [frame["line"] for frame in s.do(f"where {beneath['id']}")["frames"]] == [beneath["at"]["line"]]
        assert s.do("where 1")["frames"][0]["function"] == "main"
        s.do(f"task {new['id']}")
        stop = s.do("next")
        assert (stop["task"], stop["at"]["line"] > new["created"]["line"]) == (new["id"], True)


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_thread_that_waits_at_the_end_of_a_region_has_no_frame_of_it(build: Build, compiler: str) -> None:
    with session([str(build("behind.c", compiler))]) as s:
        s.do("break late")
        s.do("continue")
        rows = s.do("tasks")["tasks"]
        left = next(row for row in rows if row["parent"] == 1 and row["wait"])
        assert left["wait"]["kind"] == "barrier"
        assert s.do(f"where {left['id']}")["frames"] == []
        assert s.do("where 1")["frames"][0]["function"] == "main"
        s.do("delete")
        s.do(f"task {left['id']}")
        stop = s.do("next")
        assert (stop["why"], stop["task"]) == ("joined", 1)
        while stop["at"]["line"] < BEHIND:
            stop = s.do("next")
        assert s.do("print total")["value"] == "1"


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_task_has_no_frame_that_the_compiler_made(build: Build, compiler: str) -> None:
    with session([str(build("waited.c", compiler))]) as s:
        s.do("break reached")
        task = s.do("continue")["task"]
        assert s.do("where")["frames"][0]["function"] == "reached"
        assert len(s.do("where")["frames"]) == 2
        parent = next(row["parent"] for row in s.do("tasks")["tasks"] if row["id"] == task)
        assert len(s.do(f"where {parent}")["frames"]) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_the_first_line_of_an_untied_task_is_told_once_and_next_goes_over_its_call(build: Build, compiler: str) -> None:
    with session([str(build("single.c", compiler, "-O0"))]) as s:
        s.do("break reached")
        s.do("continue")
        s.do("delete")
        waiting = [row["id"] for row in s.do("tasks")["tasks"] if row["state"] in ("new", "heap") and row["created"]]
        assert waiting
        s.do(f"task {waiting[-1]}")
        stop = s.do("next")
        assert (stop["task"], stop["at"]["line"]) == (waiting[-1], CALL)
        assert s.do("print i")["value"].isdigit()
        assert (stop := s.do("next"))["why"] in ("joined", "done"), stop
        assert s.do("continue")["why"] == "ended"
        assert s.output() == "0 2 4 6\n"


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_breakpoint_in_a_task_stops_once_in_each_where_the_line_is_done(build: Build, compiler: str) -> None:
    with session([str(build("single.c", compiler, "-O0"))]) as s:
        s.do(f"break single.c:{CALL}")
        stopped = []
        while (stop := s.do("continue"))["why"] == "breakpoint":
            stopped.append((stop["task"], s.do("print i")["value"]))
        assert stop["why"] == "ended"
        assert sorted(value for _, value in stopped) == ["0", "1", "2", "3"]
        assert len({task for task, _ in stopped}) == 4
        s.do("delete")


@pytest.mark.cases(1)
@pytest.mark.parametrize("compiler", ["gcc", clang()])
@pytest.mark.parametrize("me", [0, 1])
def test_from_the_end_of_a_threads_part_of_a_region_on_it_goes_on_behind_the_region(
    build: Build, compiler: str, me: int
) -> None:
    with session([str(build("parts.c", compiler))]) as s:
        s.do(f"break parts.c:11 if me == {me}")
        task = s.do("continue")["task"]
        s.do("delete")
        stop = s.do("next")
        while stop["task"] == task and stop["why"] == "line":
            stop = s.do("next")
        assert (stop["why"], stop["task"]) == ("joined", 1)
        while stop["at"]["line"] < 13:
            stop = s.do("next")
        assert s.do("print total")["value"] == "3"
        assert s.do("continue")["why"] == "ended"
        assert s.output() == "4\n"


def test_a_variable_that_the_task_was_not_given_is_refused_in_plain_words(build: Build) -> None:
    with session([str(build("waited.c", "gcc"))]) as s:
        s.do("break reached")
        s.do("continue")
        s.do("up")
        assert s.do("print n")["value"] == "2"
        with pytest.raises(WeftError, match="unused: this is a variable of work, which the task does not use"):
            s.do("print unused")


@pytest.mark.matrix
def test_ctrl_c_while_a_task_comes_on_leaves_it_the_one_in_hand(build: Build) -> None:
    with typed(build("tight.c", "gcc"), "2") as console:
        console.do("break work")
        console.do("continue")
        console.do("continue")
        console.do("delete")
        both = [row["id"] for row in console.do("tasks top")["tasks"] if row["at"]["function"] == "work"]
        assert len(both) == 2
        for task in both:
            console.do(f"task {task}")
            console.type("finish")
            time.sleep(0.5)
            console.interrupt()
            stop = console.read()
            assert (stop["why"], stop["task"], stop["at"]["function"]) == ("interrupted", task, "work")
            assert [row["id"] for row in console.do("tasks")["tasks"] if row["focus"]] == [task]


def test_ctrl_c_at_any_moment_loses_neither_the_console_nor_a_command(build: Build) -> None:
    with typed(build("three.c", "gcc")) as console:
        console.do("break leaf")
        answer = console.do("continue")
        console.do("delete")
        for turn in range(40):
            console.type("next")
            time.sleep(0.0015 * (turn % 20))
            console.interrupt()
            try:
                answer = console.read()
                assert answer["why"] in ("line", "joined", "done", "interrupted", "ended"), answer
            except typed_at.Refused as error:  # it came before the program was let go
                assert str(error) == "interrupted"
            assert console.do("tasks")["kind"] == "tasks"
        if answer["why"] != "ended":
            assert console.do("continue")["why"] == "ended"
        assert "total 45" in console.output
        console.quit()


def test_a_stop_outside_of_the_program_says_so() -> None:
    from weft.tasks.answers import render_answer

    stop = {"kind": "stopped", "why": "interrupted", "at": None, "label": "task 1", "text": None}
    assert render_answer(stop) == ["task 1 is not at a line of the program"]


@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_task_has_no_variable_that_the_compiler_made(build: Build, compiler: str) -> None:
    with session([str(build("single.c", compiler, "-O0"))]) as s:
        s.do(f"break single.c:{CALL}")
        s.do("continue")
        names = [one["name"] for one in s.do("locals")["values"]]
        assert "i" in names
        assert [name for name in names if not name.isidentifier() or name.startswith("__")] == []


def test_before_main_no_variable_is_said_to_have_a_value(build: Build) -> None:
    with session([str(build("tight.c"))]) as s:
        for command in ("locals", "print argc"):
            with pytest.raises(WeftError, match="before the first instruction of its main"):
                s.do(command)
        assert s.do("print 1 + 1")["value"] == "2"
        s.do("break work")
        s.do("continue")
        assert {"number", "x"} <= {one["name"] for one in s.do("locals")["values"]}


def test_at_the_start_it_is_said_why_there_are_no_tasks(build: Build) -> None:
    with session([str(build("tight.c"))]) as s:
        told = s.do("tasks")
        assert (told["tasks"], told["unseen"]) == (
            [],
            "the runtime of OpenMP has not started yet: the first region or task starts it",
        )
        assert s.console.render_answer(s.first)[0].startswith("before the first task, at tight.c:25 in main")
        s.do("break work")
        s.do("continue")
        assert s.do("tasks")["unseen"] is None


def test_a_refused_breakpoint_takes_no_number(build: Build) -> None:
    with session([str(build("tight.c"))]) as s:
        for refused in ("break nosuch", "break tight.c:9999", "watch nosuch"):
            with pytest.raises(WeftError):
                s.do(refused)
        assert s.do("break work")["breakpoint"]["id"] == 1
        s.do("delete")
        s.do("tbreak work")
        s.do("continue")
        with pytest.raises(WeftError):
            s.do("watch nosuch")
        assert s.do("watch x")["id"] == 3


def test_after_the_end_nothing_is_taken_that_could_not_stop_any_more(build: Build) -> None:
    with session([str(build("three.c"))]) as s:
        assert s.do("continue")["why"] == "ended"
        for command in ("break leaf", "tbreak leaf", "watch a", "until leaf"):
            with pytest.raises(WeftError, match="has ended"):
                s.do(command)
