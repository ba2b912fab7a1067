"""Runs of other numbers of ranks: the first result of a reduction or a broadcast that differs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests_support import WEFT, Installed, execute
from weft.compare import compare
from weft.compare.result_report import compare_message_contents, to_json
from weft.compare.results import ResultComparison
from weft.compare.values.tolerance import Tolerance
from weft.match import match_operations
from weft.order import order_events
from weft.trace.builder import Builder
from weft.trace.layout import HASHED, HashSide
from weft.trace.run import Trace

S, R = HashSide.SENT, HashSide.RECEIVED
PROGRAM = Path(__file__).parent / "programs" / "results.c"
KEPT = np.arange(8.0)


def shared(ranks: int, *results: Any, root: int = 0, hashed: bool = True) -> Trace:
    """A run that reduces each result to a root and for all, and broadcasts it; each rank brings its own number."""
    b = Builder(ranks=ranks)
    for index, rank in enumerate(b.ranks):
        if index:
            rank.send(0, tag=1)
        else:
            for other in range(1, ranks):
                rank.recv(other, tag=1)
        for result in results:
            got = np.atleast_1d(np.asarray(result))
            kind, count = {"f": "MPI_DOUBLE", "i": "MPI_LONG"}[got.dtype.kind], len(got)
            calls = [
                rank.reduce(root=root, count=count, datatype=kind), rank.allreduce(count=count, datatype=kind),
                rank.bcast(root=root, count=count, datatype=kind),
            ]  # fmt: skip
            own = got + 100 * index
            kept = [(calls[0], S, own), *([(calls[0], R, got)] if index == root else []),
                    (calls[1], S, own), (calls[1], R, got), (calls[2], S if index == root else R, got)]  # fmt: skip
            for call, side, numbers in kept if hashed else ():
                row = np.zeros(1, HASHED)
                row["event"], row["side"], row["bytes"], row["kept"] = call, side, numbers.nbytes, 1
                row["hash"] = hash(numbers.tobytes()) & 0xFFFFFFFF
                rank.append_hashes(row)
                rank.append_contents(numbers.tobytes())
    return b.open()


def results_of(before: Trace, after: Trace, **said: Any) -> tuple[ResultComparison, list[str]]:
    one, two = match_operations(before), match_operations(after)
    ordered = order_events(after, two)
    comparison = compare(one, two, ordered)
    made = compare_message_contents(comparison, ordered, Tolerance.from_settings(said))
    assert made.results is not None
    assert json.dumps(to_json(made.results, comparison))
    return made.results, made.lines


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("root", [0, 2])
def test_what_each_rank_brings_may_differ_where_what_all_get_does_not(ranks: int, root: int) -> None:
    made, lines = results_of(shared(3, 1.5, 7, KEPT, root=root), shared(ranks + 3, 1.5, 7, KEPT, root=root))
    assert (made.compared, made.differing, made.alike) == (9, 0, True)
    assert lines[1:] == ["all 9 results are alike"]


@pytest.mark.parametrize("root", [0, 1])
def test_the_first_result_that_differs_is_named_with_its_element(root: int) -> None:
    wrong = KEPT.copy()
    wrong[5] = 5.5
    made, lines = results_of(shared(2, 1.5, KEPT, root=root), shared(3, 1.5, wrong, root=root))
    assert made.first is not None
    assert (made.first.after[0], made.differing, made.compared) == (root, 3, 6)
    assert lines[1].startswith(f"first result that differs: rank {root}, event ")
    assert "element 5 is 5.5, in the reference 5.0; 1 of 8 elements differs" in "\n".join(lines)
    assert any("the last result that is as in the reference" in line and "bcast" in line for line in lines)


def test_another_order_of_sums_is_told_with_its_units_and_is_no_difference() -> None:
    near = np.nextafter(0.3, 1)
    made, lines = results_of(shared(1, 0.3, 2.0), shared(2, near, 2.0))
    assert (made.differing, made.rounded, made.ulps, made.alike) == (0, 3, 1, True)
    assert any(line.startswith("only rounding: 3 results, at most 1 unit in the last place") for line in lines)
    assert results_of(shared(1, 0.3), shared(2, near), exact=True)[0].differing == 3


def test_a_tolerance_lets_through_what_it_says() -> None:
    before, after = shared(1, 1.0, KEPT), shared(2, 1.0 + 1e-9, KEPT)
    assert results_of(before, after)[0].differing == 3
    assert results_of(before, after, relative=1e-8)[0].alike
    assert not results_of(before, after, relative=1e-10)[0].alike


def test_whole_numbers_are_no_rounding() -> None:
    assert results_of(shared(1, 1 << 60), shared(2, (1 << 60) + 1))[0].differing == 3


def test_results_that_only_one_run_has_are_counted() -> None:
    made, lines = results_of(shared(1, 1.5, KEPT), shared(2, 1.5))
    assert (made.compared, made.differing, made.alone, made.alike) == (3, 0, (3, 0), False)
    assert "only the reference has 3 more results" in lines


def test_runs_without_such_results_are_not_called_alike() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1)
    b.ranks[1].recv(0)
    row = np.zeros(1, HASHED)
    b.ranks[0].append_hashes(row)
    made, lines = results_of(shared(1, 1.5), b.open())
    assert (made.compared, made.alike) == (0, False)
    assert "nothing was compared: the runs have no result of a reduction or broadcast in common" in lines


@pytest.mark.matrix
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
@pytest.mark.timeout(300)  # may have to build a recorder
def test_a_program_on_1_2_and_4_ranks(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    mpi: Installed = request.getfixturevalue(which)
    assert execute([mpi.mpicc, "-g", "-o", tmp_path / "results", PROGRAM], env=mpi.environment).returncode == 0
    for ranks, fault in (("1", ""), ("4", ""), ("2", "fault")):
        command = [str(mpi.python), "-P", "-m", "weft.cli.main", "run", "-n", ranks, "--out", ranks, "--hash-messages"]
        done = execute([*command, "--", "./results", fault], cwd=tmp_path, env=mpi.environment, timeout=200)
        assert done.returncode == 0, done.stderr
    right = execute([*WEFT, "compare", "1", "4"], cwd=tmp_path)
    assert (right.returncode, "all 17 results are alike" in right.stdout) == (0, True), right.stdout
    wrong = execute([*WEFT, "compare", "1", "2"], cwd=tmp_path)
    line = next(n for n, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "MPI_Allreduce" in text)
    assert wrong.returncode == 1
    assert re.search(
        rf"^first result that differs: rank 0, event \d+, allreduce.* at results.c:{line}$", wrong.stdout, re.M
    )
    # Three results a step, from step 3 on; before it there are two, and three a step.
    assert "in all, 6 of 17 results differ" in wrong.stdout
