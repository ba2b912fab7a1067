"""Ends of runs whose beginning was dropped: what is told is told of the whole run too, and nobody is blamed in vain."""

from __future__ import annotations

import random

import pytest

from order.test_order_against_closure import random_run
from report.cutting import cut, random_cut, told
from weft.match import NONE, match_operations
from weft.report import analyse, run_analyses, to_json
from weft.report.rings import suffix_scope
from weft.trace import Flag
from weft.trace.builder import ANY, Builder

ROUNDS = 40


def kinds(trace: object) -> list[str]:
    return [finding.kind for finding in analyse(trace) if finding.severity != "note"]  # type: ignore[arg-type]


def talk(b: Builder, rounds: int = ROUNDS) -> None:
    """Named messages both ways, and a barrier now and then."""
    for number in range(rounds):
        b.ranks[0].send(1, tag=number % 3)
        b.ranks[1].recv(0, tag=number % 3)
        b.ranks[1].send(0, tag=5)
        b.ranks[0].recv(1, tag=5)


def finish(b: Builder) -> None:
    for rank in b.ranks:
        rank.finalize()


def test_a_right_run_is_silent_wherever_it_is_cut() -> None:
    b = Builder(2)
    talk(b)
    finish(b)
    whole = b.open()
    assert kinds(whole) == []
    for first in range(0, 2 * ROUNDS, 17):
        for second in range(0, 2 * ROUNDS, 13):
            assert kinds(cut(whole.path, {(0, 0): first, (1, 0): second})) == []


def test_a_message_that_was_under_way_is_left_out_and_the_others_keep_their_partners() -> None:
    b = Builder(2)
    for _ in range(3):
        b.ranks[0].send(1, tag=1)
    for _ in range(2):
        b.ranks[1].recv(0, tag=1)
    b.ranks[0].send(1, tag=1)
    for _ in range(2):
        b.ranks[1].recv(0, tag=1)
    finish(b)
    trace = cut(b.open().path, {(0, 0): 3, (1, 0): 1})
    paired = match_operations(trace)
    # One more was sent than received before: the first receive takes what nobody sees, the last the send that is there.
    assert len(paired.sends) == 1
    assert len(paired.recvs) == 1
    assert paired.recvs.partner.tolist() == [0]
    assert kinds(trace) == []


def test_a_message_that_is_never_received_is_told_of_the_end_too() -> None:
    b = Builder(2)
    talk(b)
    b.ranks[0].send(1, tag=77)
    finish(b)
    trace = cut(b.open().path, {(0, 0): ROUNDS, (1, 0): ROUNDS})
    assert kinds(trace) == ["unmatched-send"]


def test_a_request_of_a_dropped_call_is_known_and_one_of_the_end_that_leaks_is_told() -> None:
    b = Builder(2)
    talk(b)
    early = b.ranks[1].irecv(0, tag=9)
    talk(b, 5)
    b.ranks[0].send(1, tag=9)
    b.ranks[1].wait(early)
    talk(b, 5)
    whole = b.open().path
    for dropped in range(2 * ROUNDS, 2 * ROUNDS + 12, 3):
        assert kinds(cut(whole, {(1, 0): dropped, (0, 0): 2 * ROUNDS})) == []


def test_a_wait_for_a_request_of_a_dropped_call_proves_nothing() -> None:
    b = Builder(2, ended="running")
    talk(b)
    early = b.ranks[1].irecv(0, tag=9)
    talk(b, 5)
    b.ranks[1].wait(early, open=True)
    b.ranks[0].recv(1, tag=9, open=True)
    whole = b.open()
    assert "deadlock" in kinds(whole)
    assert kinds(cut(whole.path, {(0, 0): 2 * ROUNDS, (1, 0): 2 * ROUNDS + 4})) == []


def test_a_dropped_receive_that_is_cancelled_later_is_not_counted() -> None:
    b = Builder(2, ended="running")
    talk(b)
    early = b.ranks[1].irecv(0, tag=9)
    talk(b, 5)
    b.ranks[1].cancel(early)
    b.ranks[1].wait(early, flags=Flag.CANCELLED)
    b.ranks[0].send(1, tag=9)
    b.ranks[1].recv(0, tag=9, open=True)
    b.ranks[0].recv(1, tag=9, open=True)
    assert kinds(cut(b.open().path, {(0, 0): 2 * ROUNDS, (1, 0): 2 * ROUNDS + 4})) == []


