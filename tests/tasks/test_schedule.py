"""The order in which tasks take their turns: recorded, kept to in another run, and held back for one task."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from machine import need
from tests_support import clang
from weft.errors import UsageError, WeftError
from weft.tasks import session

ORDERS = Path(__file__).parent / "programs" / "orders.py"
ORDERED = ORDERS.with_name("ordered.c")
CRITICAL = 1 + ORDERED.read_text().splitlines().index("#pragma omp critical")
LEVELS = Path(__file__).parent / "programs" / "levels.py"
KINDS = ["sleeps", "locked", "queued", "threaded", "first", "timed", "served"]


def ran(command: list[str], *, record: str = "", replay: str = "") -> str:
    """A run to its end: what it printed."""
    with session(command, record=record, replay=replay) as s:
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), stop
        return s.output()


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_has_the_order_of_its_record(tmp_path: Path, kind: str, python: str) -> None:
    file, command = str(tmp_path / "schedule"), [python, str(ORDERS), kind]
    first = ran(command, record=file)
    assert [ran(command, replay=file) for _ in range(2)] == [first] * 2


def test_runs_without_a_record_come_in_other_orders() -> None:
    assert len({ran([str(ORDERS), "sleeps"]) for _ in range(4)}) > 1


@pytest.mark.matrix
def test_a_replay_that_is_another_program_says_where_it_leaves_its_record(
    tmp_path: Path,
) -> None:
    file = str(tmp_path / "schedule")
    ran([str(ORDERS), "first"], record=file)
    with session([str(ORDERS), "locked"], replay=file) as s:
        stop = s.do("continue")
        assert stop["why"] == "interrupted"
        assert "differs from its record: step" in stop["text"]
        assert s.do("continue")["why"] == "ended"


def test_what_is_no_schedule_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "schedule"
    file.write_text("something else\n")
    with pytest.raises(WeftError), session([str(ORDERS), "sleeps"], replay=str(file)):
        pass
    file.write_text('{"schema": "weft-schedule/1", "runtime": "openmp"}\n')
    with pytest.raises(UsageError, match="of tasks of openmp"), session([str(ORDERS), "sleeps"], replay=str(file)):
        pass
    with pytest.raises(UsageError, match="not for Cilk-5"):
        session(["fib.cilk"], record=str(file))


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """ordered.c by each compiler that is here."""
    need("gdb", "gcc", "OMPT")
    folder, found = tmp_path_factory.mktemp("ordered"), {}
    for compiler in ("gcc", clang()):
        if shutil.which(compiler):
            found[compiler] = str(folder / compiler)
            command = [compiler, "-g", "-fopenmp", str(ORDERED), "-o", found[compiler]]
            subprocess.run(command, check=True, cwd=folder, timeout=60)
    return found


@pytest.mark.matrix
@pytest.mark.parametrize(("compiler", "kind"), [("gcc", "many"), ("gcc", "depending"), ("gcc", "nested"),
                                                (clang(), "loose"), (clang(), "made")])  # fmt: skip
def test_threads_run_openmps_tasks_in_the_order_of_the_record(
    tmp_path: Path, ordered: dict[str, str], compiler: str, kind: str
) -> None:
    if compiler not in ordered:
        pytest.skip(f"there is no {compiler} here")
    file, command = str(tmp_path / "schedule"), [ordered[compiler], kind]
    first = ran(command, record=file)
    assert len(first.split()) > 8
    assert [ran(command, replay=file) for _ in range(2)] == [first] * 2


@pytest.mark.matrix
def test_a_task_of_a_replay_is_followed_as_in_any_run(tmp_path: Path, ordered: dict[str, str]) -> None:
    file, command = str(tmp_path / "schedule"), [ordered["gcc"], "tree"]
    ran(command, record=file)
    seen = []
    for _ in range(2):
        with session(command, replay=file) as s:
            s.do("break fib")
            s.do("continue")
            s.do("delete")
            s.do("follow child")
            stops = [s.do("next") for _ in range(6)]
            seen.append([(stop["why"], stop["at"]["line"], s.do("print n")["value"]) for stop in stops])
            waits = [row["wait"] for row in s.do("waits")["waits"]]
            # In a replay a thread may stand at the program's critical section until its turn comes.
            critical = [wait for wait in waits if wait["kind"] == "lock"]
            assert {wait["site"]["line"] for wait in critical} <= {CRITICAL}
            assert {wait["kind"] for wait in waits if wait not in critical} <= {"taskwait", "barrier"}
    assert seen[0] == seen[1]
    assert len(seen[0]) == 6


@pytest.mark.matrix
def test_a_native_replay_of_another_program_says_where_it_leaves_its_record(
    tmp_path: Path, ordered: dict[str, str]
) -> None:
    file = str(tmp_path / "schedule")
    ran([ordered["gcc"], "many"], record=file)
    with session([ordered["gcc"], "locks"], replay=file) as s:
        stop = s.do("continue")
        assert stop["why"] == "interrupted"
        assert "differs from its record: step" in stop["text"]
        assert s.do("continue")["why"] == "ended"


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_task_is_held_while_the_others_go_on(python: str) -> None:
    with session([python, str(ORDERS), "sleeps"]) as s:
        s.do("break chance")
        s.do("continue")
        s.do("delete")
        assert "held" in s.do("hold task2")["text"]
        stop = s.do("continue")
        assert stop["why"] == "stuck"
        assert "nothing else can happen while" in stop["text"] and "(task2) is held" in stop["text"]
        rows = {row["name"]: row for row in s.do("tasks")["tasks"]}
        assert set(rows) == {None, "task2"} and rows["task2"]["held"]
        assert s.do("release")["text"] == "1 task can continue"
        assert s.do("continue")["why"] == "ended"
        order = s.output().split()
        assert [word for word in order if word[0] == "2"] == order[-4:]


def test_hold_and_release_say_what_they_cannot_do() -> None:
    with session([str(LEVELS)]) as s:
        s.do("break leaf")
        s.do("continue")
        for wrong in ("hold", "hold 99", "release", "release 3"):
            with pytest.raises(WeftError):
                s.do(wrong)
        s.do("delete")
        assert s.do("continue")["why"] == "ended"
