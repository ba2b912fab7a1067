"""Which wildcard receives race, and which are silent."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.races import find, name_earlier_races
from weft.trace.builder import ANY, Builder, RankBuilder, Request
from weft.trace.layout import ANY_TAG
from weft.trace.tails import Status

Place = tuple[str, int, str]


def at(line: int) -> Place:
    return ("pool.py", line, "main")


def races(b: Builder) -> list[Finding]:
    trace = b.open()
    m = match_operations(trace)
    found = find(trace, m, order_events(trace, m))
    assert all(f.kind == "message-race" and f.severity == "warning" and f.certainty == "certain" for f in found)
    return found


def shown(found: list[Finding]) -> list[tuple[int, list[int]]]:
    """(line of the receive, lines of the racing sends)."""
    return [(f.sites[0].line, [s.line for s in f.sites[2 : 2 + len(f.facts()["others"])]]) for f in found]


# One receive of rank 0, in all its forms. A form gets the source and tag that the receive asks for and those that it
# got, and may return a request that is waited for at the end.
Pair = tuple[int, int]
Form = Callable[[RankBuilder, Pair, Pair, int], Request | None]


def recv(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.recv(*ask, got=got[0], got_tag=got[1], site=at(line))


def irecv(r: RankBuilder, ask: Pair, got: Pair, line: int) -> Request:
    return r.irecv(*ask, got=got[0], got_tag=got[1], site=at(line))


def irecv_wait(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.wait(irecv(r, ask, got, line))


def sendrecv(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.sendrecv(3, ask[0], sendtag=99, recvtag=ask[1], got=got[0], got_tag=got[1], site=at(line))


def sendrecv_replace(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.call(
        "MPI_Sendrecv_replace", buf=0x1000, count=1, datatype="MPI_INT", dest=3, sendtag=99, source=ask[0],
        recvtag=ask[1], comm="MPI_COMM_WORLD", status=Status(*got, 4), site=at(line),
    )  # fmt: skip


def probe_recv(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.probe(*ask, got=got[0], got_tag=got[1], site=at(line))
    r.recv(*got, site=at(line + 1000))


def mprobe_mrecv(r: RankBuilder, ask: Pair, got: Pair, line: int) -> None:
    r.mrecv(r.mprobe(*ask, got=got[0], got_tag=got[1], site=at(line)))


FORMS: dict[str, Form] = {
    f.__name__: f for f in (recv, irecv, irecv_wait, sendrecv, sendrecv_replace, probe_recv, mprobe_mrecv)
}


def two_receives(
    first: Form, second: Form, asks: list[tuple[int, int]], got: list[tuple[int, int]],
    sends: list[tuple[int, int]] | None = None,
) -> list[Finding]:  # fmt: skip
    """Rank 0 receives twice, at lines 10 and 20, what the ranks of `sends` send it (line 100 + 10 * rank + number)."""
    b = Builder(ranks=4)
    r0 = b.ranks[0]
    for number, (rank, tag) in enumerate(sends or sorted(got)):
        b.ranks[rank].send(0, tag, site=at(100 + 10 * rank + number))
    pending = []
    for form, line, ask, outcome in zip((first, second), (10, 20), asks, got, strict=True):
        request = form(r0, ask, outcome, line)
        if request:
            pending.append(request)
    if pending:
        r0.waitall(pending)
    for _ in range(sum(form in (sendrecv, sendrecv_replace) for form in (first, second))):
        b.ranks[3].recv(0, 99)
    return races(b)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
class TestTheFourClassicCases:
    """A receiver with two receives (Park & Chung 2008, figure 2)."""

    def test_receives_with_different_tags_never_race(self, form: Form) -> None:
        assert two_receives(form, form, [(ANY, 1), (ANY, 2)], [(1, 1), (2, 2)]) == []

    def test_a_named_receive_first_leaves_one_message(self, form: Form) -> None:
        assert two_receives(form, form, [(1, ANY_TAG), (ANY, ANY_TAG)], [(1, 1), (2, 1)]) == []

    def test_two_messages_of_one_sender_never_race(self, form: Form) -> None:
        assert two_receives(form, form, [(ANY, ANY_TAG)] * 2, [(1, 1), (1, 2)]) == []

    def test_two_senders_with_one_tag_race(self, form: Form) -> None:
        found = two_receives(form, form, [(ANY, 1)] * 2, [(1, 1), (2, 1)])
        assert shown(found) == [(10, [121])]
        assert found[0].ranks == (0, 1, 2)


PAPER = {f.__name__: f for f in (recv, sendrecv, sendrecv_replace, irecv)}


@pytest.mark.parametrize("pair", list(itertools.combinations_with_replacement(PAPER, 2)), ids="+".join)
@pytest.mark.parametrize("tag", [1, ANY_TAG], ids=["tag", "any-tag"])
def test_the_twenty_situations_of_the_paper(pair: tuple[str, str], tag: int) -> None:
    found = two_receives(PAPER[pair[0]], PAPER[pair[1]], [(ANY, tag)] * 2, [(2, 1), (1, 1)])
    assert shown(found) == [(10, [110])]


def test_the_message_names_receive_taken_and_other() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0, 7, site=at(31))
    r2.send(0, 7, site=at(31))
    r0.recv(ANY, 7, got=2, site=at(14))
    (finding,) = races(b)
    assert finding.message == (
        "rank 0 receives from any source at pool.py:14 (tag 7) and took the message of rank 2 (sent at pool.py:31); "
        "the message of rank 1 (pool.py:31, never received) could have come first"
    )
    assert finding.events == ((0, 0), (2, 0), (1, 0))
    assert finding.facts()["alternatives"] == 1
    assert finding.to_json()["events"] == [[0, 0], [2, 0], [1, 0]]


def test_a_message_sent_because_of_the_receive_does_not_race() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    r0.recv(ANY, got=1)
    r0.send(2, tag=5)
    r2.recv(0, tag=5)
    r2.send(0)
    r0.recv(ANY, got=2)
    assert races(b) == []


def test_a_message_sent_before_the_completion_races_though_after_the_post() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    q = r0.irecv(ANY, got=1, site=at(10))
    r1.send(0, site=at(20))
    r0.send(2, tag=5)
    r2.recv(0, tag=5)
    r2.send(0, site=at(30))
    r0.wait(q)
    r0.recv(2)
    assert shown(races(b)) == [(10, [30])]


def test_a_later_receive_that_returned_proves_that_the_earlier_was_decided() -> None:
    b = Builder(ranks=4)
    r0, r1, r2, r3 = b.ranks
    first, second = r0.irecv(ANY, got=1, site=at(10)), r0.irecv(ANY, got=2, site=at(11))
    r1.send(0, site=at(20))
    r2.send(0, site=at(30))
    r0.wait(second)
    r0.send(3, tag=5)
    r3.recv(0, tag=5)
    r3.send(0, site=at(40))
    r0.wait(first)
    r0.recv(3)
    assert shown(races(b)) == [(10, [30])]


def test_a_synchronous_send_that_returned_proves_it_too() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    q = r0.irecv(ANY, got=1)
    r1.ssend(0)
    r1.send(2, tag=5)
    r2.recv(1, tag=5)
    r2.send(0)
    r0.wait(q)
    r0.recv(2)
    assert races(b) == []


def test_the_same_with_a_buffered_send_races() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    q = r0.irecv(ANY, got=1, site=at(10))
    r1.bsend(0)
    r1.send(2, tag=5)
    r2.recv(1, tag=5)
    r2.send(0, site=at(30))
    r0.wait(q)
    r0.recv(2)
    assert shown(races(b)) == [(10, [30])]


def test_a_barrier_between_two_rounds_keeps_them_apart() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    r0.recv(ANY, got=1)
    for r in b.ranks:
        r.barrier()
    r2.send(0)
    r0.recv(ANY, got=2)
    assert races(b) == []


def test_a_broadcast_from_another_root_does_not_keep_them_apart() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    r0.recv(ANY, got=1, site=at(10))
    for r in b.ranks:
        r.bcast(root=1)
    r2.send(0, site=at(30))
    r0.recv(ANY, got=2, site=at(11))
    assert shown(races(b)) == [(10, [30])]


def test_another_communicator_never_races() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    twin = b.dup()
    r1.send(0)
    r2.send(0, comm=twin)
    r0.recv(ANY, got=1)
    r0.recv(ANY, got=2, comm=twin)
    assert races(b) == []


def test_a_message_nobody_received_races() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r1.send(0)
    r2.send(0, site=at(30))
    r0.recv(ANY, got=1, site=at(10))
    assert shown(races(b)) == [(10, [30])]


def test_a_message_taken_by_an_earlier_named_receive_does_not_race() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    q = r0.irecv(2)
    r2.send(0)
    r1.send(0)
    r0.recv(ANY, got=1)
    r0.wait(q)
    assert races(b) == []


def test_only_the_first_message_of_each_sender_is_listed_and_uninfluenced_races_come_first() -> None:
    b = Builder(ranks=4)
    r0, r1, r2, r3 = b.ranks
    for rank in (r1, r2, r3):
        rank.send(0, 1, site=at(10 * rank.index))
        rank.send(0, 1, site=at(10 * rank.index + 1))
    for line, got in enumerate((1, 2, 3, 1, 2, 3)):
        r0.recv(ANY, 1, got=got, site=at(100 + line))
    found = races(b)
    assert shown(found) == [(100, [20, 30]), (101, [11, 30]), (102, [11, 21]), (103, [21, 31]), (104, [31])]
    assert [f.facts()["influenced"] for f in found] == [False, True, True, True, True]
    named = [one.message.partition("Whether it occurs ")[2] for one in name_earlier_races(found)]
    assert named == ["", *["depends on the race at pool.py:100: look at that first"] * 4]
    alone = name_earlier_races(found[1:])
    assert not any("Whether it occurs" in one.message for one in alone), "no race of the report is the first one"


def test_a_race_of_the_same_line_is_named_as_such() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    for rank in (r1, r2, r1, r2):
        rank.send(0, 1, site=at(30))
    for got in (1, 2, 1, 2):
        r0.recv(ANY, 1, got=got, site=at(10))
    assert "depends on an earlier race at the same line" in name_earlier_races(races(b))[1].message


def test_many_races_of_one_line_are_cut_and_counted() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    for _ in range(300):
        r1.send(0, site=at(31))
        r2.send(0, site=at(31))
    for k in range(600):
        r0.recv(ANY, got=1 + k % 2, site=at(14))
    found = races(b)
    assert len(found) == 200
    assert found[-1].facts()["more_at_this_line"] == 599 - 200
    assert len({f.cause_key for f in found}) == 1


def test_a_receive_still_open_when_the_run_ended_took_nothing() -> None:
    b = Builder(ranks=3)
    r0, r1, _ = b.ranks
    r1.send(0)
    r0.open.recv(ANY)
    assert races(b) == []


def test_peers_in_another_order_of_ranks_are_translated() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    turned = b.comm("MPI_Comm_split", [2, 1, 0])
    r1.send(2, comm=turned, site=at(1))
    r2.send(2, comm=turned, site=at(2))
    r0.recv(ANY, got=0, comm=turned, site=at(3))
    (finding,) = races(b)
    assert finding.events[1][0] == 2
    assert shown([finding]) == [(3, [1])]
    assert "world.split" in finding.message


def test_a_race_in_a_librarys_own_line_is_a_note_unless_it_harms() -> None:
    """A pool of a package serves as they come by design; no line of the user's stands there."""
    for file, severity in (("/env/lib/python3.11/site-packages/pool/core.py", "note"), ("/home/me/core.py", "warning")):
        b = Builder(ranks=3)
        r0, r1, r2 = b.ranks
        for sender in (r1, r2):
            sender.send(0, tag=1)
        for sender in (1, 2):
            r0.recv(ANY, got=sender, tag=1, site=(file, 7, "serve"))
        trace = b.open()
        matched = match_operations(trace)
        found = find(trace, matched, order_events(trace, matched))
        assert {one.severity for one in found} == {severity}
