"""Datatypes out of damaged records: nothing fails of them, and nothing costs more for them."""

from __future__ import annotations

import random
import resource
import time
import warnings
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from weft.cli.main import main
from weft.debug.payload import iterate_elements
from weft.errors import DebuggerError
from weft.report.analysis import analyse
from weft.trace import Trace
from weft.trace.builder import Builder, RankBuilder
from weft.trace.builder.handles import Type

HUGE = (0, 1, -1, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**40, 2**48, 2**61, 2**62, 2**63 - 1, -(2**63))
PLAIN: tuple[tuple[str, tuple[int, ...], tuple[int, ...], int], ...] = (
    ("VECTOR", (3, 2, 4), (), 40), ("CONTIGUOUS", (4,), (), 16), ("STRUCT", (1, 2), (8,), 16),
    ("INDEXED", (2, 1, 2, 0, 3), (), 80), ("RESIZED", (), (0, 24), 24), ("HVECTOR", (5, 1), (32,), 144),
    ("SUBARRAY", (2, 8, 8, 4, 4, 2, 2, 56), (), 256), ("HINDEXED", (2, 3, 4), (0, 48), 64),
    ("INDEXED_BLOCK", (3, 1, 0, 2, 5), (), 96),
    ("DARRAY", (4, 1, 2, 8, 8, 121, 121, -49767, -49767, 2, 2, 56), (), 256),
)  # fmt: skip
"""Combiner, integers, addresses and extent of datatypes."""


class Damage:
    """Flips bits of some numbers, or puts others in their place."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, n: int) -> int:
        if self.random.random() < 0.5:
            return self.random.choice(HUGE)
        flipped = (n & (2**64 - 1)) ^ (1 << self.random.randrange(64))
        return flipped - 2**64 if flipped >= 2**63 else flipped

    def numbers(self, given: tuple[int, ...]) -> list[int]:
        made = [self.number(n) if self.random.random() < 0.2 else n for n in given]
        return made[:-1] if self.random.random() < 0.05 else made

    def datatype(self, r: RankBuilder, before: list[Any]) -> Type:
        combiner, integers, addresses, extent = self.random.choice(PLAIN)
        if self.random.random() < 0.1:
            combiner = self.random.choice(PLAIN)[0]
        return r.define_datatype(
            combiner, types=[self.random.choice(before)], integers=self.numbers(integers),
            addresses=self.numbers(addresses), size=abs(self.numbers((12, 0))[0]), extent=self.numbers((extent, 0))[0],
            lb=self.numbers((0, 0))[0],
        )  # fmt: skip

    def run(self) -> Trace:
        """Messages, one-sided operations and collectives whose buffers lie over each other."""
        b = Builder(ranks=2)
        wins, choice = b.window(), self.random.choice
        types: list[list[Any]] = []
        for r in b.ranks:
            of: list[Any] = ["MPI_INT", "MPI_DOUBLE_INT"]
            for _ in range(12):
                of.append(self.datatype(r, of))
            types.append(of[2:])
        for me, r in enumerate(b.ranks):
            of, counts = types[me], (0, 1, 5, 1000, 2**31 - 1)
            pending = []
            r.call("MPI_Win_fence", win=wins[me], **{"assert": 0})
            for k in range(6):
                post = r.irecv if (k + me) % 2 else r.isend
                pending.append(post(1 - me, k, count=choice(counts), datatype=choice(of), buffer=0x1000 + 20 * k))
            for _ in range(4):
                r.call(
                    choice(["MPI_Put", "MPI_Get"]), win=wins[me], origin_addr=0x9000, origin_count=choice(counts),
                    origin_datatype=choice(of), target_rank=choice([0, 1]), target_disp=choice([0, 8, 50]),
                    target_count=choice(counts), target_datatype=choice(of),
                )  # fmt: skip
            r.call(
                "MPI_Sendrecv", sendbuf=0x100, sendcount=choice(counts), sendtype=choice(of), dest=1 - me, sendtag=9,
                recvbuf=0x120, recvcount=choice(counts), recvtype=choice(of), source=1 - me, recvtag=9, comm=2,
            )  # fmt: skip
            r.call(
                "MPI_Allgatherv", sendbuf=0x900, sendcount=2, sendtype=choice(of), recvbuf=0x100,
                recvcounts=[2, choice(counts)], displs=[0, 1], recvtype=choice(of), comm=2,
            )  # fmt: skip
            r.waitall(pending)
            r.call("MPI_Win_fence", win=wins[me], **{"assert": 0})
        for r in b.ranks:
            r.finalize()
        return b.open()


def looked_at(seed: int) -> None:
    trace = Damage(seed).run()
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)
        analyse(trace)
    for id in range(256, 270):
        datatype = trace.ranks[0].datatype(id)
        if datatype is not None:
            for _, _ in zip(range(64), _elements(datatype), strict=False):
                pass
    with redirect_stdout(StringIO()):
        assert main(["dump", str(trace.path)]) == 0
        assert main(["dump", "--definitions", str(trace.path)]) == 0
    assert time.process_time() - begun < 20  # one that grows with each of the 50 levels takes hours


def _elements(datatype: Any) -> Any:
    try:
        yield from iterate_elements(datatype, 0, 2**31)
    except DebuggerError:
        return


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_datatype_costs_no_more_and_fails_nothing(seed: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    looked_at(seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.matrix
@pytest.mark.parametrize("part", range(8))
def test_many_damaged_datatypes_cost_no_more_and_fail_nothing(part: int) -> None:
    for seed in range(1000 + 50 * part, 1050 + 50 * part):
        looked_at(seed)


def test_a_datatype_that_is_made_of_itself_many_times_over_is_told_to_be_unknown_at_once() -> None:
    """Each of 50 is made of two of the one before: of nothing, and of something."""
    for bottom in (0, 1):
        b = Builder(ranks=1)
        (r,) = b.ranks
        of: Any = r.type_contiguous(bottom, "MPI_INT")
        for _ in range(50):
            of = r.define_datatype(
                "STRUCT", types=[of, of], integers=[2, 1, 1], addresses=[0, 64], size=8 * bottom, extent=99
            )
        r.type_commit(of)
        r.waitall([r.isend(0, 0, datatype=of, buffer=64), r.irecv(0, 0, datatype=of, buffer=72)])
        r.finalize()
        begun = time.process_time()
        analyse(b.open())
        assert time.process_time() - begun < 3
