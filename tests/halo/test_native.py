"""C programs that exchange ghost cells, built with `weft cc`: faults at their line, rank and cell; silent twins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import halo_programs
from halo_programs import PROGRAMS, check_place, grids, lines, mistakes

from tests_support import WEFT, Installed, execute

Built = tuple[Installed, Path]
WAYS = "colours seidel neighbours persistent inlined every-second lagging looked overlap".split()
STALE, FOREIGN, WRITTEN = "stale-halo-read", "remote-access", "halo-write"

FAULTS = {
    "corner": ({STALE, FOREIGN}, "box", "the box"),
    "width": ({STALE, FOREIGN}, "wide", "the star"),
    "late": ({STALE}, "right", "the star"),
    "source": ({STALE}, "right", "the star"),
    "written": ({WRITTEN}, "boundary", "the star"),
    "left out": ({STALE, FOREIGN}, "right", "the star"),
    "seldom": ({FOREIGN}, "right", "the star"),
    "swapped": ({FOREIGN}, "right", "the star"),
    "early": ({"buffer-reuse"}, "pending", "the early read"),
    "changed": ({"buffer-reuse"}, "pending", "the early store"),
    "in place": ({"invalid-argument"}, "right", "one buffer for both"),
}
"""By fault of faces.c the kinds that tell it, its corrected twin, and what stands at its line."""
SHORT = [(2, 4, "corner"), (1, 3, "swapped"), (2, 2, "changed")]
ALL = grids(FAULTS)


def build(mpi: Installed, folder: Path) -> Built:
    """The programs with hooks."""
    flags = execute([*WEFT, "probes", "--cflags"]).stdout.split()
    for name in ("faces", "ways", "guarded"):
        line = [
            *WEFT,
            "cc",
            mpi.mpicc,
            "-g",
            "-O2",
            *flags,
            "-o",
            folder / name,
            PROGRAMS / f"{name}.c",
            "-lm",
            "-lpthread",
        ]
        done = execute(line, env=mpi.environment, timeout=120, cwd=folder)
        assert done.returncode == 0, done.stderr
    return mpi, folder


@pytest.fixture(scope="module")
def of_mpich(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(mpich, tmp_path_factory.mktemp("native-mpich"))


@pytest.fixture(scope="module")
def of_openmpi(openmpi: Installed, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(openmpi, tmp_path_factory.mktemp("native-openmpi"))


def found(built: Built, folder: Path, ranks: int, program: str, *words: str) -> list[dict[str, Any]]:
    mpi, programs = built
    return halo_programs.found(mpi, folder, ranks, [programs / program, *words])


def fault_is_found(built: Built, folder: Path, dimensions: int, ranks: int, fault: str, *more: str) -> None:
    kinds, _, where = FAULTS[fault]
    findings = found(built, folder, ranks, "faces", str(dimensions), fault, *more)
    assert findings
    assert {finding["kind"] for finding in findings} <= kinds
    assert {finding["sites"][0]["line"] for finding in findings} <= lines("faces.c", where)
    for finding in findings if kinds <= {STALE, FOREIGN, WRITTEN} else ():
        assert finding["certainty"] == "possible"
        check_place(finding, ranks, dimensions, fault)


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), SHORT)
def test_a_fault_is_found_at_its_line_rank_and_cell(
    of_mpich: Built, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(of_mpich, tmp_path, dimensions, ranks, fault)


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "fault"), ALL)
def test_each_fault_is_found_on_each_grid(
    of_mpich: Built, tmp_path: Path, dimensions: int, ranks: int, fault: str
) -> None:
    fault_is_found(of_mpich, tmp_path, dimensions, ranks, fault)


@pytest.mark.matrix
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_with_open_mpi(of_openmpi: Built, tmp_path: Path, fault: str) -> None:
    dimensions, ranks = (1, 3) if fault == "swapped" else (2, 4)
    fault_is_found(of_openmpi, tmp_path, dimensions, ranks, fault)


@pytest.mark.matrix
@pytest.mark.parametrize(("dimensions", "ranks", "twin"), [(2, 4, "box"), (1, 2, "pending")])
def test_a_corrected_twin_is_silent(of_mpich: Built, tmp_path: Path, dimensions: int, ranks: int, twin: str) -> None:
    assert found(of_mpich, tmp_path, ranks, "faces", str(dimensions), twin) == []


def test_ranks_that_make_fewer_calls_than_their_neighbours_are_not_called_ahead(
    of_mpich: Built, tmp_path: Path
) -> None:
    assert found(of_mpich, tmp_path, 4, "guarded", "right") == []


def test_an_exchange_that_is_left_out_between_them_is_found_at_its_line(of_mpich: Built, tmp_path: Path) -> None:
    findings = found(of_mpich, tmp_path, 4, "guarded", "seldom")
    assert {finding["kind"] for finding in findings} == {STALE}
    assert {finding["sites"][0]["line"] for finding in findings} == lines("guarded.c", "the star")


TWINS = ["box", "wide", "right", "boundary", "pending", "box periodic", "wide periodic", "right periodic"]


@pytest.mark.matrix
@pytest.mark.parametrize("words", TWINS)
@pytest.mark.parametrize(("dimensions", "ranks"), sorted({(d, ranks) for d, ranks, _ in ALL}))
def test_each_corrected_twin_is_silent_on_each_grid(
    of_mpich: Built, tmp_path: Path, dimensions: int, ranks: int, words: str
) -> None:
    assert found(of_mpich, tmp_path, ranks, "faces", str(dimensions), *words.split()) == []


@pytest.mark.matrix
@pytest.mark.parametrize("words", TWINS)
def test_each_corrected_twin_is_silent_with_open_mpi(of_openmpi: Built, tmp_path: Path, words: str) -> None:
    assert found(of_openmpi, tmp_path, 4, "faces", "2", *words.split()) == []


def test_every_right_way_to_exchange_is_silent(of_mpich: Built, tmp_path: Path) -> None:
    assert found(of_mpich, tmp_path, 3, "ways", "all") == []


@pytest.mark.matrix
def test_every_right_way_to_exchange_is_silent_with_open_mpi(of_openmpi: Built, tmp_path: Path) -> None:
    assert found(of_openmpi, tmp_path, 3, "ways", "all") == []


def mistake_is_found(built: Built, folder: Path, way: str, *more: str) -> None:
    findings = found(built, folder, 3, "ways", way, "wrong", *more)
    expected = mistakes("ways.c", way)
    told = {(finding["sites"][0]["line"], finding["kind"]) for finding in findings}
    assert told and expected and told <= expected
    assert {line for line, _ in told} == {line for line, _ in expected}


@pytest.mark.parametrize("way", ["every-second"])
def test_a_mistake_in_the_exchange_is_found_at_its_line(of_mpich: Built, tmp_path: Path, way: str) -> None:
    mistake_is_found(of_mpich, tmp_path, way)


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_each_mistake_in_the_exchange_is_found_at_its_line(of_mpich: Built, tmp_path: Path, way: str) -> None:
    mistake_is_found(of_mpich, tmp_path, way)


@pytest.mark.matrix
def test_a_program_without_hooks_is_told_that_its_ghost_cells_are_not_seen(of_mpich: Built, tmp_path: Path) -> None:
    mpi, _ = of_mpich
    flags = execute([*WEFT, "probes", "--cflags"]).stdout.split()
    plain = tmp_path / "plain"
    line = [mpi.mpicc, "-g", *flags, "-o", plain, PROGRAMS / "faces.c"]
    assert execute(line, env=mpi.environment, timeout=120, cwd=tmp_path).returncode == 0
    alone = execute([*mpi.mpiexec, "-n", "2", plain, "1", "right"], cwd=tmp_path, env=mpi.environment)
    assert alone.returncode == 0, alone.stderr
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpi.mpiexec, "-n", "2", plain, "1", "right"]
    done = execute(command, cwd=tmp_path, env=mpi.environment)
    assert done.returncode == 0 and "was not built with `weft cc`" in done.stderr, done.stderr


def test_a_second_thread_that_touches_an_array_ends_its_log_and_is_told(of_mpich: Built, tmp_path: Path) -> None:
    mpi, programs = of_mpich
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpi.mpiexec, "-n", "2", programs / "ways", "threads"]
    done = execute([*command, "wrong"], cwd=tmp_path, env=mpi.environment)
    assert done.returncode == 0 and "another thread than the one that declared" in done.stderr, done.stderr
    assert not any(kind in done.stderr for kind in (STALE, FOREIGN, WRITTEN)), done.stderr
