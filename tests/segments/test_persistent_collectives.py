"""Runs whose collectives are started again and again have the findings in segments that they have whole."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_segments import compared, ends_quiet, first_cut, in_segments, short

from segments.seeds import seeds
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.trace.builder.handles import Request

__all__ = ["short"]

Made = dict[int, Request]


def make(b: Builder, name: str, **unlike: dict[int, Any]) -> Made:
    """Every rank makes a persistent collective; `unlike` says what some ranks give that the others do not."""
    made = {}
    for r in b.ranks:
        given: dict[str, Any] = {"count": 4, "datatype": "MPI_INT", "comm": b.world, "info": 1}
        given |= {"buffer": 0x1000, "root": 0} if "Bcast" in name else {"sendbuf": 0x1000, "recvbuf": 0x2000, "op": 3}
        given |= {key: values[r.index] for key, values in unlike.items() if r.index in values}
        request = made[r.index] = Request(r.new_id("REQUEST"), f"MPI_{name}_init", persistent=True)
        r.call(f"MPI_{name}_init", request=request, site=("a.c", 10, "f"), **given)
    return made


def go(b: Builder, made: Made, *, between: bool = False, without: int = -1) -> None:
    """Every rank but one starts it, and waits for it."""
    ranks = [r for r in b.ranks if r.index != without]
    for r in ranks:
        r.start(made[r.index], site=("a.c", 20, "f"))
    if between:
        barrier(b)
    for r in ranks:
        r.call("MPI_Wait", request=made[r.index], open=without >= 0, site=("a.c", 21, "f"))


def barrier(b: Builder) -> None:
    for r in b.ranks:
        r.barrier()


def of_starts(rng: random.Random, path: Path) -> Trace:
    """A random program, some of whose calls are wrong."""
    b = Builder(ranks=rng.randint(2, 4), path=path)
    for r in b.ranks:
        r.init()
    made = [make(b, "Allreduce")]
    for _ in range(rng.randint(8, 30)):
        what = rng.random()
        if what < 0.15:
            unlike = {"count": {1: 8}} if rng.random() < 0.3 else {}
            made.append(make(b, rng.choice(("Bcast", "Allreduce")), **unlike))
        elif what < 0.25 and len(made) > 1:
            gone = made.pop(rng.randrange(len(made)))
            for r in b.ranks:
                r.request_free(gone[r.index])
        elif what < 0.35:
            one, two = rng.sample(b.ranks, 2)
            one.send(two.index, 3)
            two.recv(one.index, 3)
        else:
            go(b, rng.choice(made), between=rng.random() < 0.2)
        for _ in range(rng.choice((0, 1, 2))):
            barrier(b)
    if rng.random() < 0.2:
        go(b, rng.choice(made), without=rng.randrange(len(b.ranks)))
        return b.open()
    for request in made if rng.random() < 0.7 else ():
        for r in b.ranks:
            r.request_free(request[r.index])
    for r in b.ranks:
        r.finalize()
    return b.open()


@pytest.mark.matrix
@seeds(8, 25)
def test_random_programs_of_persistent_collectives_have_the_same_findings(seeds: range, tmp_path: Path) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        segments[compared(of_starts(random.Random(seed), tmp_path / str(seed)))] += 1
    assert sum(count for many, count in segments.items() if many > 1) > 0.6 * len(seeds), segments


@pytest.mark.parametrize("between", [False, True])
def test_a_moment_is_quiet_only_where_each_start_is_complete(between: bool) -> None:
    b = Builder(ranks=2)
    made = make(b, "Allreduce")
    go(b, made, between=between)
    for _ in range(4):
        barrier(b)
    _, of = first_cut(b)
    assert ends_quiet(of, 1) == (not between) and ends_quiet(of, 3)


def test_collectives_that_ranks_made_unlike_are_told_once(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for r in b.ranks:
        r.init()
    made = make(b, "Allreduce", count={1: 8})
    for _ in range(20):
        go(b, made)
        barrier(b)
    for r in b.ranks:
        r.request_free(made[r.index])
        r.finalize()
    trace = b.open()
    assert compared(trace) > 8
    found = in_segments(trace)
    assert found is not None and [f.kind for f in found[1]["collectives"]] == ["argument-mismatch"]
