"""Reductions computed again: what no order of the members' numbers gives is wrong, and what some order gives is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.findings import Finding
from weft.match import match_operations
from weft.trace.builder import Builder
from weft.trace.layout import HASHED, HashSide
from weft.usage.reduction_batches import find_wrong_results
from weft.usage.reductions import find

SITE = ("r.c", 3, "main")


def reduced(
    brought: list[Any], got: list[Any], *, call: str = "allreduce", dtype: str = "f8", **more: Any
) -> list[Finding]:
    """The findings of one reduction, from what each rank brought and got (None: nothing)."""
    b = Builder(ranks=len(brought))
    datatype = {"f8": "MPI_DOUBLE", "f4": "MPI_FLOAT", "i4": "MPI_INT"}[dtype]
    for rank, mine, result in zip(b.ranks, brought, got, strict=True):
        getattr(rank, call)(datatype=datatype, count=len(mine), site=SITE, **more)
        sides = [(HashSide.SENT, mine), *([(HashSide.RECEIVED, result)] if result is not None else [])]
        rows = np.zeros(len(sides), HASHED)
        for row, (side, numbers) in zip(rows, sides, strict=True):
            content = np.array(numbers, dtype).tobytes()
            row["side"], row["bytes"], row["kept"] = side, len(content), 1
            rank.append_contents(content)
        rank.append_hashes(rows)
    trace = b.open()
    return find(trace, match_operations(trace))


def test_a_sum_that_is_right_is_not_told() -> None:
    assert not reduced([[1.0, 2.0], [3.0, 4.0]], [[4.0, 6.0]] * 2)


def test_a_sum_that_no_order_gives_is_told_with_rank_element_and_what_was_brought() -> None:
    [found] = reduced([[1.0, 2.0], [3.0, 4.0]], [[4.0, 6.0], [4.0, 6.5]])
    assert (found.kind, found.certainty, found.severity) == ("wrong-reduction", "certain", "error")
    assert found.message == (
        "allreduce at r.c:3 with MPI_SUM gave rank 1 6.5 as element 1; the values of its 2 ranks (2, 4) give 6.0"
    )
    assert found.events[0] == (1, 0)


@pytest.mark.matrix
def test_any_order_of_a_sum_is_right() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        brought = (draw.standard_normal((7, 3)) * 10.0 ** draw.integers(-9, 9, (7, 3))).astype("f4")
        result = np.zeros(3, "f4")
        for k in draw.permutation(7):
            result = result + brought[k]
        assert not reduced(brought.tolist(), [result.tolist()] * 7, dtype="f4")


@pytest.mark.parametrize(
    ("op", "right", "wrong"),
    [("MPI_MAX", 6, 5), ("MPI_MIN", 3, 6), ("MPI_PROD", 90, 91), ("MPI_BAND", 0, 2), ("MPI_BXOR", 0, 1),
     ("MPI_LAND", 1, 0), ("MPI_SUM", 14, 13)],
)  # fmt: skip
def test_operations_of_integers_are_exact(op: str, right: int, wrong: int) -> None:
    brought = [[3], [5], [6]]
    assert not reduced(brought, [[right]] * 3, dtype="i4", op=op)
    assert len(reduced(brought, [[right], [right], [wrong]], dtype="i4", op=op)) == 1


def test_sums_of_integers_wrap_as_the_programs_do() -> None:
    assert not reduced([[2**31 - 1], [1]], [[-(2**31)]] * 2, dtype="i4")


def test_a_scan_is_made_of_the_lower_ranks() -> None:
    brought = [[1.0], [2.0], [4.0]]
    assert not reduced(brought, [[1.0], [3.0], [7.0]], call="scan")
    assert not reduced(brought, [None, [1.0], [3.0]], call="exscan")
    [found] = reduced(brought, [[1.0], [3.0], [8.0]], call="scan")
    assert found.events[0] == (2, 0)


def test_results_that_are_not_finite_are_not_judged() -> None:
    inf = float("inf")
    assert not reduced([[inf], [-inf]], [[0.0]] * 2)
    assert not reduced([[1e308], [1e308]], [[inf]] * 2)


def test_a_reduction_without_all_contributions_is_not_judged() -> None:
    b = Builder(ranks=2)
    for rank in b.ranks:
        rank.allreduce(datatype="MPI_DOUBLE", site=SITE)
    trace = b.open()
    assert not find(trace, match_operations(trace))


PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
mine, total = np.arange(5.0) + 0.1 * comm.rank, np.zeros(5)
op = MPI.MAX if sys.argv[1:] == ["other"] and comm.rank == 1 else MPI.SUM
comm.Allreduce(mine, total, op=op)
comm.Scan(mine, total)
comm.Allreduce(MPI.IN_PLACE, mine, op=MPI.PROD)
request = comm.Ireduce(mine, total if comm.rank == 0 else None, root=0)
request.Wait()
print(comm.allreduce(1), comm.allreduce((comm.rank, 1), op=MPI.MAXLOC))
"""


