"""The plan of a replay: all that another run could decide differently, known before the run starts.

From a record of level `trace` it holds every call that communicates, so that the replay is checked against it call by
call; from one of level `outcomes` only the outcomes. Given the source of each wildcard receive in order of posting,
MPI's rule that messages do not overtake (MPI-4.1, 3.5) fixes the rest of the matching.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.match import communicates
from weft.mpi.meaning import Act, base_name, functions_with, pvm
from weft.replay.layout import (
    CLOCK,
    ENTRY,
    HEADER,
    PLAN_MAGIC,
    THREAD,
    TURN,
    Check,
    Outcome,
    PlanFlag,
)
from weft.trace.functions import Function, FunctionTable

ANSWERED: Final = {
    **dict.fromkeys(("Test", "Testall", "Request_get_status", "Iprobe", "Improbe"), Outcome.DONE),
    **dict.fromkeys(("Testany", "Waitany"), Outcome.INDEX),
    **dict.fromkeys(("Testsome", "Waitsome"), Outcome.COUNT),
    **dict.fromkeys(("Probe", "Mprobe"), Outcome.NONE),
    **dict.fromkeys(functions_with(Act.CANCEL), Outcome.CANCEL),
    **dict.fromkeys(pvm.NOTHING, Outcome.NONE),
}
"""Calls whose outcome a replay decides, with the form of the outcome; not those that MPI decides alike each time."""
POLLS: Final = (
    functions_with(Act.COMPLETE, Act.ASK, Act.PROBE, Act.MATCHED_PROBE, where=lambda m: m.polls) & ANSWERED.keys()
)


def checks_of_function(function: Function) -> Check:
    """Return which arguments of a function's calls a replay compares with the record. These are known when the call
    begins, and the same in every replay.
    """
    if function.name in pvm.DECIDED:
        return Check.CALL
    if not communicates(function):
        return Check(0)
    if base_name(function.name) in POLLS:
        return Check.CALL | Check.POLL
    checks = Check.CALL
    given = {p.place: p for p in function.parameters if p.part is None}
    places = {"comm": Check.COMM, "peer": Check.PEER, "tag": Check.TAG, "count": Check.COUNT, "object": Check.OBJECT}
    for place, check in places.items():
        if place in given and given[place].direction != "out":
            checks |= check
    if "datatype" in given:
        checks |= Check.TYPE
    return checks


@dataclass(slots=True)
class ThreadPlan:
    """What one thread will do. `entries`: dtype ENTRY; the other columns as in plan.h.

    `slot`: the index in rank.threads whose events its entries are; threads that came one after the other may share one.
    """

    made: int = 0
    slot: int = 0
    entries: NDArray[Any] = field(default_factory=lambda: np.empty(0, ENTRY))
    posts: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    values: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    times: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    """What MPI_Wtime gave, as `encode_times` writes it."""
    posted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The event (index among the thread's events) of each of `posts`; empty for a record of level outcomes."""
    turns: NDArray[Any] = field(default_factory=lambda: np.empty(0, TURN))
    """The locks and atomic accesses of windows that are ordered or have a known result (dtype TURN)."""
    failed: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Failed polls, a row for each event: its index among the thread's events, and how many polls it counts for."""
    begun: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """When each of `entries` began, in ns; empty for a record of level `outcomes`."""

    def entries_before(self, event: int) -> int:
        """Return how many entries come before the event with this index among the thread's events."""
        return int(np.searchsorted(self.entries["event"], event))

    def seconds_before_entry(self, position: int) -> float:
        """Return the seconds in the record from the begin of the entry before a position to the begin of the entry at
        it. 0 at the first entry, and if the record has no times.
        """
        if not 0 < position < len(self.begun):
            return 0.0
        return float(self.begun[position] - self.begun[position - 1]) * 1e-9

    def failed_polls_before(self, event: int) -> int:
        """Return how many polls (such as MPI_Test) failed between the last entry of the plan before an event and the
        event.
        """
        return int(self._failed_polls_between(self.entries_before(event), event)[:, 1].sum())

    def next_event(self, position: int, polls: int = 0) -> int | None:
        """Return the index, among the thread's events, of the event that comes after `position` entries of the plan and
        then `polls` failed polls; None at the end of the record.
        """
        end = int(self.entries["event"][position]) if position < len(self.entries) else None
        rows = self._failed_polls_between(position, end)
        later = np.cumsum(rows[:, 1]) > polls
        return int(rows[later][0, 0]) if later.any() else end

    def _failed_polls_between(self, position: int, end: int | None) -> NDArray[np.int64]:
        """Return the rows (event, count) of the polls that failed between the entry before a position and the event
        `end`; None as `end` is the end of the record.
        """
        begin = int(self.entries["event"][position - 1]) if position else -1
        events = self.failed[:, 0]
        last = len(events) if end is None else int(np.searchsorted(events, end))
        return self.failed[int(np.searchsorted(events, begin, side="right")) : last]

    @property
    def size(self) -> int:
        """Return the number of calls or, from a record of level outcomes, of outcomes."""
        return len(self.entries) + (0 if len(self.posted) else len(self.posts))


