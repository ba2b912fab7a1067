"""A Python program that was not started for a debugger is looked into, stopped, and left as it was."""

from __future__ import annotations

import io
import json
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from weft.cli.main import main
from weft.errors import UsageError
from weft.tasks import session
from weft.tasks.code_injection import InjectionError, RemoteExecution

pytestmark = pytest.mark.needs("ptrace", *(() if platform.machine() == "x86_64" else ("calls by gdb",)))
RUNS = """import asyncio, sys

async def tick(n):
    while True:
        await asyncio.sleep(0.02)
        n += 1
        print(n, sys.gettrace(), flush=True)

async def main():
    jobs = asyncio.Queue()
    tasks = [asyncio.create_task(jobs.get(), name="getter")]
    if len(sys.argv) > 1:
        tasks.append(asyncio.create_task(tick(0), name="ticker"))
    await asyncio.gather(*tasks)

print("begun", flush=True)
asyncio.run(main())
"""


@contextmanager
def running(python: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs by itself."""
    program = folder / "runs.py"
    program.write_text(RUNS)
    process = subprocess.Popen([python, str(program), *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", PYTHONS[1:] or PYTHONS)
def test_a_program_that_runs_is_stopped_at_a_line_and_left_as_it_was(tmp_path: Path, python: str) -> None:
    with running(python, tmp_path, "tick") as process:
        for late in (0, 0.3):
            with session([], pid=process.pid) as s:
                rows = {row["name"]: row for row in s.do("tasks")["tasks"]}
                assert rows["getter"]["wait"]["kind"] == "queue"
                assert s.do("waits")["hung"] is None
                s.do(f"break {tmp_path / 'runs.py'}:6")
                time.sleep(late)  # the program stops there before it is let go on: that stop is the one that is told
                stop = s.do("continue")
                assert (stop["why"], stop["at"]["line"], stop["task"]) == ("breakpoint", 6, rows["ticker"]["id"])
                s.do("set n = n + 1000")
                assert s.do("next")["at"]["line"] == 7
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0].splitlines()
        numbers = [int(line.split()[0]) for line in output]
        assert sum(after - before > 1000 for before, after in pairwise(numbers)) == 2
        assert output[-1].endswith(" None")  # nothing traces it any more


def test_a_hung_program_is_told_with_the_reason_once_and_for_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(sys.executable, tmp_path) as process:
        assert main(["tasks", "--pid", str(process.pid), "--once", "--format", "json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert {row["name"] for row in told["tasks"]} == {None, "getter"}
        assert "nothing can happen any more" in told["waits"]["hung"]
        assert main(["tasks", "--pid", str(process.pid), "--once"]) == 1
        assert "nothing can happen any more: task 2 (getter) waits" in capsys.readouterr().out
        assert process.poll() is None


def test_the_prompt_of_a_program_that_runs_begins_with_what_its_tasks_wait_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, is_hung in ((), True), (("tick",), False):
        with running(sys.executable, tmp_path, *arguments) as process:
            monkeypatch.setattr(sys, "stdin", io.StringIO("where\n"))
            assert main(["tasks", "--pid", str(process.pid)]) == is_hung
            screen = capsys.readouterr().out
            assert screen.startswith("nothing can happen any more: task 2 (getter) waits") == is_hung
            assert screen.index("  waits: queue") < screen.index("(weft) where")
            assert process.poll() is None


NEW = [python for python in PYTHONS if "3.14" in python]
new = pytest.mark.skipif(not NEW, reason="there is no python3.14 here, on the PATH or in WEFT_PYTHONS")


@new
def test_a_hung_program_of_python_3_14_lets_the_agent_in_without_gdb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with running(NEW[0], tmp_path) as process:
        for _ in range(2):
            assert main(["tasks", "--pid", str(process.pid), "--once"]) == 1
            assert "nothing can happen any more: task 2 (getter) waits" in capsys.readouterr().out
        assert process.poll() is None


@new
def test_a_program_whose_interpreter_may_not_be_asked_is_given_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_DISABLE_REMOTE_DEBUG", "1")
    with running(NEW[0], tmp_path, "tick") as process:
        with pytest.raises(InjectionError, match="PYTHON_DISABLE_REMOTE_DEBUG"):
            RemoteExecution(process.pid).request_script(tmp_path / "none.py")
        with session([], pid=process.pid) as s:
            assert {row["name"] for row in s.do("tasks")["tasks"]} == {None, "getter", "ticker"}
        assert process.poll() is None


@pytest.mark.parametrize("python", [sys.executable, *NEW])
def test_a_program_that_computes_lets_the_agent_in_between_two_instructions(tmp_path: Path, python: str) -> None:
    program = tmp_path / "computes.py"
    program.write_text(
        "import asyncio\n\nasync def main():\n    print('begun', flush=True)\n    n = 0\n"
        "    while True:\n        n += 1\n\nasyncio.run(main())\n"
    )
    process = subprocess.Popen([python, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with session([], pid=process.pid) as s:
            (row,) = s.do("tasks")["tasks"]
            assert row["state"] == "top"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.matrix
@pytest.mark.parametrize("python", [sys.executable, *NEW])
def test_a_program_that_sleeps_in_a_system_call_lets_the_agent_in_and_sleeps_on(tmp_path: Path, python: str) -> None:
    program = tmp_path / "sleeps.py"
    program.write_text(
        "import asyncio, time\n\nasync def main():\n    begun = time.monotonic()\n    print('begun', flush=True)\n"
        "    time.sleep(15)\n    print(round(time.monotonic() - begun))\n\nasyncio.run(main())\n"
    )
    process = subprocess.Popen([python, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        for _ in range(2):
            with session([], pid=process.pid) as s:
                (row,) = s.do("tasks")["tasks"]
                assert (row["state"], row["at"]["line"]) == ("top", 6)
        assert process.communicate(timeout=60)[0] == "15\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_a_program_without_asyncio_is_refused_and_left_alone() -> None:
    code = "print('begun', flush=True)\nimport sys, time\nfor _ in range(40): time.sleep(0.05)\n"
    code += "print('asyncio' in sys.modules)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    with pytest.raises(UsageError, match="has not imported asyncio"):
        session([], pid=process.pid).__enter__()
    assert process.communicate(timeout=60)[0] == "False\n"
    assert process.returncode == 0


def test_a_process_that_is_not_there_is_refused() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(UsageError, match="no such process"):
        session([], pid=process.pid)
