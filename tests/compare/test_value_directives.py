"""Programs with directives, without them and with each processor in turn: a planted fault is the first difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, execute
from weft.check import CheckRequest
from weft.check.value_traces import TracePlan, trace_both_runs
from weft.compare.values import ValueComparison, compare_values
from weft.compare.values.report import render_values
from weft.values.trace import ValueTrace

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Both runs of a program in which a text is replaced, on a grid."""

    @cache
    def runs(name: str, grid: str, right: str = "", wrong: str = "", *words: str) -> tuple[ValueTrace, ValueTrace]:
        folder = tmp_path_factory.mktemp("traced")
        text = (PROGRAMS / name).read_text()
        assert not right or text.count(right) == 1, right
        source = folder / name
        source.write_text(text.replace(right, wrong) if right else text)
        for run in ("build", "sequential", "turns"):
            (folder / run).mkdir()
        made = trace_both_runs(
            CheckRequest((source,), words, grid=grid, timeout=100),
            folder / "build",
            TracePlan(folder / "sequential", folder / "turns"),
        )
        assert [one.status for one in made.ended] == [0, 0]
        return ValueTrace.open(folder / "sequential"), ValueTrace.open(folder / "turns")

    return runs


def first_of(made: ValueComparison, name: str) -> tuple[Any, ...]:
    """What differs first, its line's text, iterations (the outermost first), element and processors."""
    some = made.found[0]
    one = some[0]
    process = one.after.process
    around = [k for _, k in process.scopes_around(int(process.rows["parent"][one.after.row]))]
    assert Path(one.after.place.file).name == name
    return one.after.place.name, one.after.place.line, around, one.element, [s.after.process.rank for s in some]


SECOND = """#pragma dvm parallel([i] on p[i]) reduction(sum(rho))
        for (int i = 0; i < N; i++) {
            x[i] +="""
