"""The fast kernel finds what the slow, obvious definition finds, on random programs at random times."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waits.definition import Definition
from weft.match import match_operations
from weft.trace.builder import Builder, RankBuilder, Request
from weft.waits.causes import Cause
from weft.waits.eager_limits import NEVER
from weft.waits.ledger import ledger_of
from weft.waits.wait_states import Waiting, waits_of_run

SIZES = (8, 1000, 5000, 70_000)

Step = tuple[str, int, int, int, list[int]]

steps = st.lists(
    st.tuples(
        st.sampled_from(["message", "message", "message", "exchange", "collective", "icollective", "settle"]),
        st.integers(0, 5), st.integers(1, 2), st.sampled_from(SIZES),
        st.lists(st.integers(0, 60), min_size=6, max_size=6),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


class Program:
    """A program of three ranks; each call takes its two times from the step's numbers."""

    def __init__(self, wanted: list[Step]) -> None:
        self.b = Builder(ranks=3)
        self.at = [0, 0, 0]
        self.pending: list[list[Request]] = [[], [], []]
        self.numbers: list[int] = []
        for step in wanted:
            self.step(step)
        for rank in self.b.ranks:
            self.settle(rank, 0)

    def times(self, rank: int) -> dict[str, int]:
        self.numbers = self.numbers[1:] + self.numbers[:1]
        enter = self.at[rank] + self.numbers[0] + 1
        self.at[rank] = enter + self.numbers[1]
        return {"enter": enter, "exit": self.at[rank]}

    def step(self, step: Step) -> None:
        kind, how, away, size, self.numbers = step
        ranks = self.b.ranks
        one, two = ranks[how % 3], ranks[(how + away) % 3]
        if kind == "message":
            self.send(one, two, ("send", "isend", "ssend", "issend")[how % 4], size)
            self.receive(two, one, ("recv", "irecv", "probe", "mprobe")[(how + away) % 4], size)
        elif kind == "exchange":
            for a, b in ((one, two), (two, one)):
                a.sendrecv(b.index, b.index, count=size, datatype="MPI_BYTE", recvcount=size, recvtype="MPI_BYTE",
                           got=b.index, **self.times(a.index))  # fmt: skip
        elif kind == "collective":
            for r in ranks:
                name = ("barrier", "allreduce", "bcast", "reduce", "scan", "barrier")[how]
                getattr(r, name)(**({"root": away} if name in {"bcast", "reduce"} else {}), **self.times(r.index))
        elif kind == "icollective":
            for r in ranks:
                start = r.ibarrier if how % 2 else r.iallreduce
                self.pending[r.index].append(start(**self.times(r.index)))
        else:
            self.settle(one, away)

    def send(self, one: RankBuilder, two: RankBuilder, name: str, size: int) -> None:
        made = getattr(one, name)(two.index, count=size, datatype="MPI_BYTE", **self.times(one.index))
        if name in {"isend", "issend"}:
            self.pending[one.index].append(made)

    def receive(self, two: RankBuilder, one: RankBuilder, name: str, size: int) -> None:
        given = {"count": size, "datatype": "MPI_BYTE"}
        if name == "irecv":
            self.pending[two.index].append(two.irecv(one.index, **given, **self.times(two.index)))
        elif name == "mprobe":
            message = two.mprobe(one.index, **self.times(two.index))
            two.mrecv(message, **given, **self.times(two.index))
        else:
            if name == "probe":
                two.probe(one.index, **self.times(two.index))
            two.recv(one.index, **given, **self.times(two.index))

    def settle(self, rank: RankBuilder, how: int) -> None:
        some, index = self.pending[rank.index], rank.index
        if how == 1 and some:
            rank.waitsome(some, list(range(0, len(some), 2)), **self.times(index))
            self.pending[index] = some[1::2]
        elif how == 2 and some:
            rank.waitany(some, 0, **self.times(index))
            self.pending[index] = some[1:]
        elif len(some) == 1:
            rank.wait(some[0], **self.times(index))
            self.pending[index] = []
        elif some:
            rank.waitall(some, **self.times(index))
            self.pending[index] = []


def found(waits: Waiting) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
    """By event ns waited for somebody late, and for a collective's completion."""
    rows = waits.rows
    late: dict[tuple[int, int], int] = {}
    completion: dict[tuple[int, int], int] = {}
    for place, ns, cause in zip(rows.waiter.tolist(), rows.ns.tolist(), rows.cause.tolist(), strict=True):
        into = completion if cause == Cause.COMPLETION else late
        assert waits.clock.event(place).id not in into
        into[waits.clock.event(place).id] = ns
    return late, completion


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_kernel_finds_what_the_definition_finds(wanted: list[Step]) -> None:
    trace = Program(wanted).b.open()
    made = match_operations(trace)
    slow, waits = Definition(trace, made), waits_of_run(trace, made)
    late, completion = found(waits)
    assert late == {id: ns for id, (ns, _, _) in slow.waits.items()}
    assert completion == slow.completion
    assert waits.limits == (NEVER if slow.limit == float("inf") else slow.limit, NEVER)
    for place, cause, culprit in zip(*(c.tolist() for c in (waits.late.waiter, waits.late.cause, waits.late.culprit)),
                                     strict=True):  # fmt: skip
        id = waits.clock.event(place).id
        one, two = slow.waits[id], (cause, waits.clock.event(culprit).id)
        at = [late for late in slow.needs[id] if (late[1], late[2]) == two]
        assert at, f"{id} does not need {two}"
        call = trace.event(*id)
        assert max(0, min(at[0][0], call.exit_ns or 0) - call.enter_ns) == one[0]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_the_causes_add_up_to_the_time_in_mpi_of_each_rank(wanted: list[Step]) -> None:
    trace = Program(wanted).b.open()
    made = ledger_of(trace, match_operations(trace))
    for rank, row in zip(trace.ranks, made.by_rank, strict=True):
        spent = sum((e.exit_ns or 0) - e.enter_ns for e in (rank.event(i) for i in range(len(rank))))
        assert row.sum() == spent <= made.wall_ns[rank.index]
        assert np.all(row >= 0)
