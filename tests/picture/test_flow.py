"""A finding as a picture: who sent what to whom, who waits where, and what never comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.deadlock import find
from weft.findings import Finding, Site
from weft.picture.finding_diagram import MAX_LINES, draw_finding, draw_findings
from weft.picture.sequence_diagram import Stroke, StrokeRow, draw_diagram
from weft.report import analyse
from weft.trace import Trace
from weft.trace.builder import ANY, Builder


def picture(b: Builder) -> list[str]:
    """The picture of the one deadlock of a run."""
    trace = b.open()
    [finding] = find(trace)
    return draw_finding(trace, finding)


def heat() -> Builder:
    """README's program: what comes from the left was sent with the other tag."""
    b = Builder(ranks=3, ended="deadlock")
    r0, r1, r2 = b.ranks
    r1.send(0, tag=1, site=("heat.py", 20, "exchange"))
    r0.recv(1, tag=1, site=("heat.py", 22, "exchange"))
    r0.send(1, tag=2, site=("heat.py", 23, "exchange"))
    r0.open.recv(1, tag=1, site=("heat.py", 22, "exchange"))
    r2.send(1, tag=1, site=("heat.py", 20, "exchange"))
    r1.recv(2, tag=1, site=("heat.py", 22, "exchange"))
    r1.send(2, tag=2, site=("heat.py", 23, "exchange"))
    r1.open.recv(0, tag=1, site=("heat.py", 25, "exchange"))
    r2.open.recv(1, tag=1, site=("heat.py", 25, "exchange"))
    return b


def test_messages_of_one_line_share_a_row_and_crosses_stand_where_nothing_comes() -> None:
    assert picture(heat()) == [
        "   rank 0        rank 1        rank 2",
        "     │             │             │",
        "     │◀───tag 1────│◀───tag 1────│    heat.py:20  send, received at heat.py:22",
        "     │────tag 2───▷│────tag 2───▷│    heat.py:23  send, never received",
        "     ✗╌╌╌╌tag 1╌╌╌╌│             │    heat.py:22  waits in recv(source=1, tag=1)",
        "     ┆╌╌╌╌tag 1╌╌╌╌✗╌╌╌╌tag 1╌╌╌╌✗    heat.py:25  wait in recv(tag=1)",
    ]


def test_in_ascii_it_is_the_same_picture() -> None:
    trace = heat().open()
    [finding] = find(trace)
    plain = draw_finding(trace, finding, plain=True)
    assert all(line.isascii() for line in plain)
    assert plain[2:4] == [
        "     |<---tag 1----|<---tag 1----|    heat.py:20  send, received at heat.py:22",
        "     |----tag 2---x|----tag 2---x|    heat.py:23  send, never received",
    ]
    assert plain[4].startswith("     X....tag 1....|             |    ")


def test_the_rows_are_in_an_order_that_every_rank_saw_whenever_it_happened() -> None:
    b = Builder(ranks=2, ended="deadlock")
    r0, r1 = b.ranks
    # The answer's clock is wrong: by time it would stand first.
    r0.send(1, tag=1, site=("a.c", 1, "main"), enter=9000, exit=9100)
    r1.recv(0, tag=1, site=("a.c", 2, "main"), enter=100, exit=200)
    r1.send(0, tag=2, site=("a.c", 3, "main"), enter=300, exit=400)
    r0.recv(1, tag=2, site=("a.c", 4, "main"), enter=9200, exit=9300)
    r0.open.recv(1, tag=5, site=("a.c", 5, "main"), enter=9400)
    r1.open.recv(0, tag=5, site=("a.c", 6, "main"), enter=500)
    assert [line[24:].split()[0] for line in picture(b)[2:]] == ["a.c:1", "a.c:3", "a.c:5", "a.c:6"]


def test_a_collective_joins_those_who_came_and_leaves_out_the_one_who_did_not() -> None:
    b = Builder(ranks=3, ended="deadlock")
    r0, r1, r2 = b.ranks
    r0.open.bcast(0, site=("a.c", 1, "main"))
    r1.open.reduce(0, site=("a.c", 5, "main"))
    r2.open.bcast(0, site=("a.c", 1, "main"))
    assert picture(b)[2:] == [
        "     ✗════════════ │ ═══bcast════✗    a.c:1  wait in bcast(root=0) for rank 1",
        "     ┆             ✗             ┆    a.c:5  waits in reduce(root=0) for ranks 0 and 2",
    ]


def test_of_many_ranks_those_of_the_finding_are_drawn_and_the_others_counted() -> None:
    b = Builder(ranks=64, ended="deadlock")
    for r in b.ranks:
        if r.index == 17:
            r.open.recv(ANY, tag=9, site=("ring.c", 8, "main"))
        else:
            r.open.barrier(site=("ring.c", 9, "main"))
    made = picture(b)
    assert made[0].split("    ")[-1] == "and 58 others"
    assert "rank 17" in made[0]
    assert made[2].endswith("✗    ring.c:8  waits in recv(source=ANY_SOURCE, tag=9)")
    assert made[3].endswith("ring.c:9  wait in barrier for rank 17")
    assert made[3].count("✗") == 5


