"""List what orders events of different processes, as arrays that the kernel reads.

A process is one thread of one rank. Points: the start of event e is 2e + 1, its end 2e + 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post
from weft.mpi import meaning
from weft.mpi.meaning import Act, Leaves, Trait, pvm
from weft.native.headers.order import Coll
from weft.native.headers.order import CollKind as Kind
from weft.order.threads import ThreadOrder
from weft.trace import Flag, Rank, Trace
from weft.trace.births import NOT_RECORDED, list_spawns
from weft.trace.layout import COUNT_IN_TAIL, IN_PLACE, ROOT, TAIL_ALIGN

U32 = NDArray[np.uint32]
EdgeColumns = tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]
"""Edges as columns: process, event, target process, target; a number stands for one edge."""
POINTS: Final = (1, 2)
"""What is added to twice an event's index for the points of its start and of its end."""

SOURCE: Final = int(Coll.SOURCE)  # columns of bytes take no enum
TARGET: Final = int(Coll.TARGET)


def exit_condition(name: str) -> Leaves:
    """Return which members of a collective must have come before a member may leave it. `name`: the function, blocking
    or not. FREELY for functions that order nothing."""
    found = meaning.find_meaning(name)
    orders = found is not None and found.act is Act.COLLECTIVE and found.leaves is not Leaves.AFTER_NEIGHBOURS
    return found.leaves if found is not None and orders else Leaves.FREELY


class Processes(NamedTuple):
    """The processes of a run: `first[r]` is that of rank r's first thread, `rank[p]` the rank of process p."""

    first: U32
    rank: U32
    only: U32
    threads: list[NDArray[np.int32] | None]
    events: list[U32 | None]
    counts: NDArray[np.uint64]

    def of(self, rank: int, event: int) -> int:
        """Return the process that made an event."""
        threads = self.threads[rank]
        return int(self.first[rank]) + (0 if threads is None else int(threads[event]))

    def processes_of_rows(self, first: NDArray[np.uint64], event: U32) -> U32:
        """Return the process (thread of a rank) of each row's event, 0 if the event is NONE. The rows are sorted by
        rank: `first` has the first row of each rank."""
        counts = np.diff(first).astype(np.int64)
        found = np.repeat(self.first[:-1], counts)
        for rank, threads in enumerate(self.threads):
            if threads is not None:
                part = slice(int(first[rank]), int(first[rank + 1]))
                events = event[part]
                known = events != NONE
                found[part][known] += threads[events[known]].astype(np.uint32)
        return found


def number_processes(trace: Trace) -> Processes:
    """Number the threads of all ranks, and return them as the processes of the order. A rank with several threads has
    one process for each, any other rank has one."""
    threads: list[NDArray[np.int32] | None] = []
    events: list[U32 | None] = []
    counts: list[int] = []
    first = [0]
    for rank in trace.ranks:
        several = len(rank.threads) > 1
        of_event = np.ascontiguousarray(rank.event_threads) if several else None
        threads.append(of_event)
        first.append(first[-1] + (len(rank.threads) if several else 1))
        if of_event is None:
            events.append(None)
            counts.append(len(rank.events))
        else:
            own = [np.flatnonzero(of_event == t).astype(np.uint32) for t in range(len(rank.threads))]
            events += own
            counts += map(len, own)
    sizes = np.diff(first)
    rank_of = np.repeat(np.arange(len(trace.ranks), dtype=np.uint32), sizes)
    only = np.where(sizes == 1, first[:-1], NONE).astype(np.uint32)
    return Processes(np.array(first, np.uint32), rank_of, only, threads, events, np.array(counts, np.uint64))


@dataclass(slots=True)
class Edges:
    """Edges between any two points, sorted by source."""

    process: U32
    point: U32
    target_process: U32
    target_point: U32
    of_process: NDArray[np.uint64]


def _concatenate_edges(parts: list[EdgeColumns]) -> list[U32]:
    empty = np.empty(0, np.uint32)
    return [np.concatenate([empty, *(np.atleast_1d(p[i]).astype(np.uint32) for p in parts)]) for i in range(4)]


