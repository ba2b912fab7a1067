"""pending.f90: Fortran's own ways to touch an array, under both of Debian's MPIs, which have Fortran."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, run

from machine import need
from tests_support import Installed

SOURCE = Path(__file__).parent / "pending.f90"


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, str, Path]:
    mpi = request.getfixturevalue(f"debian_{request.param}")
    return mpi, need(f"mpif90.{request.param}"), tmp_path_factory.mktemp(f"fortran-{request.param}")


@pytest.mark.cases(1)
def test_right_use_is_not_alarmed(of_mpi: tuple[Installed, str, Path]) -> None:
    mpi, compiler, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, compiler=compiler), "right")
    assert [finding["message"] for finding in found] == []


@pytest.mark.cases(1)
def test_each_access_is_found_at_its_line(of_mpi: tuple[Installed, str, Path]) -> None:
    mpi, compiler, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, compiler=compiler), "wrong")
    bugs = set()
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        bugs |= {(number, kind) for kind in re.findall(r"BUG ([a-z-]+)", line)}
    assert {(site["line"], f["kind"]) for f in found for site in f["sites"][:2]} >= bugs
    assert {f["sites"][0]["line"] for f in found} <= {line for line, _ in bugs}