@pytest.mark.cases(1)
@pytest.mark.parametrize("n", [2, 3, 6, 40, 1000])
def test_a_cycle_of_sends_of_any_length_is_drawn(n: int) -> None:
    b = Builder(ranks=n, ended="deadlock")
    for r in b.ranks:
        r.open.send((r.index + 1) % n, tag=1, count=10**6, site=("c.c", 3, "main"))
    made = picture(b)
    assert len(made) <= MAX_LINES
    assert sum("▷✗" in line for line in made) == 1
    assert made[2].count("✗") == min(n, 6)


def test_a_wait_for_requests_names_what_began_them_and_who_has_ended() -> None:
    b = Builder(ranks=3, ended="deadlock")
    r0, r1, r2 = b.ranks
    requests = [r0.irecv(1, tag=1, site=("a.c", 1, "main")), r0.irecv(2, tag=2, site=("a.c", 2, "main"))]
    r2.send(0, tag=2, site=("a.c", 9, "main"))
    r1.send(0, tag=3, site=("a.c", 10, "main"))
    r1.finalize()
    r2.finalize()
    r0.open.waitall(requests, site=("a.c", 4, "main"))
    assert picture(b) == [
        "   rank 0        rank 1",
        "     │             │",
        "     │◁───tag 3────│    a.c:10  send, never received",
        "     │             ■    rank 1: finished",
        "     ✗╌╌╌╌tag 1╌╌╌╌┆    a.c:4  waits in waitall() for irecv(source=1, tag=1) at a.c:1",
    ]


def test_a_race_shows_the_message_taken_and_those_that_could_have_come_first() -> None:
    b = Builder(ranks=4)
    r0, r1, r2, r3 = b.ranks
    for r in (r1, r2, r3):
        r.send(0, tag=7, site=("p.py", 2, "work"))
    for source in (2, 1):
        r0.recv(ANY, got=source, tag=7, site=("p.py", 1, "collect"))
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    [(finding, made)] = draw_findings(trace, analyse(trace), 1)
    assert finding.kind == "message-race"
    assert made == [
        "   rank 0        rank 1        rank 2        rank 3",
        "     │             │             │             │",
        "     │◀───tag 7────┼─────────────│             │    p.py:2  taken by recv(source=ANY_SOURCE, tag=7) at p.py:1",
        "     │◀───tag 7────│             │             │    p.py:2  could have come first",
        "     │◁───tag 7────┼─────────────┼─────────────│    p.py:2  could have come first, never received",
    ]


def test_a_thousand_messages_with_tags_of_their_own_fit_in_the_picture() -> None:
    b = Builder(ranks=2, ended="deadlock")
    r0, r1 = b.ranks
    for tag in range(1000):
        r0.send(1, tag=tag, site=("a.c", 1 + tag % 40, "main"))
    for tag in range(0, 1000, 2):
        r1.recv(0, tag=tag, site=("a.c", 50, "main"))
    r0.open.recv(1, tag=1, site=("a.c", 60, "main"))
    r1.open.recv(0, tag=5000, site=("a.c", 61, "main"))
    made = picture(b)
    assert len(made) <= MAX_LINES
    # What nobody received comes before what arrived.
    assert any("never received" in line for line in made)


def silent() -> Trace:
    b = Builder(ranks=2)
    b.ranks[0].send(1, tag=4)
    for r in b.ranks:
        r.finalize()
    return b.open()


def test_findings_of_other_kinds_have_no_picture() -> None:
    trace = silent()
    found = analyse(trace)
    assert found and draw_findings(trace, found, 5) == []


def test_a_finding_that_names_no_call_of_the_run_has_no_picture() -> None:
    assert (
        draw_finding(silent(), Finding("deadlock", "error", "certain", "it hangs", sites=(Site(0, "MPI_Recv"),))) == []
    )


def test_nothing_of_the_record_steers_the_terminal() -> None:
    b = Builder(ranks=2, ended="deadlock")
    for r in b.ranks:
        r.open.recv(1 - r.index, tag=1, site=("\x1b[31m\n.py", 3, "\x07"))
    assert all(line.isprintable() for line in picture(b))


CASES: list[tuple[Callable[[], Stroke], str]] = [
    (lambda: Stroke(0, 2, "taken", "tag 1"), "     │─────────────┼───tag 1───▶│"),
    (lambda: Stroke(2, 0, "lost", "tag 1"), "     │◁───tag 1────┼────────────│"),
    (lambda: Stroke(0, 1, "missing", "tag 123456789"), "     │╌╌123456789╌╌│             │"),
    (lambda: Stroke(0, 1, "missing", "tag 12345678901234"), "     │╌╌╌╌╌╌╌╌╌╌╌╌╌│             │"),
]


@pytest.mark.parametrize(("stroke", "wanted"), CASES)
def test_a_stroke_crosses_what_lies_between_and_carries_its_word(stroke: Callable[[], Stroke], wanted: str) -> None:
    [line] = draw_diagram(["rank 0", "rank 1", "rank 2"], [StrokeRow([stroke()])])[2:]
    assert line.replace("─", "").replace("╌", "") == wanted.replace("─", "").replace("╌", "")
    assert len(line) == 34


def test_no_line_is_longer_than_the_terminal() -> None:
    trace = heat().open()
    [finding] = find(trace)
    assert max(map(len, draw_finding(trace, finding, width=50))) == 50
