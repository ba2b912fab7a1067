"""Hold a record against the program's own log of its calls (programs/log.h).

A call of the program goes through five moments, always in this order:

    begun (logged) -> recorded, open -> MPI's own work -> recorded, closed -> ended (logged)

so at whatever moment the process dies

    ended <= closed <= recorded <= begun <= ended + 1

and the recorded calls are the first `recorded` of the log, one for one, of which the first `ended` are closed.
Failed polls of one kind in a row are one event that counts them; the count rises when the poll has failed, between
the same two moments. So are equal local calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.trace import Rank, Trace
from weft.trace.layout import Flag, Level, LogKind

# The order of log.h's enum log_call
CALLS = (
    "Init Comm_rank Comm_size Send Recv Isend Irecv Wait Waitall Sendrecv Iprobe Allreduce Barrier Comm_dup Comm_free "
    "Type_contiguous Type_commit Type_free Abort Finalize Bcast Gatherv"
).split()
POLLS = {CALLS.index("Iprobe")}
BESIDE = {CALLS.index(name) for name in ("Init", "Comm_rank", "Comm_size", "Finalize")}
"""What mpi4py calls on its own account; programs/mix.py does not log these."""
ENTRY = np.dtype([("tag", "<i4"), ("source", "<i4"), ("call", "<u2"), ("unused", "<u2")])


@dataclass(frozen=True)
class Log:
    """What one process wrote down of itself."""

    pid: int
    python: bool
    begun: int
    ended: int
    entries: NDArray[np.void]


def read_log(path: Path) -> Log:
    """Read a log; a file that was not yet sized is an empty one."""
    language, pid = path.stem.split("-")
    head = np.fromfile(path, "<u8", 3)
    begun, ended = head[1:].tolist() if len(head) == 3 else (0, 0)
    return Log(int(pid), language == "python", begun, ended, np.fromfile(path, ENTRY, begun, offset=24))


def logs(folder: Path) -> list[Log]:
    """The logs of all processes of a run."""
    return [read_log(path) for path in sorted(folder.glob("*.log"))]


@dataclass(frozen=True)
class Calls:
    """The recorded calls of one process that its log knows, one element a call."""

    call: NDArray[np.int64]
    tag: NDArray[np.int64]
    closed: NDArray[np.bool_]


def recorded_calls(rank: Rank, from_python: bool) -> Calls:
    """The events as single calls, runs of failed polls drawn out. What mpi4py calls beside the program is left out."""
    events = rank.events
    known = {name: i for i, name in enumerate(CALLS)}
    numbers = {f.id: known.get(f.base.removeprefix("MPI_"), -1) for f in rank.trace.functions}
    number = np.array([numbers[i] for i in events["function"].tolist()], np.int64)
    if from_python:
        own = (number >= 0) & ~np.isin(number, list(BESIDE))
        events, number = events[own], number[own]
    closed = (events["flags"] & int(Flag.CLOSED)) != 0
    times = np.ones(len(events), np.int64)
    failed = np.isin(number, list(POLLS)) & closed & ((events["flags"] & int(Flag.TRUE)) == 0)
    times[failed] = events["count"][failed]
    local = rank.trace.functions.mask(f.name for f in rank.trace.functions if f.is_folded)[events["function"]]
    times[local] = np.maximum(events["count"][local], 1)
    return Calls(np.repeat(number, times), np.repeat(events["tag"].astype(np.int64), times), np.repeat(closed, times))


def disagreement(rank: Rank, log: Log) -> str | None:
    """What in the record is not what the log allows; None where they agree. Of a rank whose recording stopped, only
    what there is can be held against the log.
    """
    if rank.trace.level == Level.OUTCOMES:
        return _order_disagreement(rank, log)
    if not 0 <= log.begun - log.ended <= 1:
        return f"the log itself is wrong: {log.begun} begun, {log.ended} ended"
    calls = recorded_calls(rank, log.python)
    recorded, closed = len(calls.call), int(calls.closed.sum())
    ended = min(log.ended, recorded) if rank.state == "stopped" else log.ended
    if not ended <= closed <= recorded <= log.begun:
        return f"{ended} ended <= {closed} closed <= {recorded} recorded <= {log.begun} begun does not hold"
    if not calls.closed[:ended].all():
        return f"call {int(np.argmin(calls.closed))} had ended and is recorded open"
    entries = log.entries[:recorded]
    wrong = calls.call != entries["call"]
    wrong |= (entries["tag"] >= 0) & (calls.tag != entries["tag"])
    if wrong.any():
        i = int(np.argmax(wrong))
        found = f"{CALLS[int(calls.call[i])]} tag {calls.tag[i]}"
        return f"call {i} of {recorded} is recorded as {found}, made as {entries[i]}"
    return None


def _order_disagreement(rank: Rank, log: Log) -> str | None:
    """Level outcomes: the wildcard receives' sources, each written between the call's begin and its end."""
    outcomes = rank.threads[0].outcome_log if rank.threads else []
    sources = [value for kind, value in outcomes if kind == LogKind.SOURCE]
    ended = [int(s) for s in log.entries["source"][: log.ended] if s >= 0]
    at_hand = log.begun - log.ended
    if sources[: len(ended)] != ended:
        return f"the sources recorded are {sources[: len(ended)][-5:]}, those received {ended[-5:]} at the end"
    if len(sources) - len(ended) not in range(at_hand + 1):
        return f"{len(sources)} sources recorded, {len(ended)} received, {at_hand} calls at hand"
    return None


def check(trace: Trace, folder: Path) -> list[str]:
    """Hold each rank against its log. Returns what is wrong, with the process."""
    recorded = {rank.header.pid: rank for rank in trace.ranks if rank.header is not None}
    wrong = []
    for log in logs(folder):
        if log.pid in recorded:
            problem = disagreement(recorded[log.pid], log)
        else:  # died before its record had a header: then no call has ended
            problem = f"{log.ended} calls ended, nothing is recorded" if log.ended else None
        if problem:
            wrong.append(f"process {log.pid}: {problem}")
    return wrong
