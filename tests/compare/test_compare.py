"""Two runs, made by the builder: where they differ first, what follows, and where time went."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.compare import Comparison, compare, find_slower_places
from weft.compare.report import render_comparison, to_json
from weft.match import match_operations
from weft.order import order_events
from weft.trace.builder import ANY, Builder
from weft.trace.layout import ANY_TAG
from weft.trace.tails import Status

Program = Callable[[Builder], None]


def compared(reference: Program, run: Program, ranks: tuple[int, int] = (3, 3), *, polls: bool = False) -> Comparison:
    made = []
    for program, count in zip((reference, run), ranks, strict=True):
        b = Builder(ranks=count)
        program(b)
        made.append(match_operations(b.open()))
    return compare(made[0], made[1], order_events(made[1].trace, made[1]), with_polls=polls)


def text(comparison: Comparison) -> str:
    return "\n".join(render_comparison(comparison, find_slower_places(comparison), ([], [])))


def ring(b: Builder, steps: int = 20, wrong: int = -1, count: int = 8) -> None:
    """Each rank sends to the next one; in step `wrong` rank 1 sends `count` elements."""
    size = len(b.ranks)
    for step in range(steps):
        for k, r in enumerate(b.ranks):
            r.send((k + 1) % size, tag=step, count=count if step == wrong and k == 1 else 8, site=("r.c", 5, "main"))
        for k, r in enumerate(b.ranks):
            r.recv((k - 1) % size, tag=step, count=8, site=("r.c", 6, "main"))
        for r in b.ranks:
            r.allreduce(count=1, site=("r.c", 7, "main"))


def test_a_run_is_alike_with_itself() -> None:
    found = compared(ring, ring)
    assert found.alike
    assert found.compared == 20 * 3 * 3
    assert text(found).startswith("all 180 calls are alike, and every receive takes the same message")


def test_the_first_other_call_is_named_and_what_of_it_differs() -> None:
    found = compared(ring, lambda b: ring(b, wrong=7, count=9))
    [first] = found.first
    assert (first.kind, first.rank, first.alike) == ("call", 1, 7 * 3)
    assert found.compared == 20 * 3 * 3 - 1, "the calls behind it are alike again"
    assert "rank 1, after 21 equal calls\n" in text(found)
    assert "send(dest=2, tag=7) at r.c:5: count 9, in the reference 8" in text(found)


def test_calls_that_one_run_makes_more_are_counted_and_the_rest_is_alike() -> None:
    def more(b: Builder) -> None:
        ring(b, 10)
        b.ranks[2].allreduce(comm="MPI_COMM_SELF")
        b.ranks[2].allreduce(comm="MPI_COMM_SELF")
        ring(b, 10)

    def plain(b: Builder) -> None:
        ring(b, 10)
        ring(b, 10)

    for one, two, missing, added in ((plain, more, 0, 2), (more, plain, 2, 0)):
        found = compared(one, two)
        assert [d.rank for d in found.first] == [2]
        assert (found.missing[2], found.added[2]) == (missing, added)
        assert found.compared == 180


def test_a_run_that_ends_earlier_follows_from_nothing_and_says_how_it_ended() -> None:
    found = compared(ring, lambda b: ring(b, 15))
    assert {d.kind for d in found.first} == {"ends"}
    assert "no further call" in text(found)
    assert {d.kind for d in compared(lambda b: ring(b, 15), ring).first} == {"goes on"}


def pool(first: int, *, then: bool = False) -> Program:
    """Rank 0 takes a message of any source, then that of the other; then it sends on to who came first."""

    def program(b: Builder) -> None:
        r0 = b.ranks[0]
        for r in b.ranks[1:]:
            r.send(0, tag=1, site=("p.c", 3, "main"))
        r0.recv(ANY, got=first, tag=1, site=("p.c", 8, "main"))
        r0.recv(ANY, got=3 - first, tag=1, site=("p.c", 8, "main"))
        if then:
            r0.send(first, tag=2, site=("p.c", 9, "main"))
            b.ranks[first].recv(0, tag=2, site=("p.c", 4, "main"))

    return program


def test_a_receive_that_takes_another_message_is_the_first_difference_and_what_comes_of_it_follows() -> None:
    found = compared(pool(1, then=True), pool(2, then=True))
    [first] = found.first
    assert (first.kind, first.rank, first.alike) == ("message", 0, 0)
    assert sorted(d.rank for d in found.following) == [1, 2]
    said = text(found)
    assert "reference  event 0, recv(source=ANY_SOURCE, tag=1) at p.c:8, which takes the message of rank 1" in said
    assert "run        event 0, recv(source=ANY_SOURCE, tag=1) at p.c:8, which takes the message of rank 2" in said
    assert "later, and perhaps because of it: rank" in said


def test_a_message_that_does_not_come_follows_from_the_send_that_went_elsewhere() -> None:
    def program(to: int) -> Program:
        def made(b: Builder) -> None:
            r0, r1, r2 = b.ranks
            r0.send(to, tag=4)
            (r1 if to == 1 else r1.open).recv(0, tag=4)
            r2.barrier("MPI_COMM_SELF")

        return made

    found = compared(program(1), program(2))
    assert [(d.kind, d.rank) for d in found.first] == [("call", 0)]
    assert [d.rank for d in found.following] == [1]


def test_ranks_that_differ_alike_are_told_together() -> None:
    def program(op: str) -> Program:
        def made(b: Builder) -> None:
            for r in b.ranks:
                r.allreduce(op=op, site=("s.c", 2, "main"))

        return made

    said = text(compared(program("MPI_MAX"), program("MPI_MIN")))
    assert said.count("first difference") == 1
    assert "ranks 0-2, after 0 equal calls" in said
    assert "op MPI_MIN, in the reference MPI_MAX" in said
    assert "independently" not in said


def test_polls_that_fail_more_often_are_no_difference() -> None:
    def program(polls: int) -> Program:
        def made(b: Builder) -> None:
            r0, r1, _ = b.ranks
            r0.send(1, tag=1)
            q = r1.irecv(0, tag=1)
            if polls:
                r1.call("MPI_Test", request=q, flag=False, polls=polls)
            r1.wait(q)

        return made

    assert compared(program(0), program(3)).alike


def test_runs_of_other_numbers_of_ranks_are_compared_as_far_as_both_go() -> None:
    found = compared(ring, ring, (3, 2))
    assert "the reference has 3 ranks and the run 2: ranks 0 and 1 are compared" in text(found)
    assert {d.rank for d in found.first} <= {0, 1}


def test_runs_of_different_programs_are_called_so() -> None:
    found = compared(pool(1), ring)
    assert "no call is the same in both: these are runs of different programs" in text(found)


def test_where_the_run_took_longer_is_told_by_line() -> None:
    def program(more: int) -> Program:
        def made(b: Builder) -> None:
            for r in b.ranks:
                at = 1_000_000
                for step in range(4):
                    r.allreduce(site=("t.c", 5, "main"), enter=at, exit=at + 1_000)
                    at += 1_000_000 + (more if step == 1 and r.index == 2 else 0)
                r.barrier(site=("t.c", 9, "main"), enter=at, exit=at + 1_000)

        return made

    found = compared(program(0), program(5_000_000))
    [place] = find_slower_places(found)
    assert (place.rank, place.of_mpi) == (2, False)
    assert place.more == pytest.approx(5_000_000, rel=0.01)
    assert place.place == "computing between calls at t.c:5"
    assert not find_slower_places(compared(program(0), program(0)))


def test_json_says_the_same() -> None:
    found = compared(pool(1, then=True), pool(2, then=True))
    told = to_json(found, find_slower_places(found), ([], []))
    assert told["schema"] == "weft-compare/1"
    assert not told["alike"]
    [first] = told["first"]
    assert (first["kind"], first["rank"], first["run"]["event"], first["run"]["line"]) == ("message", 0, 0, 8)


def test_a_communicator_is_the_same_in_both_runs_however_many_other_ranks_made() -> None:
    def program(others: int) -> Program:
        def made(b: Builder) -> None:
            for _ in range(others):
                b.comm("MPI_Comm_split", [0])
            pair = b.comm("MPI_Comm_split", [1, 2])
            for r in b.ranks[1:]:
                r.barrier(comm=pair, site=("a.c", 7, "main"))

        return made

    found = compared(program(1), program(3))
    assert {d.rank for d in found.first} <= {0}
    assert compared(program(2), program(2)).alike


def test_receives_that_read_alike_are_told_with_the_messages_that_they_take() -> None:
    def program(first: int) -> Program:
        def made(b: Builder) -> None:
            r0, *others = b.ranks
            for r in others:
                r.send(0, tag=r.index, site=("a.c", 3, "main"))
            asked = [r0.recv_init(ANY, tag=ANY_TAG) for _ in range(2)]
            for request, source in zip(asked, (1, first), strict=True):
                request.status = Status(source, source, 4)
            r0.startall(asked, site=("a.c", 5, "main"))
            r0.waitall(asked)

        return made

    lines = text(compared(program(2), program(1))).splitlines()
    reference, run = (line.split(maxsplit=1)[1] for line in lines if line.startswith("    r"))
    assert reference != run


@pytest.mark.parametrize("name", ["MPI_Testsome", "MPI_Waitsome"])
def test_how_completions_are_grouped_is_no_difference_unless_asked_for(name: str) -> None:
    def program(apart: bool) -> Program:
        def made(b: Builder) -> None:
            r0, r1, _ = b.ranks
            for tag in (1, 2):
                r0.send(1, tag=tag)
            asked = [r1.irecv(0, tag=tag) for tag in (1, 2)]
            some = r1.testsome if name == "MPI_Testsome" else r1.waitsome
            for indices in [[0], [1]] if apart else [[0, 1]]:
                some(asked, indices)
            r1.barrier(comm="MPI_COMM_SELF")

        return made

    assert compared(program(False), program(True)).alike
    assert not compared(program(False), program(True), polls=True).alike


def test_what_a_program_does_with_a_poll_is_a_difference_and_a_poll_that_never_returns() -> None:
    def program(ending: str) -> Program:
        def made(b: Builder) -> None:
            r0, r1, _ = b.ranks
            r0.send(1, tag=1)
            q = r1.irecv(0, tag=1)
            if ending == "hangs":
                r1.open.waitsome([q], [])
                return
            r1.test(q)
            if ending == "sends":
                r1.send(2, tag=9, site=("a.c", 9, "main"))

        return made

    assert "send(dest=2, tag=9) at a.c:9" in text(compared(program("ends"), program("sends")))
    assert "waitsome" in text(compared(program("ends"), program("hangs")))
