"""Programs that exchange ghost cells: each fault is found at its line, rank and cell; its corrected twin is silent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import halo_programs
from halo_programs import PROGRAMS, check_certainty, check_place, grids, lines, mistakes

from tests_support import WEFT, Installed, execute

WAYS = (
    "jacobi ring overlap early changed persistent subarrays neighbours objects colours in-place wavefront every-second"
    " lag measured reduced largest"
).split()
WRONG_WAYS = [way for way in WAYS if way not in ("jacobi", "ring", "overlap")]

FAULTS = {
    "corner": ({"remote-access", "stale-halo-read"}, "box"),
    "width": ({"remote-access", "stale-halo-read"}, "wide"),
    "late": ({"stale-halo-read"}, "right"),
    "source": ({"stale-halo-read"}, "right"),
    "written": ({"halo-write"}, "boundary"),
    "left out": ({"remote-access", "stale-halo-read"}, "right"),
    "seldom": ({"remote-access"}, "right"),
    "once": ({"remote-access", "stale-halo-read"}, "right"),
    "swapped": ({"remote-access"}, "right"),
}
"""By fault of faces.py the kinds that tell it, and its corrected twin."""
SHORT = [(2, 4, "corner"), (2, 4, "late"), (2, 6, "written"), (1, 3, "swapped"), (3, 8, "left out"), (1, 2, "source")]
ALL = grids(FAULTS)


def found(mpi: Installed, folder: Path, ranks: int, program: str, *words: str) -> list[dict[str, Any]]:
    return halo_programs.found(mpi, folder, ranks, [mpi.python or "", PROGRAMS / program, *words])


def fault_is_found(mpi: Installed, folder: Path, dimensions: int, ranks: int, fault: str, *more: str) -> None:
    kinds, _ = FAULTS[fault]
    findings = found(mpi, folder, ranks, "faces.py", str(dimensions), fault, *more)
    assert findings
    assert {finding["kind"] for finding in findings} <= kinds
    check_certainty(findings)
    at = lines("faces.py", "the box" if fault == "corner" else "the star")
    assert {finding["sites"][0]["line"] for finding in findings} == at
    for finding in findings:
        check_place(finding, ranks, dimensions, fault)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), SHORT)
def test_a_fault_is_found_at_its_line_rank_and_cell(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(mpich, tmp_path, dimensions, ranks, fault)


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), ALL)
def test_each_fault_is_found_on_each_grid(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(mpich, tmp_path, dimensions, ranks, fault)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("dimensions", "ranks", "twin"), [(2, 4, "box"), (1, 3, "right")])
def test_a_corrected_twin_is_silent(mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, twin: str) -> None:
    assert found(mpich, tmp_path, ranks, "faces.py", str(dimensions), twin) == []


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["box", "wide", "right", "boundary", "box periodic", "wide periodic"])
@pytest.mark.parametrize(("dimensions", "ranks"), sorted({(d, ranks) for d, ranks, _ in ALL}))
def test_each_corrected_twin_is_silent_on_each_grid(
    mpich: Installed, tmp_path: Path, dimensions: int, ranks: int, words: str
) -> None:
    assert found(mpich, tmp_path, ranks, "faces.py", str(dimensions), *words.split()) == []


@pytest.mark.matrix
def test_every_right_way_to_exchange_is_silent(mpich: Installed, tmp_path: Path) -> None:
    assert found(mpich, tmp_path, 3, "ways.py", ",".join(WAYS)) == []


def test_right_programs_of_other_forms_are_silent(mpich: Installed, tmp_path: Path) -> None:
    assert found(mpich, tmp_path, 3, "sundry.py") == []


def test_a_program_computes_the_same_with_and_without_weft(mpich: Installed, tmp_path: Path) -> None:
    program = [*mpich.mpiexec, "-n", "1", mpich.python or "", PROGRAMS / "same.py"]
    plain = execute(program, cwd=tmp_path, env=mpich.environment)
    watched = execute([*WEFT, "run", "--out", tmp_path / "run", "--", *program], cwd=tmp_path, env=mpich.environment)
    assert plain.returncode == watched.returncode == 0, plain.stderr + watched.stderr
    assert plain.stdout == watched.stdout != ""
    assert len(list((tmp_path / "run" / "halo").glob("*.halo"))) == 1


def test_a_part_with_ghosts_is_compared_without_them(mpich: Installed, tmp_path: Path) -> None:
    for ranks in (1, 2):
        line = [*WEFT, "run", "--out", tmp_path / f"run-{ranks}", "--", *mpich.mpiexec, "-n", str(ranks)]
        done = execute([*line, mpich.python or "", PROGRAMS / "probed.py"], cwd=tmp_path, env=mpich.environment)
        assert done.returncode == 0, done.stderr
    told = execute([*WEFT, "compare", "--values", tmp_path / "run-1", tmp_path / "run-2"])
    assert told.returncode == 0, told.stdout + told.stderr


def mistake_is_found(mpi: Installed, folder: Path, way: str, *more: str) -> None:
    findings = found(mpi, folder, 3, "ways.py", way, "wrong", *more)
    expected = mistakes("ways.py", way)
    told = {(finding["sites"][0]["line"], finding["kind"]) for finding in findings}
    assert expected and expected <= told
    assert {line for line, _ in told} == {line for line, _ in expected}
    check_certainty(findings)


@pytest.mark.matrix
@pytest.mark.parametrize("way", "early changed neighbours colours wavefront every-second lag reduced largest".split())
def test_a_mistake_in_the_exchange_is_found_at_its_line(mpich: Installed, tmp_path: Path, way: str) -> None:
    mistake_is_found(mpich, tmp_path, way)


@pytest.mark.matrix
@pytest.mark.parametrize("way", WRONG_WAYS)
def test_each_mistake_in_the_exchange_is_found_at_its_line(mpich: Installed, tmp_path: Path, way: str) -> None:
    mistake_is_found(mpich, tmp_path, way)


@pytest.mark.matrix
@pytest.mark.parametrize("way", WRONG_WAYS)
def test_a_mistake_in_the_exchange_is_found_with_open_mpi(openmpi: Installed, tmp_path: Path, way: str) -> None:
    mistake_is_found(openmpi, tmp_path, way)


@pytest.mark.matrix
def test_every_right_way_to_exchange_is_silent_with_open_mpi(openmpi: Installed, tmp_path: Path) -> None:
    assert found(openmpi, tmp_path, 3, "ways.py", ",".join(WAYS)) == []