def _probe_edges(match: Match, processes: Processes) -> EdgeColumns:
    """Return edges from sends to probes. A probe returns only after the message that it sees was sent."""
    probes = np.flatnonzero((match.probes.partner != NONE) & (match.probes.decided != NONE))
    if not len(probes):
        return (probes,) * 4
    sends = match.probes.partner[probes]
    return (
        processes.processes_of_rows(match.sends.first, match.sends.event)[sends], match.sends.event[sends],
        processes.processes_of_rows(match.probes.first, match.probes.event)[probes], match.probes.event[probes],
    )  # fmt: skip


def _synchronous_edges(match: Match, processes: Processes) -> EdgeColumns:
    """Return edges from receives to synchronous sends. Such a send completes only after its receive has begun
    (MPI-4.1, 3.4).

    A matched probe is not the receive. The receive is the call that takes the message it found, as MPICH answers the
    sender there.
    """
    sends, recvs = match.sends, match.recvs
    sync = (sends.flags & Post.SYNCHRONOUS != 0) & (sends.partner != NONE) & (sends.completion != NONE)
    rows = np.flatnonzero(sync)
    if not len(rows):
        return (rows,) * 4
    begins = np.where(recvs.flags & Post.MATCHED_PROBE != 0, recvs.args, recvs.event)
    rows = rows[begins[sends.partner[rows]] != NONE]
    taken = sends.partner[rows]
    return (
        processes.processes_of_rows(recvs.first, begins)[taken], begins[taken],
        processes.processes_of_rows(sends.first, sends.completion)[rows], sends.completion[rows],
    )  # fmt: skip


def _spawn_edges(trace: Trace, processes: Processes) -> list[EdgeColumns]:
    """Return edges between spawns and children: the spawn returns when the child initialises MPI (MPI-4.1, 11.8.2).

    PVM's spawn waits for no call of the child.
    """
    found: list[EdgeColumns] = []
    system = trace.system
    initialisers = trace.functions.ids(*system.begins)
    for rank, event, children in list_spawns(trace):
        for child in children:
            if event == NOT_RECORDED or child < 0:
                continue
            parent = processes.of(rank, event)
            if not system.begins:
                found += [(parent, event, processes.of(child, 0), 0)] if len(trace.ranks[child]) else []
                continue
            starts = np.flatnonzero(np.isin(trace.ranks[child].events["function"], initialisers))
            for first in starts[:1].tolist():
                process = processes.of(child, first)
                found += [(parent, event, process, first), (process, first, parent, event)]
    return found


def _notice_edges(trace: Trace, processes: Processes) -> list[EdgeColumns]:
    """Return edges to PVM's notices that a task has ended: a notice comes after all that the task did."""
    found: list[EdgeColumns] = []
    tells = trace.functions.ids(*pvm.NOTICES)
    for rank in trace.ranks if len(tells) else ():
        for event in np.flatnonzero(np.isin(rank.events["function"], tells)).tolist():
            about = int(rank.events["peer"][event])
            last = len(trace.ranks[about]) - 1 if 0 <= about < len(trace.ranks) else -1
            if last >= 0:
                found.append((processes.of(about, last), last, processes.of(rank.index, event), event))
    return found


def _thread_edges(trace: Trace, match: Match, processes: Processes) -> list[EdgeColumns]:
    """Return edges between threads of a rank, only those that must hold.

    MPI is initialised before other threads call it, and a request is made before it completes.
    """
    found: list[EdgeColumns] = []
    initialisers = trace.functions.ids("MPI_Init", "MPI_Init_thread")
    for rank, threads in enumerate(processes.threads):
        if threads is None:
            continue
        events = trace.ranks[rank].events
        starts = np.flatnonzero(np.isin(events["function"], initialisers))
        for process in range(int(processes.first[rank]), int(processes.first[rank + 1])):
            own = processes.events[process]
            if len(starts) and own is not None and len(own) and processes.of(rank, int(starts[0])) != process:
                found.append((processes.of(rank, int(starts[0])), int(starts[0]), process, int(own[0])))
        for rows in (match.sends, match.recvs, match.collectives):
            part = rows.of_rank(rank)
            event, completion = rows.event[part], rows.completion[part]
            done = completion != NONE
            event, completion = event[done], completion[done]
            across = threads[event] != threads[completion]
            first = np.uint32(processes.first[rank])
            found.append((first + threads[event[across]].astype(np.uint32), event[across],
                          first + threads[completion[across]].astype(np.uint32), completion[across]))  # fmt: skip
    return found