def test_a_rank_that_finished_before_the_end_is_known_to_have_finished() -> None:
    b = Builder(3, ended="running")
    b.ranks[2].finalize()
    talk(b)
    b.ranks[0].finalize(open=True)
    b.ranks[1].finalize(open=True)
    trace = cut(b.open().path, {(0, 0): ROUNDS, (1, 0): ROUNDS})
    assert len(trace.ranks[2]) == 1
    assert kinds(trace) == []


def test_a_deadlock_is_proven_with_the_dropped_calls_in_the_books() -> None:
    b = Builder(2, ended="deadlock")
    talk(b)
    b.ranks[0].recv(1, tag=99, open=True)
    b.ranks[1].barrier(open=True)
    trace = cut(b.open().path, {(0, 0): ROUNDS, (1, 0): ROUNDS + 3})
    assert kinds(trace) == ["deadlock"]


def test_a_receive_whose_message_was_sent_by_a_dropped_call_is_not_deadlocked() -> None:
    b = Builder(2, ended="running")
    talk(b)
    b.ranks[0].send(1, tag=99)
    talk(b)
    b.ranks[0].barrier(open=True)
    b.ranks[1].recv(0, tag=99, open=True)
    whole = b.open().path
    for dropped in (2 * ROUNDS - 3, 2 * ROUNDS, 2 * ROUNDS + 1, 2 * ROUNDS + 9):
        assert kinds(cut(whole, {(0, 0): dropped, (1, 0): 2 * ROUNDS})) == []


def test_a_barrier_whose_other_part_was_dropped_is_not_waited_for() -> None:
    b = Builder(2, ended="running")
    talk(b)
    b.ranks[1].barrier()
    talk(b)
    b.ranks[0].barrier(open=True)
    b.ranks[1].recv(0, tag=98, open=True)
    assert kinds(cut(b.open().path, {(0, 0): 2 * ROUNDS, (1, 0): 2 * ROUNDS + 20})) == []


def test_dropped_wildcards_leave_their_communicator_unsettled_and_that_is_said() -> None:
    b = Builder(2, ended="deadlock")
    for _ in range(ROUNDS):
        request = b.ranks[1].irecv(ANY, tag=1, got=0)
        b.ranks[0].send(1, tag=1)
        b.ranks[1].wait(request)
    b.ranks[0].recv(1, tag=99, open=True)
    b.ranks[1].recv(0, tag=98, open=True)
    whole = b.open()
    assert kinds(whole) == ["deadlock"]
    trace = cut(whole.path, {(0, 0): ROUNDS // 2, (1, 0): ROUNDS})
    scope = suffix_scope(trace)
    assert scope is not None
    assert not scope.is_ordered
    assert kinds(trace) == []
    notes = to_json(trace, ())["notes"]
    assert any("the dropped calls decide which messages were pending: message races" in note for note in notes)


def test_a_race_within_the_end_is_told() -> None:
    b = Builder(3)
    talk(b)
    for sender in (1, 2):
        b.ranks[sender].send(0, tag=3)
    b.ranks[0].recv(ANY, tag=3, got=1)
    b.ranks[0].recv(ANY, tag=3, got=2)
    finish(b)
    trace = cut(b.open().path, {(0, 0): ROUNDS, (1, 0): ROUNDS})
    assert "message-race" in {finding.kind for finding in analyse(trace)}
    assert trace.ranks[0].trace.suffix is not None


def test_a_whole_run_has_no_lines_of_this_kind() -> None:
    b = Builder(2)
    talk(b, 2)
    finish(b)
    trace = b.open()
    assert trace.suffix is None
    assert suffix_scope(trace) is None
    assert "notes" not in to_json(trace, ())


@pytest.mark.cases(1)
@pytest.mark.parametrize("part", range(3))
def test_what_is_told_of_an_end_is_told_of_the_whole_run(part: int) -> None:
    cuts = 0
    for seed in range(1000 * part, 1000 * part + 12):
        whole, _ = random_run(seed)
        found = told(analyse(whole))
        for number in range(2):
            trace = random_cut(whole.path, random.Random(seed * 10 + number))
            report = run_analyses(trace)
            assert report.failures == ()
            assert told(report.findings) <= found, (seed, number)
            cuts += trace.suffix is not None
            paired = match_operations(trace)
            assert all(p == NONE or p < len(paired.sends) for p in paired.recvs.partner.tolist())
    assert cuts > 15
