"""`weft replay`, `weft debug` and `weft explore` of programs of PVM: the same again, stopped where it is asked for."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from machine import need
from pvm.conftest import Recorded
from pvm.replays import PROGRAMS, outcomes, printed
from replay.test_sequence import interleaving
from tests_support import WEFT, execute
from weft.trace.births import list_spawns
from weft.trace.layout import LogKind

Record = Callable[..., Recorded]


@pytest.mark.matrix
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


RACES = [("races", "probes"), ("races", "team"), ("races", "notices"), ("races", "parents")]


@pytest.mark.matrix
@pytest.mark.parametrize("words", RACES, ids=lambda words: words[-1])
def test_what_varies_is_replayed(recorded: Record, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Probes that find nothing, groups that are joined in any order, a task that is killed, two parents at once."""
    run, out, err, status = recorded(*words)
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again"])
    assert done.returncode == status == 0, done.stderr
    assert printed(done.stdout, done.stderr) == printed(out, err)
    assert outcomes(tmp_path / "again") == outcomes(run)


@pytest.mark.cases(1)
@pytest.mark.parametrize("words", [("races", "farm"), ("races", "notices"), ("fortran",)], ids=lambda words: words[-1])
def test_outcomes_alone_suffice_for_a_replay(recorded: Record, tmp_path: Path, words: tuple[str, ...]) -> None:
    if words == ("fortran",):
        need("gfortran")
    run, out, err, status = recorded(*words, level="outcomes")
    assert status == 0
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again"])
    assert done.returncode == 0, done.stderr
    assert "as recorded" in done.stderr
    assert printed(done.stdout, done.stderr) == printed(out, err)


@pytest.mark.parametrize("told", [[[[]]], [["a"]], [[-1]], [[1.0]], [[99]], {"0": [1]}, 3])
def test_children_that_a_run_cannot_have_are_no_children(recorded: Record, tmp_path: Path, told: object) -> None:
    run = tmp_path / "run"
    shutil.copytree(recorded("races", "pool", level="outcomes")[0], run)
    facts = json.loads((run / "run.json").read_text())
    assert list_spawns(weft.open(run))
    (run / "run.json").write_text(json.dumps({**facts, "children": told}))
    assert list_spawns(weft.open(run)) == []


@pytest.mark.matrix
def test_the_log_of_outcomes_takes_less_than_a_byte_a_receive(recorded: Record) -> None:
    whole, less = weft.open(recorded("races", "pool")[0]), weft.open(recorded("races", "pool", level="outcomes")[0])
    receives = sum(1 for _ in whole.select("fn:pvm_recv"))
    logged = [thread.outcome_log for rank in less.ranks for thread in rank.threads]
    assert receives == 3 + 43 + 23  # by the workers: what all are told, and the answers to each question
    assert not any(logged[1:])  # the master alone asks for a message of anybody
    assert [kind for kind, _ in logged[0]] == [LogKind.SOURCE] * 43  # half a byte each


@pytest.mark.matrix
def test_a_breakpoint_stops_all_tasks_where_it_is_always_the_same(recorded: Record, tmp_path: Path) -> None:
    run = recorded("races", "pool")[0]
    [told] = list(weft.open(run).select("fn:pvm_mcast rank:0"))[:1]
    stops = []
    for attempt in range(2):
        done = execute([*WEFT, "replay", run, "--out", tmp_path / f"{attempt}", "--break", f"0:{told.index}"])
        assert done.returncode == 0, done.stderr
        stops.append(sorted(re.findall(r"^weft:   (rank .*)$", done.stderr, re.MULTILINE)))
    assert stops[0] == stops[1]
    assert any("rank 0 before event" in line and "pvm_mcast" in line for line in stops[0])
    assert all(re.search(r"in event \d+: pvm_recv", line) for line in stops[0] if re.match("rank [234]", line)), stops[
        0
    ]


@pytest.mark.cases(1)
@pytest.mark.parametrize("what", ["team", "notices"])
def test_one_task_at_a_time_makes_its_calls_in_one_order(recorded: Record, tmp_path: Path, what: str) -> None:
    run = recorded("races", what)[0]
    for again in (tmp_path / "one", tmp_path / "two"):
        done = execute([*WEFT, "replay", run, "--sequential", "--out", again], timeout=120)
        assert done.returncode == 0, done.stderr
        assert outcomes(again) == outcomes(run)
    assert interleaving(tmp_path / "one") == interleaving(tmp_path / "two")


@pytest.mark.matrix
def test_a_demand_point_behind_a_notice_needs_the_end_of_that_task(recorded: Record, tmp_path: Path) -> None:
    run = recorded("races", "notices")[0]
    first = next(weft.open(run).select("fn:pvm_recv.notice rank:0"))  # behind the last no call may be left
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again", "--until", f"0:{first.index + 1}"])
    assert done.returncode == 0, done.stderr
    assert "stopped as asked" in done.stderr