def generic_edges(trace: Trace, match: Match, processes: Processes, extra: list[EdgeColumns]) -> Edges:
    """Return all edges that come neither from a message nor from a collective, together with `extra` edges."""
    across = [
        *_thread_edges(trace, match, processes),
        *_spawn_edges(trace, processes),
        *_notice_edges(trace, processes),
    ]
    parts = [_probe_edges(match, processes), _synchronous_edges(match, processes), *across, *extra]
    process, event, target_process, target = _concatenate_edges(parts)
    between = _concatenate_edges(list(_clock_edges(trace, processes)))
    process, target_process = (np.concatenate([a, b]) for a, b in ((process, between[0]), (target_process, between[2])))
    point = np.concatenate([2 * event + POINTS[0], 2 * between[1] + POINTS[1]])
    target_point = np.concatenate([2 * target + POINTS[1], 2 * between[3] + POINTS[0]])
    order = np.lexsort((point, process))
    process = process[order]
    of_process = np.searchsorted(process, np.arange(len(processes.rank) + 1)).astype(np.uint64)
    return Edges(process, point[order], target_process[order], target_point[order], of_process)


def _clock_edges(trace: Trace, processes: Processes) -> Iterator[EdgeColumns]:
    """Yield edges between threads of a rank: from the end of a call to the start of the first call of another thread
    that began after it.

    What else orders threads (OpenMP, locks) is in the record only of programs built with `weft cc`. Elsewhere any two
    calls of which one was over when the other began may be ordered: a race is reported only of calls that surely are
    not.
    """
    for rank in trace.ranks:
        if len(rank.threads) < 2:
            continue
        threads, first = ThreadOrder(rank), int(processes.first[rank.index])
        for source in range(len(threads.calls)):
            for target, calls in enumerate(threads.calls):
                if source == target:
                    continue
                last = threads.find_last_calls(rank.threads[target].slot, calls.begun, source)
                chosen = np.flatnonzero(np.diff(last, prepend=-1) > 0)
                yield (np.full(len(chosen), first + source), last[chosen],
                       np.full(len(chosen), first + target), calls.events[chosen])  # fmt: skip


@dataclass(slots=True)
class CollectiveEdges:
    """For each member's call in a collective its role and its place in a scan, for each collective its kind."""

    role: NDArray[np.uint8]
    place: U32
    kind: NDArray[np.uint8]


ROOT_BIT: Final = 4


class _FunctionTables:
    """What the functions of a run mean here, by function id."""

    def __init__(self, trace: Trace) -> None:
        self.leaves = np.zeros(65536, np.uint8)
        self.word = np.zeros(65536, np.uint16)
        self.counted = np.zeros(65536, np.bool_)
        self.of_both = np.zeros(65536, np.bool_)
        words: dict[str, int] = {}
        for function in trace.functions:
            found = meaning.find_meaning(function.name)
            if found is not None and found.act is Act.COLLECTIVE:
                self.leaves[function.id] = exit_condition(function.name)
                self.word[function.id] = words.setdefault(found.kin, len(words) + 1)
                self.counted[function.id] = found.counted
                self.of_both[function.id] = Trait.BOTH_GROUPS in found.traits


def collective_edges(trace: Trace, match: Match) -> CollectiveEdges:
    """Return for each call in a collective which part it has in the order: whether it waits for others, and others for
    it.

    A collective whose members called different functions orders nothing.
    """
    colls, instances = match.collectives, match.instances
    tables = _FunctionTables(trace)
    role = np.zeros(len(colls), np.uint8)
    place = np.zeros(len(colls), np.uint32)
    for rank in range(len(trace.ranks)) if len(colls) else ():
        part = colls.of_rank(rank)
        if part.start < part.stop:
            role[part], place[part] = _roles_of_rank(trace, match, rank, tables)
    return CollectiveEdges(
        role, place, _kinds_of_collectives(match, tables, role) if len(instances) else np.zeros(0, np.uint8)
    )