UNREDUCED = SECOND.replace(" reduction(sum(rho))", "")
RENEW, NARROW = " shadow_renew(A[2:2][2:2])", " shadow_renew(A[1:1][1:1])"
SET = "                scale = 0.3;\n"
F_RENEW, F_NARROW, F_SET = "SHADOW_RENEW(a(2:2, 2:2)), ", "SHADOW_RENEW(a(1:1, 1:1)), ", "        scale = 0.3d0\n"
FETCH = "REMOTE_ACCESS(B(:, J)), "
ATTRACTED, PRODUCT = "force += (place[j] - place[i])", "S = S + A(I, K) * B(K, J)"
PAIRS = [
    # program, grids, right, wrong: what differs, text of its line, and by grid: iterations, element, processor
    ("stencil.cdv", RENEW, "", "read of A", "B[i][j] = scale *",
     {"2": ([1, 4, 2], (6, 2), 0), "2x2": ([1, 2, 4], (2, 6), 0), "2x3": ([1, 2, 2], (2, 4), 0)}),
    ("stencil.cdv", RENEW, NARROW, "read of A", "B[i][j] = scale *",
     {"2x2": ([1, 2, 5], (2, 7), 0), "2": ([1, 5, 2], (7, 2), 0), "4": ([1, 2, 2], (4, 2), 0)}),
    ("stencil.cdv", "max(change))", "min(change))", "change", "reduction(min(change))",
     {"2": ([1], (), 1), "1": ([1], (), 0), "2x3": ([1], (), 5)}),
    ("stencil.cdv", SET, "", "B", "B[i][j] = scale *", {"1": ([1, 2, 2], (2, 2), 0), "2x2": ([1, 2, 2], (2, 2), 0)}),
    ("cg.cdv", SECOND, UNREDUCED, "read of rho", "rho += r[i] * r[i];",
     {"2": ([1, 12], (), 1), "4": ([1, 6], (), 1)}),
    ("cg.cdv", " shadow_renew(p)", "", "read of p", "q[i] -= p[i + 1];",
     {"2": ([1, 11], (12,), 0), "6": ([1, 3], (4,), 0)}),
    ("cg.cdv", " shadow_renew(p)", " shadow_renew(p[1:0])", "read of p", "q[i] -= p[i + 1];", {"4": ([1, 5], (6,), 0)}),
    ("cg.cdv", "sum(pq)", "product(pq)", "pq", "reduction(product(pq))", {"2": ([1], (), 1), "1": ([1], (), 0)}),
    ("bodies.cdv", " remote_access(place[])", "", "read of place", ATTRACTED,
     {"4": ([1, 0], (3,), 0), "2": ([1, 0], (6,), 0), "6": ([1, 0], (2,), 0)}),
    ("bodies.cdv", "maxloc", "minloc", "far", "reduction(minloc(far, which))", {"2": ([1], (), 1)}),
    ("bodies.cdv", "            force = 0;\n", "", "speed", "speed[i] +=",
     {"1": ([1, 0], (0,), 0), "4": ([1, 0], (0,), 0)}),
    ("sort.cdv", " shadow_renew(now)", "", "read of now", "(now[other] < now[i])",
     {"2": ([1, 8], (9,), 0), "6": ([1, 2], (3,), 0)}),
    ("sort.cdv", "sum(swaps)", "max(swaps)", "swaps", "reduction(max(swaps))", {"2": ([1], (), 1), "1": ([1], (), 0)}),
    ("sort.cdv", "on next[i])", "on next[i + 1])", "next behind the loop", "on next[i + 1]", {"2": ([1], (8,), 0)}),
    ("stencil.fdv", F_RENEW, "", "read of a", "b(i, j) = scale *",
     {"2x2": ([1, 3, 5], (6, 2), 0), "2": ([1, 3, 5], (6, 2), 0)}),
    ("stencil.fdv", F_RENEW, F_NARROW, "read of a", "b(i, j) = scale *",
     {"2": ([1, 3, 6], (7, 2), 0), "2x3": ([1, 3, 6], (7, 2), 0)}),
    ("stencil.fdv", "MAX(change)", "MIN(change)", "change", "REDUCTION(MIN(change))",
     {"4": ([1], (), 3), "1": ([1], (), 0)}),
    ("stencil.fdv", F_SET, "", "b", "b(i, j) = scale *", {"1": ([1, 3, 3], (2, 2), 0), "2x2": ([1, 3, 3], (2, 2), 0)}),
    ("cg.fdv", "SHADOW_RENEW(p), ", "", "read of p", "q(i) = q(i) - p(i + 1)",
     {"2": ([1, 12], (12,), 0), "6": ([1, 4], (4,), 0)}),
    ("cg.fdv", "SHADOW_RENEW(p)", "SHADOW_RENEW(p(0:1))", "read of p", "q(i) = q(i) - p(i - 1)",
     {"4": ([1, 7], (5,), 1)}),
    ("cg.fdv", "SUM(pq)", "MAX(pq)", "pq", "REDUCTION(MAX(pq))", {"2": ([1], (), 1), "1": ([1], (), 0)}),
    ("product.fdv", FETCH, "", "read of b", PRODUCT,
     {"2": ([1, 1], (4, 0), 0), "4": ([1, 1], (2, 0), 0), "2x3": ([1, 1], (4, 0), 0)}),
    ("product.fdv", "          S = 0\n", "", "c", "C(I, J) = S", {"1": ([1, 1], (0, 0), 0), "2": ([1, 1], (0, 0), 0)}),
    ("product.fdv", "SUM(TRACE)", "MAX(TRACE)", "trace", "REDUCTION(MAX(TRACE))", {"2": ([1], (), 1)}),
]  # fmt: skip


def on_each_grid() -> Iterator[Any]:
    """Each pair on the first of its grids; the others are for who has time."""
    for name, right, wrong, what, mark, grids in PAIRS:
        for n, (grid, place) in enumerate(grids.items()):
            marks = [pytest.mark.matrix] if n else []
            yield pytest.param(name, grid, right, wrong, what, mark, place, marks=marks, id=f"{name}-{what}-{grid}")


