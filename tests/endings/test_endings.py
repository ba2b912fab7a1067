"""How ranks ended, on built traces: the cause is told once, and what follows from it is not a finding of its own."""

from __future__ import annotations

import pytest

from weft.endings import How, describe_ends, find_ends
from weft.findings import Finding
from weft.report import run_analyses, summary, to_json
from weft.trace import EndingKind, ExitKind, Trace
from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import Def, State
from weft.trace.varint import encode_string

BARRIER = ("exc.py", 7, "<module>")


def found(trace: Trace) -> list[Finding]:
    report = run_analyses(trace)
    assert not report.failures, report.failures
    return [one for one in report.findings if one.severity != "note"]


def raises(rank: RankBuilder, name: str = "KeyError", text: str = "'missing'", who: str = "") -> None:
    frames = [("exc.py", 4, "work"), ("exc.py", 6, "<module>")]
    rank.add_ending(EndingKind.EXCEPTION, name=name, text=text, traceback="Traceback ...", python=frames, who=who)


def waits(b: Builder, *ranks: int) -> None:
    for index in ranks:
        b.ranks[index].open.barrier(site=BARRIER)


def test_an_exception_is_one_finding_that_names_who_waits() -> None:
    b = Builder(ranks=3, ended="deadlock")
    waits(b, 0, 2)
    raises(b.ranks[1])
    b.ranks[1].finalize(leaving=True, open=True)
    [one] = found(b.open())
    assert one.kind == "uncaught-exception"
    assert one.message == (
        "rank 1 ended by KeyError: 'missing' at exc.py:4 in work (called at exc.py:6); "
        "ranks 0 and 2 wait for it in barrier at exc.py:7"
    )
    assert one.facts()["traceback"] == "Traceback ..."
    assert "deadlock" not in str(one.facts()["consequences"])
    assert one.sites[0].line == 4 and one.sites[0].callers[0][1] == 6


def test_the_interpreters_finalize_is_no_call_of_the_program() -> None:
    b = Builder(ranks=2, ended="deadlock")
    waits(b, 0)
    b.ranks[1].finalize(leaving=True, open=True)
    told = found(b.open())
    assert "deadlock" in {one.kind for one in told}
    assert not any("finalize" in one.message for one in told)


def test_a_finalize_of_the_program_still_meets_collectives() -> None:
    b = Builder(ranks=2, ended="deadlock")
    waits(b, 0)
    b.ranks[1].open.finalize(site=("exc.py", 9, "<module>"))
    assert any("finalize" in one.message for one in found(b.open()))


def test_ranks_that_end_alike_are_one_finding() -> None:
    b = Builder(ranks=3, ended="crashed")
    for rank in b.ranks:
        rank.barrier()
        raises(rank, "ValueError", f"no input on {rank.index}")
        rank.finalize(leaving=True)
    [one] = found(b.open())
    assert one.message.startswith("ranks 0-2 ended by ValueError: no input on 0 at exc.py:4")
    assert one.ranks == (0, 1, 2)


def test_a_deadlock_that_has_nothing_to_do_with_an_exception_stays() -> None:
    b = Builder(ranks=4, ended="deadlock")
    r0, r1, r2, r3 = b.ranks
    r0.open.recv(1, site=("a.py", 1, "f"))
    r1.open.recv(0, site=("a.py", 2, "f"))
    r2.open.recv(3, site=("a.py", 3, "f"))
    raises(r3)
    r3.finalize(leaving=True, open=True)
    kinds = sorted(one.kind for one in found(b.open()))
    assert kinds == ["deadlock", "uncaught-exception"]


def test_an_exit_for_which_nobody_waits_after_finalize_is_no_finding() -> None:
    b = Builder(ranks=2, ended="finished")
    for rank in b.ranks:
        rank.barrier()
        rank.finalize()
        rank.add_ending(EndingKind.EXIT, code=3, detail=ExitKind.EXIT, name="exit")
    assert found(b.open()) == []


