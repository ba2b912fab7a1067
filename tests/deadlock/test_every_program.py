"""The same as real programs of two ranks (every.c): each call as a deadlock, and all of them in a row, right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

SOURCE = Path(__file__).with_name("every.c")
NAMES = re.findall(r"^    X\((\w+),", SOURCE.read_text(), re.MULTILINE)
QUICK = ("Comm_spawn", "Comm_create_group", "Bcast_init", "Neighbor_alltoall")
"""Those that run with every change; the others, and Open MPI's, by `make test-matrix`."""


@pytest.fixture(scope="module", params=["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def installed(request: pytest.FixtureRequest) -> Installed:
    mpi = request.getfixturevalue(request.param)
    assert isinstance(mpi, Installed)
    return mpi


@pytest.fixture(scope="module")
def program(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("every") / "every"
    done = execute([installed.mpicc, "-g", "-O1", "-o", built, SOURCE], env=installed.environment)
    assert done.returncode == 0, done.stderr
    return built


def reported(mpi: Installed, program: Path, name: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """How the recorded run ended, and its report."""
    report = folder / "report.json"
    path = f"{Path(mpi.mpicc).parent}:/usr/bin:/bin"
    done = execute(
        [*WEFT, "run", "--out", folder / "run", "--report", report, "--", *mpi.mpiexec, "-n", "2", program, name],
        env={**mpi.environment, "PATH": path}, timeout=100,
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text())


def test_the_program_has_collectives_of_every_sort() -> None:
    assert len(NAMES) >= 40
    assert set(QUICK) < set(NAMES)


@pytest.mark.matrix
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.matrix) for n in NAMES])
def test_a_rank_in_the_call_whose_partner_waits_for_it(
    installed: Installed, program: Path, name: str, tmp_path: Path
) -> None:
    status, report = reported(installed, program, name, tmp_path)
    assert (status, report["run"]["ended"]) == (3, "deadlock")
    assert [(f["kind"], f["certainty"], f["ranks"]) for f in report["findings"]] == [("deadlock", "certain", [0, 1])]


@pytest.mark.timeout(400)
def test_all_calls_one_after_the_other_are_silent(installed: Installed, program: Path, tmp_path: Path) -> None:
    status, report = reported(installed, program, "all", tmp_path)
    assert (status, report["run"]["ended"], report["findings"]) == (0, "finished", [])