@pytest.mark.cases(1)
@pytest.mark.parametrize(("name", "grid", "right", "wrong", "what", "mark", "place"), list(on_each_grid()))
def test_a_planted_fault_is_the_first_difference(
    name: str, grid: str, right: str, wrong: str, *, what: str, mark: str, place: tuple[Any, ...], traced: Any
) -> None:
    made = compare_values(*traced(name, grid, right, wrong), {"": {}})
    found, line, around, element, processors = first_of(made, name)
    text = (PROGRAMS / name).read_text().replace(right, wrong).splitlines()[line - 1]
    assert (found, mark in text, around, element, processors[0]) == (what, True, *place)


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", sorted({name for name, *_ in PAIRS}))
@pytest.mark.parametrize("grid", ["1", "2x3", *(pytest.param(g, marks=pytest.mark.matrix) for g in ("2", "2x2", "4"))])
def test_the_twins_without_a_fault_are_alike(name: str, grid: str, traced: Any) -> None:
    made = compare_values(*traced(name, grid), {"": {}})
    assert made.alike, list(render_values(made))
    assert made.compared > 500
    assert not made.unplaced and not made.unjudged


ADDED, ONE = "c[i, j] = sum", "c[0, j] += sum"
MOVED = "            force[i] += far / (1 + far * far)\n"
NUMBA = [
    # kernel, right, wrong: what differs, the text of its line, and by grid: iterations, element, processor
    ("stencil", "        sweep(a, b)", "        sweep(a, a)", "read of b", "a[i - 1, j] +",
     {"4": ([1, 4], (3, 1), 1), "2": ([1, 6], (5, 1), 1), "6": ([1, 3], (2, 1), 1)}),
    ("matrices", ADDED, ONE, "read of c", ONE, {"4": ([1, 3], (0, 1), 1), "2": ([1, 6], (0, 1), 1)}),
    ("bodies", MOVED, MOVED + "        place[i] += 0.1 * force[i]\n", "read of place", "far = place[j]",
     {"4": ([1, 3], (0,), 1), "6": ([1, 2], (0,), 1)}),
    ("sort", "            after[i] = now[other]\n", "            now[i], now[other] = now[other], now[i]\n",
     "read of now", "after[i] = now[i]", {"4": ([1, 3], (3,), 1)}),
]  # fmt: skip


def on_threads() -> Iterator[Any]:
    """Each pair of Numba; compiling takes seconds."""
    for k, (kernel, right, wrong, what, mark, grids) in enumerate(NUMBA):
        for n, (grid, place) in enumerate(grids.items()):
            marks = [pytest.mark.matrix] if n or k else []
            yield pytest.param(kernel, grid, right, wrong, what, mark, place, marks=marks, id=f"{kernel}-{grid}")


@pytest.mark.matrix
@pytest.mark.parametrize(("kernel", "grid", "right", "wrong", "what", "mark", "place"), list(on_threads()))
def test_a_race_of_a_prange_loop_is_the_first_difference(
    kernel: str, grid: str, right: str, wrong: str, *, what: str, mark: str, place: tuple[Any, ...], traced: Any
) -> None:
    pytest.importorskip("numba")
    name = "kernels_numba.py"
    made = compare_values(*traced(name, grid, right, wrong, kernel), {"": {}})
    found, line, around, element, processors = first_of(made, name)
    text = (PROGRAMS / name).read_text().replace(right, wrong).splitlines()[line - 1]
    assert (found, mark in text, around, element, processors[0]) == (what, True, *place)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "kernel", ["stencil", *(pytest.param(k, marks=pytest.mark.matrix) for k in ("matrices", "bodies", "sort"))]
)
@pytest.mark.parametrize("grid", ["4", *(pytest.param(g, marks=pytest.mark.matrix) for g in ("1", "2", "6"))])
def test_the_twins_of_prange_loops_are_alike(kernel: str, grid: str, traced: Any) -> None:
    pytest.importorskip("numba")
    made = compare_values(*traced("kernels_numba.py", grid, "", "", kernel), {"": {}})
    assert made.alike, list(render_values(made))
    assert made.compared > 300


@pytest.mark.matrix
def test_a_program_that_computes_in_float32_differs_from_the_right_one(traced: Any) -> None:
    reference = traced("stencil.cdv", "2x2")[0]
    wrong = traced("stencil.cdv", "2x2", "scale * (A[i - 2][j]", "(float)scale * (A[i - 2][j]")[1]
    found, _, around, element, processors = first_of(compare_values(reference, wrong, {"": {}}), "stencil.cdv")
    assert (found, around, element, processors) == ("B", [1, 2, 2], (2, 2), [0])