def test_a_python_exit_that_finalizes_on_its_way_is_no_finding() -> None:
    b = Builder(ranks=2, ended="crashed")
    for rank in b.ranks:
        rank.barrier()
        rank.add_ending(
            EndingKind.EXIT, code=1, detail=ExitKind.PYTHON, name="SystemExit", python=[("a.py", 3, "main")]
        )
        rank.finalize(leaving=True)
    trace = b.open()
    assert found(trace) == []
    assert describe_ends(trace) == ["ranks 0 and 1 ended by sys.exit(1) at a.py:3"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_python_exit_that_others_wait_for_is_an_early_exit(code: int) -> None:
    b = Builder(ranks=3, ended="deadlock")
    waits(b, 0, 2)
    b.ranks[1].add_ending(
        EndingKind.EXIT, code=code, detail=ExitKind.PYTHON, name="SystemExit", python=[("a.py", 3, "main")]
    )
    b.ranks[1].finalize(leaving=True, open=True)
    [one] = found(b.open())
    assert one.kind == "early-exit"
    assert one.message.startswith(f"rank 1 ended by sys.exit({code}) at a.py:3; ranks 0 and 2 wait for it")


@pytest.mark.parametrize("gone", [False, True])
def test_a_python_exit_that_the_end_of_the_job_overtakes_is_no_finding(gone: bool) -> None:
    b = Builder(ranks=2, ended="crashed")
    for rank in b.ranks:
        rank.barrier()
    b.ranks[1].add_ending(
        EndingKind.EXIT, code=0, detail=ExitKind.PYTHON, name="sys.exit", python=[("a.py", 3, "main")]
    )
    b.ranks[1].state = State.EXITED if gone else State.RUNNING
    trace = b.open()
    assert [one.kind for one in found(trace)] == (["early-exit"] if gone else [])
    assert "rank 1 ended by sys.exit(0) at a.py:3" in describe_ends(trace)


def test_a_process_that_never_came_to_finalize_is_an_early_exit() -> None:
    b = Builder(ranks=2, ended="finished")
    b.ranks[0].init()
    b.ranks[0].finalize()
    b.ranks[1].init()
    b.ranks[1].add_ending(EndingKind.EXIT, code=0, detail=ExitKind.RETURN, name="return")
    b.ranks[1].state = State.EXITED
    [one] = found(b.open())
    assert one.kind == "early-exit"
    assert one.message == "rank 1 returned 0 from main, without MPI_Finalize"


def test_an_older_record_tells_of_a_missing_finalize_too() -> None:
    for finalize in (True, False):
        b = Builder(ranks=1)
        b.ranks[0].init()
        if finalize:
            b.ranks[0].finalize()
        b.ranks[0].state = State.EXITED
        kinds = [(one.kind, one.severity) for one in found(b.open())]
        assert kinds == ([] if finalize else [("early-exit", "error")])


def test_a_crash_names_signal_address_and_line() -> None:
    b = Builder(ranks=2, ended="crashed")
    waits(b, 0)
    b.ranks[1].barrier()
    b.ranks[1].add_ending(
        EndingKind.SIGNAL, code=11, detail=1, address=16, name="SIGSEGV", python=[("a.py", 3, "peek"), ("a.py", 9, "")]
    )
    b.ranks[1].state = State.RUNNING
    [one] = found(b.open())
    assert one.kind == "crash"
    assert (
        "rank 1 crashed by SIGSEGV at address 0x10 (no memory is mapped there), at a.py:3 in peek (called at a.py:9)"
        in one.message
    )


@pytest.mark.parametrize(("index", "later"), [(-32766, False), (0, False), (-32766, True)])
def test_a_crash_just_after_a_wait_for_no_request_names_its_undefined_index(index: int, *, later: bool) -> None:
    b = Builder(ranks=1, ended="crashed")
    r = b.ranks[0]
    r.call("MPI_Waitany", count=1, array_of_requests=[1], index=index, site=("a.c", 5, "main"))
    if later:
        r.barrier()
    r.add_ending(EndingKind.SIGNAL, code=11, name="SIGSEGV")
    r.state = State.RUNNING
    [one] = found(b.open())
    words = "just after waitany at a.c:5 found no active request and gave the index MPI_UNDEFINED"
    assert (words in one.message) == (index < 0 and not later), one.message


def test_a_handler_that_came_back_is_no_crash() -> None:
    b = Builder(ranks=1, ended="finished")
    b.ranks[0].add_ending(EndingKind.SIGNAL, code=11, name="SIGSEGV")
    b.ranks[0].add_ending(EndingKind.RETURNED, code=11, name="SIGSEGV")
    b.ranks[0].barrier()
    b.ranks[0].finalize()
    assert found(b.open()) == []


def test_an_abort_names_its_code_and_the_exception_before_it_is_the_cause() -> None:
    for first, kind in ((False, "abort"), (True, "uncaught-exception")):
        b = Builder(ranks=2, ended="crashed")
        waits(b, 0)
        if first:
            raises(b.ranks[1])
        b.ranks[1].add_ending(EndingKind.ABORT, code=5, name="MPI_Abort", python=[("a.py", 3, "main")])
        b.ranks[1].state = State.ABORTED
        one = found(b.open())[0]
        assert one.kind == kind
        assert first or "called MPI_Abort(errorcode=5) at a.py:3" in one.message


def test_an_exception_in_a_thread_is_told_with_its_name() -> None:
    b = Builder(ranks=1, ended="finished")
    b.ranks[0].barrier()
    raises(b.ranks[0], who="writer")
    b.ranks[0].finalize(leaving=True)
    [one] = found(b.open())
    assert one.message.startswith("thread writer of rank 0 ended by KeyError: 'missing' at exc.py:4 in work")


def test_an_interrupt_says_where_each_rank_was_and_is_no_deadlock() -> None:
    b = Builder(ranks=2, ended="interrupted")
    b.ranks[0].open.recv(1, site=("a.py", 5, "<module>"))
    b.ranks[1].barrier()
    b.ranks[1].add_ending(
        EndingKind.WARNED, code=2, name="SIGINT", python=[("a.py", 4, "spin"), ("a.py", 8, "<module>")]
    )
    b.ranks[1].add_ending(EndingKind.EXCEPTION, name="KeyboardInterrupt", python=[("a.py", 4, "spin")])
    b.ranks[1].state = State.RUNNING
    trace = b.open()
    assert [one.kind for one in found(trace)] == []
    assert describe_ends(trace) == [
        "rank 0 waited in recv(source=1, tag=0) at a.py:5 for rank 1: rank 1 was outside MPI at a.py:4",
        "rank 1 got SIGINT outside MPI at a.py:4 in spin (called at a.py:8)",
        "rank 0 was in recv(source=1, tag=0) at a.py:5",
    ]  # fmt: skip
    assert summary(trace).splitlines()[0].startswith("rank 0 waited in recv(")


def interrupted(*, polls: int, abort: bool = False) -> Trace:
    """Rank 1 polls, and perhaps aborts, when the run is interrupted; the others wait for it in a barrier."""
    b = Builder(ranks=3, ended="interrupted")
    waits(b, 0, 2)
    r1 = b.ranks[1]
    r1.call("MPI_Iprobe", site=("idle.py", 8, "poll"), source=0, tag=5, comm="MPI_COMM_WORLD", polls=polls,
            enter=10, exit=2_000_000_010)  # fmt: skip
    r1.add_ending(EndingKind.WARNED, code=2, name="SIGINT", python=[("/lib/python3.11/time.py", 4, "sleep")])
    if abort:
        r1.add_ending(EndingKind.ABORT, code=130, name="MPI_Abort")
    r1.state = State.ABORTED if abort else State.RUNNING
    return b.open()


@pytest.mark.parametrize("abort", [False, True])
def test_behind_an_interrupt_there_is_no_error_and_who_polled_in_vain_is_named(*, abort: bool) -> None:
    trace = interrupted(polls=900, abort=abort)
    assert found(trace) == []
    assert describe_ends(trace)[0] == (
        "ranks 0 and 2 waited in barrier at exc.py:7 for rank 1, which had not entered it: "
        "rank 1 polled iprobe(source=0, tag=5) at idle.py:8 in vain for 2 s"
    )


@pytest.mark.parametrize(("call", "missing"), [("barrier", 0), ("split", 0), ("barrier", 1), ("allreduce", 0)])
def test_a_collective_that_all_members_are_in_for_long_is_the_library_s(call: str, missing: int) -> None:
    b = Builder(ranks=3, ended="interrupted")
    for rank in b.ranks[missing:]:
        if call == "split":
            rank.call("MPI_Comm_split", comm="MPI_COMM_WORLD", color=0, key=0, open=True, site=BARRIER)
        else:
            getattr(rank.open, call)(site=BARRIER)
    for rank in b.ranks:
        rank.add_ending(EndingKind.WARNED, code=2, name="SIGINT", at=5_000_000_000)
        rank.state = State.RUNNING
    said = [one for one in describe_ends(b.open()) if "the MPI library itself does not complete the call" in one]
    assert len(said) == (not missing and call != "allreduce")
    assert all(one.startswith("all members of world are in ") for one in said)


def test_a_few_polls_are_no_standing_still() -> None:
    assert "polled" not in describe_ends(interrupted(polls=3))[0]


def test_an_abort_of_a_run_that_nobody_interrupted_stays_an_error() -> None:
    b = fallen(signalled=True)
    b.ranks[1].add_ending(EndingKind.WARNED, code=15, name="SIGTERM")
    b.ranks[1].add_ending(EndingKind.ABORT, code=5, name="MPI_Abort")
    assert [one.kind for one in found(b.open())] == ["abort"]


def test_who_waits_for_an_interrupted_rank_is_no_deadlock_and_others_are() -> None:
    for rank_2_computes in (True, False):
        b = Builder(ranks=3, ended="interrupted")
        r0, r1, r2 = b.ranks
        r0.open.recv(1 if not rank_2_computes else 2, site=("a.py", 5, ""))
        r1.open.recv(0, site=("a.py", 6, ""))
        r2.barrier(comm="MPI_COMM_SELF")
        r2.add_ending(EndingKind.WARNED, code=2, name="SIGINT", python=[("a.py", 4, "spin")])
        r2.finalize(leaving=True, open=True)
        assert [one.kind for one in found(b.open())] == ([] if rank_2_computes else ["deadlock"])


def test_a_finalize_that_failed_is_no_finished() -> None:
    b = Builder(ranks=2, ended="finished")
    b.ranks[0].finalize()
    b.ranks[1].finalize(error=15, site=("a.c", 9, "main"))
    trace = b.open()
    assert [end.how for end in find_ends(trace)] == [How.FINISHED, How.ERROR]
    [one] = found(trace)
    assert one.kind == "abort"
    assert one.message == "rank 1 got an error in finalize at a.c:9 (class 15)"


def fallen(*, signalled: bool) -> Builder:
    """Rank 0 waits for rank 1 in a barrier when the launcher ends it, as rank 1 is gone."""
    b = Builder(ranks=2, ended="crashed")
    waits(b, 0)
    if signalled:
        b.ranks[0].add_ending(EndingKind.WARNED, code=15, name="SIGTERM")
    b.ranks[1].barrier(comm="MPI_COMM_SELF", site=("a.c", 5, "main"))
    for rank in b.ranks:
        rank.state = State.RUNNING
    return b


@pytest.mark.parametrize("signalled", [True, False])
def test_others_are_ended_with_the_job_that_a_rank_brought_down(*, signalled: bool) -> None:
    b = fallen(signalled=signalled)
    b.ranks[1].add_ending(EndingKind.ABORT, code=5, name="MPI_Abort", python=[("a.c", 6, "main")])
    trace = b.open()
    [one] = found(trace)
    assert one.message == (
        "rank 1 called MPI_Abort(errorcode=5) at a.c:6; rank 0 was ended by it in barrier at exc.py:7"
    )  # fmt: skip
    assert describe_ends(trace, {1}) == ["rank 0 was ended with the job, while in barrier at exc.py:7"]


@pytest.mark.parametrize("signalled", [True, False])
def test_a_silent_rank_is_named_where_the_launcher_let_the_others_tell(*, signalled: bool) -> None:
    b = fallen(signalled=signalled)
    trace = b.open()
    trace.run["exit_code"] = 137
    said = describe_ends(trace)
    assert said[0] == "rank 1 ended outside MPI, after barrier(comm=self[1]) at a.c:5"
    assert said[1] == f"rank 0 {'got SIGTERM' if signalled else 'ended'} in barrier at exc.py:7"
    why = (
        "rank 1 left no record of its end: " if signalled else "no rank left a record of why the run ended: one of them"
    )
    assert said[2].startswith(why)


def signalled_at(moment: int) -> RankBuilder:
    """A rank that is in a barrier from 1,000 to 5,000 ns, and gets SIGTERM at a moment."""
    b = Builder(ranks=1, ended="crashed")
    (rank,) = b.ranks
    rank.barrier(comm="MPI_COMM_SELF", site=("a.c", 5, "main"), enter=1_000, exit=5_000)
    rank.add_ending(EndingKind.WARNED, code=15, name="SIGTERM", python=[("a.c", 7, "work")], at=moment)
    rank.state = State.RUNNING
    return rank


def test_a_handled_signal_is_told_where_it_came_and_not_where_the_record_ends() -> None:
    inside = signalled_at(3_000)
    assert describe_ends(inside.builder.open()) == [
        "rank 0 got SIGTERM in barrier(comm=self[0]) at a.c:5, handled it and went on; its record ends outside MPI, "
        "after barrier(comm=self[0]) at a.c:5"
    ]
    outside = signalled_at(6_000)
    outside.open.barrier(comm="MPI_COMM_SELF", site=("a.c", 9, "main"), enter=7_000)
    assert describe_ends(outside.builder.open()) == [
        "rank 0 got SIGTERM outside MPI at a.c:7 in work, handled it and went on; its record ends in "
        "barrier(comm=self[0]) at a.c:9"
    ]
    finished = signalled_at(6_000)
    finished.finalize(enter=7_000)
    finished.state = State.FINALIZED
    assert describe_ends(finished.builder.open()) == [
        "rank 0 got SIGTERM outside MPI at a.c:7 in work, handled it and finished"
    ]


def test_a_signal_that_ended_a_rank_is_not_told_as_handled() -> None:
    assert describe_ends(signalled_at(6_000).builder.open()) == ["rank 0 got SIGTERM outside MPI at a.c:7 in work"]


def test_an_exit_before_the_launchers_signal_is_an_exit() -> None:
    b = Builder(ranks=3, ended="deadlock")
    waits(b, 0, 2)
    b.ranks[1].add_ending(
        EndingKind.EXIT, code=3, detail=ExitKind.PYTHON, name="sys.exit", python=[("a.py", 3, "<module>")]
    )
    b.ranks[1].finalize(leaving=True, open=True)
    b.ranks[1].add_ending(EndingKind.WARNED, code=15, name="SIGTERM")
    [one] = found(b.open())
    assert (one.kind, one.message.partition(";")[0]) == ("early-exit", "rank 1 ended by sys.exit(3) at a.py:3")


def test_a_collective_after_finalize_is_told_once() -> None:
    b = Builder(ranks=2, ended="crashed")
    for rank in b.ranks:
        rank.finalize()
    b.ranks[0].barrier(site=("a.c", 9, "main"))
    assert [one.kind for one in found(b.open())] == ["invalid-argument"]


def test_scripts_get_the_ends_too() -> None:
    b = Builder(ranks=3, ended="deadlock")
    waits(b, 0, 2)
    raises(b.ranks[1])
    b.ranks[1].finalize(leaving=True, open=True)
    trace = b.open()
    document = to_json(trace, found(trace))
    first = document["run"]["ends"][0]
    assert (first["ranks"], first["how"], first["file"], first["line"]) == ([1], "exception", "exc.py", 4)
    assert [end.how for end in find_ends(trace)] == [How.CUT_OFF, How.EXCEPTION, How.CUT_OFF]


def test_the_misused_epoch_inside_which_mpi_ended_a_rank_is_told_and_the_end_with_it() -> None:
    b = Builder(ranks=2, ended="crashed")
    win = b.window()[0]
    b.ranks[0].open.call("MPI_Win_unlock", rank=1, win=win, site=("a.c", 5, "main"))
    b.ranks[0].state = State.EXITED
    [one] = found(b.open())
    assert one.kind == "epoch-misuse"
    assert one.message == "rank 0 unlocks rank 1, which it has not locked, in win_unlock(rank=1) at a.c:5"
    assert any("[abort]" in text for text in one.facts()["consequences"])


def test_an_epoch_that_an_exception_leaves_open_follows_from_it() -> None:
    b = Builder(ranks=1, ended="finished")
    win = b.window()[0]
    b.ranks[0].call("MPI_Win_lock_all", win=win)
    raises(b.ranks[0])
    b.ranks[0].finalize()
    assert [one.kind for one in found(b.open())] == ["uncaught-exception"]
    twin = Builder(ranks=1, ended="finished")
    win = twin.window()[0]
    twin.ranks[0].call("MPI_Win_lock_all", win=win)
    twin.ranks[0].finalize()
    assert "epoch-misuse" in [one.kind for one in found(twin.open())]


def test_a_mismatch_of_two_ranks_is_told_beside_the_exception_that_it_becomes_in_one() -> None:
    b = Builder(ranks=2, ended="finished")
    for rank, count in zip(b.ranks, (4, 2), strict=True):
        rank.bcast(0, count=count, error=15 * (count == 2), site=("exc.py", 4, "work"))
    raises(b.ranks[1], name="mpi4py.MPI.Exception", text="MPI_ERR_TRUNCATE")
    for rank in b.ranks:
        rank.finalize()
    assert sorted(one.kind for one in found(b.open())) == ["argument-mismatch", "uncaught-exception"]


def in_the_deadlock(ended: str) -> Builder:
    b = Builder(ranks=3, ended=ended)
    b.ranks[0].open.recv(1, tag=5, site=("a.c", 5, "main"))
    waits(b, 1, 2)
    b.ranks[1].state = State.EXITED
    b.ranks[2].add_ending(EndingKind.EXIT, code=1, name="exit", native=[])
    b.ranks[2].state = State.EXITED
    return b


def test_whom_mpi_ends_as_weft_ends_the_others_of_a_proven_deadlock_has_no_error_of_its_own() -> None:
    trace = in_the_deadlock("deadlock").open()
    [one] = found(trace)
    assert (one.kind, one.certainty) == ("deadlock", "certain")
    assert [end.how for end in find_ends(trace)] == [How.CUT_OFF] * 3
    twin = in_the_deadlock("crashed").open()
    assert {one.kind for one in found(twin)} == {"invalid-argument"}  # MPI refused something, so it seems
    assert [end.how for end in find_ends(twin)] == [How.CUT_OFF, How.ERROR, How.ERROR]


def test_whom_mpi_ends_in_a_call_that_would_have_returned_has_one() -> None:
    b = Builder(ranks=3, ended="deadlock")
    b.ranks[2].send(1, tag=5)
    b.ranks[1].open.recv(2, tag=5, site=("a.c", 5, "main"))
    b.ranks[1].state = State.EXITED
    waits(b, 0, 2)
    trace = b.open()
    assert "abort" in {one.kind for one in found(trace)}
    assert [end.how for end in find_ends(trace)] == [How.CUT_OFF, How.ERROR, How.CUT_OFF]


def test_ranks_that_ended_inside_the_initialisation_are_named_with_and_without_a_record() -> None:
    b = Builder(ranks=3, ended="crashed")
    b.ranks[0].init(open=True, site=("a.c", 3, "main"))
    b.ranks[1].define(Def.CWD, encode_string("/"))
    b.ranks[2].leave_no_record()
    for rank in b.ranks[:2]:
        rank.state = State.STARTING
    assert describe_ends(b.open()) == [
        "rank 1 ended inside MPI's initialisation, or before it",
        "rank 0 ended in init at a.c:3",
        "rank 2 left no record",
    ]
