"""`mpiexec -n 3 pytest --weft`: one summary of all ranks, and a test that hangs is named with its rank and line."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests_support import ROOT, Installed, execute

HEAD = "import time\nimport pytest\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
GOOD = """
def test_sum():
    print("hello from", comm.rank)
    assert comm.allreduce(1) == comm.size

def test_of_some():
    if comm.rank:
        pytest.skip("rank 0 alone")
"""
FAILS = """
def test_fails_on_one():
    print("I am", comm.rank)
    assert comm.rank != 1, "one is wrong"
"""
SLEEPS = """
def test_never_comes():
    while comm.rank == 1:
        time.sleep(0.1)
"""
HANGS = """
def test_hangs():
    if comm.rank == 1:
        comm.recv(source=0, tag=99)
"""
AFTER = """
def test_after():
    assert comm.allreduce(2) == 2 * comm.size
"""
BOTH = pytest.mark.parametrize("which", ["mpich", "openmpi"])


def ran(of: Installed, folder: Path, text: str, *options: str, n: int = 3) -> tuple[int, str]:
    """The status and the words of a suite on so many ranks."""
    (folder / "test_it.py").write_text(HEAD + text)
    python = of.python or sys.executable
    command = [*of.mpiexec, "-n", str(n), python, "-m", "pytest", "--weft", "--color=no", "-p", "no:cacheprovider"]
    done = execute([*command, *options], cwd=folder, env=of.environment, timeout=110)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.matrix
@BOTH
def test_a_good_suite_has_one_summary(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    status, out = ran(request.getfixturevalue(which), tmp_path, GOOD)
    assert status == 0
    assert out.count("2 passed") == out.count("test session starts") == 1
    assert "hello" not in out
    assert not list(tmp_path.glob(".weft-suite/*"))


@pytest.mark.cases(1)
@BOTH
def test_a_failure_of_one_rank_fails_the_test_with_its_traceback(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    status, out = ran(request.getfixturevalue(which), tmp_path, GOOD + FAILS + AFTER)
    assert status != 0
    assert out.count("1 failed, 3 passed") == 1
    assert re.search(r"^rank 1:\n.*^E +AssertionError: one is wrong.*^ranks 0 and 2: passed$", out, re.M | re.S)
    assert re.search(r"Captured stdout call of rank 2 -+\nI am 2", out)


def test_ranks_that_can_be_interrupted_come_back_and_the_suite_goes_on(mpich: Installed, tmp_path: Path) -> None:
    status, out = ran(mpich, tmp_path, SLEEPS + AFTER, "--weft-timeout", "2")
    assert status != 0
    assert "test_it.py::test_never_comes hangs on rank 1 after 2 s; ranks 0 and 2 have finished it" in out
    assert re.search(r"weft: rank 1 is outside of MPI at test_it.py:\d+ test_never_comes, not with the others", out)
    assert out.count("1 failed, 1 passed") == 1


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_a_test_that_hangs_in_mpi_ends_the_job_with_a_last_word(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    of: Installed = request.getfixturevalue(which)
    status, out = ran(of, tmp_path, FAILS + HANGS + AFTER, "--weft-timeout", "3")
    assert status != 0
    assert "test_it.py::test_hangs hangs on rank 1 after 3 s; ranks 0 and 2 have finished it" in out
    assert re.search(
        r"weft: rank 1 is in recv from 0 \(tag 99\) at test_it.py:\d+ test_hangs, not with the others", out
    )
    assert "one is wrong" in out
    assert "before it: 1 failed; not run: 1" in out
    assert "continue after it with: --weft-from 'test_it.py::test_after'" in out
    status, out = ran(of, tmp_path, FAILS + HANGS + AFTER, "--weft-from", "test_it.py::test_after")
    assert status == 0
    assert "1 passed, 2 deselected" in out


@pytest.mark.matrix
def test_a_slow_test_that_comes_to_its_end_in_time_passes(mpich: Installed, tmp_path: Path) -> None:
    slow = "\ndef test_slow():\n    time.sleep(1.5 if comm.rank == 1 else 0)\n"
    assert ran(mpich, tmp_path, slow + AFTER, "--weft-timeout", "20", n=2)[0] == 0


@pytest.mark.matrix
def test_ranks_with_other_tests_are_refused(mpich: Installed, tmp_path: Path) -> None:
    status, out = ran(mpich, tmp_path, "if comm.rank == 1:\n    def test_mine(): pass\n" + AFTER, n=2)
    assert status != 0
    assert "has collected other tests than rank" in out
    assert "test_it.py::test_mine" in out


def test_without_ranks_it_is_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    done = execute([sys.executable, "-m", "pytest", "--weft", "-p", "no:cacheprovider"], cwd=tmp_path)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout


def test_a_suite_that_asks_for_nothing_has_nothing_of_weft_in_its_process(tmp_path: Path) -> None:
    """pytest imports the plugins of all that is installed, in every suite of the environment."""
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    of_weft = [name for name in sys.modules if name.startswith('weft')]\n"
        "    assert [name for name in of_weft if not name.startswith(('weft.pytest_plugin', 'weft.values'))]"
        " == ['weft.base', 'weft.base.version', 'weft']\n"
    )
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"].values()
    words = [word for plugin in plugins for word in ("-p", plugin)]
    done = execute([sys.executable, "-m", "pytest", "-q", *words, "test_it.py"],
                   env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_name_that_no_module_of_weft_has_is_an_attribute_error_of_all_of_them() -> None:
    """Pickle looks for a function without a module in all modules that are there."""
    program = (
        "import sys\n"
        "import weft.report.analysis, weft.native.headers.format, weft.values.trace, weft.launch.job, weft.check\n"
        "print(any(hasattr(one, 'there_is_no_such_name') for one in list(sys.modules.values())))\n"
    )
    done = execute([sys.executable, "-c", program])
    assert done.stdout == "False\n", done.stderr
