"""Probes of programs in every language: what they are given is read back, and nothing stops the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from machine import need
from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.native.headers.value_format import ValueForm
from weft.values.process import KeptValue
from weft.values.trace import ValueTrace

PROGRAMS = Path(__file__).parent / "programs"
INCLUDE = execute([*WEFT, "probes", "--cflags"]).stdout.strip()


def expected(steps: int) -> np.ndarray:
    a = np.zeros((30, 30))
    a[0] = 1
    for _ in range(steps):
        b = a.copy()
        b[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4
        a = b
    return a


def run(folder: Path, *words: str | Path, ranks: int = 0) -> subprocess.CompletedProcess[str]:
    number = ["-n", str(ranks)] if ranks else []
    return execute([*WEFT, "run", "--out", "run", *number, "--", *words], cwd=folder, env=environment())


def kept(folder: Path, name: str) -> list[KeptValue]:
    return [
        one
        for process in ValueTrace.open(folder / "run").processes
        for row in range(len(process.rows))
        if (one := process.value_at(row)).place.name == name
    ]


def assembled(folder: Path, step: int) -> np.ndarray:
    whole = np.full((30, 30), np.nan)
    for one in kept(folder, "A"):
        around = one.process.scopes_around(int(one.process.rows["parent"][one.row]))
        if around[-1][1] == step:
            whole[tuple(slice(first, end) for first, end in one.box)] = one.values()
    return whole


def c(folder: Path, mpich: Installed) -> list[str | Path]:
    execute([mpich.mpicc, "-g", INCLUDE, "-o", folder / "heat", PROGRAMS / "heat.c"])
    return ["./heat"]


def without_pie(folder: Path, mpich: Installed) -> list[str | Path]:
    execute([mpich.mpicc, "-g", "-no-pie", "-fno-pie", INCLUDE, "-o", folder / "heat", PROGRAMS / "heat.c"])
    return ["./heat"]


def cplusplus(folder: Path, mpich: Installed) -> list[str | Path]:
    shutil.copy(PROGRAMS / "heat.c", folder / "heat.cpp")
    mpicxx = Path(mpich.mpicc).parent / "mpicxx"
    done = execute([mpicxx, "-g", "-Wall", "-Werror", INCLUDE, "-o", folder / "heat", folder / "heat.cpp"])
    assert done.returncode == 0, done.stderr
    return ["./heat"]


def fortran(folder: Path, mpich: Installed) -> list[str | Path]:
    need("gfortran")
    module = execute([*WEFT, "probes", "--fortran"]).stdout.strip()
    done = execute(
        [
            "gfortran",
            "-g",
            "-O2",
            "-Wall",
            "-Werror",
            "-J",
            folder,
            module,
            PROGRAMS / "heat.f90",
            "-o",
            folder / "heat",
        ]
    )
    assert done.returncode == 0, done.stderr
    return ["./heat"]


def python(folder: Path, mpich: Installed) -> list[str | Path]:
    return [sys.executable, PROGRAMS / "heat.py"]


def python_by_columns(folder: Path, mpich: Installed) -> list[str | Path]:
    return [sys.executable, PROGRAMS / "heat.py", "fortran"]


LANGUAGES = {
    "c": (c, 3, "heat.c:30"),
    "without_pie": (without_pie, 2, "heat.c:30"),
    "cplusplus": (cplusplus, 2, "heat.cpp:30"),
    "fortran": (fortran, 0, "heat.f90:24"),
    "python": (python, 0, "heat.py:17"),
    "python_by_columns": (python_by_columns, 0, "heat.py:17"),
}
Making = Callable[[Path, Installed], list[str | Path]]


@pytest.mark.matrix
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_probe_is_given_is_read_back(language: str, mpich: Installed, tmp_path: Path) -> None:
    making, ranks, where = LANGUAGES[language]
    done = run(tmp_path, *making(tmp_path, mpich), ranks=ranks)
    assert done.returncode == 0, done.stderr
    for step in (0, 5):
        assert (assembled(tmp_path, step) == expected(step + 1)).all()
    residuals = [float(one.values()) for one in kept(tmp_path, "residual") if one.process.rank == 0]
    assert residuals == [abs(expected(k + 1) - expected(k)).max() for k in range(6)]
    assert where in {one.place.where for one in kept(tmp_path, "A")}
    [few, *_] = kept(tmp_path, "few")
    assert few.dtype == np.float32
    assert few.values().tolist() == [1, 2, 3]


def test_a_probe_that_cannot_be_kept_is_told_and_the_program_goes_on(mpich: Installed, tmp_path: Path) -> None:
    done = run(tmp_path, *fortran(tmp_path, mpich))
    assert done.returncode == 0
    assert "the probe 'pair' at heat.f90:28 recorded nothing: its type is not one of numbers" in done.stderr


FAULTY = """
#include <stdlib.h>
#include <sys/mman.h>
#include <weft.h>
int main(void) {
    double *end = (double *)((char *)mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096);
    mprotect(end, 4096, PROT_NONE);
    for (int i = 0; i < 3; i++) weft_probe_n("beyond", end - 10, double, 100);
    weft_probe_n("inside", end - 10, double, 10);
    weft_probe_n("nowhere", (double *)0, double, 3);
    weft_probe_n("negative", end - 10, double, -3);
    weft_probe("wild", end + 5, double);
    weft_probe("there", end - 1, double);
    weft_end("never begun");
    char *hole = (char *)mmap(0, 12288, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(hole + 4096, 4096, PROT_NONE);
    weft_probe_n("across", (double *)hole, double, 1536);
    weft_probe_part("overlaps", (double *)hole, double, "U", 2, WEFT_LIST(3, 8), WEFT_LIST(0, 0), WEFT_LIST(3, 4));
    weft_probe_part("padded", (double *)hole, double, "V", 2, WEFT_LIST(3, 4), WEFT_LIST(0, 0), WEFT_LIST(1, 8));
    return 7;
}
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("compiler", ["cc -O0", "cc -O2", "c++ -x c++ -O2"])
def test_memory_that_is_not_there_is_told_once_and_never_read(compiler: str, mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(FAULTY)
    words = [*compiler.split(), "-g", "-Wall", "-Wextra", "-Werror", INCLUDE]
    built = execute([*words, "-o", tmp_path / "f", tmp_path / "f.c"])
    assert built.returncode == 0, built.stderr
    assert execute([tmp_path / "f"]).returncode == 7
    done = run(tmp_path, "./f")
    assert done.returncode == 7
    assert done.stderr.count("'beyond' at f.c:8 recorded nothing: its memory ends before its elements do") == 1
    assert "'nowhere' at f.c:10 recorded nothing: it is a null pointer" in done.stderr
    assert "'negative' at f.c:11 recorded nothing: its size is negative" in done.stderr
    assert "'wild' at f.c:12 recorded nothing: its memory ends before its elements do" in done.stderr
    assert "'across' at f.c:17 recorded nothing: its memory ends before its elements do" in done.stderr
    assert "'overlaps' at f.c:18 recorded nothing: a pitch is smaller than the shape" in done.stderr
    assert "'padded'" not in done.stderr and len(kept(tmp_path, "padded")) == 1
    assert len(kept(tmp_path, "inside")) == len(kept(tmp_path, "there")) == 1


@pytest.mark.matrix
def test_the_header_may_stand_before_all_others(tmp_path: Path) -> None:
    program = """#include <weft.h>
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    volatile float v = 3;
    (void)argv;
    weft_probe("v", &v, float);
    return argc == 1 && dlopen(NULL, RTLD_NOW) ? 0 : 1;
}
"""
    (tmp_path / "f.c").write_text(program)
    for compiler in ("cc -std=c99", "cc -std=c11 -O2 -pedantic", "c++ -x c++ -std=c++11", "c++ -x c++ -std=c++20 -O2"):
        words = [*compiler.split(), "-Wall", "-Wextra", "-Werror", INCLUDE, "-o", tmp_path / "f", tmp_path / "f.c"]
        built = execute(words)
        assert built.returncode == 0, built.stderr
        assert execute([tmp_path / "f"]).returncode == 0


ODD = """
import os, subprocess, sys
import numpy as np, weft
weft.probe("text", "abc")
weft.probe("objects", [object()])
weft.probe("deep", np.zeros((1,) * 9))
weft.probe("far", weft.part(np.zeros(3), of="A", lower=(1, 2)))
weft.probe("huge", 10 ** 30)
weft.probe("half", np.float16(1.5))
weft.probe("swapped", np.arange(3, dtype=">i4"))
weft.probe("backwards", np.arange(5)[::-2])
with weft.loop("x", object()):
    pass
try:
    with weft.loop("broken", 0):
        raise KeyError
except KeyError:
    weft.probe("after", True)
if os.fork() == 0:
    weft.probe("child", 1)
    os._exit(0)
os.wait()
child = "import weft; weft.probe('grandchild', 1)"
subprocess.run([sys.executable, "-c", child], check=True)
subprocess.run([sys.executable, "-c", child], check=True, env=os.environ.copy())
"""


def test_whatever_python_gives_a_probe_the_program_goes_on(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    assert execute([sys.executable, "odd.py"], cwd=tmp_path).returncode == 0
    done = run(tmp_path, sys.executable, "odd.py")
    assert done.returncode == 0, done.stderr
    for name in ("text", "objects", "deep", "far", "huge"):
        assert f"the probe {name!r} at odd.py:" in done.stderr
    by_name = {name: kept(tmp_path, name) for name in ("half", "swapped", "backwards", "after", "child", "grandchild")}
    assert float(by_name["half"][0].values()) == 1.5
    assert by_name["swapped"][0].values().tolist() == [0, 1, 2]
    assert by_name["backwards"][0].values().tolist() == [4, 2, 0]
    assert bool(by_name["after"][0].values())
    assert not by_name["after"][0].process.scopes_around(int(by_name["after"][0].process.rows["parent"][-1]))
    assert by_name["child"] == by_name["grandchild"] == []


@pytest.mark.matrix
def test_a_killed_process_keeps_all_that_it_had(mpich: Installed, tmp_path: Path) -> None:
    done = run(tmp_path, sys.executable, PROGRAMS / "heat.py", "killed")
    assert done.returncode == 137
    assert (assembled(tmp_path, 3) == expected(4)).all()
    [file] = (tmp_path / "run" / "values").glob("*.values")
    assert file.stat().st_size < 60_000, "what was taken of the disk and not used is given back"


def test_without_weft_run_nothing_is_written_and_numpy_is_not_loaded(tmp_path: Path) -> None:
    code = "import sys, weft; weft.probe('x', 1); print('numpy' in sys.modules)"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    assert execute([sys.executable, "-c", code], cwd=tmp_path, env=clean).stdout == "False\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.matrix
def test_a_run_without_probes_has_no_values(mpich: Installed, tmp_path: Path) -> None:
    done = run(tmp_path, sys.executable, "-c", "from mpi4py import MPI")
    assert "values" not in done.stderr
    assert not (tmp_path / "run" / "values").exists()


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["changes", "hashes", "statistics"])
def test_forms_keep_what_they_say(form: str, mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(f'arrays = "{form}"\n')
    command = [*WEFT, "run", "--probes", "p.toml", "--out", "run", "--", sys.executable, PROGRAMS / "heat.py"]
    execute(command, cwd=tmp_path, env=environment())
    some = kept(tmp_path, "A")
    assert {one.form for one in some} == {ValueForm[form.upper()]}
    if form == "changes":
        assert all((one.values() == expected(k + 1)).all() for k, one in enumerate(some))
    if form == "hashes":
        assert len({one.sum for one in some}) == 6
    if form == "statistics":
        known = some[5].statistics
        assert (known["least"], known["greatest"]) == (0, 1)
        assert known["sum"] == pytest.approx(expected(6).sum())
