"""The order of random runs equals a transitive closure over their events, computed the slow way."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import numpy as np
import pytest

from weft.match import NONE, match_operations
from weft.match.functions import Post
from weft.order import Order
from weft.trace import Trace
from weft.trace.builder import ANY, Builder, Request, standard_functions

NAMES = (
    "MPI_Send MPI_Ssend MPI_Isend MPI_Issend MPI_Recv MPI_Irecv MPI_Wait MPI_Barrier MPI_Bcast MPI_Reduce MPI_Scan"
    " MPI_Exscan MPI_Ibarrier MPI_Probe"
).split()
FUNCTIONS = {
    **standard_functions(),
    "functions": [f for f in standard_functions()["functions"] if f["name"] in NAMES],
}


def random_run(seed: int, threads: int = 1) -> tuple[Trace, list[tuple[tuple[int, int], tuple[int, int]]]]:
    """A run in which the order of the calls below is one in which it could have happened, and its collective edges
    (from the start of one event to the end of another). Each call is made by one of `threads` threads of its rank."""
    rng, threads_rng = random.Random(seed), random.Random(seed)
    n = rng.choice([2, 3, 4, 5])
    b = Builder(ranks=n, functions=FUNCTIONS)
    counts = [0] * n
    later: list[tuple[int, Request]] = []
    edges: list[tuple[tuple[int, int], tuple[int, int]]] = []

    def thread() -> dict[str, int]:
        return {"thread": threads_rng.randrange(threads)}

    def did(rank: int) -> tuple[int, int]:
        counts[rank] += 1
        return rank, counts[rank] - 1

    def collective() -> None:
        kind, root = rng.choice(["barrier", "bcast", "reduce", "scan", "exscan"]), rng.randrange(n)
        parts = [did(r) for r in range(n)]
        for r in b.ranks:
            getattr(r, kind)(**({"root": root} if kind in ("bcast", "reduce") else {}), **thread())
        for i, j in itertools.product(range(n), repeat=2):
            if (
                kind == "barrier"
                or (kind == "bcast" and i == root)
                or (kind == "reduce" and j == root)
                or (kind == "scan" and i <= j)
                or (kind == "exscan" and i < j)
            ):
                edges.append((parts[i], parts[j]))

    for _ in range(rng.randint(1, 12)):
        if rng.random() < 0.15:
            collective()
            continue
        source, dest = rng.sample(range(n), 2)
        tag = rng.randrange(3)
        early = rng.random() < 0.3
        ask = rng.choice([ANY, source])
        if early:
            later.append((dest, b.ranks[dest].irecv(ask, tag, got=source, **thread())))
            did(dest)
        mode = rng.choice(["send", "ssend", "isend", "issend"])
        request = getattr(b.ranks[source], mode)(dest, tag, **thread())
        did(source)
        if isinstance(request, Request):
            later.append((source, request))
        if not early:
            if rng.random() < 0.3:
                b.ranks[dest].probe(ask, tag, got=source, **thread())
                did(dest)
            b.ranks[dest].recv(ask, tag, got=source, **thread())
            did(dest)
        rng.shuffle(later)
        while later and rng.random() < 0.4:
            rank, request = later.pop()
            b.ranks[rank].wait(request, **thread())
            did(rank)
    for rank, request in later:
        # Of a wildcard that nobody waited for, the record does not tell the source.
        if request.status or rng.random() < 0.9:
            b.ranks[rank].wait(request, **thread())
            did(rank)
    return b.open(), edges


def closure(trace: Trace, edges: list[tuple[tuple[int, int], tuple[int, int]]]) -> dict[tuple[int, int], int]:
    """The number of each point, and `reach[i, j]`: Warshall over points and over the decisions of receives."""
    m = match_operations(trace)
    number: dict[tuple[int, int], int] = {}
    for rank in trace.ranks:
        for point in range(1, 2 * len(rank.events) + 1):
            number[rank.index, point] = len(number)
    decisions = {j: len(number) + k for k, j in enumerate(range(len(m.recvs)))}
    size = len(number) + len(decisions)
    reach = np.eye(size, dtype=bool)
    for rank in trace.ranks:
        for point in range(1, 2 * len(rank.events)):
            reach[number[rank.index, point], number[rank.index, point + 1]] = True
    for (r, e), (q, f) in edges:
        reach[number[r, 2 * e + 1], number[q, 2 * f + 2]] = True
    by_rank = defaultdict(list)
    for j, node in decisions.items():
        send, (rank, event) = int(m.recvs.partner[j]), m.recvs.id(j)
        reach[number[rank, 2 * event + 1], node] = True
        if m.recvs.decided[j] != NONE:
            reach[node, number[rank, 2 * int(m.recvs.decided[j]) + 2]] = True
        if send == NONE:
            continue
        q, f = m.sends.id(send)
        reach[number[q, 2 * f + 1], node] = True
        if m.sends.flags[send] & Post.SYNCHRONOUS and m.sends.completion[send] != NONE:
            reach[node, number[q, 2 * int(m.sends.completion[send]) + 2]] = True
        for earlier in by_rank[rank]:
            any_source = m.recvs.flags[earlier] & Post.ANY_SOURCE
            if m.recvs.tag[earlier] == m.recvs.tag[j] and (any_source or m.recvs.peer[earlier] == m.recvs.peer[j]):
                reach[decisions[earlier], node] = True
        by_rank[rank].append(j)
    for k in range(len(m.probes)):
        (rank, event), send = m.probes.id(k), int(m.probes.partner[k])
        reach[number[m.sends.rank_of(send), 2 * int(m.sends.event[send]) + 1], number[rank, 2 * event + 2]] = True
        for j in by_rank[rank]:
            any_source = m.recvs.flags[j] & Post.ANY_SOURCE
            fits = m.recvs.tag[j] == m.probes.tag[k] and (any_source or m.recvs.peer[j] == m.probes.peer[k])
            if fits and m.recvs.event[j] < event:
                reach[decisions[j], number[rank, 2 * event + 2]] = True
    for k in range(size):
        reach |= np.outer(reach[:, k], reach[k])
    assert not (reach & reach.T & ~np.eye(size, dtype=bool)).any(), "the test's run contradicts itself"
    return {(i, j): reach[number[i], number[j]] for i in number for j in number}  # type: ignore[misc,index]


@pytest.mark.cases(1)
@pytest.mark.parametrize("memory", [1 << 30, 1], ids=["all vectors kept", "one vector in many kept"])
def test_before_past_and_future_are_those_of_the_closure(memory: int) -> None:
    for seed in range(60):
        trace, edges = random_run(seed)
        o = Order(trace, match_operations(trace), memory=memory)
        assert o.left_out == 0
        reach = closure(trace, edges)
        points = sorted({i for i, _ in reach})
        for i in points:
            past = o.past_points(*i)
            future = o.future_points(dict([i]))
            for q in range(len(trace.ranks)):
                own = [j for j in points if j[0] == q]
                expected = max((j[1] for j in own if reach[j, i]), default=0)
                assert past[q] == expected, f"seed {seed}: past of {i} on rank {q}"
                earliest = min((j[1] for j in own if reach[i, j]), default=NONE)
                assert future[q] == earliest, f"seed {seed}: future of {i} on rank {q}"


@pytest.mark.cases(1)
@pytest.mark.parametrize("memory", [1 << 30, 1], ids=["all vectors kept", "one vector in many kept"])
def test_calls_of_threads_that_do_not_overlap_are_ordered_as_those_of_one_thread(memory: int) -> None:
    for seed in range(40):
        trace, edges = random_run(seed, threads=3)
        o = Order(trace, match_operations(trace), memory=memory)
        assert o.left_out == 0
        reach = closure(trace, edges)
        processes = {(r, p): o.processes.of(r, (p - 1) // 2) for r, p in {i for i, _ in reach}}
        for (i, j), expected in reach.items():
            known = o.past_points(processes[j], j[1])[processes[i]] >= i[1]
            assert known == expected, f"seed {seed}: {i} before {j}"
        for i, process in processes.items():
            future = o.future_points({process: i[1]})
            for j, other in processes.items():
                assert (future[other] <= j[1]) == reach[i, j], f"seed {seed}: {j} after {i}"
