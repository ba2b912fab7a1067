"""hybrid.c: what one thread does to memory that another thread's call has."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, run

from tests_support import Installed

SOURCE = Path(__file__).parent / "hybrid.c"


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    return request.getfixturevalue(request.param), tmp_path_factory.mktemp(f"hybrid-{request.param}")


@pytest.mark.cases(1)
def test_threads_that_keep_apart_are_not_alarmed(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, "-fopenmp"), "right", threads=2)
    assert [finding["message"] for finding in found] == []


@pytest.mark.cases(1)
def test_each_access_of_another_thread_is_found_at_its_line(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, "-fopenmp"), "wrong", threads=2)
    bugs = set()
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        bugs |= {(number, kind) for kind in re.findall(r"BUG ([a-z-]+)", line)}
    assert {(site["line"], f["kind"]) for f in found for site in f["sites"][:2]} >= bugs
    assert {f["sites"][0]["line"] for f in found} <= {line for line, _ in bugs}