@pytest.mark.cases(1)
@pytest.mark.timeout(600)  # may have to build two recorders
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_member_with_another_operation_is_found_and_a_right_program_is_silent(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mpi: Installed = request.getfixturevalue(name)
    (tmp_path / "p.py").write_text(PROGRAM)
    for fault in ("none", "other"):
        python = mpi.python or sys.executable
        words = [python, "-P", "-m", "weft.cli.main", "run", "--hash-messages", "--out", fault, "-n", "3", "--"]
        done = execute(
            [*words, python, "p.py", fault], cwd=tmp_path, env=environment() | dict(mpi.environment), timeout=250
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(execute([*WEFT, "report", fault, "--format", "json"], cwd=tmp_path).stdout)
        kinds = [one["kind"] for one in report["findings"]]
        assert ("wrong-reduction" in kinds) == (fault == "other")


def many(count: int, wrong: dict[int, float], call: str = "allreduce") -> Any:
    """A trace of `count` sums on two ranks; of those in `wrong` rank 1 gets something else."""
    b = Builder(ranks=2)
    for k, rank in enumerate(b.ranks):
        for _ in range(count):
            getattr(rank, call)(datatype="MPI_DOUBLE", count=1, site=SITE)
        rows = np.zeros(2 * count, HASHED)
        rows["event"] = np.repeat(np.arange(count), 2)
        rows["side"] = np.tile([HashSide.SENT, HashSide.RECEIVED], count)
        rows["bytes"], rows["kept"] = 8, 1
        numbers = np.stack([np.full(count, k + 1.0), np.full(count, 3.0)], axis=1)
        if k:
            numbers[list(wrong), 1] = list(wrong.values())
        rank.append_contents(numbers.tobytes())
        rank.append_hashes(rows)
    return b.open()


def test_of_many_that_are_wrong_at_one_line_the_first_ones_are_told() -> None:
    trace = many(300, dict.fromkeys(range(5, 300), 7.0))
    found = find(trace, match_operations(trace))
    assert [one.events[0] for one in found] == [(1, k) for k in range(5, 25)]
    assert len(find_wrong_results(trace, match_operations(trace))) == 295


def test_reductions_take_no_python_step_each() -> None:
    """Of twice as many reductions the same number of lines is run: what is counted is no matter of the machine."""
    steps = []
    for count in (50, 800):
        trace = many(count, {})
        made = match_operations(trace)
        assert trace.ranks[0].hashes is not None and trace.ranks[1].hashes is not None
        counted = 0

        def count_line(frame: Any, event: str, arg: Any) -> Any:
            nonlocal counted
            counted += event == "line"
            return count_line

        sys.settrace(count_line)
        try:
            assert find(trace, made) == []
        finally:
            sys.settrace(None)
        steps.append(counted)
    assert steps[1] < 1.2 * steps[0]


@pytest.mark.parametrize("call", ["allreduce", "scan"])
def test_reductions_computed_together_are_those_computed_alone(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stretch of one reduction at a time, and of all of them; types, operations and lengths in turn."""
    draw = np.random.default_rng(5)
    b = Builder(ranks=3)
    plans = [(str(draw.choice(["f8", "f4", "i4"])), str(draw.choice(["MPI_SUM", "MPI_MAX", "MPI_PROD"])),
              int(draw.integers(1, 5))) for _ in range(60)]  # fmt: skip
    wrong = {(int(k), int(draw.integers(0, 3))) for k in draw.integers(0, 60, 9)}
    brought = [draw.integers(1, 9, (3, count)).astype(dtype) for dtype, _, count in plans]
    for rank in b.ranks:
        contents, rows = [], np.zeros(2 * len(plans), HASHED)
        for k, (dtype, op, count) in enumerate(plans):
            name = {"f8": "MPI_DOUBLE", "f4": "MPI_FLOAT", "i4": "MPI_INT"}[dtype]
            getattr(rank, call)(datatype=name, count=count, site=("r.c", 3 + k, "main"), op=op)
            numbers = brought[k][: rank.rank + 1] if call == "scan" else brought[k]
            how = {"MPI_SUM": np.sum, "MPI_MAX": np.max, "MPI_PROD": np.prod}[op]
            got = how(numbers, axis=0).astype(dtype) + np.array((k, rank.rank) in wrong, dtype)
            for n, (side, these) in enumerate(((HashSide.SENT, brought[k][rank.rank]), (HashSide.RECEIVED, got))):
                rows[2 * k + n] = np.zeros(1, HASHED)[0]
                rows[2 * k + n]["event"], rows[2 * k + n]["side"] = k, side
                rows[2 * k + n]["bytes"], rows[2 * k + n]["kept"] = these.nbytes, 1
                contents.append(these.tobytes().ljust(-(-these.nbytes // 8) * 8, b"\0"))
        rank.append_contents(b"".join(contents))
        rank.append_hashes(rows)
    trace = b.open()
    made = match_operations(trace)
    found = [(one.events[0][1], one.events[0][0]) for one in find(trace, made)]
    assert found == sorted(wrong)
    monkeypatch.setattr("weft.usage.reduction_batches.STRETCH", 1)
    assert [(one.events[0][1], one.events[0][0]) for one in find(trace, made)] == found
