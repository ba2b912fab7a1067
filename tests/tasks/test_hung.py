"""Programs of asyncio in which nothing can happen any more are told so, with who waits for what; others never are."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.test_asyncio import PYTHONS

from weft.cli.main import main
from weft.errors import UsageError
from weft.tasks import session

HUNG = Path(__file__).parent / "programs" / "hung.py"
DIES = """import asyncio

class Wrong(ValueError):
    pass

async def dies(n):
    await asyncio.sleep(0.01)
    if n:
        raise Wrong(f"no {n}")

async def main():
    for n in range(3):
        try:
            await asyncio.create_task(dies(n), name=f"dies{n}")
        except Wrong:
            pass
    await asyncio.gather(asyncio.create_task(asyncio.sleep(0, 1 / 1)), dies(0))

asyncio.run(main())
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("what", "lines", "waits"), [
    ("queue", [r"^nothing can happen any more: task 2 \(consumer\) waits at hung.py:29 for Queue jobs, get: empty; "
               r"no task reaches jobs.put at hung.py:36 or jobs.put at hung.py:38; "
               r"other tasks that refer to it: task 1 waits at hung.py:45"],
     {"consumer": ("queue", "jobs, get: empty")}),
    ("pool", [r"^nothing can happen any more: task 2 \(nested\) waits at hung.py:21 for Semaphore self.free, "
              r"no place left; "
              r"task 2 \(nested\) is inside of it already"],
     {"nested": ("semaphore", "self.free, no place left")}),
    ("event", [r"task 2 \(one\) waits at locks.py:\d+ for Event ready, not set; other tasks that refer to it: task "
        r"1 waits at"],
     {"one": ("event", "not set")}),
    ("lock", [r"task 1 waits at hung.py:70 for Lock guard; task 2 \(keeper\) took it and ended without releasing it"],
     {None: ("lock", "guard")}),
])  # fmt: skip
def test_where_nothing_can_happen_any_more_it_is_told_with_who_could_have_helped(
    what: str, lines: list[str], waits: dict[str | None, tuple[str, str]], python: str
) -> None:
    with session([python, str(HUNG), what]) as s:
        stop = s.do("continue")
        assert stop["why"] == "stuck", stop
        for line in lines:
            assert re.search(line, stop["text"]), stop["text"]
        rows: dict[Any, Any] = {row["name"]: row["wait"] for row in s.do("tasks")["tasks"]}
        assert {name: (rows[name]["kind"], rows[name]["what"]) for name in waits} == waits


@pytest.mark.cases(1)
@pytest.mark.parametrize("what", ["queue", "pool", "event", "lock"])
def test_the_corrected_twin_runs_to_its_end(what: str) -> None:
    with session([str(HUNG), what, "fixed"]) as s:
        assert s.do("continue")["why"] == "ended"


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", ["thread", "foreign", "child", "open_socket"])
def test_what_may_still_come_from_elsewhere_is_waited_for(what: str, python: str) -> None:
    with session([python, str(HUNG), what]) as s:
        stop = s.do("continue")
        assert (stop["why"], stop["code"]) == ("ended", 0), s.output()


def test_a_command_of_a_script_has_a_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert main(["tasks", "--timeout", "1", "-c", "c", "-c", "tasks", "--", str(HUNG), "served_for_ever"]) == 0
    assert time.monotonic() - begun < 20
    told = capsys.readouterr().out
    assert "stopped after 1 s" in told
    assert "serves 127.0.0.1:" in told


def test_all_frames_of_a_wait_are_shown_on_request() -> None:
    with session([str(HUNG), "pool"]) as s:
        s.do("continue")
        own, every = s.do("where nested")["frames"], s.do("where --all nested")["frames"]
        assert [frame["function"] for frame in own] == ["Pool.query", "Pool.query"]
        assert [frame["function"] for frame in every] == [
            "Semaphore.acquire", "_ContextManagerMixin.__aenter__", "Pool.query", "Pool.query"]  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_task_that_dies_is_stopped_at_with_its_frames_where_that_was_asked_for(tmp_path: Path, python: str) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    with session([python, str(program)]) as s:
        s.do("catch ValueError")
        for n in (1, 2):
            stop = s.do("continue")
            assert (stop["why"], stop["at"]["line"]) == ("died", 9)
            assert stop["text"].endswith(f"(dies{n}) died of Wrong: no {n}")
            assert s.do("print n")["value"] == str(n)
            assert [frame["function"] for frame in s.do("where")["frames"]] == ["dies"]
        assert s.do("continue")["why"] == "ended"


def test_a_task_that_dies_of_another_exception_is_not_stopped_at(tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    for first in (["catch KeyError"], ["catch", "catch off"], []):
        with session([str(program)]) as s:
            for command in first:
                s.do(command)
            assert s.do("continue")["why"] == "ended"
            with pytest.raises(UsageError):
                s.do("catch two words")


def test_the_join_of_a_task_that_died_says_of_what(tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES)
    with session([str(program)]) as s:
        s.do(f"break {program}:9")
        s.do("continue")
        stop = s.do("next")
        assert (stop["why"], stop["at"]["line"]) == ("joined", 14)
        assert stop["text"].endswith("(dies1) died of Wrong: no 1")
        assert "joined, after task" in s.console.render_answer(stop)[0]