@pytest.mark.matrix
def test_a_demand_point_behind_the_last_message_stops_before_the_task_leaves(recorded: Record, tmp_path: Path) -> None:
    run = recorded("races", "notices")[0]
    last = len(weft.open(run).ranks[0]) - 1
    for event in (last, last - 1):
        done = execute([*WEFT, "replay", run, "--out", tmp_path / f"{event}", "--until", f"0:{event}"])
        assert done.returncode == 0, done.stderr
        assert "stopped as asked: " in done.stderr
        assert f"rank 0 before event {last}: pvm_exit at races.c" in done.stderr
        assert "MPI" not in done.stderr
    assert f"event {last - 1} of rank 0, pvm_upkint at races.c" in done.stderr


@pytest.mark.matrix
def test_a_demand_point_that_nothing_can_stop_before_is_told_the_same_each_time(
    recorded: Record, tmp_path: Path
) -> None:
    run = recorded("races", "quits")[0]
    [unpack] = weft.open(run).select("fn:pvm_upkint rank:0")
    for attempt in range(3):
        out = tmp_path / f"{attempt}"
        done = execute([*WEFT, "replay", run, "--out", out, "--until", f"0:{unpack.index}"])
        assert done.returncode == 0, done.stderr
        assert "there was nothing to stop before: 3 of 3 calls were run again" in done.stderr
        assert "ranks 0 and 2 at the end\n" in done.stderr
        assert "comes after the last call before which the rank can stop" in done.stderr


@pytest.mark.matrix
def test_a_demand_point_at_a_multicast_needs_no_worker(recorded: Record, tmp_path: Path) -> None:
    run = recorded("races", "pool")[0]
    first = next(weft.open(run).select("fn:pvm_recv rank:2"))
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again", "--until", f"2:{first.index + 1}"])
    assert done.returncode == 0, done.stderr
    again = weft.open(tmp_path / "again")
    assert [event.tag for event in again.select("fn:pvm_recv rank:2")] == [5]
    assert not list(again.select("fn:pvm_recv rank:0"))


def test_a_deadlock_is_one_again(recorded: Record, tmp_path: Path) -> None:
    done = execute([*WEFT, "replay", recorded("faults", "wait")[0], "--out", tmp_path / "again"])
    assert done.returncode == 3, done.stderr
    assert "it is deadlocked, as the recorded run was" in done.stderr


@pytest.mark.matrix
def test_a_demand_point_runs_no_more_than_it_needs(recorded: Record, tmp_path: Path) -> None:
    run = recorded("farm", "3", "12")[0]
    work = next(e for e in weft.open(run).select("fn:pvm_recv rank:2"))
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "again", "--until", f"2:{work.index}"])
    ran = re.search(r"stopped as asked: (\d+) of (\d+) calls", done.stderr)
    assert ran, done.stderr
    assert int(ran[1]) < int(ran[2]) / 2
    assert re.search(r"rank 2 before event \d+: pvm_", done.stderr)


@pytest.mark.matrix
def test_the_other_outcome_of_a_race_is_run(recorded: Record, tmp_path: Path) -> None:
    run = recorded("farm", "3", "12")[0]
    receive = next(e for e in weft.open(run).select("fn:pvm_nrecv rank:0") if e.flag and not e.polls)
    other = next(rank for rank in (1, 2, 3) if rank != receive.peer)
    force = f"0:{receive.index}={other}"
    done = execute([*WEFT, "replay", run, "--out", tmp_path / "other", "--force", force], timeout=120)
    assert "other outcome" in done.stderr, done.stderr
    first = next(e for e in weft.open(tmp_path / "other").select("fn:pvm_nrecv rank:0") if e.flag and not e.polls)
    assert first.peer == other


@pytest.mark.matrix
def test_a_debugger_breaks_at_calls_of_pvm_by_their_name(recorded: Record) -> None:
    run = recorded("farm", "3", "12")[0]
    done = execute([*WEFT, "debug", run], stdin="break pvm_send tag:4 peer:2\ncontinue\nquit\n", timeout=120)
    assert re.search(r"rank 0 +before event \d+: pvm_send\(tid=2, msgtag=4", done.stdout), done.stdout
    assert "MPI" not in done.stdout


@pytest.mark.matrix
def test_a_debugger_stops_in_spawned_tasks_and_goes_back(recorded: Record) -> None:
    run = recorded("farm", "3", "12")[0]
    [line] = [n for n, text in enumerate((PROGRAMS / "farm.c").read_text().splitlines(), 1)
              if "usleep(" in text]  # fmt: skip
    first = next(e for e in weft.open(run).select("fn:pvm_recv rank:2"))
    commands = f"until 2:{first.index}\nbreak farm.c:{line}\ncontinue\nprint job\nprev event 1 @2\nquit\n"
    done = execute([*WEFT, "debug", run], stdin=commands, timeout=120)
    assert re.search(rf"ranks? [\d, -]*(and \d )?.*at farm\.c:{line} in worker", done.stdout), done.stdout
    assert re.search(
        rf"^  rank.*2.*before event {first.index - 1}: |rank.*2.*before event \d+: pvm_", done.stdout, re.M
    )
