"""The kernels that choose what is looked at lose nothing: with every row looked at, the findings are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.match import match_operations
from weft.trace.builder import ANY, PROC_NULL, Builder
from weft.trace.layout import ROOT
from weft.usage import arguments, collectives

RANKS = 3
_numbers = st.sampled_from([1, 1, 1, 1, 0, 2, 5, -1, ANY, PROC_NULL, ROOT, -7])
_types = st.sampled_from(["MPI_INT", "MPI_INT", "MPI_DOUBLE", "MPI_DATATYPE_NULL"])
_comms = st.sampled_from(["MPI_COMM_WORLD", "MPI_COMM_WORLD", "MPI_COMM_WORLD", "MPI_COMM_SELF", "MPI_COMM_NULL"])
_ops = st.sampled_from(["MPI_SUM", "MPI_SUM", "MPI_OP_NULL"])
_buffers = st.sampled_from([0x100, 0x200, 0])


@st.composite
def _call(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A call with arguments of which now and then one is forbidden."""
    name = draw(st.sampled_from(["MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Bcast", "MPI_Allreduce", "MPI_Sendrecv"]))
    comm, count, datatype = draw(_comms), draw(_numbers), draw(_types)
    if name == "MPI_Sendrecv":
        return name, {
            "sendbuf": draw(_buffers), "sendcount": count, "sendtype": datatype, "dest": draw(_numbers), "comm": comm,
            "sendtag": draw(_numbers), "recvbuf": draw(_buffers), "recvcount": 1, "recvtype": "MPI_INT",
            "source": draw(_numbers), "recvtag": draw(_numbers),
        }  # fmt: skip
    if name == "MPI_Allreduce":
        return name, {
            "sendbuf": draw(_buffers), "recvbuf": draw(_buffers), "count": count, "datatype": datatype,
            "op": draw(_ops), "comm": comm,
        }  # fmt: skip
    place = {"MPI_Send": "dest", "MPI_Isend": "dest", "MPI_Recv": "source", "MPI_Bcast": "root"}[name]
    buffer = "buffer" if name == "MPI_Bcast" else "buf"
    given = {buffer: draw(_buffers), "count": count, "datatype": datatype, place: draw(_numbers), "comm": comm}
    return name, given | ({} if name == "MPI_Bcast" else {"tag": draw(_numbers)})


@given(st.lists(_call(), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_call_that_breaks_a_rule_is_left_out(calls: list[tuple[str, dict[str, Any]]]) -> None:
    b = Builder(ranks=RANKS)
    for i, (name, args) in enumerate(calls):
        b.ranks[i % RANKS].call(name, site=("a.c", i + 1, "f"), **args)
    trace = b.open()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "find_suspect_events", lambda rank, sorts: np.arange(len(rank.events), dtype=np.int64))
        everything = arguments.find(trace)
    assert arguments.find(trace) == everything


_basic = st.sampled_from(["MPI_INT", "MPI_INT", "MPI_FLOAT"])
_COLLECTIVES = {
    "barrier": st.just({}),
    "bcast": st.fixed_dictionaries({"root": st.integers(0, 1), "count": st.integers(1, 2), "datatype": _basic}),
    "allreduce": st.fixed_dictionaries({"count": st.integers(1, 2), "op": st.sampled_from(["MPI_SUM", "MPI_MAX"])}),
    "gather": st.fixed_dictionaries({"root": st.integers(0, 1), "count": st.integers(1, 2)}),
}
_one = st.sampled_from(sorted(_COLLECTIVES)).flatmap(lambda name: st.tuples(st.just(name), _COLLECTIVES[name]))


@given(st.lists(st.one_of(st.tuples(_one), st.tuples(_one, _one, _one)), min_size=1, max_size=6), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_collective_whose_members_differ_is_left_out(rounds: list[tuple[Any, ...]], finished: bool) -> None:
    b = Builder(ranks=RANKS)
    for k, calls in enumerate(rounds):
        for r in b.ranks:
            name, args = calls[r.index % len(calls)]
            getattr(r, name)(site=("a.c", 10 * k + r.index, "f"), **args)
    for r in b.ranks if finished else b.ranks[:2]:
        r.finalize()
    trace = b.open()
    found = match_operations(trace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            collectives, "_find_suspect_instances", lambda trace, found: np.arange(len(found.instances), dtype=np.int64)
        )
        everything = collectives.find(trace, found)
    assert collectives.find(trace, found) == everything
