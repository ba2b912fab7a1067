"""`weft check prog.py` and `pytest --weft-check`: what they say and how they exit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests_support import WEFT, execute

pytest.importorskip("numba")
pytestmark = pytest.mark.timeout(600)

SUITE = """\
import numpy as np
from numba import njit, prange


@njit(parallel=True)
def running(a):
    for i in prange(1, a.size):
        a[i] += a[i - 1]


@njit(parallel=True)
def twice(a):
    for i in prange(a.size):
        a[i] *= 2


def test_running():
    a = np.ones(4)
    running(a)
    assert a[3] == 4


def test_twice():
    a = np.ones(4)
    twice(a)
    assert a.sum() == 8
"""


def weft(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return execute([*WEFT, "check", *words], timeout=500, cwd=cwd)


def test_a_suite_run_with_the_option_fails_where_a_loop_is_wrong_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = execute(
        [sys.executable, "-m", "pytest", "-q", "-p", "weft.pytest_plugin.prange", "--weft-check", "test_suite.py"],
        env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=500,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "test_suite.py:8: error: Iteration i=2 of the loop at line 7 reads `a[1]`" in done.stdout
    assert "weft check: 1 finding in 2 functions" in done.stdout


def test_a_program_is_given_its_arguments_and_its_own_traceback(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text("import sys\nprint(sys.argv, __name__)\nraise ValueError('its own')\n")
    done = weft("prog.py", "one", "two", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "['prog.py', 'one', 'two'] __main__"
    assert "ValueError: its own" in done.stderr
    assert "/weft/" not in done.stderr
    assert "the program exited with 1" in done.stdout
    assert done.returncode == 3
    assert "nothing was checked: call the functions that have the prange loops" in done.stdout


def test_a_program_that_does_not_compile_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text("def f(:\n    pass\n")
    done = weft("prog.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("weft: prog.py:1:7: the program does not compile: ")
    assert len(done.stderr.splitlines()) == 1


def test_without_numba_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.errors import UsageError
    from weft.numba import program

    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"not installed for .*; install it there: pip install 'weft-debugger\[ch"):
        program.require_numba()
