"""Operations of a whole run: sends, receives, probes and collectives of all ranks, as columns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match.functions import Functions, classify_functions
from weft.native.bridge import U8, array_addresses
from weft.native.headers import extract as extraction
from weft.native.headers import requests
from weft.native.headers.match import Posts as PostsView
from weft.native.headers.ops import LOCAL_COMM, ExtractInput
from weft.native.threads import run_in_threads, worker_count
from weft.trace import Communicator, Rank, Trace

NONE: Final = 0xFFFFFFFF
"""Means "none" in a column of event indices or rows."""

U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
U16 = NDArray[np.uint16]
U64 = NDArray[np.uint64]


@dataclass(slots=True)
class _Rows:
    """Rows of all ranks, rank after rank: those of rank r are first[r] .. first[r + 1] - 1."""

    first: U64
    event: U32
    completion: U32
    comm: I32
    flags: U16

    def __len__(self) -> int:
        return int(self.first[-1])

    def of_rank(self, rank: int) -> slice:
        """Return the rows of the rank with this index."""
        return slice(int(self.first[rank]), int(self.first[rank + 1]))

    def rows_of_ranks(self, share: range) -> slice:
        """Return the rows of consecutive ranks. `share`: the range of rank indices."""
        return slice(int(self.first[share.start]), int(self.first[share.stop]))

    def rank_of(self, row: int) -> int:
        """Return the index of the rank that a row belongs to."""
        return int(np.searchsorted(self.first, np.uint64(row), side="right")) - 1

    def ranks(self) -> I32:
        """Return the rank index of each row. It is computed at each call."""
        counts = np.diff(self.first).astype(np.int64)
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def id(self, row: int) -> EventId:
        """Return the event that started the operation in a row: (rank index, event index)."""
        return EventId(self.rank_of(row), int(self.event[row]))


@dataclass(slots=True)
class Posts(_Rows):
    """Sends, receives or probes, each rank's in posting order; columns of equal length.

    `event` posted it (index in the rank's events; Start of a persistent one; the Mprobe of a matched probe), `args` is
    the event that holds buffer, count and type (the ..._init, the Mrecv; NONE while there is none), `completion` the
    event whose return said that it was complete, `decided` the one whose return told a receive's message. `comm`:
    index in trace.communicators, `peer`: index in trace.ranks of the other side (-1 unknown), `tag`: both as they came
    out for a wildcard. `flags`: functions.Post. `partner`: row on the other side (for probes: the send seen) or NONE.
    """

    args: U32
    decided: U32
    peer: I32
    tag: I32
    partner: U32

    def view(self) -> PostsView:
        """Return the columns as the structure that C reads."""
        return PostsView(
            first=self.first, event=self.event, comm=self.comm, peer=self.peer, tag=self.tag, flags=self.flags
        )


@dataclass(slots=True)
class Collectives(_Rows):
    """One row for each rank's part in a collective call, in program order.

    `parent`: row of the call that made the window, file or persistent operation it is called on, NONE where it is on
    the communicator. `ordinal` counts on that. `function`: id of the function (of a started one: of its ..._init).
    `instance`: the collective that this is one rank's part of (index into Instances).
    """

    parent: U32
    ordinal: U32
    function: U16
    instance: U32


@dataclass(slots=True)
class Instances:
    """Collectives as wholes. `rows[first[k]:first[k + 1]]` are the parts in instance k, in order of rank.

    `comm`: index in trace.communicators. `ordinal`: which call on the communicator, or on what `parent` (an instance,
    NONE without) made. That members called the same function is not said: where they differ, the program is wrong.
    """

    comm: I32
    ordinal: U32
    parent: U32
    first: U64
    rows: U32

    def __len__(self) -> int:
        return len(self.comm)

    def parts(self, instance: int) -> U32:
        """Return the rows of the calls that make one collective. `instance`: its number."""
        return self.rows[int(self.first[instance]) : int(self.first[instance + 1])]


@dataclass(slots=True)
class Operations:
    """All operations that were read from a run."""

    sends: Posts
    recvs: Posts
    probes: Posts
    collectives: Collectives


class _PeerGroups:
    """The groups that peer arguments refer to, one after the other; equal groups are kept once."""

    def __init__(self) -> None:
        self.flat: list[NDArray[np.int32]] = []
        self.length = 0
        self._known: dict[int, tuple[int, int]] = {}
        self._keep: list[tuple[int, ...]] = []

    def add_group(self, group: tuple[int, ...]) -> tuple[int, int]:
        """Return where a group of ranks begins in the joined array of all groups, and its length. A group that is new
        is added.
        """
        known = self._known.get(id(group))
        if known is None:
            known = self._known[id(group)] = (self.length, len(group))
            self._keep.append(group)
            self.flat.append(np.array(group, np.int32))
            self.length += len(group)
        return known

    def array(self) -> I32:
        return np.concatenate([*self.flat, np.empty(0, np.int32)]).astype(np.int32)


def _local_communicators(rank: Rank, peers: _PeerGroups) -> NDArray[np.void]:
    """Return the communicators of a rank as a table for C, by the ids that the rank has for them. Their members are
    added to `peers`.
    """
    ids = [2, 3, *(definition.id for definition in rank.communicator_definitions())]
    known: dict[int, Communicator] = {i: c for i in ids if i < 1 << 24 and (c := rank.comm(i)) is not None}
    table = np.zeros(max(known, default=0) + 1, LOCAL_COMM)
    table["index"] = -1
    for i, comm in known.items():
        first, count = peers.add_group(comm.peers(rank.index))
        table[i] = (comm.index, count, first)
    return table


class ExtractionInput:
    """What C reads of one rank: `given`, as long as this object lives."""

    def __init__(self, rank: Rank, functions: Functions, comms: NDArray[np.void], peers: I32) -> None:
        threads = rank.threads
        events = np.ascontiguousarray(rank.events)
        several = len(threads) > 1
        thread_of = np.ascontiguousarray(rank.event_threads, np.int32) if several else None
        tails = [np.ascontiguousarray(t.tails) for t in threads]
        self._tails = tails
        self.given = ExtractInput(
            events=events,
            event_count=len(events),
            threads=thread_of,
            tails=array_addresses(tails, U8, "tails"),
            tail_bytes=np.array([len(t) for t in tails], np.uint64),
            specs=functions.specs,
            spec_count=len(functions.specs),
            programs=functions.programs,
            comms=comms,
            comm_count=len(comms),
            peers=peers,
            world=int(comms[2]["index"]) if len(comms) > 2 else -1,
        )


def request_completions(rank: Rank) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two columns (request id, event index): each request that a wait or a test reported as complete, and the
    call that did, in order of events.
    """
    nobody = np.zeros(0, LOCAL_COMM)
    reading = ExtractionInput(rank, classify_functions(rank.trace.functions), nobody, np.zeros(0, np.int32))
    count = ctypes.c_uint64()
    lib = requests.kernel()
    handle = lib.weft_find_completions(reading.given, ctypes.byref(count))
    if not handle:
        raise MemoryError(f"not enough memory for the requests of rank {rank.index}")
    request, event = np.empty(count.value, np.int64), np.empty(count.value, np.int64)
    lib.weft_take_completions(handle, request, event)
    return request, event


class _ExtractionWorker:
    """Reads ranks one after the other, in one memory that C keeps between them."""

    def __init__(self, trace: Trace, functions: Functions, comms: Sequence[NDArray[np.void]], peers: I32) -> None:
        self.trace, self.functions, self.comms, self.peers = trace, functions, comms, peers
        self.handle: int | None = None

    def _input_of(self, rank: int) -> ExtractionInput:
        return ExtractionInput(self.trace.ranks[rank], self.functions, self.comms[rank], self.peers)

    def max_counts(self, rank: int) -> list[int]:
        """Return upper bounds for how many sends, receives, probes and collective calls a rank has, in this order."""
        counts = (ctypes.c_uint64 * 4)()
        reading = self._input_of(rank)  # it keeps the arrays that C reads
        extraction.kernel().weft_bound_op_counts(reading.given, counts)
        return list(counts)

    def extract_rank(self, rank: int, posts: Sequence[Posts], colls: Collectives) -> list[int]:
        """Read the sends, receives, probes and collectives of a rank from its record, and write them into its rows of
        the columns.

        Returns how many there are of each of the four kinds.
        """
        lib, counts = extraction.kernel(), (ctypes.c_uint64 * 4)()
        reading = self._input_of(rank)
        self.handle = lib.weft_extract_ops(reading.given, self.handle, counts)
        if not self.handle:
            raise MemoryError(f"not enough memory for the operations of rank {rank}")
        for which, to in enumerate(posts):
            columns = extraction.PostColumns(
                event=to.event, args=to.args, completion=to.completion, decided=to.decided, comm=to.comm, peer=to.peer,
                tag=to.tag, flags=to.flags,
            )  # fmt: skip
            lib.weft_copy_posts(self.handle, which, columns, int(to.first[rank]))
        of_colls = extraction.CollColumns(
            event=colls.event, completion=colls.completion, comm=colls.comm, parent=colls.parent,
            ordinal=colls.ordinal, function=colls.function, flags=colls.flags,
        )  # fmt: skip
        lib.weft_copy_collectives(self.handle, of_colls, int(colls.first[rank]))
        return list(counts)

    def close(self) -> None:
        """Release the memory that C holds for this worker."""
        if self.handle:
            extraction.kernel().weft_ops_free(self.handle)
        self.handle = None


def _first_rows(counts: Sequence[int]) -> U64:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)


