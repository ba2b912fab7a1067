"""`--force`: the other outcome of every race that the report names comes about."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import weft
from replay.campaign import HERE, compile_c, environment
from tests_support import WEFT, Installed, execute
from weft.match import NONE, match_operations

EventId = tuple[int, int]


def taken(run: Path, receive: EventId) -> EventId:
    """The send of the message that a receive, or a probe, of a run got."""
    found = match_operations(weft.open(run))
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


@pytest.mark.cases(1)
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


@pytest.fixture(scope="module")
def answered(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where answered.c was recorded as `run`."""
    folder = tmp_path_factory.mktemp("answered")
    program = compile_c(Path(mpich.mpicc).parents[1], "answered.c", folder)
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", program, "1"], cwd=folder, env=environment())
    return folder


def receives(folder: Path) -> list[EventId]:
    """The receives of rank 0."""
    trace = weft.open(folder / "run")
    return [(0, i) for i in range(len(trace.ranks[0])) if trace.event(0, i).function.base == "MPI_Recv"]


@pytest.mark.matrix
def test_the_other_outcome_is_compared_with_the_record(answered: Path) -> None:
    third = receives(answered)[2]
    took = taken(answered / "run", third)[0]
    done = execute([*WEFT, "replay", "run", "--force", f"0:{third[1]}={3 - took}"], cwd=answered, env=environment())
    assert done.returncode == 0, done.stderr
    call = "recv(source=ANY_SOURCE, tag=2) at answered.c:17, which takes the message of rank"
    assert f"the runs differ from this call on: event {third[1]} of rank 0, {call} {3 - took}\n" in done.stderr
    assert f"in the record it is {call} {took}\n" in done.stderr
    assert "other messages arrive at 2 of 4 receives of rank 0\n" in done.stderr
    assert "it finished with status 0, as in the record" in done.stderr
    assert "appears" not in done.stderr
    assert "vanishes" not in done.stderr


def test_what_cannot_happen_is_refused(answered: Path) -> None:
    first, second, third, _ = receives(answered)
    took = taken(answered / "run", third)[0]
    for (rank, event), source, why in [
        (first, 1, "this is what the record has already"),
        (first, 2, "rank 2 sends its next message that fits"),
        (first, 0, "rank 0 never sends a message to rank 0 that fits this receive"),
        (second, 1, "earlier receives take all messages of rank 1 that this one could take"),
        (third, took, "this is what the record has already"),
    ]:
        done = execute([*WEFT, "replay", "run", "--force", f"{rank}:{event}={source}"], cwd=answered)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert f"--force {rank}:{event}={source}: {why}" in done.stderr


def test_an_interrupted_replay_says_that_it_is_not_whole(answered: Path) -> None:
    rank, event = receives(answered)[2]
    source = 3 - taken(answered / "run", (rank, event))[0]
    for words, what in [([f"--force={rank}:{event}={source}"], "the other outcome"), ([], "the replay")]:
        command = [*WEFT, "replay", "run", *words, "-n", "3", "--", str(answered / "answered"), "60"]
        with subprocess.Popen(
            command, cwd=answered, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith("first ")
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
        assert process.returncode != 0
        assert "the replay was interrupted" in said
        assert "rank 0 in event" in said
        assert f"{what} up to there is recorded in" in said
        assert "as recorded" not in said
