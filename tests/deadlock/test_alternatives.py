"""Potential deadlocks behind another match of a wildcard, in built traces, and what must stay silent."""

from __future__ import annotations

import pytest

from weft.deadlock import wildcard_alternatives
from weft.deadlock.wildcard_alternatives import find
from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.trace.builder import ANY, Builder
from weft.trace.layout import ANY_TAG


def found(b: Builder) -> list[Finding]:
    trace = b.open()
    m = match_operations(trace)
    return find(trace, m, order_events(trace, m))


def at(line: int) -> tuple[str, int, str]:
    return ("pool.py", line, "main")


def two_senders(ranks: int = 3) -> Builder:
    b = Builder(ranks=ranks)
    for r in b.ranks[1:]:
        r.send(0, site=at(10 * r.index))
    return b


def test_a_named_receive_whose_message_the_wildcard_could_take_would_hang() -> None:
    b = two_senders()
    b.ranks[0].recv(ANY, got=2, site=at(1))
    b.ranks[0].recv(1, site=at(2))
    [finding] = found(b)
    assert (finding.kind, finding.severity, finding.certainty) == ("potential-deadlock", "warning", "possible")
    assert [site.line for site in finding.sites] == [1, 2, 10, 20]
    assert finding.message == (
        "rank 0 receives from any source at pool.py:1 and took the message of rank 2 (sent at pool.py:20); had it "
        "taken the one of rank 1 (sent at pool.py:10), which could have come first, it would wait for ever for "
        "recv(source=1, tag=0) at pool.py:2"
    )


def test_a_second_wildcard_takes_what_the_first_left() -> None:
    b = two_senders()
    b.ranks[0].recv(ANY, got=2)
    b.ranks[0].recv(ANY, got=1)
    assert found(b) == []


def test_a_second_message_of_the_same_sender_serves_the_named_receive() -> None:
    def build(second: bool) -> Builder:
        b = two_senders()
        if second:
            b.ranks[1].send(0)
        b.ranks[0].recv(ANY, got=2)
        b.ranks[0].recv(1)
        return b

    assert found(build(True)) == []
    assert len(found(build(False))) == 1


def test_a_named_receive_first_cannot_be_robbed() -> None:
    b = two_senders()
    b.ranks[0].recv(1)
    b.ranks[0].recv(ANY, got=2)
    assert found(b) == []


def test_a_tag_can_hang_like_a_source() -> None:
    def build(second: int) -> Builder:
        b = Builder(ranks=3)
        b.ranks[1].send(0, 7)
        b.ranks[2].send(0, 5)
        b.ranks[0].recv(ANY, ANY_TAG, got=2, got_tag=5)
        b.ranks[0].recv(ANY, second, got=1, got_tag=7)
        return b

    assert len(found(build(7))) == 1
    assert found(build(ANY_TAG)) == []


def test_the_shift_goes_on_to_the_last_receive_of_the_sender() -> None:
    b = two_senders()
    b.ranks[1].send(0)
    r0 = b.ranks[0]
    r0.recv(ANY, got=2, site=at(1))
    r0.recv(1, site=at(2))
    r0.recv(1, site=at(3))
    [finding] = found(b)
    assert [site.line for site in finding.sites[:2]] == [1, 3]


def test_a_message_that_is_sent_only_for_an_answer_comes_too_late() -> None:
    """Rank 1's second message waits for the answer that rank 0 gives behind its named receive."""

    def build(asks: bool) -> Builder:
        b = two_senders()
        r0, r1, _ = b.ranks
        if asks:
            r1.recv(0, 9)
        r1.send(0)
        r0.recv(ANY, got=2, site=at(1))
        r0.recv(1, site=at(2))
        if asks:
            r0.send(1, 9)
        r0.recv(1, site=at(3))
        return b

    assert [f.sites[1].line for f in found(build(True))] == [2]
    assert [f.sites[1].line for f in found(build(False))] == [3]


def test_a_header_and_its_body_named_by_the_header_are_silent() -> None:
    for send in ("send", "ssend"):
        b = Builder(ranks=3)
        for r in b.ranks[1:]:
            getattr(r, send)(0, 1)
            getattr(r, send)(0, 2)
        for source in (2, 1):
            b.ranks[0].recv(ANY, 1, got=source)
            b.ranks[0].recv(source, 2)
        assert found(b) == []


