"""pending.c: every access of a pending buffer is found at its line, and its corrected twin reports nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, met, run

from tests_support import Installed
from weft.access import proof
from weft.base.event_id import EventId
from weft.base.facts import changed
from weft.evidence import MetPending
from weft.trace import Trace

SOURCE = Path(__file__).parent / "pending.c"


def bugs(source: Path) -> set[tuple[int, str]]:
    """Line and kind of each error of the wrong run."""
    lines = enumerate(source.read_text().splitlines(), 1)
    return {(number, kind) for number, line in lines for kind in re.findall(r"BUG ([a-z-]+)", line)}


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    return request.getfixturevalue(request.param), tmp_path_factory.mktemp(f"pending-{request.param}")


@pytest.mark.cases(1)
def test_right_programs_are_not_alarmed(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    assert [finding["message"] for finding in run(mpi, folder, built(mpi, folder, SOURCE), "right")] == []


@pytest.mark.cases(1)
def test_each_access_of_a_pending_buffer_is_found_at_its_line_and_nothing_else(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE), "wrong")
    assert {(f["sites"][0]["line"], f["kind"]) for f in found} == bugs(SOURCE)
    assert {(f["severity"], f["certainty"]) for f in found} == {("error", "certain")}


@pytest.mark.cases(1)
def test_the_proof_of_each_finding_holds_on_the_record(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    if not (folder / "wrong.json").exists():
        run(mpi, folder, built(mpi, folder, SOURCE), "wrong")
    trace = Trace.open(folder / "run-wrong")
    findings = json.loads((folder / "wrong.json").read_text())["findings"]
    proofs = [met(MetPending, f["evidence"]) for f in findings if "access" in f["evidence"]]
    assert len(proofs) == len(bugs(SOURCE))
    assert [proof.verify_evidence(trace, one) for one in proofs] == [True] * len(proofs)
    # And of an access that was made after the operation was complete it does not.
    late = [changed(one, before=EventId(one.before.rank, one.completed.event + 1)) for one in proofs if one.completed]
    assert [proof.verify_evidence(trace, one) for one in late] == [False] * len(proofs)