def _kinds_of_collectives(match: Match, tables: _FunctionTables, role: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return for each collective how it orders its members: all alike, by rank as a scan, or not at all. `role`: the
    roles of the members' calls."""
    colls, rows = match.collectives, match.instances.rows
    starts = match.instances.first[:-1].astype(np.int64)  # no instance is empty
    words = tables.word[colls.function[rows]]
    same = np.minimum.reduceat(words, starts) == np.maximum.reduceat(words, starts)
    leaving = tables.leaves[colls.function[rows[starts]]]
    init = colls.flags[rows[starts]] & Post.INIT != 0
    roots = np.add.reduceat((role[rows] & ROOT_BIT != 0).astype(np.int64), starts)
    rooted = (leaving == Leaves.AFTER_ROOT) | (leaving == Leaves.ROOT_AFTER_ALL)
    kind = np.full(len(starts), Kind.GENERAL, np.uint8)
    kind[leaving == Leaves.AFTER_LOWER] = Kind.SCAN
    kind[leaving == Leaves.AFTER_LOWER_ALONE] = Kind.EXSCAN
    kind[~same | init | (leaving == Leaves.FREELY) | (rooted & (roots != 1))] = Kind.NO_EDGE
    return kind


def _roles_of_rank(
    trace: Trace, match: Match, rank: int, tables: _FunctionTables
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return (roles, places) of one rank's calls in collectives. A role says whether others wait for the call
    (SOURCE), it for others (TARGET), and if it is the root (ROOT_BIT). A place is the rank in the communicator."""
    colls, part, events = match.collectives, match.collectives.of_rank(rank), trace.ranks[rank].events
    function = colls.function[part]
    leaving = tables.leaves[function]
    # A started persistent collective was given its arguments by the ..._init.
    event = colls.event[part].copy()
    started = colls.flags[part] & Post.PERSISTENT != 0
    if started.any():
        event[started] = colls.event[colls.parent[part][started]]
    peer = events["peer"][event]
    comm = colls.comm[part].astype(np.int64) + 1  # -1: of no known communicator
    counted = np.bincount(comm) > 0
    unique, inverse = np.flatnonzero(counted) - 1, (np.cumsum(counted) - 1)[comm]
    known = [trace.communicators[int(c)] for c in unique]
    place = np.array([c.rank_of(rank) for c in known], np.int64)[inverse]
    inter = np.array([c.inter for c in known])[inverse]
    root = np.where(inter, peer == ROOT, peer == place)
    takes_part = ~inter | (peer >= 0)
    brings = ~tables.counted[function] | (events["count"][event] != 0) | (events["buffer"][event] == IN_PLACE)
    everybody = (leaving == Leaves.AFTER_ALL) | (leaving == Leaves.AFTER_LOWER) | (leaving == Leaves.AFTER_LOWER_ALONE)
    everybody &= ~inter | tables.of_both[function]
    fence = leaving == Leaves.FENCE
    everybody[fence] = select_plain_fences(trace.ranks[rank], event[fence])
    role = np.zeros(len(leaving), np.uint8)
    role[everybody] = TARGET
    role[everybody & brings] |= SOURCE
    role[(leaving == Leaves.AFTER_ROOT) & root & brings] = SOURCE
    role[(leaving == Leaves.AFTER_ROOT) & ~root & takes_part] = TARGET
    role[(leaving == Leaves.ROOT_AFTER_ALL) & ~root & takes_part & brings] = SOURCE
    role[(leaving == Leaves.ROOT_AFTER_ALL) & root] = TARGET
    role[root & ((leaving == Leaves.AFTER_ROOT) | (leaving == Leaves.ROOT_AFTER_ALL))] |= ROOT_BIT
    return role, np.maximum(place, 0)


def select_plain_fences(rank: Rank, fences: U32 | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the fences of a window that made no assertion: only these surely act as barriers (MPI-4.1,
    12.5.1)."""
    slots = rank.events[fences]
    plain, told = (np.zeros(len(fences), np.bool_) for _ in range(2))
    tails = rank.threads[0].tails if len(rank.threads) == 1 else plain[:0]
    if len(tails) and len(fences):
        # The tail is the assertion alone: one byte of 0 where there is none.
        start = np.minimum(slots["result"].astype(np.int64) * TAIL_ALIGN, len(tails) - 1)
        told = (slots["flags"] & (Flag.HAS_TAIL | Flag.TICKET)) == Flag.HAS_TAIL
        told &= slots["count"] != COUNT_IN_TAIL
        plain = (tails[start] == 0) & told
    for row in np.flatnonzero(~told).tolist():
        plain[row] = rank.event(int(fences[row])).args.get("assert", 1) == 0
    return plain
