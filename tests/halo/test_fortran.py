"""rows.f90: ghost cells of a Fortran program, whose indices are told as Fortran counts, under both of Debian's MPIs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import halo_programs
from halo_programs import PROGRAMS, lines

from machine import need
from tests_support import WEFT, Installed, execute

Built = tuple[Installed, Path]
FAULTS = {"late": "stale-halo-read", "seldom": "stale-halo-read", "written": "halo-write", "side": "remote-access"}


def built(mpi: Installed, compiler: str, folder: Path) -> Built:
    need(compiler)
    module = execute([*WEFT, "probes", "--fortran"]).stdout.strip()
    for name in ("rows", "columns"):
        line = [*WEFT, "cc", compiler, "-g", "-O2", "-o", folder / name, module, PROGRAMS / f"{name}.f90"]
        done = execute(line, env=mpi.environment, timeout=120, cwd=folder)
        assert done.returncode == 0, done.stderr
    return mpi, folder / "rows"


@pytest.fixture(scope="module")
def of_mpich(debian_mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(debian_mpich, "mpif90.mpich", tmp_path_factory.mktemp("rows-mpich"))


@pytest.fixture(scope="module")
def of_openmpi(debian_openmpi: Installed, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(debian_openmpi, "mpif90.openmpi", tmp_path_factory.mktemp("rows-openmpi"))


def found(program: Built, folder: Path, *words: str) -> list[dict[str, Any]]:
    return halo_programs.found(program[0], folder, 4, [program[1], *words])


def fault_is_found(program: Built, folder: Path, fault: str, *more: str) -> None:
    findings = found(program, folder, fault, *more)
    assert {finding["kind"] for finding in findings} == {FAULTS[fault]}
    assert {finding["sites"][0]["line"] for finding in findings} == lines("rows.f90", "the star")
    for finding in findings:
        evidence, reader = finding["evidence"], finding["sites"][0]["rank"]
        # Ranks lie in two rows and two columns: six rows in the first, five columns each; ghosts are counted from 1.
        i, j = evidence["cell"]
        assert (i - 1 - 6 * (reader // 2) + 2, j - 1 - 5 * (reader % 2) + 2) == tuple(evidence["ghost"])
        assert ((i > 6) * 2 + (j > 5)) == evidence["owner"]


@pytest.mark.matrix
def test_a_fault_is_found_at_its_line_rank_and_cell(of_mpich: Built, tmp_path: Path) -> None:
    fault_is_found(of_mpich, tmp_path, "written")


@pytest.mark.matrix
def test_the_corrected_twin_is_silent(of_mpich: Built, tmp_path: Path) -> None:
    assert found(of_mpich, tmp_path, "boundary") == []


@pytest.mark.matrix
def test_without_widths_a_fault_is_found_and_its_twin_silent(of_mpich: Built, tmp_path: Path) -> None:
    for mode in ("written", "boundary"):
        (tmp_path / mode).mkdir()
    fault_is_found(of_mpich, tmp_path / "written", "written", "inferred")
    assert found(of_mpich, tmp_path / "boundary", "boundary", "inferred") == []


def columns(program: Built, folder: Path, *modes: str) -> list[dict[str, Any]]:
    return halo_programs.found(program[0], folder, 3, [program[1].with_name("columns"), *modes])


@pytest.mark.cases(1)
@pytest.mark.parametrize("grid", [(), ("at",)], ids=["communicator", "at"])
def test_arrays_of_the_main_program_are_seen(of_mpich: Built, tmp_path: Path, grid: tuple[str, ...]) -> None:
    findings = columns(of_mpich, tmp_path, "dropped", *grid)
    assert findings
    for finding in findings:
        evidence, reader = finding["evidence"], finding["sites"][0]["rank"]
        assert finding["sites"][0]["line"] in lines("columns.f90", "the star")
        assert evidence["owner"] == reader - 1
        assert evidence["cell"][1] == reader * 4 + evidence["ghost"][1] - 1  # four columns each, one ghost before them


@pytest.mark.cases(1)
@pytest.mark.parametrize("grid", [(), ("at",), ("inferred",)], ids=["communicator", "at", "inferred"])
def test_the_corrected_twin_of_the_main_program_is_silent(
    of_mpich: Built, tmp_path: Path, grid: tuple[str, ...]
) -> None:
    assert columns(of_mpich, tmp_path, "right", *grid) == []


@pytest.mark.matrix
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found(of_mpich: Built, of_openmpi: Built, tmp_path: Path, fault: str) -> None:
    for name, program in (("mpich", of_mpich), ("openmpi", of_openmpi)):
        (tmp_path / name).mkdir()
        fault_is_found(program, tmp_path / name, fault)


@pytest.mark.matrix
@pytest.mark.parametrize("twin", ["right", "boundary"])
def test_each_twin_is_silent(of_mpich: Built, of_openmpi: Built, tmp_path: Path, twin: str) -> None:
    for name, program in (("mpich", of_mpich), ("openmpi", of_openmpi)):
        (tmp_path / name).mkdir()
        assert found(program, tmp_path / name, twin) == []