MakeColumn = Callable[[int, Any], NDArray[Any]]
"""Makes a column of a length and a type: np.empty, or one in a file."""


def _allocate_posts(counts: Sequence[int], room: MakeColumn) -> Posts:
    first = _first_rows(counts)
    u, i, f = np.uint32, np.int32, np.uint16
    return Posts(first, *(room(int(first[-1]), kind) for kind in (u, u, i, f, u, u, i, i, u)))


def _allocate_collectives(counts: Sequence[int], room: MakeColumn) -> Collectives:
    first = _first_rows(counts)
    u, i, f = np.uint32, np.int32, np.uint16
    return Collectives(first, *(room(int(first[-1]), kind) for kind in (u, u, i, f, u, u, f, u)))


def _close_gaps(rows: _Rows, counts: Sequence[int]) -> None:
    """Move the rows of later ranks to the front, in place, so that no unused rows remain between ranks. `counts`: the
    used rows of each rank.
    """
    first = _first_rows(counts)
    if np.array_equal(first, rows.first):
        return
    for column in fields(rows):
        if column.name == "first":
            continue
        values = getattr(rows, column.name)
        for rank, count in enumerate(counts):
            old, new = int(rows.first[rank]), int(first[rank])
            if old != new:
                values[new : new + count] = values[old : old + count]
        setattr(rows, column.name, values[: int(first[-1])])
    rows.first = first


