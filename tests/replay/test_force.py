"""`--force`: the other outcome of every race that the report names comes about."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from replay.campaign import HERE, compile_c, environment
from tests_support import WEFT, Installed, execute
from weft.match import NONE, match

EventId = tuple[int, int]


def taken(run: Path, receive: EventId) -> EventId:
    """The send of the message that a receive, or a probe, of a run got."""
    found = match(weft.open(run))
    rows = found.receives_of(receive)
    if rows:
        partner = int(found.recvs.partner[rows[0]])
    else:
        probes = [k for k in range(len(found.probes)) if found.probes.id(k) == receive]
        partner = int(found.probes.partner[probes[0]])
    assert partner != NONE
    return found.sends.id(partner)


def races(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The races of the run in a folder, and the notes that only an order may differ, as the JSON report has them."""
    done = execute([*WEFT, "report", "run", "--format", "json"], cwd=folder, env=environment())
    found = [one for one in json.loads(done.stdout)["findings"] if one["kind"] == "message-race"]
    return [f for f in found if "others" in f["evidence"]], [f for f in found if "order_only" in f["evidence"]]


def outcome(folder: Path, forced: str, receive: EventId) -> tuple[EventId, EventId]:
    """The message that a receive got in the record, and in a run with the other outcome."""
    out = "other-" + forced.replace(":", "-")
    done = execute([*WEFT, "replay", "run", "--out", out, "--force", forced], cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    return taken(folder / "run", receive), taken(folder / out, receive)


@pytest.mark.parametrize(("source", "ways", "served"), [("races.c", 6, 1), ("races.py", 3, 0)])
def test_the_new_run_has_the_other_message_at_the_receive(
    source: str, ways: int, served: int, mpich: Installed, tmp_path: Path
) -> None:
    venv = Path(mpich.mpicc).parents[1]
    program = [compile_c(venv, source, tmp_path)] if source.endswith(".c") else [sys.executable, str(HERE / source)]
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", *program], cwd=tmp_path, env=environment())
    found, notes = races(tmp_path)
    assert (len(found), len(notes)) == (ways, served)
    text = execute([*WEFT, "report", "run"], cwd=tmp_path).stdout
    page = execute([*WEFT, "report", "run", "--format", "html"], cwd=tmp_path).stdout
    for race in found:
        for other in race["evidence"]["others"]:
            command = f"weft replay run --force {other['force']}"
            assert command in text
            assert f"<code>{command}</code>" in page
            before, after = outcome(tmp_path, other["force"], tuple(race["events"][0]))
            assert after == (other["rank"], other["event"]) != before, race["message"]
    for note in notes:  # MPI_Probe; in the communicator of races.c the ranks are numbered backwards
        receive = tuple(note["events"][0])
        other = {1: 2, 2: 1}[taken(tmp_path / "run", receive)[0]]
        before, after = outcome(tmp_path, f"0:{receive[1]}={2 - other}", receive)
        assert after[0] == other != before[0]
