"""The order in which asyncio's tasks take their steps: recorded, kept to in another run, and held back for one task."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from weft.errors import UsageError, WeftError
from weft.tasks import session

ORDERS = Path(__file__).parent / "programs" / "orders.py"
LEVELS = Path(__file__).parent / "programs" / "levels.py"
KINDS = ["sleeps", "locked", "queued", "threaded", "first"]


def ran(command: list[str], *, record: str = "", replay: str = "") -> str:
    """A run to its end: what it printed."""
    with session(command, record=record, replay=replay) as s:
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), stop
        return s.output()


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_has_the_order_of_its_record(tmp_path: Path, kind: str, python: str) -> None:
    file, command = str(tmp_path / "schedule"), [python, str(ORDERS), kind]
    first = ran(command, record=file)
    assert [ran(command, replay=file) for _ in range(3)] == [first] * 3


def test_runs_without_a_record_come_in_other_orders() -> None:
    assert len({ran([str(ORDERS), "sleeps"]) for _ in range(4)}) > 1


def test_a_replay_that_is_another_program_says_where_it_leaves_its_record(
    tmp_path: Path,
) -> None:
    file = str(tmp_path / "schedule")
    ran([str(ORDERS), "first"], record=file)
    with session([str(ORDERS), "locked"], replay=file) as s:
        stop = s.do("continue")
        assert stop["why"] == "interrupted"
        assert "left its record: step" in stop["text"]
        assert s.do("continue")["why"] == "ended"


def test_what_is_no_schedule_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "schedule"
    file.write_text("something else\n")
    with pytest.raises(WeftError), session([str(ORDERS), "sleeps"], replay=str(file)):
        pass
    with pytest.raises(UsageError, match="asyncio; a native runtime"):
        session(["/bin/true"], record=str(file))


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
        assert s.do("release")["text"] == "1 task can go on"
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