def command(folder: Path, *words: object) -> Any:
    return execute([*WEFT, "check", *words], cwd=folder)


@pytest.mark.matrix
def test_the_command_tells_processor_iteration_and_element(tmp_path: Path) -> None:
    text = (PROGRAMS / "stencil.cdv").read_text().replace(RENEW, "")
    (tmp_path / "stencil.cdv").write_text(text)
    done = command(tmp_path, "--trace", "values.toml", "-p", "2x2", "stencil.cdv")
    assert done.returncode == 1, done.stderr
    told = done.stdout.splitlines()
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "B[i][j] = scale *" in one)
    loop = next(n for n, one in enumerate(text.splitlines(), 1) if "parallel([i][j] on B[i][j])" in one)
    assert (
        f"first difference: read of A at stencil.cdv:{line} on processor 0, in iteration 4 of j, iteration 2 of i, "
        f"run 1 of the loop at stencil.cdv:{loop}"
    ) in told
    assert "    processor 0: A[2, 6] is nan, in the reference 7.5" in told
    assert len([one for one in told if re.fullmatch(r"\d\S*", one)]) == 1, "what the program prints comes once"
    again = execute([*WEFT, "compare", "weft-runs/stencil-sequential-1", "weft-runs/stencil-turns-1"], cwd=tmp_path)
    assert "first difference: read of A" in again.stdout


@pytest.mark.matrix
def test_what_a_configuration_leaves_out_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "stencil.cdv").write_text((PROGRAMS / "stencil.cdv").read_text().replace(RENEW, ""))
    (tmp_path / "values.toml").write_text('level = "minimal"\n')
    done = command(tmp_path, "--trace", "values.toml", "-p", "2x2", "--out", "runs", "stencil.cdv")
    assert done.returncode == 1, done.stderr
    assert "first difference: B behind the loop" in done.stdout
    assert "read of A" not in done.stdout
    (tmp_path / "values.toml").write_text('[probe."read of C"]\nlevel = "none"\n')
    done = command(tmp_path, "--trace", "values.toml", "-p", "2", "stencil.cdv")
    assert "the run has no probe 'read of C'; the nearest is 'read of" in done.stderr
    assert "nothing of values.toml applied" in done.stderr and (done.returncode, "alike" in done.stdout) == (2, False)
    (tmp_path / "values.toml").write_text('[probe."read of C"]\nlevel = "none"\n[probe."read of A"]\nlevel = "none"\n')
    done = command(tmp_path, "--trace", "values.toml", "-p", "2", "stencil.cdv")
    assert "nothing of" not in done.stderr and "first difference" in done.stdout


def test_a_run_is_stopped_at_the_first_difference(tmp_path: Path) -> None:
    text = (PROGRAMS / "stencil.cdv").read_text().replace(RENEW, "").replace("STEPS 3", "STEPS 1500")
    (tmp_path / "stencil.cdv").write_text(text)
    (tmp_path / "values.toml").write_text('level = "minimal"\n[probe."B behind the loop"]\nlevel = "full"\n')
    done = command(tmp_path, "--trace", "values.toml", "-p", "2", "--live", "stencil.cdv")
    assert done.returncode == 1, done.stderr
    assert "Weft stopped the run on simulated processors at the first value that differs" in done.stderr
    assert "first difference: B behind the loop" in done.stdout


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--trace", "c.toml", "--only", "halo-write", "stencil.cdv"], "--only chooses findings"),
        (["--live", "stencil.cdv"], "--live works only with --trace CONFIG: add that"),
        (["--trace", "c.toml", "-p", "40x40", "stencil.cdv"], "Weft simulates at most 256"),
        (["--trace", "c.toml", "missing.cdv"], "missing.cdv is not a file"),
        (["--trace", "c.toml", "-D", "N=3", "prog.py"], "-D has no effect on a Python (Numba) program"),
        (["--trace", "no/where.toml", "stencil.cdv"], "there is no folder"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "stencil.cdv").write_text((PROGRAMS / "stencil.cdv").read_text())
    (tmp_path / "prog.py").write_text("")
    done = command(tmp_path, *words)
    assert done.returncode == 2
    assert why in done.stderr
    assert not list((tmp_path / "weft-runs").glob("*")) if (tmp_path / "weft-runs").exists() else True
