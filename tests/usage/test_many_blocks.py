"""Buffers of very many blocks: found where they share bytes, silent where they do not, at the cost of few."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proofs import unproven

from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.report.analysis import analyse
from weft.terms.byte_layouts import MOST_PARTS
from weft.trace.builder import Builder, RankBuilder
from weft.trace.builder.handles import Type
from weft.usage import one_sided as one_sided_checks

IN_PROCESS = """
import re, sys, time
from weft.cli.main import main
status = main(["report", sys.argv[1]])
most = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]
print(time.process_time(), most, file=sys.stderr)
sys.exit(status)
"""
"""A report that says its cost: seconds of processor time, and its most memory in kB (rusage has the parent's, too)."""


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 5


def padded(r: RankBuilder) -> Type:
    """A double and an int, 32 bytes behind each other."""
    pair = r.type_struct([1, 1], [0, 8], ["MPI_DOUBLE", "MPI_INT"])
    return resized(r, pair, 32)


def resized(r: RankBuilder, of: Type, extent: int) -> Type:
    return r.define_datatype("RESIZED", types=[of], addresses=[0, extent], size=of.size, extent=extent)


def columns(r: RankBuilder, count: int, width: int = 1, stride: int = 3) -> Type:
    """`width` of `stride` doubles, so many times."""
    return r.type_vector(count, width, stride, "MPI_DOUBLE")


def irregular(r: RankBuilder, entries: int) -> Type:
    """Structures at distances that grow."""
    places = [k * (k + 7) for k in range(entries)]
    return r.define_datatype(
        "INDEXED_BLOCK", types=[padded(r)], integers=[entries, 1, *places], size=12 * entries,
        extent=32 * (places[-1] + 1),
    )  # fmt: skip


def squares(r: RankBuilder) -> Type:
    return resized(r, irregular(r, 300), 1 << 22)


Maker = Callable[[RankBuilder], tuple[Type, int]]
MANY: dict[str, tuple[Maker, int, int]] = {
    "structures": (lambda r: (padded(r), 20_000_000), 12, 4),
    "vector": (lambda r: (columns(r, 100_000_000), 1), 8, 4),
    "indexed structures": (lambda r: (squares(r), 1_000_000), 12, 4),
    "vectors of structures": (lambda r: (r.type_vector(1000, 2, 3, padded(r)), 100_000), 12, 4),
    "rows from the last to the first": (lambda r: (r.type_vector(10_000_000, 1, -2, "MPI_DOUBLE"), 1), 8, 7),
}
"""What makes so many elements of a datatype, how far apart two of these share nothing, and how far they do."""


def sent_twice(make: Maker, apart: int, count: int | None = None) -> list[Finding]:
    """Rank 0 receives into two buffers at once, so many bytes apart."""
    b = Builder(ranks=2)
    types = [make(r) for r in b.ranks]
    for rank, r in enumerate(b.ranks):
        of, n = types[rank][0], count or types[rank][1]
        base = 1 << 40
        if rank == 0:
            requests = [
                r.irecv(1, k, count=n, datatype=of, buffer=base + k * apart, site=("a.c", 5 + k, "f")) for k in range(2)
            ]
        else:
            requests = [r.isend(0, k, count=n, datatype=of, buffer=base, site=("b.c", 5 + k, "f")) for k in range(2)]
        r.waitall(requests)
        r.finalize()
    trace = b.open()
    found = analyse(trace)
    assert (
        unproven(trace, [f for f in found if f.facts().get("accesses")], order_events(trace, match_operations(trace)))
        == []
    )
    return [f for f in found if f.kind == "buffer-reuse"]


@pytest.mark.parametrize("name", MANY)
def test_two_receives_of_very_many_blocks_are_told_where_they_share_bytes(name: str) -> None:
    make, beside, within = MANY[name]
    (found,) = sent_twice(make, within)
    assert found.certainty == "certain"
    assert found.facts()["bytes"] == beside - within
    if "rows" not in name:
        assert sent_twice(make, beside) == []


def test_a_thousand_structures_and_twenty_million_are_told_in_the_same_words() -> None:
    def of(count: int) -> str:
        (found,) = sent_twice(lambda r: (padded(r), count), 4)
        return found.message.replace(f"{count}", "N").replace(f"{count:,}", "N")

    assert of(1000) == of(20_000_000)


def test_blocks_that_are_too_many_to_be_kept_are_said_to_be_left_out_once() -> None:
    for apart in (4, 12):
        (found,) = sent_twice(lambda r: (irregular(r, MOST_PARTS + 1), 1), apart)
        assert (found.severity, found.certainty) == ("note", "undecided")
        assert "have more blocks than Weft looks at, so Weft does not know whether it shares bytes" in found.message


def one_sided(disp: int, count: int) -> list[str]:
    """Both ranks put columns into the window of rank 0."""
    b = Builder(ranks=2)
    wins = b.window(size=24 * 10**8, unit=8)
    for me, r in enumerate(b.ranks):
        of = columns(r, count)
        r.call("MPI_Win_fence", win=wins[me], **{"assert": 0})
        r.call(
            "MPI_Put", origin_addr=0x10, origin_count=1, origin_datatype=of, target_rank=0, target_disp=me * disp,
            target_count=1, target_datatype=of, win=wins[me], site=("a.c", 5 + me, "f"),
        )  # fmt: skip
        r.call("MPI_Win_fence", win=wins[me], **{"assert": 0})
    for me, r in enumerate(b.ranks):
        r.call("MPI_Win_free", win=wins[me])
        r.finalize()
    trace = b.open()
    ordered = order_events(trace, match_operations(trace))
    found = one_sided_checks.find(trace, ordered)
    assert unproven(trace, found, ordered) == []
    return [f"{f.kind}: {f.message}" for f in found]


@pytest.mark.parametrize("count", [1000, 90_000_000])
def test_puts_of_columns_race_where_they_share_some(count: int) -> None:
    (raced,) = one_sided(6, count)
    assert raced.startswith("rma-race") and "the same 8 bytes" in raced
    assert one_sided(1, count) == one_sided(5, count) == []


def test_a_put_of_columns_that_ends_behind_the_window_is_told_with_the_first_that_does() -> None:
    beyond = [text for text in one_sided(0, 100_000_002) if "invalid-argument" in text]
    assert all("accesses 8 bytes at offset 2,400,000,000 of rank 0's window" in text for text in beyond)
    assert len(beyond) == 2


def sendrecv(apart: int, count: int) -> list[Any]:
    b = Builder(ranks=2)
    r = b.ranks[0]
    of = columns(r, count)
    r.type_commit(of)
    r.call(
        "MPI_Sendrecv", sendbuf=1 << 40, sendcount=1, sendtype=of, dest=1, sendtag=0, recvbuf=(1 << 40) + apart,
        recvcount=1, recvtype=of, source=1, recvtag=0, comm=2,
    )  # fmt: skip
    return [f.facts()["parameter"] for f in analyse(b.open()) if f.kind == "invalid-argument"]


@pytest.mark.parametrize("count", [100, 100_000_000])
def test_columns_of_one_call_are_told_where_they_share_bytes(count: int) -> None:
    assert sendrecv(4, count) == sendrecv(20, count) == sendrecv(24, count) == ["recvbuf"]
    assert sendrecv(8, count) == sendrecv(16, count) == []


@pytest.mark.parametrize("stride", [1, 2])
def test_a_datatype_of_which_very_many_entries_overlap_may_not_be_received_into(stride: int) -> None:
    b = Builder(ranks=1)
    (r,) = b.ranks
    of = columns(r, 100_000_000, 2, stride)
    r.type_commit(of)
    r.recv(0, datatype=of)
    r.finalize()
    assert [f.facts()["parameter"] for f in analyse(b.open()) if f.kind == "invalid-argument"] == (
        ["datatype"] if stride < 2 else []
    )


def sent_as(send: Callable[[RankBuilder], Type], receive: Callable[[RankBuilder], Type]) -> list[str]:
    b = Builder(ranks=2)
    one, other = b.ranks
    one.send(1, datatype=send(one))
    other.recv(0, datatype=receive(other))
    one.finalize()
    other.finalize()
    return [f"{f.kind} {f.severity}" for f in analyse(b.open()) if f.kind in ("type-mismatch", "truncation")]


def test_the_types_of_twenty_million_structures_are_held_against_those_of_the_message() -> None:
    def of(*types: str) -> Callable[[RankBuilder], Type]:
        def made(r: RankBuilder) -> Type:
            return r.type_contiguous(20_000_000, r.type_struct([1] * len(types), [0, 8, 16, 24][: len(types)], types))

        return made

    double, int_, float_ = "MPI_DOUBLE", "MPI_INT", "MPI_FLOAT"
    assert sent_as(of(double, int_), of(double, int_)) == []
    assert sent_as(of(double, int_), of(double, float_)) == ["type-mismatch error"]
    assert sent_as(of(double, int_, double, int_), of(double, int_)) == ["truncation error"]
    assert sent_as(of(double, int_), of(double, int_, double, int_)) == []
    assert sent_as(of(double, int_, double), of(double, int_, double, int_)) == ["type-mismatch error"]


def test_types_that_are_too_many_to_be_held_against_each_other_are_said_to_be_left_out() -> None:
    def of(many: int) -> Callable[[RankBuilder], Type]:
        def made(r: RankBuilder) -> Type:
            types = ["MPI_DOUBLE", "MPI_INT"] * many
            return r.type_struct([1] * (2 * many), [8 * k for k in range(2 * many)], types)

        return made

    assert sent_as(of(7), of(7)) == sent_as(of(7), of(9)) == []
    assert sent_as(of(6_000), of(6_001)) == ["type-mismatch note"]


def test_a_report_of_twenty_million_structures_takes_two_seconds_and_300_megabytes_at_most() -> None:
    b = Builder(ranks=2)
    for me, r in enumerate(b.ranks):
        post = r.irecv if me else r.isend
        r.wait(post(1 - me, 1, count=20_000_000, datatype=padded(r), buffer=1 << 40))
        r.finalize()
    run = b.open().path
    done = subprocess.run([sys.executable, "-c", IN_PROCESS, run], capture_output=True, text=True, check=True)
    assert "[resource-leak]" in done.stdout
    assert "buffer-reuse" not in done.stdout
    assert "undecided" not in done.stdout
    seconds, kilobytes = map(float, done.stderr.split())
    assert kilobytes < 300_000
    assert seconds < 2
