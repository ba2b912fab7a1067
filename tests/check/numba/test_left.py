"""What of a Python program's parallel work is not looked at is named, and nothing at all is no all-clear."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests_support import WEFT, execute

pytest.importorskip("numba")
pytestmark = pytest.mark.timeout(600)

PROGRAM = """\
import ctypes, signal, sys
import numpy as np
from numba import njit, prange, vectorize
from numba.typed import Dict, List


@njit(parallel=True)
def fill(a):
    for i in prange(a.size):
        a[i] = i


@njit(parallel=True)
def never(a):
    for i in prange(1, a.size):
        a[i] = a[i - 1]


@njit(parallel=True)
def gather(found, held, n):
    for i in prange(n):
        held[i] = 1.0
        found.append(i)


@njit(parallel=True)
def rows(n):
    made = [[0, 0] for i in range(n)]
    for i in prange(n):
        made[i][0] = i
    return made


absolute = ctypes.CDLL(None).labs
absolute.argtypes, absolute.restype = [ctypes.c_long], ctypes.c_long


@njit(parallel=True)
def outside(a):
    for i in prange(a.size):
        a[i] = absolute(-i)


if sys.argv[1] == "all":
    vectorize(["float64(float64)"], target="parallel")(lambda x: x + 1)
    found, held = List([1]), Dict()
    held[0] = 1.0
    gather(found, held, 1)
    outside(np.zeros(4))
    rows(3)
if sys.argv[1] != "none":
    fill(np.zeros(9))
if sys.argv[1] == "hang":
    signal.pause()
if sys.argv[1] == "crash":
    ctypes.string_at(8)
if sys.argv[1] == "import":
    import not_there
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("left") / "prog.py"
    path.write_text(PROGRAM)
    return path


def check(script: Path, *words: str) -> tuple[int, str]:
    done = execute([*WEFT, "check", *words], timeout=300, cwd=script.parent)
    return done.returncode, done.stdout


@pytest.mark.matrix
def test_what_has_no_hooks_is_named(script: Path) -> None:
    status, out = check(script, "prog.py", "all")
    left = [line.removeprefix("Not checked: ") for line in out.splitlines() if line.startswith("Not checked: ")]
    assert sorted(left) == [
        "1 parallel ufunc (prog.py:45)",
        "the elements of `found` (a container of Numba's library) (prog.py:21)",
        "the elements of `held` (a container of Numba's library) (prog.py:21)",
        "the elements of `made` (a container of Numba's library) (prog.py:29)",
        "the parallel function `never` (prog.py:13), which was never called",
        "what the compiled function `absolute` reads and writes (prog.py:40)",
    ], out
    assert "4 parallel loops (4 runs, " in out
    assert status == 0


def test_a_program_that_calls_no_loop_exits_with_2(script: Path) -> None:
    status, out = check(script, "prog.py", "none")
    assert status == 2
    assert out.startswith("Nothing was checked in prog.py (finished)")
    assert "nothing was checked: call the functions that have the prange loops" in out


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prog.py", "hang"), "Weft ended the program"),
        (("prog.py", "crash"), "the program ended by SIGSEGV"),
        (("prog.py", "import"), "the program exited with 1"),
    ],
)
def test_a_program_that_ends_badly_tells_what_was_looked_at_until_then(
    words: tuple[str, ...], said: str, script: Path
) -> None:
    for seconds in ("10", "60", "200"):  # a busy machine compiles for longer than the shortest of these
        status, out = check(script, "--timeout", seconds, *words)
        if "1 parallel loop " in out:
            break
    assert status == 3
    assert f"Nothing found so far in prog.py ({said})" in out
    assert "1 parallel loop (1 run, 9 iterations)" in out


PAST_THE_FUNCTION = """\
import numpy as np
from numba import njit, prange, typeof


def each(n):
    total = np.zeros(2)
    for i in prange(n):
        total += np.array([i, 1.0])
    return total


def lists(n):
    last = np.zeros(n)
    for i in prange(n):
        held = [0.0, 0.0]
        held[1] = i
        last[i] = held[1]
    return last


def faulty(n):
    last = np.zeros(n)
    for i in prange(n):
        held = [0.0, 0.0]
        held[1] = i
        last[i] = held[1]
        if i > 5:
            last[0] = held[1]
    return last


def code(function):
    return njit((typeof(1),), parallel=True)(function).overloads[(typeof(1),)].entry_point


code(each)(10)
code(lists)(10)
code(faulty)(10)
"""


@pytest.mark.matrix
def test_machine_code_that_is_called_past_its_function_is_checked_alike(tmp_path: Path) -> None:
    """What an iteration makes and frees lies at the same place in the next one."""
    script = tmp_path / "past.py"
    script.write_text(PAST_THE_FUNCTION)
    _, out = check(script, "past.py")
    assert re.findall(r"\[([a-z-]+)\]$", out, re.MULTILINE) == ["loop-dependence"], out
    line = PAST_THE_FUNCTION.split("\n").index("            last[0] = held[1]") + 1
    assert re.search(rf"^ +past\.py:{line} +write in faulty$", out, re.MULTILINE), out
