"""Programs on 1 rank held against the same on several, with a planted fault: the first difference is where it is."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests_support import Installed, execute
from weft.compare.values import ValueComparison, compare_values
from weft.compare.values.report import render_values
from weft.values import recording
from weft.values.trace import ValueTrace

PROGRAM = Path(__file__).parent / "programs" / "kernels.py"


@pytest.fixture(scope="module")
def kept(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The values of a kernel with a fault on some ranks, each recorded once. Probes need no recorder of calls."""

    @cache
    def recorded(kernel: str, ranks: int, fault: str = "") -> ValueTrace:
        folder = tmp_path_factory.mktemp("run")
        (folder / "values").mkdir()
        library = recording.library()
        variables = {"WEFT_INTERNAL_VALUES": str(folder / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
        command = [*mpich.mpiexec, "-n", str(ranks), str(mpich.python), PROGRAM, kernel, fault]
        done = execute(command, env=variables)
        assert done.returncode == 0, done.stderr
        return ValueTrace.open(folder)

    return recorded


def line_of(mark: str) -> int:
    return next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if mark in text)


A, C, F, X = 'probe("A"', 'probe("C"', 'probe("force"', 'probe("place"'
PAIRS = [
    # kernel, ranks, fault: probe's line, iterations, rank, element, sort
    ("heat", 2, "no-exchange", A, [("sweep", 2)], [0, 1], (11, 1), "value"),
    ("heat", 4, "no-exchange", A, [("sweep", 2)], [0, 1, 2, 3], (5, 1), "value"),
    ("heat", 2, "neighbour", A, [("sweep", 2)], [0, 1], (11, 1), "value"),
    ("heat", 2, "stale-send", A, [("sweep", 2)], [0], (11, 1), "value"),
    ("heat", 4, "stale-send", A, [("sweep", 2)], [0, 2], (5, 1), "value"),
    ("heat", 2, "bound", A, [("sweep", 2)], [1], (12, 1), "value"),
    ("heat", 3, "bound", A, [("sweep", 2)], [1], (8, 1), "value"),
    ("heat", 2, "float32", A, [("sweep", 2)], [1], None, "value"),
    ("heat", 2, "nan", A, [("sweep", 2)], [1], (14, 5), "value"),
    ("heat", 2, "operation", 'probe("change"', [("sweep", 2)], [0, 1], (), "value"),
    ("heat", 2, "block", A, [("sweep", 2)], [0], (12, 0), "missing"),
    ("heat", 4, "block", A, [("sweep", 2)], [0], (6, 0), "missing"),
    ("heat", 1, "nan", A, [("sweep", 2)], [0], None, "value"),
    ("matmul", 2, "root", C, [("panel", 2)], [0, 1], None, "value"),
    ("matmul", 4, "root", C, [("panel", 2)], [0, 1, 2, 3], None, "value"),
    ("matmul", 2, "transposed", C, [("panel", 2)], [1], None, "value"),
    ("matmul", 2, "not-cleared", C, [("panel", 2)], [1], (12, 0), "value"),
    ("matmul", 3, "skipped", C, [("panel", 2)], [1], (8, 0), "value"),
    ("matmul", 2, "shifted", C, [("panel", 2)], [1], None, "value"),
    ("nbody", 2, "hop", F, [("step", 2)], [0, 1], (0,), "value"),
    ("nbody", 4, "hop", F, [("step", 2)], [0, 1, 2, 3], (0,), "value"),
    ("nbody", 2, "sign", F, [("step", 2)], [1], (6,), "value"),
    ("nbody", 3, "itself", F, [("step", 2)], [1], (4,), "value"),
    ("nbody", 3, "stale", F, [("step", 2)], [2], (8,), "value"),
    ("nbody", 2, "step-size", X, [("step", 2)], [1], (6,), "value"),
    ("cg", 2, "halo", 'probe(name', [("iteration", 2)], [0, 1], (), "value"),
    ("cg", 2, "local-pq", 'probe(name', [("iteration", 2)], [1], (), "value"),
    ("cg", 4, "local-rho", 'probe(name', [("iteration", 2)], [1], (), "value"),
    ("cg", 2, "beta", 'probe("p"', [("iteration", 2)], [1], (16,), "value"),
    ("cg", 2, "tolerance", 'probe("x"', [("iteration", 2)], [0, 1], (0,), "value"),
    ("sort", 2, "side", 'probe("sorted"', [], [0, 1], (0,), "value"),
    ("sort", 4, "phases", 'probe("sorted"', [], None, None, "value"),
    ("sort", 2, "lost", 'probe("sorted"', [], [1], (13,), "value"),
    ("sort", 4, "unsigned", 'probe("sorted"', [], [0], (0,), "value"),
]  # fmt: skip


def compared(before: ValueTrace, after: ValueTrace, **settings: Any) -> ValueComparison:
    return compare_values(before, after, {"": settings})


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("kernel", "ranks", "fault", "mark", "iterations", "where", "element", "sort"),
    PAIRS,
    ids=lambda one: one if isinstance(one, str | int) else "",
)
def test_a_planted_fault_is_the_first_difference(
    kernel: str,
    ranks: int,
    fault: str,
    *,
    mark: str,
    iterations: list[Any],
    where: list[int] | None,
    element: tuple[int, ...] | None,
    sort: str,
    kept: Any,
) -> None:
    made = compared(kept(kernel, 1), kept(kernel, ranks, fault))
    assert made.parting is None
    first = made.found[0]
    assert {one.sort for one in first} == {sort}
    place = first[0].after.place
    assert (place.line, Path(place.file).name) == (line_of(mark), "kernels.py")
    process = first[0].after.process
    around = [(scope.name, k) for scope, k in process.scopes_around(int(process.rows["parent"][first[0].after.row]))]
    assert around == iterations
    assert where is None or sorted({one.after.process.rank for one in first}) == where
    assert element is None or first[0].element == element
    said = list(render_values(made))
    assert said[0].startswith(f"first difference: probe {place.name} at kernels.py:{place.line} on rank")


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", ["heat", "matmul", "nbody", "cg", "sort"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_the_twins_without_a_fault_are_alike(kernel: str, ranks: int, kept: Any) -> None:
    made = compared(kept(kernel, 1), kept(kernel, ranks))
    assert made.alike, list(render_values(made))
    assert made.compared > 0
    assert not made.unplaced and not made.unjudged
    back = compared(kept(kernel, ranks), kept(kernel, 1))
    assert back.alike, list(render_values(back))


