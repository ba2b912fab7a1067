"""Synthetic runs of any size, written through the real writer: what programs of several kinds leave behind.

    python benchmarks/traces.py RUN PATTERN RANKS EVENTS      writes one

  halo        Irecv from and Isend to four neighbours, Waitall
  pool        rank 0 of each 64 receives results from any of the others by a blocking receive and sends tasks back
  funnel      rank 0 of each 64 receives from any, the others send and wait for nothing: every receive races
  collective  Allreduce, Bcast, Barrier, Reduce, Allgather
  rma         fence epochs with Put, Get and Accumulate to both sides, then locks with Put
  ahead       the same with the receives of the next step posted before this one's are waited for
  pingpong    Send to a partner and Recv from it, one of the two first
  mixed       nonblocking neighbours, a wildcard among them, Waitall, Allreduce
  long        the same; every so often rank 0 receives from any what all others send it, and at the end the last rank
              waits for a message that never comes, the others in a barrier
and, for what costs most where an analysis is careless:
  flood       one receiver takes all messages of the run, each of any source
  pending     each rank has all its receives and sends pending at once
  comms       a communicator for every ten calls
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import ANY_SOURCE, EVENT, ID_DYNAMIC, Events, Flag, State

GROUP = 64
PART = 20_000
INT = 4

Ints = NDArray[np.int64]


@dataclass
class Writer:
    """One rank of a synthetic run: its builder, the number of ranks, and how many events it has written."""

    b: Builder
    r: RankBuilder
    ranks: int
    written: int

    @property
    def rank(self) -> int:
        """Its number."""
        return self.r.rank


def block(w: Writer, names: Sequence[str], rows: int, **columns: Any) -> Events:
    """`rows` repetitions of the calls `names`, a line of the program for each of them.

    A column is a value for all, a list of one for each of `names`, or an array of one for each event.
    """
    count = rows * len(names)
    events = np.zeros(count, EVENT)
    events["enter"] = 10**9 + w.b.clock + (w.written + np.arange(count, dtype=np.uint64)) * 1000
    events["duration"] = 400
    events["flags"] = Flag.CLOSED
    events["comm"] = 2
    events["count"] = 1
    events["datatype"] = w.b.functions.object_id("DATATYPE", "MPI_INT")
    events["function"] = np.tile([w.b.functions[n].id for n in names], rows)
    events["site"] = np.tile([w.r.site(("prog.c", 10 + i, "main")) for i in range(len(names))], rows)
    for name, values in columns.items():
        events[name] = np.tile(values, rows) if isinstance(values, list) else values
    w.written += count
    return events


def varints(values: Any, rows: int) -> NDArray[np.uint8]:
    """Each value as a varint of four bytes, which a reader takes as any other: (rows, 4)."""
    column = np.broadcast_to(np.asarray(values, np.int64), (rows,))
    shifted = (column[:, None] >> (7 * np.arange(4))) & 0x7F
    shifted[:, :3] |= 0x80
    return shifted.astype(np.uint8)


def tails(w: Writer, events: Events, at: int, step: int, *values: Any) -> None:
    """Give every `step`-th event from `at` on a tail of these unsigned values (bytes: as they are)."""
    which = events[at::step]
    rows = len(which)
    parts = [
        np.broadcast_to(np.frombuffer(v, np.uint8), (rows, len(v))) if isinstance(v, bytes) else varints(v, rows)
        for v in values
    ]
    if sum(p.shape[1] for p in parts) % 2:
        parts.append(np.zeros((rows, 1), np.uint8))
    data = np.concatenate(parts, axis=1)
    start = w.r.append_tails(data.tobytes())
    events["result"][at::step] = start + np.arange(rows, dtype=np.uint32) * (data.shape[1] // 2)
    events["flags"][at::step] |= np.uint8(Flag.HAS_TAIL)


def zigzag(values: Any) -> Any:
    """Integers as the tails have them."""
    return np.asarray(values, np.int64) << 1 ^ np.asarray(values, np.int64) >> 63


def status(source: int, tag: int, size: int) -> bytes:
    """A status in a tail, of small numbers."""
    parts = [varints(v, 1)[0].tobytes() for v in (zigzag(source), zigzag(tag), size)]
    return b"\x01" + b"".join(parts) + b"\0"


def _steps(n: int, calls: int) -> Iterator[tuple[int, int]]:
    """Parts of the steps of `calls` events each that make `n` events: the first step and how many."""
    steps = n // calls
    for done in range(0, steps, PART):
        yield done, min(PART, steps - done)


def _requests(events: Events, done: int, rows: int, each: int) -> Ints:
    """Number the requests of the first `each` calls of every step: ids (rows, each)."""
    ids = ID_DYNAMIC + (done + np.arange(rows))[:, None] * each + np.arange(each)
    objects = np.zeros((rows, len(events) // rows), np.uint32)
    objects[:, :each] = ids
    events["object"] = objects.ravel()
    return ids


def _waitall(w: Writer, events: Events, ids: Ints, statuses: Sequence[bytes]) -> None:
    """The Waitall behind the `each` calls of a step that made the requests."""
    each = ids.shape[1]
    at, calls = each, len(events) // len(ids)
    values = [bytes([each]), *ids.T, bytes([each]), *statuses]
    tails(w, events, at, calls, *values)
    events["count"][at::calls] = each


def halo(w: Writer, n: int) -> Iterator[Events]:
    """Receive from and send to four neighbours, wait for all: 9 events a step."""
    steps = (1, -1, 3, -3)
    to, back = [(w.rank + d) % w.ranks for d in steps], [(w.rank - d) % w.ranks for d in steps]
    names = ["MPI_Irecv"] * 4 + ["MPI_Isend"] * 4 + ["MPI_Waitall"]
    buffers = [0x10000 * (i + 1) for i in range(8)] + [0]
    for done, rows in _steps(n, 9):
        events = block(w, names, rows, peer=[*back, *to, 0], tag=[0, 1, 2, 3] * 2 + [0], buffer=buffers)
        ids = _requests(events, done, rows, 8)
        _waitall(w, events, ids, [status(s, t, INT) for t, s in enumerate(back)] + [b"\0"] * 4)
        yield events


def ahead(w: Writer, n: int) -> Iterator[Events]:
    """`halo` whose receives are posted a step ahead: some are always pending. 9 events a step."""
    steps = (1, -1, 3, -3)
    to, back = [(w.rank + d) % w.ranks for d in steps], [(w.rank - d) % w.ranks for d in steps]
    names = ["MPI_Irecv"] * 4 + ["MPI_Isend"] * 4 + ["MPI_Waitall"]
    first = block(w, names[:4], 1, peer=back, tag=[0, 1, 2, 3], buffer=[0x1100000 + 0x10000 * i for i in range(4)])
    first["object"] = ID_DYNAMIC + np.arange(4)
    yield first
    for done, rows in _steps(n - 8, 9):
        yield _step_ahead(w, block(w, names, rows, peer=[*back, *to, 0], tag=[0, 1, 2, 3] * 2 + [0]), done, back)
    yield block(w, ["MPI_Send"] * 4, 1, peer=to, tag=[0, 1, 2, 3], buffer=0x10000)
    last = block(w, ["MPI_Wait"] * 4, 1, peer=back, tag=[0, 1, 2, 3], result=INT)
    last["object"] = ID_DYNAMIC + 8 * ((n - 8) // 9) + np.arange(4)
    yield last


def _step_ahead(w: Writer, events: Events, done: int, back: Sequence[int]) -> Events:
    """Number the requests of `ahead`: a step waits for the receives of the one before it, and for its own sends."""
    rows = len(events) // 9
    step = ID_DYNAMIC + 8 * (done + np.arange(rows))[:, None]
    events["object"] = np.concatenate(
        [step + 8 + np.arange(4), step + 4 + np.arange(4), np.zeros((rows, 1), np.int64)], axis=1
    ).ravel()
    # Receives of odd and of even steps go into buffers of their own.
    half = 0x100000 * ((done + np.arange(rows)) % 2)[:, None]
    places = np.concatenate([0x1000000 + half + 0x10000 * np.arange(4), np.full((rows, 5), 0x10000)], axis=1)
    events["buffer"] = places.ravel()
    _waitall(w, events, step + np.arange(8), [status(s, t, INT) for t, s in enumerate(back)] + [b"\0"] * 4)
    return events


def pingpong(w: Writer, n: int) -> Iterator[Events]:
    """Pairs of ranks, a message there and one back: 2 events a round."""
    first = w.rank % 2 == 0
    partner = w.rank + 1 if first else w.rank - 1
    names = ["MPI_Send", "MPI_Recv"] if first else ["MPI_Recv", "MPI_Send"]
    got = [0, INT] if first else [INT, 0]
    for _, rows in _steps(n, 2):
        yield block(w, names, rows, peer=partner, tag=[3, 4], result=got)


def pool(w: Writer, n: int) -> Iterator[Events]:
    """Groups of up to 64: the first takes results of any and answers each; a task is 2 events on either side."""
    size = min(GROUP, w.ranks)
    first = w.rank // size * size
    if w.rank != first:
        yield block(w, ["MPI_Send", "MPI_Recv"], n // 2, peer=first, tag=[3, 4], result=[0, INT])
        return
    total = n // 2 * (size - 1)
    sources = np.repeat(first + 1 + np.arange(total, dtype=np.int64) % (size - 1), 2)
    events = block(w, ["MPI_Recv", "MPI_Send"], total, peer=sources, tag=[3, 4], result=[INT, 0])
    events["flags"][::2] |= np.uint8(Flag.ANY_SOURCE)
    yield events


def funnel(w: Writer, n: int) -> Iterator[Events]:
    """Groups of up to 64: the first receives from any what the others send it."""
    yield from _gather(w, min(GROUP, w.ranks), n)


def flood(w: Writer, n: int) -> Iterator[Events]:
    """Rank 0 receives from any what all others send it."""
    yield from _gather(w, w.ranks, n)


def _gather(w: Writer, size: int, n: int) -> Iterator[Events]:
    first = w.rank // size * size
    if w.rank != first:
        yield block(w, ["MPI_Send"], n, peer=first, tag=3)
        return
    total = n * (size - 1)
    sources = first + 1 + np.arange(total, dtype=np.int64) % (size - 1)
    events = block(w, ["MPI_Recv"], total, peer=sources, tag=3, result=INT)
    events["flags"] |= np.uint8(Flag.ANY_SOURCE)
    yield events


def collective(w: Writer, n: int) -> Iterator[Events]:
    """Five collectives on the world."""
    names = ["MPI_Allreduce", "MPI_Bcast", "MPI_Barrier", "MPI_Reduce", "MPI_Allgather"]
    op, kind = w.b.functions.object_id("OP", "MPI_SUM"), w.b.functions.object_id("DATATYPE", "MPI_INT")
    for _, rows in _steps(n, 5):
        events = block(w, names, rows, tag=[op, 0, 0, op, 0], buffer=[4096, 8192, 0, 4096, 4096])
        tails(w, events, 0, 5, zigzag(0x100000))
        tails(w, events, 3, 5, zigzag(0x100000))
        tails(w, events, 4, 5, zigzag(0x100000), zigzag(1), kind)
        yield events


def mixed(w: Writer, n: int) -> Iterator[Events]:
    """Irecv (one of any source), Isend to both sides, Waitall, Allreduce: 6 events a step."""
    left, right = (w.rank - 1) % w.ranks, (w.rank + 1) % w.ranks
    names = ["MPI_Irecv", "MPI_Irecv", "MPI_Isend", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce"]
    op = w.b.functions.object_id("OP", "MPI_SUM")
    buffers = [0x1000, 0x2000, 0x3000, 0x4000, 0, 0x5000]
    for done, rows in _steps(n, 6):
        peers = [left, ANY_SOURCE, right, left, 0, 0]
        events = block(w, names, rows, peer=peers, tag=[0, 1, 0, 1, 0, op], buffer=buffers)
        events["flags"][1::6] |= np.uint8(Flag.ANY_SOURCE)
        ids = _requests(events, done, rows, 4)
        _waitall(w, events, ids, [status(left, 0, INT), status(right, 1, INT), b"\0", b"\0"])
        tails(w, events, 5, 6, zigzag(0x100000))
        yield events


def long(w: Writer, n: int) -> Iterator[Events]:
    """`mixed`, each part of which begins with a gathering of messages that race; then a deadlock."""
    others = w.ranks - 1
    for part in mixed(w, n):
        if w.rank:
            first = block(w, ["MPI_Send"], 1, peer=0, tag=7)
        else:
            first = block(w, ["MPI_Recv"], others, peer=1 + np.arange(others), tag=7, result=INT)
            first["flags"] |= np.uint8(Flag.ANY_SOURCE)
        events = np.concatenate([first, block(w, ["MPI_Barrier"], 1), part])
        events["enter"] = 10**9 + w.b.clock + (w.written - len(events) + np.arange(len(events), dtype=np.uint64)) * 1000
        yield events
    last = block(w, ["MPI_Recv"], 1, peer=0, tag=99) if w.rank == w.ranks - 1 else block(w, ["MPI_Barrier"], 1)
    last["flags"] = 0
    last["duration"] = 0
    w.r.state = State.RUNNING
    yield last


def rma(w: Writer, n: int) -> Iterator[Events]:
    """Fence epochs, then lock epochs: 6 events a step of the first, 3 of the second."""
    left, right = (w.rank - 1) % w.ranks, (w.rank + 1) % w.ranks
    kind, op = w.b.functions.object_id("DATATYPE", "MPI_INT"), w.b.functions.object_id("OP", "MPI_SUM")
    names = ["MPI_Win_fence", "MPI_Put", "MPI_Put", "MPI_Get", "MPI_Accumulate", "MPI_Accumulate"]
    buffers = [0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000]
    window = ID_DYNAMIC
    for _, rows in _steps(n // 2, 6):
        peers = [0, left, right, right, left, right]
        events = block(w, names, rows, peer=peers, tag=[0, 0, 0, 0, op, op], buffer=buffers, object=window)
        tails(w, events, 0, 6, b"\0")
        for at, place in enumerate((0, 1, 2, 3, 3), 1):
            tails(w, events, at, 6, zigzag(place), zigzag(1), kind)
        yield events
    yield _fence(w, window)
    for done, rows in _steps(n - n // 2, 3):
        names = ["MPI_Win_lock", "MPI_Put", "MPI_Win_unlock"]
        events = block(w, names, rows, peer=right, buffer=[0, 0x1000, 0], object=window)
        tails(w, events, 0, 3, zigzag(2), zigzag(0))
        tails(w, events, 1, 3, zigzag(8 + (done + np.arange(rows)) % 8), zigzag(1), kind)
        yield events
    yield _fence(w, window)


def _fence(w: Writer, window: int) -> Events:
    events = block(w, ["MPI_Win_fence"], 1, object=window)
    tails(w, events, 0, 1, b"\0")
    return events


def pending(w: Writer, n: int) -> Iterator[Events]:
    """All receives, then all sends, then one wait for each."""
    half = n // 4
    left, right = (w.rank - 1) % w.ranks, (w.rank + 1) % w.ranks
    ids = ID_DYNAMIC + np.arange(2 * half)
    places = 0x100000 + np.arange(half, dtype=np.uint64) * 8
    yield block(w, ["MPI_Irecv"], half, peer=left, object=ids[:half], buffer=places)
    yield block(w, ["MPI_Isend"], half, peer=right, object=ids[half:], buffer=places + 8 * half)
    peers = np.repeat([left, -1], half)
    waits = block(w, ["MPI_Wait"], 2 * half, peer=peers, object=ids, result=np.repeat([INT, 0], half))
    yield waits


def comms(w: Writer, n: int) -> Iterator[Events]:
    """Calls on the communicators that `prepare` made, and their end."""
    right, left = (w.rank + 1) % w.ranks, (w.rank - 1) % w.ranks
    names = ["MPI_Isend", "MPI_Recv", "MPI_Wait", "MPI_Barrier", "MPI_Comm_free"]
    made = np.arange(n // 10) + ID_DYNAMIC
    events = block(w, names, len(made), comm=np.repeat(made, 5), peer=[right, left, -1, 0, 0], result=[0, INT, 0, 0, 0])
    events["object"][0::5] = events["object"][2::5] = made
    yield events


def _prepare(b: Builder, pattern: str, each: int) -> None:
    if pattern == "rma":
        b.window(size=4096, unit=INT)
    if pattern == "comms":
        for _ in range(each // 10):
            b.dup()


PATTERNS: dict[str, Callable[[Writer, int], Iterator[Events]]] = {
    "halo": halo, "ahead": ahead, "pingpong": pingpong, "pool": pool, "funnel": funnel, "collective": collective,
    "rma": rma, "mixed": mixed, "long": long, "flood": flood, "pending": pending, "comms": comms,
}  # fmt: skip


def write(path: Path, pattern: str, ranks: int, events: int) -> Path:
    """A synthetic run of about this many events."""
    b = Builder(ranks=ranks, path=path)
    each = events // ranks
    if pattern in ("pool", "funnel", "flood"):
        size = ranks if pattern == "flood" else min(GROUP, ranks)
        each = events // ranks * size // (2 * (size - 1))
    for r in b.ranks:
        r.init()
    _prepare(b, pattern, each)
    for r in b.ranks:
        w = Writer(b, r, ranks, 1)
        for part in PATTERNS[pattern](w, each):
            r.append(part)
        if pattern != "long":
            r.append(block(w, ["MPI_Finalize"], 1))
        r.write()  # each open record has mappings, of which a process has 65,530 at most
    return b.write()


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(float(sys.argv[4])))
