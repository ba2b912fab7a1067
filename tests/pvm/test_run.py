"""`weft run` of programs of PVM: what is recorded, what is found, and that nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from pvm.conftest import Recorded
from pvm.kills import kill
from tests_support import WEFT, execute
from weft.order import Order
from weft.report import Report, run_analyses
from weft.report.context import AnalysisContext
from weft.view.run_view import RunView

Record = Callable[..., Recorded]


def report(recorded: Recorded) -> Report:
    """What is found in a run."""
    return run_analyses(weft.open(recorded[0]))


def kinds(recorded: Recorded) -> list[str]:
    """Kinds of what is found, notes left out."""
    found = report(recorded)
    assert not found.failures
    return [finding.kind for finding in found.findings if finding.severity != "note"]


def test_a_farm_is_recorded_with_all_its_tasks(recorded: Record) -> None:
    run, printed, said, status = recorded("farm", "3", "12")
    assert status == 0
    assert re.fullmatch(r"sum \d+\n", printed)
    assert sorted(re.findall(r"^\[rank (\d), farm 0\.\d\] worker is done$", said, re.MULTILINE)) == ["1", "2", "3"]
    trace = weft.open(run)
    assert len(trace.ranks) == 4
    assert not trace.problems
    assert trace.system.name == "PVM"
    assert {rank.state for rank in trace.ranks} == {"finalized"}
    spawn = next(trace.select("fn:pvm_spawn"))
    assert spawn.args["tids"] == [1, 2, 3]
    work = [event for event in trace.select("fn:pvm_send rank:0") if event.tag == 2]
    assert len(work) == 12
    assert {(event.function.name, event.polls > 0) for event in trace.select("fn:pvm_nrecv rank:0")} <= {
        ("pvm_nrecv", False), ("pvm_nrecv.nothing", True), ("pvm_nrecv.notice", False),
    }  # fmt: skip


def test_each_message_of_a_farm_has_its_receive(recorded: Record) -> None:
    context = AnalysisContext(weft.open(recorded("farm", "3", "12")[0]))
    sends = context.match.sends
    assert len(sends) == 12 + 12 + 3 + 15
    assert (sends.partner != 2**32 - 1).all()
    assert "message-race" in [finding.kind for finding in report(recorded("farm", "3", "12")).findings]


def test_a_spawn_is_before_all_that_its_tasks_do(recorded: Record) -> None:
    trace = weft.open(recorded("farm", "3", "12")[0])
    context = AnalysisContext(trace)
    order: Order = context.order
    spawn = next(trace.select("fn:pvm_spawn"))
    assert all(order.before((0, spawn.index - 1), (child, 1)) for child in (1, 2, 3))
    assert not order.before((1, 1), (0, spawn.index))


def test_dump_and_report_speak_pvms_words(recorded: Record) -> None:
    run = recorded("farm", "3", "12")[0]
    dumped = execute([*WEFT, "dump", run]).stdout
    assert "pvm_recv(tid 0, msgtag any, context world, bytes 4, packed packed" in dumped
    assert "pvm_parent(result 0)" in dumped
    assert "MPI" not in dumped
    told = execute([*WEFT, "report", run]).stdout
    assert "rank 0, pvm_nrecv in master" in told
    assert "MPI_" not in told


def test_the_view_names_tasks_and_errors_as_pvm_does(recorded: Record) -> None:
    picture = RunView(weft.open(recorded("group", "4")[0]))
    facts = picture.run_facts()
    assert facts["system"] == "PVM"
    assert sorted(facts["names"]) == ["group 0", "group 0.1", "group 0.2", "group 0.3", "group server"]
    assert picture.event_with_links("time", 0, 0)["error_text"] == "PvmNoParent"
    dumped = execute([*WEFT, "dump", recorded("group", "4")[0], "--rank", "0", "--first", "1"]).stdout
    assert "pvm_parent(result -23) -> PvmNoParent" in dumped


def test_a_group_is_recorded_and_its_calls_stand_where_the_program_makes_them(recorded: Record) -> None:
    run, printed, said, status = recorded("group", "4")
    assert status == 0
    assert "sum 10" in printed + said
    trace = weft.open(run)
    assert trace.run["names"][:2] == ["group 0", "group server"]
    assert {rank.state for rank in trace.ranks} == {"finalized"}
    inner = [event for event in map(trace.ranks[0].event, range(len(trace.ranks[0]))) if event.function.within]
    assert {event.site.function for event in inner} == {"main"}
    assert kinds(recorded("group", "4")) == []


@pytest.mark.matrix
def test_a_barrier_that_one_does_not_reach_is_proven_while_it_stands(recorded: Record) -> None:
    run, _, said, status = recorded("group", "4", "missing")
    assert status == 3
    assert re.search(
        r"error: ranks? [\d, and-]+ waits? in pvm_barrier\('team', 4\) at group\.c:\d+; \d of 4 tasks came: "
        r"rank \d joined the group and has ended.*\. \[deadlock\]", said,
    )  # fmt: skip
    assert kinds(recorded("group", "4", "missing")) == ["deadlock"]
    assert weft.open(run).run["ended"] == "deadlock"


FAULTS = {
    "pack": ["type-mismatch"], "more": ["type-mismatch"], "lost": ["unmatched-send"],
    "buffers": ["resource-leak"] , "refused": ["invalid-argument", "invalid-argument"],
}  # fmt: skip


@pytest.mark.cases(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(recorded: Record, fault: str) -> None:
    assert kinds(recorded("faults", fault)) == FAULTS[fault]


def test_the_same_without_faults_is_silent(recorded: Record) -> None:
    assert kinds(recorded("faults", "right")) == []
    assert recorded("faults", "right")[3] == 0


def test_tasks_that_wait_for_each_other_are_stopped(recorded: Record) -> None:
    _, _, said, status = recorded("faults", "wait")
    assert status == 3
    assert re.search(
        r"rank 0 waits in pvm_recv\(tid=1, msgtag=1\) at faults\.c:\d+ and rank 1 in .*each waits for the other", said
    )


def test_a_message_is_unpacked_where_it_was_packed_otherwise(recorded: Record) -> None:
    [finding] = [one for one in report(recorded("faults", "pack")).findings if one.kind == "type-mismatch"]
    assert "rank 1 unpacks 4 x PVM_FLOAT at faults.c" in finding.message
    assert "rank 0 packed PVM_INT there at faults.c" in finding.message
    [finding] = [one for one in report(recorded("faults", "more")).findings if one.kind == "type-mismatch"]
    assert "has no more data" in finding.message


def test_a_notice_of_the_daemon_is_no_message_of_a_task_and_the_program_reads_it_whole(recorded: Record) -> None:
    run, printed, _, status = recorded("busy", "notify")
    assert status == 0
    assert printed == "the second is gone: yes\n"
    trace = weft.open(run)
    notices = list(trace.select("fn:pvm_recv.notice"))
    assert len(notices) == 3
    assert notices[0].peer == 2
    assert kinds(recorded("busy", "notify")) == []


def test_a_task_that_pvm_kill_ends_in_a_receive_is_in_no_deadlock(recorded: Record) -> None:
    run, _, _, status = recorded("busy", "notify", "late")
    assert status == 0
    assert weft.open(run).ranks[2].event(1).open
    assert kinds(recorded("busy", "notify", "late")) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("option", ["--whole-buffers", "--hash-messages", "--tasks"])
def test_an_option_of_mpi_alone_is_refused(programs: Path, tmp_path: Path, option: str) -> None:
    done = execute([*WEFT, "run", "--out", tmp_path / "run", option, "--", programs / "farm"])
    assert done.returncode == 2
    assert "this one uses PVM" in done.stderr
    assert not (tmp_path / "run").exists()


# Nothing is left behind


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("who", "number"),
    [("weft run", signal.SIGINT), ("weft run", signal.SIGKILL), ("daemon", signal.SIGKILL), ("child", signal.SIGKILL),
     pytest.param("machine", signal.SIGKILL, marks=pytest.mark.matrix),
     pytest.param("master", signal.SIGKILL, marks=pytest.mark.matrix)],
)  # fmt: skip
def test_nothing_outlives_a_run_whoever_is_killed(programs: Path, tmp_path: Path, who: str, number: int) -> None:
    run = tmp_path / "run"
    killed = kill(programs / "busy", run, who, number, after=0.3)
    assert killed.folder.parent == Path(tempfile.gettempdir())
    trace = weft.open(run)
    assert len(trace.ranks) == 4
    assert all(len(rank) for rank in trace.ranks)


def test_a_task_that_works_on_when_it_has_left_pvm_is_waited_for(programs: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = [*WEFT, "run", "--out", tmp_path / "run", "--", programs / "races", "lingers"]
    done = execute(command, env=os.environ | {"LINGERS": str(made)}, timeout=60)
    assert done.returncode == 0, done.stderr
    assert made.exists()
    assert [rank.state for rank in weft.open(tmp_path / "run").ranks] == ["finalized"] * 3