_COLUMNS: Final = {"entries": "entry", "posts": "post", "values": "value", "times": "time", "turns": "turn"}


@dataclass(slots=True)
class RankPlan:
    """What one rank will do, thread by thread (by slot of the record)."""

    rank: int
    """Its index among all ranks of the record."""
    threads: list[ThreadPlan]
    flags: PlanFlag
    spawned: bool = False
    serves: bool = False
    """Whether it is a server of the system: after the end of its record it waits until all others are done."""
    parents: list[tuple[int, int, int]] = field(default_factory=list)
    """The calls that spawn it, where they are known: rank, thread and the entries before it."""
    worlds: list[int] = field(default_factory=list)
    """The first rank of each world that it spawns, -1 where that is not known."""

    def encode(self, functions: FunctionTable, bounded: bool = False) -> bytes:
        """Return the bytes of the plan's file, which the rank reads. `bounded`: the replay stops at goals."""
        parts = _FileArrays(HEADER.itemsize)
        kinds, canonical = checks_by_function(functions)
        header = np.zeros(1, HEADER)
        header["magic"], header["functions"], header["threads"] = PLAN_MAGIC, len(kinds), len(self.threads)
        header["flags"] = self.flags | (PlanFlag.BOUNDED if bounded else 0)
        header["kinds"], header["canonical"] = parts.append(kinds), parts.append(canonical)
        table = np.zeros(len(self.threads), THREAD)
        for row, thread in zip(table, self.threads, strict=True):
            row["made"] = thread.made
            for name, counted in (
                ("entries", "entry"),
                ("posts", "post"),
                ("values", "value"),
                ("times", "time"),
                ("turns", "turn"),
            ):
                column = getattr(thread, name)
                row[name], row[f"{counted}_count"] = parts.append(column), len(column)
        header["worlds"], header["world_count"] = parts.append(np.array(self.worlds, np.int32)), len(self.worlds)
        header["table"] = parts.append(table)
        header["size"] = parts.length
        return header.tobytes() + b"".join(parts.done)


class _FileArrays:
    """The arrays of a plan's file, one after the other, each at a multiple of 8 bytes."""

    def __init__(self, begin: int) -> None:
        self.length = begin
        self.done: list[bytes] = []

    def append(self, array: NDArray[Any]) -> int:
        """Append an array and return its offset in the file."""
        at, data = self.length, array.tobytes()
        data += bytes(-len(data) % 8)
        self.done.append(data)
        self.length += len(data)
        return at


def encode_times(first: NDArray[np.float64], more: Mapping[int, tuple[int, bytes]]) -> NDArray[np.uint8]:
    """Return the results of MPI_Wtime in the form of a plan's file. `first`: the result of each event's first call.
    `more`: index in `first` -> (number of further calls in that event, the bytes of their results; times.h).
    """
    clocks = np.zeros(len(first), CLOCK)
    clocks["first"] = np.ascontiguousarray(first, np.float64).view(np.uint32).reshape(-1, 2)
    places = sorted(more)
    clocks["more"][places] = [more[place][0] for place in places]
    parts, at = [], 0
    for place in places:
        parts += [clocks[at : place + 1].tobytes(), more[place][1]]
        at = place + 1
    return np.frombuffer(b"".join([*parts, clocks[at:].tobytes()]), np.uint8)


def canonical_id(functions: FunctionTable, function: Function) -> int:
    """Return the id of the function's form with int counts, its own if there is none."""
    return functions[function.base].id if function.base in functions else function.id


@lru_cache(maxsize=4)
def checks_by_function(functions: FunctionTable) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
    """Return two columns by function id: the arguments of its calls that are compared with the record, and the id of
    the function's form with int counts.
    """
    count = 1 + max((f.id for f in functions), default=0)
    kinds, canonical = np.zeros(count, np.uint8), np.arange(count, dtype=np.uint16)
    for function in functions:
        kinds[function.id] = checks_of_function(function)
        canonical[function.id] = canonical_id(functions, function)
    return kinds, canonical
