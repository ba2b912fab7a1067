"""Programs in each language with each MPI: what is recorded is what the program itself says it called.

The quick cells run with every test run; all of them by `make test-matrix`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from matrix import cells, held, log
from tests_support import Installed
from weft.trace import Rank

_QUICK = {("mpich", "C"), ("mpich", "mpi4py"), ("debian_openmpi", "use mpi")}
_QUICK_SITUATIONS = {("mpich", "threads"), ("mpich", "fork")}

Record = Callable[[str, object], None]


def marked(rows: tuple[str, ...], columns: tuple[str, ...], quick: set[tuple[str, str]]) -> list[object]:
    return [
        pytest.param(mpi, column, id=f"{mpi}-{column}", marks=() if (mpi, column) in quick else pytest.mark.matrix)
        for mpi in rows
        for column in columns
    ]


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> Installed:
    mpi = request.getfixturevalue(request.node.callspec.params["mpi"])
    assert isinstance(mpi, Installed)
    return mpi


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mpi", "language"), marked(cells.MPIS, cells.LANGUAGES, _QUICK))
def test_the_record_is_what_the_program_logged(
    mpi: str, language: str, installed: Installed, tmp_path: Path, record_property: Record
) -> None:
    outcome = cells.cell(installed, mpi, language, tmp_path)
    assert outcome.differences == []
    assert outcome.compared > 300
    record_property("compared", outcome.compared)


@pytest.mark.cases(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mpi", "situation"), marked(cells.MPIS, tuple(cells.SITUATIONS), _QUICK_SITUATIONS))
def test_situations_are_recorded_as_logged(
    mpi: str, situation: str, installed: Installed, tmp_path: Path, record_property: Record
) -> None:
    binary = cells.build(installed, "C", tmp_path, situation)
    trace = cells.record(installed, cells.SITUATIONS[situation], [binary], tmp_path)
    outcome = cells.native(trace, tmp_path)
    assert outcome.differences == []
    assert outcome.compared > 0
    record_property("compared", outcome.compared)
    if situation == "threads":
        assert {len(rank.threads) for rank in trace.ranks} == {2}


CHANGES = {
    "another tag": (r"(\tMPI_Rsend\t.*\t)11(\t\S+\t=>)", r"\g<1>88\2"),
    "another line": (r"^0\t\d+(\tMPI_Bsend\t)", r"0\t1\1"),
    "another count that came out": (r"(\tMPI_Waitsome.*=>\t2\t.*\{)\d+(\}\t0x\w+\{)", r"\g<1>7\2"),
    "another source that came out": (r"(\tMPI_Sendrecv\t.*=>.*\{<)\d+;", r"\g<1>9;"),
    "another communicator": (r"(\tMPI_Sendrecv\t.*\t70\t)(\S+)(\t\S+\t=>)", r"\g<1>12345\3"),
    "another list of counts": (r"(\tMPI_Allgatherv\t.*?\{.*?\{.*?\{)1,2,1", r"\g<1>1,2,2"),
    "a call that is not there": (r"^.*\tMPI_Scan\t.*\n", ""),
    "another datatype": (r"(\tMPI_Type_vector\t3\t1\t4\t)\S+", r"\g<1>1"),
}


@pytest.fixture(scope="module")
def recorded(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rank, str]:
    folder = tmp_path_factory.mktemp("recorded")
    binary = cells.build(mpich, "C", folder)
    trace = cells.record(mpich, 3, [binary, folder / "cells.dat"], folder)
    rank = trace.ranks[1]
    return rank, (folder / "log" / f"{cells.pid(rank)}.log").read_text()


@pytest.mark.cases(1)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_says_otherwise_differs(change: str, recorded: tuple[Rank, str], tmp_path: Path) -> None:
    rank, text = recorded
    pattern, replacement = CHANGES[change]
    changed, times = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert times == 1
    for name, content, differs in (("1.log", text, False), ("2.log", changed, True)):
        (tmp_path / name).write_text(content)
        comparison = held.Comparison(rank, log.read(tmp_path / name), ("scenario.h", "scenario.c"))
        assert bool(comparison.run()) is differs