@pytest.mark.matrix
def test_another_order_of_sums_is_named_with_its_units_and_is_not_an_error(kept: Any) -> None:
    made = compared(kept("cg", 1), kept("cg", 4))
    assert made.alike
    assert made.rounded
    said = "\n".join(render_values(made))
    assert re.search(r"only rounding: \d+ elements of probe \w+, at most \d+ units? in the last place", said)
    exact = compared(kept("cg", 1), kept("cg", 4), exact=True)
    assert not exact.alike
    assert not exact.rounded


def test_a_tolerance_lets_through_what_it_says_and_no_more(kept: Any) -> None:
    before, after = kept("cg", 1), kept("cg", 2, "tolerance")
    assert not compared(before, after).alike
    assert not compared(before, after, relative=1e-13).alike
    assert compared(before, after, relative=1e-9).alike
    own = compare_values(before, after, {"": {}, "x": {"relative": 1e-9}, "p": {"relative": 1e-9}})
    assert own.alike


def test_a_loop_that_ran_another_number_of_times_is_named_with_both(kept: Any) -> None:
    made = compared(kept("heat", 1), kept("heat", 2, "loop"))
    assert made.parting is not None and not made.found
    said = "\n".join(render_values(made))
    assert "the loop sweep (kernels.py:" in said
    assert "ran 5 times, in the reference 6" in said
    assert "in iteration 5 of sweep is only in the reference" in said


def test_another_input_is_told_as_such(kept: Any) -> None:
    made = compared(kept("heat", 1), kept("heat", 1, "input"))
    assert not made.alike
    assert "other" not in next(iter(render_values(made)))


def test_another_program_is_told_as_such(kept: Any) -> None:
    [said] = render_values(compared(kept("heat", 1), kept("sort", 2)))
    assert "no probe is in both: these are runs of different programs" in said
    assert "the reference has A and change, the run sorted" in said


def test_a_damaged_reference_is_told_before_anything_else(kept: Any, tmp_path: Path) -> None:
    whole = kept("heat", 1)
    shutil.copytree(whole.path, tmp_path / "cut")
    [file] = (tmp_path / "cut" / "values").glob("*.values")
    file.write_bytes(file.read_bytes()[:20_000])
    made = compared(ValueTrace.open(tmp_path / "cut"), kept("heat", 2))
    assert not made.found, "what is missing at the end is not taken for other values"
    assert not made.alike, "nor for alike ones"
    said = list(render_values(made))
    assert "is cut off: its records should have" in said[0]
    assert any("the other's values end early, or its file is damaged" in line for line in said)
