"""A program's processes are named with the tasks of the first one, and gone to on request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from weft.cli.main import main
from weft.errors import UsageError
from weft.tasks import session

pytestmark = pytest.mark.needs("gdb", "calls by gdb")
PROGRAM = Path(__file__).parent / "programs" / "forks.py"
LINES = PROGRAM.read_text().splitlines()
MADE, RETURNS = (LINES.index(text) + 1 for text in ('    print("made", flush=True)', "    return double"))
WAITS = RETURNS - 1


@pytest.mark.matrix
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes_are_named_and_one_is_looked_into_and_left(how: str, python: str) -> None:
    with session([python, str(PROGRAM), how]) as s:
        s.do(f"break {PROGRAM}:{MADE}")
        assert s.do("continue")["why"] == "breakpoint"
        told = s.do("tasks")
        first, second = (child["pid"] for child in told["children"])
        assert [child["name"] for child in told["children"]] == ["child0", "child1"]
        said = f"2 child processes of multiprocessing: {first} (child0), {second} (child1); `process {first}` goes to"
        assert s.console.render_answer(told)[-1].startswith(said)
        assert s.do(f"process {second}")["here"] == second
        (row,) = s.do("tasks")["tasks"]
        assert (row["at"]["line"], row["wait"]["kind"]) == (WAITS, "sleep")
        s.do(f"task {row['id']}")
        assert {v["name"]: v["value"] for v in s.do("locals")["values"]} == {"n": "1", "double": "2"}
        s.do("set double = 5")
        assert s.do("print double")["value"] == "5"
        assert s.do("process parent")["here"] is None
        assert s.do("task")["task"]["at"]["line"] == MADE
        s.do("delete")
        assert (s.do("continue")["why"], s.output()) == ("ended", "begun\nmade\ngone\n")
        assert s.do("process")["children"] == []


def test_a_child_is_stopped_at_a_line_while_its_parent_stands(tmp_path: Path) -> None:
    program = tmp_path / "ticks.py"
    program.write_text(PROGRAM.read_text().replace("    await asyncio.sleep(20)\n",
                                                   "    while True:\n        await asyncio.sleep(0.05)\n"))  # fmt: skip
    with session([str(program), "fork"]) as s:
        s.do(f"break {program}:{MADE + 1}")
        s.do("continue")
        pid = s.do("process")["children"][0]["pid"]
        s.do(f"process {pid}")
        s.do(f"break {program}:{WAITS}")
        stop = s.do("continue")
        assert (stop["why"], stop["at"]["line"]) == ("breakpoint", WAITS)
        assert s.do("print n")["value"] == "0"
        s.do("process parent")
        assert s.do("print len(children)")["value"] == "2"


def test_what_is_no_child_is_refused() -> None:
    with session([str(PROGRAM), "fork"]) as s:
        assert s.console.render_answer(s.do("process")) == ["in the program's first process"]
        for wrong in ("1", "child0"):
            with pytest.raises(UsageError, match=f"there is no living child process {wrong}"):
                s.do(f"process {wrong}")
        with pytest.raises(UsageError, match="this is the process that was started"):
            s.do("process parent")


def test_a_program_that_runs_already_names_its_processes(capsys: pytest.CaptureFixture[str]) -> None:
    process = subprocess.Popen([sys.executable, str(PROGRAM), "spawn", "60"], stdout=subprocess.PIPE, text=True)
    pids = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert main(["tasks", "--pid", str(process.pid), "--once", "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        pids = [child["pid"] for child in told["children"]]
        assert [child["name"] for child in told["children"]] == ["child0", "child1"]
        assert process.poll() is None
    finally:
        for pid in (process.pid, *pids):
            os.kill(pid, signal.SIGKILL)
        process.wait()
