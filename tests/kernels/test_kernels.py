"""Kernels of real programs, right as they are: Weft says nothing against them; made wrong, it names the line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests_support import Installed, execute

PROGRAMS = Path(__file__).parent / "programs"
RANKS = 4


def report(mpi: Installed, source: Path, folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Record a kernel; what it printed, and its findings."""
    command = [str(mpi.python), str(source)]
    if source.suffix == ".c":
        built = execute([mpi.mpicc, "-g", "-O2", "-o", folder / "kernel", source, "-lm"])
        assert built.returncode == 0, built.stderr
        command = [str(folder / "kernel")]
    weft = [str(mpi.python), "-P", "-m", "weft.cli.main"]
    run = [*weft, "run", "--out", "run", "--report", "report.json", "--", *mpi.mpiexec, "-n", str(RANKS), *command]
    done = execute(run, cwd=folder, env=mpi.environment, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "report.json").read_text())["findings"]


def loud(findings: list[dict[str, Any]]) -> list[str]:
    return [f"{f['kind']}: {f['message']}" for f in findings if f["severity"] != "note"]


KERNELS = {
    "halo.c": "change", "pool.py": "pi 3.14159", "sparse.c": "sent", "sweep.c": "total", "balance.py": "items",
    "exchanges.c": "exchanged",
}  # fmt: skip
ORDER_ONLY = {"pool.py", "sparse.c", "balance.py"}


@pytest.mark.cases(2)
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_right_kernel_is_silent(kernel: str, mpi: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    printed, findings = report(request.getfixturevalue(mpi), PROGRAMS / kernel, tmp_path)
    assert KERNELS[kernel] in printed
    assert loud(findings) == []
    notes = [f for f in findings if f["kind"] == "message-race"]
    assert bool(notes) == (kernel in ORDER_ONLY)
    assert all(f["message"].startswith("order only: ") for f in notes)


@dataclass(frozen=True)
class Mutant:
    """What is changed in a kernel, the kind that is then found, and a piece of the line that it names."""

    kernel: str
    right: str
    wrong: str
    kind: str
    line: str


MUTANTS = [
    Mutant("halo.c", "MPI_Waitall(8, q", "MPI_Waitall(7, q", "request-leak", "MPI_Isend(&AT(old, 1, 1), 1, column"),
    Mutant("halo.c", "MPI_Type_free(&column);", "", "resource-leak", "MPI_Type_vector"),
    Mutant("pool.py", "dest=status.source,", "dest=1 + following % 3,", "message-race", "area = comm.recv"),
]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.kernel}-{m.kind}")
def test_a_kernel_made_wrong_is_told(mutant: Mutant, tmp_path: Path, mpich: Installed) -> None:
    text = (PROGRAMS / mutant.kernel).read_text()
    assert mutant.right in text
    source = tmp_path / mutant.kernel
    source.write_text(text.replace(mutant.right, mutant.wrong))
    _, findings = report(mpich, source, tmp_path)
    lines = source.read_text().splitlines()
    of_kind = [f for f in findings if f["kind"] == mutant.kind and f["severity"] != "note"]
    named = [lines[site["line"] - 1] for f in of_kind for site in f["sites"]]
    assert any(mutant.line in text for text in named), loud(findings)
