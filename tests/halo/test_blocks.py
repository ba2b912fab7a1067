"""blocks.cpp: parts that say themselves where they lie, and ghosts whose sums go to an array that has none, in C++."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import halo_programs
from halo_programs import PROGRAMS, lines

from machine import need
from tests_support import WEFT, Installed, execute

ROWS, N, M = 2, 6, 5


@pytest.fixture(scope="module")
def blocks(debian_mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    folder = tmp_path_factory.mktemp("blocks")
    need("mpicxx.mpich")
    flags = execute([*WEFT, "probes", "--cflags"]).stdout.split()
    source = PROGRAMS / "blocks.cpp"
    line = [*WEFT, "cc", "mpicxx.mpich", "-g", "-O2", *flags, "-o", folder / "blocks", source]
    done = execute(line, env=debian_mpich.environment, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return debian_mpich, folder / "blocks"


FAULTS = [("row", "remote-access"), ("stale", "stale-halo-read"), ("row inferred", "remote-access")]


@pytest.mark.matrix
@pytest.mark.parametrize(("fault", "kind"), FAULTS)
def test_a_fault_is_found_at_its_line_rank_and_cell(
    blocks: tuple[Installed, Path], tmp_path: Path, fault: str, kind: str
) -> None:
    mpi, program = blocks
    findings = halo_programs.found(mpi, tmp_path, 6, [program, *fault.split()])
    assert {finding["kind"] for finding in findings} == {kind}
    for finding in findings:
        evidence, site = finding["evidence"], finding["sites"][0]
        assert site["line"] in lines("blocks.cpp", "the star")
        i, j = evidence["cell"]
        assert evidence["owner"] == i // N + ROWS * (j // M)
        assert evidence["ghost"] == [i - site["rank"] % ROWS * N + 1, j - site["rank"] // ROWS * M + 1]
        if kind == "remote-access":  # the row that was sent in place of it
            assert evidence["from"] == [evidence["owner"], [i - N + 1, j]]


@pytest.mark.matrix
@pytest.mark.parametrize("words", ["right", "right inferred"])
def test_the_corrected_twin_is_silent(blocks: tuple[Installed, Path], tmp_path: Path, words: str) -> None:
    mpi, program = blocks
    assert halo_programs.found(mpi, tmp_path, 6, [program, *words.split()]) == []


def test_ghosts_whose_sums_go_to_no_declared_array_are_told_as_not_seen(
    blocks: tuple[Installed, Path], tmp_path: Path
) -> None:
    mpi, program = blocks
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpi.mpiexec, "-n", "4", program, "undeclared"]
    done = execute(command, cwd=tmp_path, env=mpi.environment, timeout=180)
    assert "the program stores what it computes from ghost cells of plate in no declared array" in done.stderr
