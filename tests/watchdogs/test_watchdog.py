"""A program that has not come on tells where its ranks are, once, and goes on."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from attach.jobs import compiled, running
from machine import ability
from tests_support import WEFT, Installed, execute
from weft.errors import UsageError
from weft.watchdogs.settings import WatchdogSettings, read_settings

STANDS = Path(__file__).parent / "programs" / "stands.py"
PATIENCE = 60.0


def told(folder: Path) -> str:
    """What is written beside, once it is whole."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        for path in folder.glob("weft-watch-*.txt"):
            if "stacks of" in (text := path.read_text()) and text.endswith("\n"):
                return text
        time.sleep(0.1)
    pytest.fail("nothing was told")


@pytest.mark.cases(1)
@pytest.mark.parametrize("which", ["mpich", "openmpi"])
def test_a_rank_that_stands_tells_of_all_once_and_when_it_goes_on(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    of: Installed = request.getfixturevalue(which)
    with running(of, 3, [of.python or sys.executable, STANDS, "go", "2"], tmp_path) as job:
        text = told(tmp_path)
        assert re.search(r"weft: \d{4}-\d\d-\d\d [\d:]+ on \S+: rank [012] \(process \d+\) has stayed at "
                         r"\S+stands.py:\d+ step for 2 s; the program "
                         r"continues; this is reported once\n", text)  # fmt: skip
        if lack := ability("ptrace").lack:
            assert f"ranks 0-2 could not be inspected: {lack}" in text, text
            return
        assert "reporting.py" not in text  # Weft's own thread is not the program's
        assert "rank 1 is in recv from 0 (tag 3) at stands.py:22 step" in text
        # It sleeps in line 19 and asks for the file in line 18.
        assert re.search(r"rank 1 names rank 0, which is outside of MPI at stands.py:1[89] step", text), text
        time.sleep(3)  # the others have stood as long, too
        (tmp_path / "go").touch()
        out = job.communicate(timeout=60)[0]
        assert job.returncode == 0
        assert "through" in out
        assert out.count("this is reported once") == 1
        assert text in out
        assert len(list(tmp_path.glob("weft-watch-*.txt"))) == 1


def test_a_rank_that_comes_on_tells_nothing(mpich: Installed, tmp_path: Path) -> None:
    program = tmp_path / "moves.py"
    program.write_text("import time\nfor i in range(60):\n    time.sleep(0.05)\n    i += 1\nprint('through')\n")
    done = execute([sys.executable, "-m", "weft.watchdogs", program], cwd=tmp_path, env={"WEFT_WATCHDOG": "1"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "through\n", "")
    assert not list(tmp_path.glob("weft-watch-*"))


@pytest.mark.matrix
def test_the_program_is_ended_where_that_is_asked_for(mpich: Installed, tmp_path: Path) -> None:
    env = {"WEFT_WATCHDOG": "1.5", "WEFT_WATCHDOG_ACTION": "abort", "WEFT_WATCHDOG_FILE": str(tmp_path / "told.txt")}
    command = [*mpich.mpiexec, "-n", "2", sys.executable, "-m", "weft.watchdogs", STANDS, "never"]
    done = execute(command, cwd=tmp_path, env=env)
    assert done.returncode != 0
    assert " has stayed at " in done.stderr
    assert "it is killed now" in (tmp_path / "told.txt").read_text()


@pytest.mark.matrix
@pytest.mark.parametrize("action", ["tell", "abort"])
def test_weft_run_watches_over_programs_of_any_language(action: str, mpich: Installed, tmp_path: Path) -> None:
    program = compiled(mpich, "hang.c", tmp_path)
    environment = {"WEFT_WATCHDOG": "2", "WEFT_WATCHDOG_ACTION": action}
    weft = Installed(mpich.name, (*WEFT, "run"), mpich.mpicc, None, environment)
    with running(weft, 4, ["--out", tmp_path / "run", "--", program, "compute", "go"], tmp_path) as job:
        text = told(tmp_path)
        said = re.search(r"no rank has begun or ended a call for (\d+) s", text)
        assert said is not None and 2 <= int(said[1]) < 10, text
        assert re.search(r"rank 1 is outside of MPI at hang.c:\d+ compute", text)
        (tmp_path / "go").touch() if action == "tell" else None
        out = job.communicate(timeout=60)[0]
        assert ("through" in out) is (action == "tell")
        assert (job.returncode == 0) is (action == "tell")
        assert out.count("no rank has begun or ended a call") == 1


def test_a_line_in_a_site_s_folder_watches_over_programs_without_a_line_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "sleeps.py"
    program.write_text("import time\ntime.sleep(4)\nprint('through')\n")
    line = "import sys, site; site.addsitedir(sys.argv.pop(1)); import runpy; runpy.run_path(sys.argv.pop(1))"
    (tmp_path / "weft-watch.pth").write_text("import weft.watchdogs.startup\n")
    done = execute([sys.executable, "-c", line, tmp_path, program], cwd=tmp_path, env={"WEFT_WATCHDOG": "1"})
    assert done.stdout == "through\n"
    assert " has stayed at " in done.stderr
    assert ": process " in done.stderr


@pytest.mark.parametrize("environment", [{"WEFT_WATCHDOG": "soon"}, {"WEFT_WATCHDOG": "-1"}, {"WEFT_WATCHDOG": "inf"},
                                         {"WEFT_WATCHDOG": "9", "WEFT_WATCHDOG_ACTION": "explode"}])  # fmt: skip
def test_a_wish_that_means_nothing_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="WEFT_WATCHDOG"):
        read_settings(environment=environment)


def test_nothing_is_watched_unless_that_is_asked_for() -> None:
    assert read_settings(environment={}) is None
    assert read_settings(environment={"WEFT_WATCHDOG": "0"}) is None
    assert read_settings(5, environment={"WEFT_WATCHDOG": "9"}) == WatchdogSettings(5.0)
    assert os.environ.get("WEFT_WATCHDOG") is None


@pytest.mark.matrix
def test_the_line_that_is_told_is_the_program_s_own_where_a_library_waits_for_it(tmp_path: Path) -> None:
    program = tmp_path / "waits.py"
    program.write_text(
        "import queue\ntry:\n    queue.Queue().get(timeout=6)\nexcept queue.Empty:\n    print('through')\n"
    )
    done = execute([sys.executable, "-m", "weft.watchdogs", program], cwd=tmp_path, env={"WEFT_WATCHDOG": "1"})
    assert (done.returncode, done.stdout) == (0, "through\n")
    assert re.search(r" has stayed at \S+waits.py:3 <module> for ", done.stderr), done.stderr
