"""Races of order only: which loops of wildcard receives are told as a note, and which stay warnings."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.races import find
from weft.trace.builder import ANY, Builder
from weft.trace.layout import Def
from weft.trace.varint import encode_unsigned


def races(b: Builder) -> list[Finding]:
    trace = b.open()
    m = match_operations(trace)
    return find(trace, m, order_events(trace, m))


def severities(b: Builder) -> set[str]:
    return {f.severity for f in races(b)}


def at(line: int) -> tuple[str, int, str]:
    return ("pool.py", line, "main")


CAME = (1, 2, 2, 1, 1, 2)


def pool(answer: str = "sender", line: int = 14, initial: bool = False, drain: bool = False) -> Builder:
    """Rank 0 receives six messages at line 14 and answers."""
    b = Builder(ranks=4)
    r0 = b.ranks[0]
    for r in b.ranks[1:3]:
        if initial:
            r0.send(r.index, 2)
            r.recv(0, 2)
        for _ in range(3):
            r.send(0, 1, site=at(31))
            r.recv(0, 2)
    for k, source in enumerate(CAME):
        r0.recv(ANY, 1, got=source, site=at(14 if k < 4 else line))
        if answer == "sender" and not (drain and k >= 4):
            r0.send(source, 2)
        elif answer == "other":
            r0.send(3 - source, 2)
    return b


def test_a_pool_that_answers_whoever_comes_is_a_note() -> None:
    [finding] = races(pool())
    assert (finding.severity, finding.certainty) == ("note", "certain")
    assert finding.message.startswith(
        "order only: rank 0 serves ranks 1 and 2 at pool.py:14 in the order in which their messages arrive, and "
        "answers each. In another run they may arrive in another order ("
    )
    assert finding.facts()["order_only"] is True


@pytest.mark.parametrize("answer", ["nobody", "other"])
def test_a_loop_that_does_not_answer_its_source_stays_a_warning(answer: str) -> None:
    assert severities(pool(answer)) == {"warning"}


def test_messages_that_another_line_takes_keep_the_warning() -> None:
    assert {f.sites[0].line for f in races(pool(line=15)) if f.severity == "warning"} == {14}
    assert severities(pool(line=14)) == {"note"}


def test_the_last_results_of_a_pool_need_no_answer_where_the_worker_had_a_task() -> None:
    assert severities(pool(initial=True, drain=True)) <= {"note"}


def test_tasks_first_and_then_a_plain_sum_is_a_warning() -> None:
    b = Builder(ranks=3)
    r0 = b.ranks[0]
    for r in b.ranks[1:]:
        r0.send(r.index, 2)
        r.recv(0, 2)
        r.send(0, 1)
    for source in (2, 1):
        r0.recv(ANY, 1, got=source, site=at(14))
    assert severities(b) == {"warning"}


def test_a_message_that_nobody_received_keeps_the_warning() -> None:
    b = pool()
    b.ranks[3].send(0, 1)
    assert severities(b) == {"warning"}


def probes(named: bool) -> Builder:
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        r.send(0, 1)
        r.send(0, 1)
    for source in (2, 1, 1, 2):
        b.ranks[0].probe(ANY, 1, got=source, site=at(10))
        b.ranks[0].recv(source if named else ANY, 1, got=source, site=at(11))
    return b


def test_a_probe_and_the_receive_that_names_its_source_is_a_note() -> None:
    assert severities(probes(named=True)) == {"note"}
    assert "warning" in severities(probes(named=False))


def tasks(*, last: int = 12, takes: int = 13, function: str = "main", asked: bool = True) -> Builder:
    """Rank 0 looks at line 10 who has a result while it has tasks, else at line `last`, and receives at one line."""
    b = Builder(ranks=3)
    r0 = b.ranks[0]
    for r in b.ranks[1:]:
        if asked:
            r0.send(r.index, 2)
        for _ in range(3):
            if asked:
                r.recv(0, 2)
            r.send(0, 1, site=at(31))
    for k, source in enumerate(CAME):
        r0.probe(ANY, 1, got=source, site=at(10 if k < 4 else last))
        r0.recv(ANY, 1, got=source, site=("pool.py", 13 if k < 4 else takes, function))
        if asked and k < 4:
            r0.send(source, 2)
    return b


def test_probes_at_several_lines_before_one_receive_are_told_with_it() -> None:
    [note] = races(tasks())
    assert (note.severity, note.sites[0].line) == ("note", 13)


@pytest.mark.parametrize("other", [{"takes": 14}, {"function": "get"}, {"asked": False}])
def test_probes_stay_warnings_where_another_line_or_function_may_take_it_or_nobody_is_answered(
    other: dict[str, int | str | bool],
) -> None:
    lines = {f.sites[0].line for f in races(tasks(**other)) if f.severity == "warning"}  # type: ignore[arg-type]
    assert 10 in lines


def test_a_header_and_its_body_from_the_same_source_is_a_note() -> None:
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        r.send(0, 1)
        r.send(0, 1)
    for source in (2, 1):
        b.ranks[0].recv(ANY, 1, got=source, site=at(10))
        b.ranks[0].recv(source, 1, site=at(11))
    assert severities(b) == {"note"}


@pytest.mark.parametrize("line", [14, 15])
def test_a_line_that_several_callers_reach_is_one_line_of_a_pool(line: int) -> None:
    b = Builder(ranks=3)
    r0 = b.ranks[0]
    for r in b.ranks[1:]:
        for _ in range(3):
            r.send(0, 1, site=at(31))
            r.recv(0, 2)
    code = r0.site(at(14)), r0.site(at(line))
    r0.define(Def.SITE, b"".join(map(encode_unsigned, (90, 0, 0, code[1], 0, 0))))
    for k, source in enumerate(CAME):
        r0.recv(ANY, 1, got=source, site=(code[0], 90)[k % 2])
        r0.send(source, 2)
    assert ("warning" in severities(b)) == (line == 15)


def two(second: int | None, *, count: int = 1, room: int = 1, datatype: str = "MPI_INT") -> Finding:
    """Ranks 1 and 2 each send to rank 0, which receives from any, and then from any again or from rank `second`."""
    b = Builder(ranks=3)
    b.ranks[1].send(0, 1)
    b.ranks[2].send(0, 1, count=count, datatype=datatype)
    b.ranks[0].recv(ANY, 1, got=1, site=at(10))
    if second is None:
        b.ranks[0].recv(ANY, 1, got=2, count=room, datatype=datatype, site=at(11))
    else:
        b.ranks[0].recv(second, 1, site=at(11))
    [finding] = races(b)
    return finding


def test_a_race_whose_receives_exchange_their_messages_comes_to_the_same() -> None:
    finding = two(None)
    assert finding.facts()["outcome"] == "same"
    assert "; then" not in finding.message


def test_a_race_that_leaves_a_receive_without_a_message_says_so() -> None:
    finding = two(2)
    assert finding.facts()["outcome"] == "unmatched-receive"
    assert finding.message.endswith(
        "; then recv(source=2, tag=1) at pool.py:11 cannot take the message of rank 1 instead, and may wait for ever"
    )


def test_a_race_whose_other_message_does_not_fit_says_so() -> None:
    assert two(None, count=8, room=8).facts()["outcome"] == "truncation"
    assert two(None, datatype="MPI_FLOAT").facts()["outcome"] == "type-mismatch"


def test_a_site_that_only_receives_the_rest_by_name_is_not_said_to_answer() -> None:
    [note] = races(probes(named=True))
    assert "then receives the rest from each, naming its rank" in note.message


def test_probes_of_any_source_race_where_nothing_is_received_at_all() -> None:
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        r.send(0, 1, site=at(31))
    for source in (1, 2):
        b.ranks[0].probe(ANY, 1, got=source, site=at(14))
    assert {f.sites[0].line for f in races(b)} == {14}
    b = Builder(ranks=3)
    for r in b.ranks[1:]:
        r.send(0, 1, site=at(31))
    for source in (1, 2):
        b.ranks[0].probe(source, 1, site=at(14))
    assert not races(b)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("beside", [0, 40])
def test_a_receive_of_the_length_that_its_probe_saw_fits_whichever_message_comes(
    *, asks: bool, waits: bool, beside: int
) -> None:
    """Without MPI_Get_count the length is the program's own, and the longer message would not fit. `beside`: calls of
    another thread in between.
    """
    b = Builder(ranks=3)
    r0, *senders = b.ranks
    for sender, count in zip(senders, (1, 8), strict=True):
        sender.send(0, 1, count=count)
        message = r0.mprobe(ANY, 1, got=sender.index, received=4 * count, site=at(10))
        if asks:
            r0.call("MPI_Get_count", status=message.status, datatype="MPI_INT", count=count)
        for _ in range(beside):
            r0.call("MPI_Comm_rank", comm=2, thread=1)
        if waits:
            r0.wait(r0.imrecv(message, count=count, site=at(12)))
        else:
            r0.mrecv(message, count=count, site=at(12))
    [finding] = races(b)
    assert finding.facts()["outcome"] == ("same" if asks else "truncation")
