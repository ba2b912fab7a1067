"""The kernels match random operations as an obvious, slow definition does."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.match import NONE, match_operations
from weft.match.functions import Post
from weft.match.grouping import group_rows
from weft.native.headers.match import Posts, kernel
from weft.trace.builder import ANY, Builder, standard_functions

RANKS = 4
SMALL = {
    **standard_functions(),
    "functions": [
        f for f in standard_functions()["functions"]
        if f["name"] in ("MPI_Send", "MPI_Isend", "MPI_Recv", "MPI_Irecv", "MPI_Wait", "MPI_Waitall", "MPI_Iprobe")
    ],
}  # fmt: skip

post = st.tuples(st.integers(0, RANKS - 1), st.integers(0, 2), st.integers(-1, RANKS - 1), st.integers(0, 2))
"""(rank, communicator, peer, tag)."""


def columns(posts: list[tuple[int, int, int, int]]) -> Posts:
    posts = sorted(posts, key=lambda p: p[0])
    first = np.searchsorted([p[0] for p in posts], np.arange(RANKS + 1)).astype(np.uint64)
    comm, peer, tag = (np.array([p[i] for p in posts], np.int32) for i in (1, 2, 3))
    events, flags = np.arange(len(posts), dtype=np.uint32), np.zeros(len(posts), np.uint16)
    return Posts(first=first, event=events, comm=comm, peer=peer, tag=tag, flags=flags)


@settings(max_examples=500, deadline=None)
@given(st.lists(post, max_size=40), st.lists(post, max_size=40), st.integers(1, RANKS))
def test_the_kernel_pairs_the_ith_send_with_the_ith_receive(
    sends: list[tuple[int, int, int, int]], recvs: list[tuple[int, int, int, int]], cut: int
) -> None:
    s, r, p = columns(sends), columns(recvs), columns([])
    partner = np.full(len(sends), NONE, np.uint32)
    taken, scratch = np.empty(len(recvs), np.uint32), np.empty(len(sends), np.uint32)
    for low, high in ((0, cut), (cut, RANKS)):
        assert kernel().weft_match_messages(RANKS, low, high, s, r, p, partner, taken, taken, scratch) == 0
    waiting: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for i, (rank, comm, peer, tag) in enumerate(sorted(sends, key=lambda x: x[0])):
        waiting[comm, rank, peer, tag].append(i)
    for j, (rank, comm, peer, tag) in enumerate(sorted(recvs, key=lambda x: x[0])):
        queue = waiting[comm, peer, rank, tag]
        expected = queue.popleft() if peer >= 0 and queue else NONE
        assert taken[j] == expected
        if expected != NONE:
            assert partner[expected] == j
    assert sum(partner != NONE) == sum(taken != NONE)


@given(st.lists(st.integers(0, 9), max_size=60))
def test_grouping_is_a_stable_sort(keys: list[int]) -> None:
    first, rows = group_rows(np.array([NONE if k == 9 else k for k in keys], np.uint32), 9)
    for k in range(9):
        assert rows[int(first[k]) : int(first[k + 1])].tolist() == [i for i, x in enumerate(keys) if x == k]


@pytest.mark.matrix
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_recorded_run_is_matched_as_it_was_played(data: st.DataObject) -> None:
    """A run is played with queues, so that every pairing is known; the record must tell the same."""
    draw = data.draw
    b = Builder(ranks=RANKS, functions=SMALL)
    events = [0] * RANKS
    played: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    open_requests = defaultdict(list)

    def did(rank: int) -> tuple[int, int]:
        events[rank] += 1
        return rank, events[rank] - 1

    for _ in range(draw(st.integers(0, 25))):
        source, dest = draw(st.permutations(range(RANKS)))[:2]
        tag = draw(st.integers(0, 2))
        ask = ANY if draw(st.booleans()) else source
        if draw(st.booleans()):
            open_requests[source].append(b.ranks[source].isend(dest, tag))
        else:
            b.ranks[source].send(dest, tag)
        send = did(source)
        if draw(st.booleans()):
            b.ranks[dest].iprobe(ask, tag, flag=False)
            did(dest)
        if draw(st.booleans()):
            open_requests[dest].append(b.ranks[dest].irecv(ask, tag, got=source))
        else:
            b.ranks[dest].recv(ask, tag, got=source)
        played.add((send, did(dest)))
        for rank in (source, dest):
            if open_requests[rank] and draw(st.booleans()):
                some = draw(st.permutations(open_requests[rank]))
                cut = draw(st.integers(1, len(some)))
                b.ranks[rank].waitall(some[:cut])
                did(rank)
                open_requests[rank] = list(some[cut:])
    for rank, requests in open_requests.items():
        b.ranks[rank].waitall(requests)
    m = match_operations(b.open())
    found = {(m.sends.id(i), m.recvs.id(int(p))) for i, p in enumerate(m.sends.partner) if p != NONE}
    assert found == played
    assert not (m.recvs.flags & Post.UNDECIDED).any()
    assert (m.recvs.completion != NONE).all()
    assert (m.sends.completion != NONE).all()
