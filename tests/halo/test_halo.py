"""Programs that exchange ghost cells: each fault is found at its line, rank and cell; its corrected twin is silent."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests_support import WEFT, Installed, execute

PROGRAMS = Path(__file__).parent / "programs"
NOTES = {"late-sender", "late-receiver", "wait-at-collective", "imbalance", "resource-leak"}
WAYS = (
    "jacobi ring overlap early changed persistent subarrays neighbours objects colours in-place wavefront every-second"
    " lag measured reduced"
).split()
WRONG_WAYS = [way for way in WAYS if way not in ("jacobi", "ring", "overlap")]
N = 6

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
ALL = [
    (dimensions, ranks, fault)
    for dimensions, sizes in ((1, (2, 3, 5)), (2, (2, 4, 6)), (3, (4, 8)))
    for ranks, fault in itertools.product(sizes, FAULTS)
    if not (fault == "corner" and (dimensions == 1 or ranks == 2))
    and not (fault == "swapped" and (ranks == 2 or dimensions > 1))
    and not (fault == "left out" and dimensions == 1)
]


def found(mpi: Installed, folder: Path, ranks: int, program: str, *words: str) -> list[dict[str, Any]]:
    """The findings of a run that are no notes on time."""
    command = [*WEFT, "run", "--out", folder / "run", "--report", folder / "report.json", "--", *mpi.mpiexec]
    line = [*command, "-n", str(ranks), mpi.python or "", PROGRAMS / program, *words]
    done = execute(line, cwd=folder, env=mpi.environment, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stderr, done.stderr
    assert list((folder / "run" / "halo").glob("*.halo")), "nothing was written down"
    report = json.loads((folder / "report.json").read_text())
    return [finding for finding in report["findings"] if finding["kind"] not in NOTES]


def lines(program: str, words: str) -> set[int]:
    """The lines whose comment has these words."""
    text = (PROGRAMS / program).read_text().splitlines()
    return {number for number, line in enumerate(text, 1) if re.search(f"# .*{words}", line)}


def size(coordinate: int, axis: int) -> int:
    """How many cells of one dimension a rank of faces.py owns."""
    return N + (axis + 1) * (coordinate % 2)


def whose(cell: list[int], dims: list[int]) -> list[int]:
    """The coordinates of the rank that owns a cell of faces.py."""
    owner = []
    for axis, (at, parts) in enumerate(zip(cell, dims, strict=True)):
        ends = itertools.accumulate(size(k, axis) for k in range(parts))
        owner.append(next(k for k, end in enumerate(ends) if at < end))
    return owner


def dims_of(ranks: int, dimensions: int) -> list[int]:
    """MPI_Dims_create of the sizes used here."""
    known = {(2, 2): [2, 1], (4, 2): [2, 2], (6, 2): [3, 2], (4, 3): [2, 2, 1], (8, 3): [2, 2, 2]}
    return [ranks] if dimensions == 1 else known[ranks, dimensions]


def check_cell(finding: dict[str, Any], ranks: int, dimensions: int, width: int) -> list[list[int]]:
    """Hold cell, ghost and owner of a finding against each other; the coordinates of owner and reader."""
    evidence, dims = finding["evidence"], dims_of(ranks, dimensions)
    coordinates = [list(one) for one in itertools.product(*map(range, dims))]
    owner, reader = coordinates[evidence["owner"]], coordinates[evidence["moment"][0]]
    assert whose(evidence["cell"], dims) == owner
    for axis, at in enumerate(reader):
        lower = sum(size(k, axis) for k in range(at))
        assert evidence["cell"][axis] == lower + evidence["ghost"][axis] - width
    assert finding["sites"][0]["rank"] == evidence["moment"][0]
    return [owner, reader]


def check_certainty(findings: list[dict[str, Any]]) -> None:
    """Only that a ghost is too old may be no more than possible: where no message told its rank of the newer value."""
    assert all(f["certainty"] == "certain" or "changed" in f["evidence"] for f in findings)
    assert {f["certainty"] for f in findings} <= {"certain", "possible"}


def fault_is_found(mpi: Installed, folder: Path, dimensions: int, ranks: int, fault: str) -> None:
    kinds, _ = FAULTS[fault]
    findings = found(mpi, folder, ranks, "faces.py", str(dimensions), fault)
    assert findings
    assert {finding["kind"] for finding in findings} <= kinds
    check_certainty(findings)
    at = lines("faces.py", "the box" if fault == "corner" else "the star")
    assert {finding["sites"][0]["line"] for finding in findings} == at
    for finding in findings:
        owner, reader = check_cell(finding, ranks, dimensions, 2 if fault == "width" else 1)
        apart = sum(a != b for a, b in zip(owner, reader, strict=True))
        assert apart >= 2 if fault == "corner" else apart == 1
        if fault == "swapped":
            assert finding["evidence"]["moment"][0] == 1
        if fault == "left out":
            assert owner[0] != reader[0]


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


def mistake_is_found(mpi: Installed, folder: Path, way: str) -> None:
    findings = found(mpi, folder, 3, "ways.py", way, "wrong")
    text = (PROGRAMS / "ways.py").read_text().splitlines()
    expected = {
        (number, match[1])
        for number, line in enumerate(text, 1)
        if (match := re.search(rf"# BUG {way} ([\w-]+)", line))
    }
    told = {(finding["sites"][0]["line"], finding["kind"]) for finding in findings}
    assert expected and expected <= told
    assert {line for line, _ in told} == {line for line, _ in expected}
    check_certainty(findings)


@pytest.mark.parametrize("way", "early changed neighbours colours wavefront every-second lag reduced".split())
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