def test_a_header_and_body_of_one_tag_are_silent() -> None:
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        r.send(0, 1)
        r.send(0, 1)
    for source in (2, 1):
        b.ranks[0].recv(ANY, 1, got=source)
        b.ranks[0].recv(source, 1)
    assert found(b) == []


def test_a_probe_and_the_receive_that_it_names_are_silent() -> None:
    b = two_senders()
    for source in (2, 1):
        b.ranks[0].probe(ANY, got=source)
        b.ranks[0].recv(source)
    assert found(b) == []


def test_a_pool_with_synchronous_workers_is_silent() -> None:
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        for _ in range(3):
            r.ssend(0, 1)
            r.recv(0, 2)
    for source in (1, 2, 2, 1, 1, 2):
        b.ranks[0].recv(ANY, 1, got=source)
        b.ranks[0].send(source, 2)
    assert found(b) == []


@pytest.mark.parametrize("answers", [False, True])
def test_a_thread_that_answers_whom_it_got_also_serves_its_own_rank(answers: bool) -> None:
    """A counter in a thread of rank 0, of which its main thread asks too."""
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r1.ssend(0, site=at(1), enter=100, exit=210)
    r0.ssend(0, site=at(2), enter=110, exit=410)
    r0.recv(ANY, got=1, site=at(3), enter=200, exit=210, thread=1)
    if answers:
        r0.ssend(1, tag=5, site=at(4), enter=300, exit=310, thread=1)
        r1.recv(0, tag=5, site=at(5), enter=300, exit=310)
    r0.recv(ANY if answers else 0, got=0, site=at(6), enter=400, exit=410, thread=1)
    if answers:
        r0.ssend(0, tag=5, site=at(4), enter=500, exit=510, thread=1)
        r0.recv(0, tag=5, site=at(7), enter=500, exit=510)
    assert len(found(b)) == (not answers)


def test_nonblocking_receives_hang_in_their_wait() -> None:
    def build(named: bool) -> Builder:
        b = two_senders()
        r0 = b.ranks[0]
        first = r0.irecv(ANY, got=2, site=at(1))
        second = r0.irecv(1, site=at(2)) if named else r0.irecv(ANY, got=1, site=at(2))
        r0.waitall([first, second], site=at(3))
        return b

    [finding] = found(build(True))
    assert "recv(source=1, tag=0) at pool.py:2, in waitall at pool.py:3" in finding.message
    assert found(build(False)) == []


def test_the_others_that_would_hang_with_it_are_counted() -> None:
    b = two_senders()
    b.ranks[0].recv(ANY, got=2)
    b.ranks[0].recv(1)
    for r in b.ranks:
        r.barrier()
    [finding] = found(b)
    assert finding.facts()["stuck"] == 3
    assert finding.message.endswith("and 2 more ranks with it")


def test_a_receive_that_depends_on_the_order_is_not_robbed() -> None:
    """Rank 1 sends only when rank 0 has decided."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r2.send(0)
    r0.recv(ANY, got=2)
    r0.send(1, 9)
    r1.recv(0, 9)
    r1.send(0)
    r0.recv(1)
    assert found(b) == []


def test_what_was_not_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(hangs: bool) -> Builder:
        b = Builder(ranks=3)
        for _ in range(3):
            for r in b.ranks[1:]:
                r.send(0)
        for k in range(3):
            b.ranks[0].recv(ANY, got=2, site=at(10 * k))
        for k in range(3):
            b.ranks[0].recv(1, site=at(10 * k + 1))
        return b

    assert all("untried" not in f.facts() for f in found(build(True)))
    monkeypatch.setattr(wildcard_alternatives, "BUDGET", 1)
    monkeypatch.setattr(wildcard_alternatives, "MIN_TRIED", 1)
    told = found(build(True))
    assert len(told) == 1 and told[0].facts()["untried"] > 0


def test_a_thousand_rounds_of_one_cause_are_one_finding() -> None:
    b = Builder(ranks=3)
    for _ in range(1000):
        for r in b.ranks[1:]:
            r.send(0, 1)
        b.ranks[0].recv(ANY, 1, got=2, site=at(1))
        b.ranks[0].recv(1, 1, site=at(2))
        for r in b.ranks:
            r.barrier()
    assert len(found(b)) == 1
