"""A rank that made fewer rounds of a loop than others is named with both numbers, hung or finished."""

from __future__ import annotations

import pytest

from weft import deadlock
from weft.match import match_operations
from weft.trace.builder import Builder
from weft.usage import messages


def at(line: int) -> tuple[str, int, str]:
    return ("step.py", line, "main")


def hang_of(b: Builder) -> str:
    b.ended = "deadlock"
    [found] = deadlock.find(b.open())
    return found.message


def unmatched_of(b: Builder) -> list[str]:
    for rank in b.ranks:
        rank.finalize()
    trace = b.open()
    return [found.message for found in messages.find(trace, match_operations(trace))]


def exchange(b: Builder, rounds: int, *, peers: tuple[int, int] = (0, 1)) -> None:
    """Ranks 0 and 1 exchange a message in each round, at two lines."""
    for _ in range(rounds):
        for me, other in (peers, peers[::-1]):
            b.ranks[me].send(other, tag=7, site=at(4))
        for me, other in (peers, peers[::-1]):
            b.ranks[me].recv(other, tag=7, site=at(5))


def test_a_rank_that_left_an_exchange_early_has_both_numbers() -> None:
    b = Builder(ranks=2)
    exchange(b, 59)
    b.ranks[0].send(1, tag=7, site=at(4))
    b.ranks[0].open.recv(1, tag=7, site=at(5))
    b.ranks[1].open.barrier(site=at(9))
    assert "; rank 1 made 59 of the 60 rounds of recv at step.py:5: it is in barrier at step.py:9" in hang_of(b)


def test_a_round_with_two_neighbours_is_one_round() -> None:
    b = Builder(ranks=3)
    for _ in range(9):
        exchange(b, 1)
        exchange(b, 1, peers=(1, 2))
    b.ranks[0].open.recv(1, tag=7, site=at(5))
    b.ranks[2].open.recv(1, tag=7, site=at(5))
    b.ranks[1].open.barrier(site=at(9))
    assert "rank 1 made 9 of the 10 rounds of recv at step.py:5" in hang_of(b)


def test_a_rank_that_left_a_collectives_loop_early_has_both_numbers() -> None:
    b = Builder(ranks=3)
    for _ in range(19):
        for rank in b.ranks:
            rank.allreduce(site=at(4))
    for rank in b.ranks[:2]:
        rank.open.allreduce(site=at(4))
    b.ranks[2].open.barrier(site=at(6))
    said = "rank 2 made 19 of the 20 rounds of allreduce at step.py:4 and called barrier at step.py:6 in its place"
    assert said in hang_of(b)


def test_a_producer_that_sent_fewer_has_both_numbers() -> None:
    b = Builder(ranks=2)
    for _ in range(30):
        b.ranks[0].send(1, tag=4, site=at(3))
        b.ranks[1].recv(0, tag=4, site=at(7))
    b.ranks[1].open.recv(0, tag=4, site=at(7))
    b.ranks[0].open.barrier(site=at(9))
    assert "; rank 0 sent 30 of the 31 messages with tag 4, at step.py:3: it is in barrier" in hang_of(b)


def test_ranks_that_never_ran_a_loop_have_no_numbers() -> None:
    b = Builder(ranks=2)
    b.ranks[1].open.recv(0, tag=4, site=at(7))
    b.ranks[0].open.barrier(site=at(9))
    assert "rank 0 never sends tag 4: it is in barrier" in hang_of(b)


def test_a_wrong_tag_goes_before_the_numbers() -> None:
    b = Builder(ranks=2)
    exchange(b, 3)
    b.ranks[0].send(1, tag=8, site=at(4))
    b.ranks[1].open.recv(0, tag=7, site=at(5))
    b.ranks[0].open.barrier(site=at(9))
    assert "(it sent tag 8 at step.py:4, which nobody receives)" in hang_of(b)


@pytest.mark.parametrize(
    ("rounds", "said"),
    [(0, "rank 1 posts no receive for it"), (10, "rank 1 received 10 of the 11 messages with tag 3, at step.py:8")],
)
def test_a_finished_run_says_how_many_messages_of_a_channel_came(rounds: int, said: str) -> None:
    b = Builder(ranks=2)
    for _ in range(rounds):
        b.ranks[0].send(1, tag=3, site=at(3))
        b.ranks[1].recv(0, tag=3, site=at(8))
    b.ranks[0].send(1, tag=3, site=at(3))
    [message] = unmatched_of(b)
    assert message.endswith(said)


def test_a_finished_run_says_how_many_rounds_were_made() -> None:
    b = Builder(ranks=2)
    exchange(b, 10)
    b.ranks[0].send(1, tag=7, site=at(4))
    assert unmatched_of(b)[0].endswith("rank 1 made 10 of the 11 rounds of send at step.py:4")


def test_rounds_that_all_made_are_silent() -> None:
    b = Builder(ranks=2)
    exchange(b, 10)
    assert unmatched_of(b) == []
