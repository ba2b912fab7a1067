"""strided.f90: calls by `mpi_f08` with strided buffers stand at the program's lines, though the binding makes more."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from machine import need
from tests_support import WEFT, Installed, execute

PROGRAM = Path(__file__).parent / "strided.f90"


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["debian_mpich", "debian_openmpi"])
def test_each_call_is_at_its_line(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    mpi: Installed = request.getfixturevalue(name)
    compiler = need(f"mpif90.{name.removeprefix('debian_')}")
    assert execute([compiler, "-g", "-w", "-o", tmp_path / "program", PROGRAM], cwd=tmp_path).returncode == 0
    line = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpi.mpiexec, "-n", "2", tmp_path / "program"]
    done = execute(line, cwd=tmp_path, env=mpi.environment)
    assert done.returncode == 0, done.stderr
    lines = {
        name: k for k, text in enumerate(PROGRAM.read_text().splitlines(), 1)
        for name in ("MPI_Irecv", "MPI_Send", "MPI_Wait", "MPI_Bcast") if f"call {name}(" in text
    }  # fmt: skip
    for rank in weft.open(tmp_path / "run").ranks:
        found = {e.function.name: (Path(e.site.file or "").name, e.site.line) for e in rank}
        assert {one: found.get(one) for one in lines} == {one: (PROGRAM.name, k) for one, k in lines.items()}
