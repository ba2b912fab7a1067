"""windows.c: two accesses of a window that nothing orders are found at both lines, and their ordered twins are not."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, met, run

from tests_support import Installed
from weft.access import proof
from weft.base.event_id import EventId
from weft.base.facts import changed
from weft.evidence import MetOperation, MetShared
from weft.match import match_operations
from weft.order import order_events
from weft.trace import Trace

SOURCE = Path(__file__).parent / "windows.c"


def races(source: Path) -> set[frozenset[int]]:
    """The lines that race in the wrong run, by the name they have in common."""
    pairs: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(source.read_text().splitlines(), 1):
        for name in re.findall(r"RACE ([a-z_]+) \*/", line):
            pairs[name].add(number)
    return {frozenset(lines) for lines in pairs.values()}


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    return request.getfixturevalue(request.param), tmp_path_factory.mktemp(f"windows-{request.param}")


@pytest.mark.cases(1)
def test_ordered_accesses_are_not_alarmed(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    assert [finding["message"] for finding in run(mpi, folder, built(mpi, folder, SOURCE), "right")] == []


@pytest.mark.cases(1)
def test_each_race_is_found_at_both_lines_and_nothing_else(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE), "wrong")
    assert {frozenset(site["line"] for site in f["sites"][:2]) for f in found} == races(SOURCE)
    assert {(f["kind"], f["severity"], f["certainty"]) for f in found} == {("rma-race", "error", "certain")}


@pytest.mark.cases(1)
def test_the_proof_of_each_race_holds_on_the_record(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    if not (folder / "wrong.json").exists():
        run(mpi, folder, built(mpi, folder, SOURCE), "wrong")
    trace = Trace.open(folder / "run-wrong")
    ordered = order_events(trace, match_operations(trace))
    told = [f["evidence"] for f in json.loads((folder / "wrong.json").read_text())["findings"]]
    proofs = [met(MetOperation if "operation" in one else MetShared, one) for one in told if "access" in one]
    assert len(proofs) >= 13
    assert [proof.verify_evidence(trace, one, ordered) for one in proofs] == [True] * len(proofs)
    # Of an operation that begins at the program's end, behind a barrier, it does not hold.
    operations = [one for one in proofs if isinstance(one, MetOperation)]
    late = [changed(one, operation=EventId(i := one.operation.rank, len(trace.ranks[i]) - 1)) for one in operations]
    assert [proof.verify_evidence(trace, one, ordered) for one in late] == [False] * len(late)
