"""References of another program, input or number of iterations, and damaged ones: told with the first place."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from machine import need
from tests_support import WEFT, execute
from weft.native.headers.value_format import VALUES_PAGE
from weft.values.recording import INCLUDE

pytestmark = pytest.mark.timeout(300)

PYTHON = """\
import sys, numpy as np, weft
n, steps, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
a = np.arange(float(n))
for i in range(steps):
    with weft.loop("sweep", i):
        a = a * 0.5 + 1
        weft.probe("A", weft.part(a, of="A"))
        if kind == "more":
            weft.probe("extra", a.sum())
    if kind != "less":
        weft.probe("norm", float(a.sum()))
"""
C = """\
#include <stdlib.h>
#include <string.h>
#include <weft.h>
int main(int argc, char **argv) {
    int n = atoi(argv[1]), steps = atoi(argv[2]);
    double *a = malloc(n * 8), s;
    for (int i = 0; i < n; i++) a[i] = i;
    for (int i = 0; i < steps; i++) {
        weft_loop("sweep", i);
        for (int k = 0; k < n; k++) a[k] = a[k] * 0.5 + 1;
        weft_probe_part("A", a, double, "A", 1, WEFT_LIST(n), WEFT_LIST(0), WEFT_LIST(n));
        s = 0;
        for (int k = 0; k < n; k++) s += a[k];
        if (!strcmp(argv[3], "more")) weft_probe("extra", &s, double);
        weft_end("sweep");
        if (strcmp(argv[3], "less")) weft_probe("norm", &s, double);
    }
    return 0;
}
"""
FORTRAN = """\
program a
  use weft
  implicit none
  integer :: n, steps, i
  character(8) :: word
  real(8), allocatable :: x(:)
  call get_command_argument(1, word); read (word, *) n
  call get_command_argument(2, word); read (word, *) steps
  call get_command_argument(3, word)
  allocate (x(n))
  x = [(i - 1.0d0, i = 1, n)]
  do i = 0, steps - 1
    call weft_loop("sweep", i)
    x = x * 0.5d0 + 1
    call weft_probe("A", x, of="A", lower=[1])
    if (word == "more") call weft_probe("extra", sum(x))
    call weft_end("sweep")
    if (word /= "less") call weft_probe("norm", sum(x))
  end do
end program
"""
RUNS = {"ref": "40 6 all", "larger": "50 6 all", "smaller": "30 6 all", "longer": "40 9 all", "shorter": "40 4 all",
        "more": "40 6 more", "less": "40 6 less"}  # fmt: skip
LINES = {"python": (7, 9, 11), "c": (11, 14, 16), "fortran": (15, 16, 18)}
LOOP = {"python": 5, "c": 9, "fortran": 13}
FILES = {"python": "a.py", "c": "a.c", "fortran": "a.f90"}
SOURCES = {"python": PYTHON, "c": C, "fortran": FORTRAN}


def built(language: str, folder: Path) -> list[str]:
    """The command of a program."""
    source = folder / FILES[language]
    source.write_text(SOURCES[language])
    if language == "python":
        return [sys.executable, str(source)]
    compiler = need("gcc" if language == "c" else "gfortran")
    more = (
        [f"-I{INCLUDE}"] if language == "c" else [f"-J{folder}", execute([*WEFT, "probes", "--fortran"]).stdout.strip()]
    )
    done = execute([compiler, "-g", "-O1", *more, str(source), "-o", str(folder / "program")])
    assert done.returncode == 0, done.stderr
    return [str(folder / "program")]


@pytest.fixture(scope="module", params=["python", "c", "fortran"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A language, and the folder of its runs."""
    folder = tmp_path_factory.mktemp(request.param)
    command = built(request.param, folder)
    for name, words in RUNS.items():
        done = execute([*WEFT, "run", "--out", name, "--", *command, *words.split()], cwd=folder, timeout=60)
        assert done.returncode == 0, done.stderr
    return request.param, folder


def compared(folder: Path, *words: str) -> str:
    """What `weft compare` says of runs that differ."""
    done = execute([*WEFT, "compare", *words], cwd=folder, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("larger", "first difference: {A}, in iteration 0 of sweep\n"
         "    rank 0: no rank of the reference has {over} of the run: the runs differ in input or decomposition"),
        ("smaller", "first difference: {A}, in iteration 0 of sweep\n"
         "    rank 0: no rank of the run has {under} of the reference"),
        ("longer", "the loop sweep ({loop}) ran 9 times, in the reference 6: "
         "{A}, in iteration 6 of sweep is only in the run, the first of 6 such values"),
        ("shorter", "the loop sweep ({loop}) ran 4 times, in the reference 6: "
         "{A}, in iteration 4 of sweep is only in the reference, the first of 4 such values"),
        ("more", "the structures differ: "
         "{extra}, in iteration 0 of sweep is only in the run, the first of 6 such values"),
        ("less", "the structures differ: {norm} is only in the reference, the first of 6 such values"),
    ],
)  # fmt: skip
def test_the_first_place_where_the_structures_part_is_told(kept: tuple[str, Path], run: str, said: str) -> None:
    language, folder = kept
    file = FILES[language]
    probes = {name: f"probe {name} at {file}:{line} on rank 0"
              for name, line in zip(("A", "extra", "norm"), LINES[language], strict=True)}  # fmt: skip
    over, under = ("A(41:50)", "A(31:40)") if language == "fortran" else ("A[40:50]", "A[30:40]")
    text = said.format(**probes, loop=f"{file}:{LOOP[language]}", over=over, under=under)
    found = compared(folder, "ref", run)
    assert text in found
    assert f"{RUNS['ref']}`, that of the run `" in found and f"{RUNS[run]}`" in found


@pytest.mark.matrix
def test_values_that_cannot_be_read_are_no_all_clear(kept: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = kept
    shutil.copytree(folder / "ref", tmp_path / "cut")
    [file] = (tmp_path / "cut" / "values").glob("*.values")
    file.write_bytes(file.read_bytes()[: VALUES_PAGE + 1904])
    for words in (("ref", str(tmp_path / "cut")), (str(tmp_path / "cut"), "ref")):
        said = compared(folder, *words)
        assert "is cut off" in said and "such values: the other's values end early, or its file is damaged" in said
        assert "that both have are alike" in said and "all " not in said
    shutil.rmtree(tmp_path / "cut" / "values")
    done = execute([*WEFT, "compare", "ref", str(tmp_path / "cut")], cwd=folder)
    assert done.returncode == 4 and "has no values: the program has no probes" in done.stderr
    done = execute([*WEFT, "compare", "ref", "nowhere"], cwd=folder)
    assert done.returncode == 4 and "there is no such directory" in done.stderr


@pytest.mark.cases(1)
def test_a_reference_of_another_program_is_told_as_one(kept: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = kept
    (tmp_path / "other.py").write_text("import weft\nfor k in range(3):\n    weft.probe('energy', float(k))\n")
    execute([*WEFT, "run", "--out", "other", "--", sys.executable, "other.py"], cwd=tmp_path)
    said = compared(folder, "ref", str(tmp_path / "other"))
    assert (
        "no probe is in both: these are runs of different programs (the reference has A and norm, the run energy)"
        in said
    )
    assert "other.py`" in said
