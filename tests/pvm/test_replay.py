"""`weft replay`, `weft debug` and `weft explore` of programs of PVM: the same again, stopped where it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from pvm.conftest import Recorded
from tests_support import WEFT, execute

Record = Callable[..., Recorded]


def printed(stdout: str, stderr: str) -> list[str]:
    """What the tasks printed: lines of different tasks may come in any order."""
    return sorted([*stdout.splitlines(), *re.findall(r"^\[rank .*$", stderr, re.MULTILINE)])


def outcomes(run: Path) -> list[list[tuple[str, int, int, int]]]:
    """Of each rank its calls, with whom each receive was from, and how many polls failed."""
    trace = weft.open(run)
    return [
        [(event.function.name, event.peer, event.tag, event.polls) for event in map(rank.event, range(len(rank)))]
        for rank in trace.ranks
    ]


@pytest.mark.parametrize("words", [("farm", "3", "12"), ("group", "4"), ("busy", "notify")], ids=lambda words: words[0])
def test_replays_come_out_as_recorded(recorded: Record, tmp_path: Path, words: tuple[str, ...]) -> None:
    run, out, err, status = recorded(*words)
    for attempt in range(2):
        again = tmp_path / f"again-{attempt}"
        done = execute([*WEFT, "replay", run, "--out", again])
        assert done.returncode == status, done.stderr
        assert "as recorded" in done.stderr
        assert printed(done.stdout, done.stderr) == printed(out, err)
    if words[0] == "farm":
        assert outcomes(again) == outcomes(run)


def test_a_deadlock_is_one_again(recorded: Record, tmp_path: Path) -> None:
    done = execute([*WEFT, "replay", recorded("faults", "wait")[0], "--out", tmp_path / "again"])
    assert done.returncode == 3, done.stderr
    assert "as in the record, it is deadlocked" in done.stderr


def test_a_demand_point_runs_no_more_than_it_needs(recorded: Record, tmp_path: Path) -> None:
    run = recorded("farm", "3", "12")[0]
    work = next(e for e in weft.open(run).select("fn:pvm_recv rank:2"))
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again", "--until", f"2:{work.index}"])
    ran = re.search(r"stopped as asked: (\d+) of (\d+) calls", done.stderr)
    assert ran, done.stderr
    assert int(ran[1]) < int(ran[2]) / 2
    assert re.search(r"rank 2 before event \d+: pvm_", done.stderr)


def test_the_other_outcome_of_a_race_is_run(recorded: Record, tmp_path: Path) -> None:
    run = recorded("farm", "3", "12")[0]
    receive = next(e for e in weft.open(run).select("fn:pvm_nrecv rank:0") if e.flag and not e.polls)
    other = next(rank for rank in (1, 2, 3) if rank != receive.peer)
    force = f"0:{receive.index}={other}"
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "other", "--force", force], timeout=120)
    assert "other outcome" in done.stderr, done.stderr
    first = next(e for e in weft.open(tmp_path / "other").select("fn:pvm_nrecv rank:0") if e.flag and not e.polls)
    assert first.peer == other


def test_a_debugger_stops_in_spawned_tasks_and_goes_back(recorded: Record) -> None:
    run = recorded("farm", "3", "12")[0]
    [line] = [n for n, text in enumerate((Path(__file__).parent / "programs/farm.c").read_text().splitlines(), 1)
              if "usleep(" in text]  # fmt: skip
    first = next(e for e in weft.open(run).select("fn:pvm_recv rank:2"))
    commands = f"until 2:{first.index}\nbreak farm.c:{line}\ncontinue\nprint job\nprev event 1 @2\nquit\n"
    done = execute([*WEFT, "debug", run], stdin=commands, timeout=120)
    assert re.search(rf"ranks? [\d, -]*(and \d )?.*at farm\.c:{line} in worker", done.stdout), done.stdout
    assert re.search(
        rf"^  rank.*2.*before event {first.index - 1}: |rank.*2.*before event \d+: pvm_", done.stdout, re.M
    )
