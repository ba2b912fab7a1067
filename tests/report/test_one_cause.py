"""A cause that shows a thousand times in a run is one line with a count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.report import run_analyses
from weft.trace.builder import ANY, Builder

TIMES = 1000
AT = ("a.c", 5, "main")
THERE = ("a.c", 9, "main")
MS = 1_000_000


def leaked_requests(b: Builder) -> None:
    for _ in range(TIMES):
        b.ranks[0].isend(1, site=AT)
        b.ranks[1].recv(0, site=THERE)


def leaked_types(b: Builder) -> None:
    for _ in range(TIMES):
        b.ranks[0].type_contiguous(2, "MPI_INT", site=AT)


def unmatched(b: Builder) -> None:
    for _ in range(TIMES):
        b.ranks[0].send(1, tag=3, site=AT)


def other_types(b: Builder) -> None:
    for i in range(TIMES):
        b.ranks[0].send(1, count=i + 1, datatype="MPI_INT", site=AT)
        b.ranks[1].recv(0, count=i + 1, datatype="MPI_FLOAT", site=THERE)


def too_long(b: Builder) -> None:
    for i in range(TIMES):
        b.ranks[0].send(1, count=i + 2, site=AT)
        b.ranks[1].recv(0, count=i + 1, site=THERE)


def bad_arguments(b: Builder) -> None:
    for i in range(TIMES):
        b.ranks[0].send(2 + i, site=AT)


def other_counts(b: Builder) -> None:
    for i in range(TIMES):
        for r in b.ranks:
            r.bcast(0, count=1 + i + r.index, site=AT)


def races(b: Builder) -> None:
    for _ in range(TIMES):
        for r in b.ranks[1:]:
            r.send(0, site=AT)
    for _ in range(TIMES):
        for r in b.ranks[1:]:
            b.ranks[0].recv(ANY, got=r.index, site=THERE)


def shared_buffers(b: Builder) -> None:
    r0, r1 = b.ranks[:2]
    for _ in range(TIMES):
        requests = [r0.irecv(1, buffer=0x100, site=AT), r0.irecv(1, buffer=0x100, site=THERE)]
        r1.send(0)
        r1.send(0)
        r0.waitall(requests)


def windows(b: Builder, name: str, **kw: object) -> None:
    wins = b.window()
    for _ in range(TIMES):
        for r in b.ranks:
            if name == "MPI_Put":
                r.call("MPI_Win_fence", win=wins[r.index], site=THERE)
        for r in b.ranks[:2]:
            r.call(name, win=wins[r.index], site=AT, **kw)
    for r in b.ranks:
        if name == "MPI_Put":
            r.call("MPI_Win_fence", win=wins[r.index], site=THERE)
        r.call("MPI_Win_free", win=wins[r.index])


def rma_races(b: Builder) -> None:
    windows(
        b, "MPI_Put", origin_addr=16, origin_count=1, origin_datatype="MPI_INT", target_rank=2, target_disp=0,
        target_count=1, target_datatype="MPI_INT",
    )  # fmt: skip


def epochs(b: Builder) -> None:
    windows(b, "MPI_Win_unlock", rank=1)


def unmatched_receives(b: Builder) -> None:
    for _ in range(TIMES):
        b.ranks[0].request_free(b.ranks[0].irecv(1, tag=3, site=AT))


def other_operations(b: Builder) -> None:
    for _ in range(TIMES):
        b.ranks[0].barrier(site=AT)
        b.ranks[1].bcast(0, site=THERE)
        b.ranks[2].bcast(0, site=THERE)


def sends_head_to_head(b: Builder) -> None:
    for _ in range(TIMES):
        for r in (0, 1):
            b.ranks[r].send(1 - r, site=AT)
        for r in (0, 1):
            b.ranks[r].recv(1 - r, site=THERE)


def message_times(b: Builder, send: tuple[int, int], receive: tuple[int, int]) -> None:
    """Synchronous messages whose sides come and go at these milliseconds of their rounds."""
    for i in range(TIMES):
        sent, got = ([(i * 100 + ms) * MS for ms in times] for times in (send, receive))
        b.ranks[0].ssend(1, site=AT, enter=sent[0], exit=sent[1])
        b.ranks[1].recv(0, site=THERE, enter=got[0], exit=got[1])


def late_senders(b: Builder) -> None:
    message_times(b, (80, 82), (1, 82))


def late_receivers(b: Builder) -> None:
    message_times(b, (1, 82), (80, 82))


def late_at_barriers(b: Builder) -> None:
    for i in range(TIMES):
        for r in b.ranks:
            r.barrier(site=AT, enter=(i * 100 + (80 if r.index == 1 else 1)) * MS, exit=(i * 100 + 82) * MS)


CASES: dict[str, tuple[Callable[[Builder], None], bool]] = {
    "request-leak": (leaked_requests, True),
    "resource-leak": (leaked_types, True),
    "unmatched-send": (unmatched, True),
    "type-mismatch": (other_types, True),
    "truncation": (too_long, True),
    "invalid-argument": (bad_arguments, True),
    "argument-mismatch": (other_counts, False),
    "message-race": (races, True),
    "buffer-reuse": (shared_buffers, False),
    "rma-race": (rma_races, False),
    "epoch-misuse": (epochs, True),
    "unmatched-receive": (unmatched_receives, True),
    "collective-mismatch": (other_operations, False),
    "potential-deadlock": (sends_head_to_head, False),
    "late-sender": (late_senders, False),
    "late-receiver": (late_receivers, False),
    "wait-at-collective": (late_at_barriers, False),
}
"""By kind: what does it, and whether its analysis tells of each one, so that a count must stand there. A `deadlock` of
a thousand ranks: tests/deadlock."""


@pytest.mark.parametrize("kind", CASES)
def test_a_thousand_of_one_cause_are_one_finding(kind: str) -> None:
    b = Builder(ranks=3)
    build, counted = CASES[kind]
    build(b)
    for r in b.ranks:
        r.finalize()
    report = run_analyses(b.open())
    assert not report.failures
    found = [f for f in report.findings if f.kind == kind]
    assert len(found) == 1, [f.message for f in found]
    if counted:
        assert found[0].facts()["count"] >= 50
        assert "more like it" in found[0].message