def extract_operations(trace: Trace, make_column: MakeColumn = np.empty) -> Operations:
    """Read sends, receives, probes and collectives from the records of this process's ranks, in parallel on several
    cores. `make_column` allocates their columns.
    """
    functions = classify_functions(trace.functions)
    peers, none = _PeerGroups(), np.zeros(0, LOCAL_COMM)
    comms = [_local_communicators(rank, peers) if rank.index in trace.share else none for rank in trace.ranks]
    flat = peers.array()
    count = worker_count(sum(map(len, trace.own)), 16)
    free = [_ExtractionWorker(trace, functions, comms, flat) for _ in range(count)]
    others = trace.share.start, len(trace.ranks) - trace.share.stop

    def call_for_all_ranks(call: Callable[[_ExtractionWorker, int], list[int]]) -> list[list[int]]:
        """Return what `call` returns for each rank. The ranks are shared among threads; ranks of other processes get
        zeros.
        """

        def call_for_rank(rank: int) -> list[int]:
            """Return what `call` returns for one rank. It gets a worker that no other thread uses meanwhile."""
            worker = free.pop()  # one for each of the threads that take them
            try:
                return call(worker, rank)
            finally:
                free.append(worker)

        before, behind = ([[0] * 4] * n for n in others)
        return before + run_in_threads(count, call_for_rank, trace.share) + behind

    most = call_for_all_ranks(lambda worker, rank: worker.max_counts(rank))
    posts = [_allocate_posts([m[which] for m in most], make_column) for which in range(3)]
    colls = _allocate_collectives([m[3] for m in most], make_column)
    if max(map(len, [*posts, colls]), default=0) >= NONE:
        raise MemoryError(
            "the run has more than 4 billion sends, receives or collectives, which Weft cannot match: "
            "record less (--keep)"
        )
    try:
        counts = call_for_all_ranks(lambda worker, rank: worker.extract_rank(rank, posts, colls))
    finally:
        for worker in free:
            worker.close()
    for which, rows in enumerate([*posts, colls]):
        _close_gaps(rows, [count[which] for count in counts])
    for rank in trace.share if len(colls) else ():
        own = colls.parent[colls.of_rank(rank)]
        own[own != NONE] += np.uint32(colls.first[rank])
    return Operations(posts[0], posts[1], posts[2], colls)
