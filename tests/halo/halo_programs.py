"""Running programs that exchange ghost cells, and what their findings are held against, for the tests of this room."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests_support import WEFT, Installed, execute

PROGRAMS = Path(__file__).parent / "programs"
NOTES = {"late-sender", "late-receiver", "wait-at-collective", "imbalance", "resource-leak"}
N = 6


def grids(faults: Iterable[str]) -> list[tuple[int, int, str]]:
    """Dimensions, ranks and fault, where the fault can be: a corner, say, needs two dimensions that are cut."""
    return [
        (dimensions, ranks, fault)
        for dimensions, sizes in ((1, (2, 3, 5)), (2, (2, 4, 6)), (3, (4, 8)))
        for ranks, fault in itertools.product(sizes, faults)
        if not (fault == "corner" and (dimensions == 1 or ranks == 2))
        and not (fault == "swapped" and (ranks == 2 or dimensions > 1))
        and not (fault == "left out" and dimensions == 1)
    ]


def found(mpi: Installed, folder: Path, ranks: int, program: list[Any]) -> list[dict[str, Any]]:
    """The findings of a run that are no notes on time."""
    command = [*WEFT, "run", "--out", folder / "run", "--report", folder / "report.json", "--", *mpi.mpiexec]
    done = execute([*command, "-n", str(ranks), *program], cwd=folder, env=mpi.environment, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stderr and "not recorded" not in done.stderr, done.stderr
    assert len(list((folder / "run" / "halo").glob("*.halo"))) == ranks, "not all was written down"
    report = json.loads((folder / "report.json").read_text())
    return [finding for finding in report["findings"] if finding["kind"] not in NOTES]


def lines(program: str, words: str) -> set[int]:
    """The lines whose comment has these words."""
    text = (PROGRAMS / program).read_text().splitlines()
    return {number for number, line in enumerate(text, 1) if re.search(rf"(#|/\*|//|!) .*{words}", line)}


def mistakes(program: str, way: str) -> set[tuple[int, str]]:
    """The lines of a way to exchange that are wrong, each with the kinds that tell it."""
    text = (PROGRAMS / program).read_text().splitlines()
    return {
        (number, kind)
        for number, line in enumerate(text, 1)
        for kinds in re.findall(rf"BUG {way}((?: [\w-]+)+)", line)
        for kind in kinds.split()
    }


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


def check_place(finding: dict[str, Any], ranks: int, dimensions: int, fault: str) -> None:
    """Hold a finding against what its fault does: with which neighbour, and on which rank."""
    owner, reader = check_cell(finding, ranks, dimensions, 2 if fault == "width" else 1)
    apart = sum(a != b for a, b in zip(owner, reader, strict=True))
    assert apart >= 2 if fault == "corner" else apart == 1
    if fault == "swapped":
        assert finding["evidence"]["moment"][0] == 1
    if fault == "left out":
        assert owner[0] != reader[0]
