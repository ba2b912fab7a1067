"""C and Fortran programs on 1 rank held against the same on several: a planted fault is the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from machine import need
from tests_support import WEFT, Installed, execute
from weft.compare.values import compare_values
from weft.compare.values.report import render_values
from weft.values import recording
from weft.values.trace import ValueTrace

PROGRAMS = Path(__file__).parent / "programs"


def built_in_c(folder: Path, mpi: Installed) -> Path:
    include = execute([*WEFT, "probes", "--cflags"]).stdout.strip()
    words = [mpi.mpicc, "-g", "-O1", include, PROGRAMS / "kernels.c", "-o", folder / "c", "-lm"]
    done = execute(words)
    assert done.returncode == 0, done.stderr
    return folder / "c"


def built_in_fortran(folder: Path, mpi: Installed) -> Path:
    compiler = need("mpif90.mpich")
    module = execute([*WEFT, "probes", "--fortran"]).stdout.strip()
    done = execute([compiler, "-g", "-O1", "-J", folder, module, PROGRAMS / "kernels.f90", "-o", folder / "fortran"])
    assert done.returncode == 0, done.stderr
    return folder / "fortran"


@pytest.fixture(scope="module")
def kept(mpich: Installed, debian_mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The values of a kernel in a language, with a fault, on some ranks, each recorded once."""
    ways = {"c": (built_in_c, mpich), "fortran": (built_in_fortran, debian_mpich)}

    @cache
    def program(language: str) -> tuple[Path, Sequence[str]]:
        build, mpi = ways[language]
        return build(tmp_path_factory.mktemp(language), mpi), mpi.mpiexec

    @cache
    def recorded(language: str, kernel: str, ranks: int, fault: str = "") -> ValueTrace:
        path, mpiexec = program(language)
        folder = tmp_path_factory.mktemp("run")
        (folder / "values").mkdir()
        library = recording.library()
        variables = {"WEFT_INTERNAL_VALUES": str(folder / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
        done = execute([*mpiexec, "-n", str(ranks), path, kernel, fault], env=variables)
        assert done.returncode == 0, done.stderr
        recording.finish_values(folder, None)  # Fortran's lines are found in the program's debug information
        return ValueTrace.open(folder)

    return recorded


PAIRS = [
    # language, kernel, ranks, fault: what the line of the probe holds, ranks, first element
    ("c", "heat", 2, "no-exchange", 'weft_probe_part("A"', [0, 1], (11, 1)),
    ("c", "heat", 4, "width", 'weft_probe_part("A"', [0, 1, 2], (5, 22)),
    ("c", "heat", 4, "own-edge", 'weft_probe_part("A"', [2], (12, 1)),
    ("c", "heat", 2, "bound", 'weft_probe_part("A"', [1], (12, 1)),
    ("c", "heat", 6, "bound", 'weft_probe_part("A"', [1], (4, 1)),
    ("c", "heat", 2, "float32", 'weft_probe_part("A"', [1], None),
    ("c", "heat", 2, "operation", 'weft_probe("change"', [0, 1], ()),
    ("c", "matmul", 2, "root", 'weft_probe_part("C"', [0, 1], None),
    ("c", "matmul", 4, "stale-sum", 'weft_probe_part("C"', [1], (6, 0)),
    ("c", "matmul", 2, "private", 'weft_probe_part("C"', [1], (12, 1)),
    ("c", "matmul", 1, "private", 'weft_probe_part("C"', [0], (0, 1)),
    ("c", "nbody", 4, "hop", 'weft_probe_part("force"', [0, 1, 2, 3], (0,)),
    ("c", "nbody", 2, "sign", 'weft_probe_part("force"', [1], (6,)),
    ("c", "nbody", 6, "stale", 'weft_probe_part("force"', None, None),
    ("c", "sort", 2, "side", 'weft_probe_part("sorted"', [0, 1], (0,)),
    ("c", "sort", 4, "lost", 'weft_probe_part("sorted"', [3], (19,)),
    ("fortran", "heat", 2, "no-exchange", "weft_probe('A'", [0, 1], (1, 11)),
    ("fortran", "heat", 4, "bound", "weft_probe('A'", [1], (1, 6)),
    ("fortran", "heat", 2, "single", "weft_probe('A'", [1], None),
    ("fortran", "matmul", 2, "root", "weft_probe('C'", [0, 1], None),
    ("fortran", "matmul", 6, "not-added", "weft_probe('C'", [1], (0, 4)),
    ("fortran", "cg", 2, "halo", "weft_probe('total'", [0, 1], ()),
    ("fortran", "cg", 4, "local", "weft_probe('total'", [1], ()),
    ("fortran", "cg", 2, "beta", "weft_probe('p'", [1], (12,)),
]  # fmt: skip
SUFFIX = {"c": "kernels.c", "fortran": "kernels.f90"}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("language", "kernel", "ranks", "fault", "mark", "where", "element"),
    PAIRS, ids=lambda one: one if isinstance(one, str | int) else "",
)  # fmt: skip
def test_a_planted_fault_is_the_first_difference(
    language: str, kernel: str, ranks: int, fault: str, *, mark: str, where: list[int] | None,
    element: tuple[int, ...] | None, kept: Any,
) -> None:  # fmt: skip
    made = compare_values(kept(language, kernel, 1), kept(language, kernel, ranks, fault), {"": {}})
    assert made.parting is None
    first = made.found[0]
    place, process = first[0].after.place, first[0].after.process
    lines_of = (PROGRAMS / SUFFIX[language]).read_text().splitlines()
    assert (Path(place.file).name, mark in lines_of[place.line - 1]) == (SUFFIX[language], True)
    around = [k for _, k in process.scopes_around(int(process.rows["parent"][first[0].after.row]))]
    assert around == ([] if kernel == "sort" else [2])
    assert where is None or sorted({one.after.process.rank for one in first}) == where
    assert element is None or first[0].element == element


KERNELS = [("c", "heat"), ("c", "matmul"), ("c", "nbody"), ("c", "sort"),
           ("fortran", "heat"), ("fortran", "matmul"), ("fortran", "cg")]  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize(("language", "kernel"), KERNELS)
@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_the_twins_without_a_fault_are_alike(language: str, kernel: str, ranks: int, kept: Any) -> None:
    made = compare_values(kept(language, kernel, 1), kept(language, kernel, ranks), {"": {}})
    assert made.alike, list(render_values(made))
    assert made.compared > 0
