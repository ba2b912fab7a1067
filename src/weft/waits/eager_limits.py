"""Find from which size on standard sends waited for their receive: the protocol of the MPI library in this run.

The standard lets MPI_Send return when the message is buffered, or when its receive takes it (MPI-4.1, 3.4). Libraries
buffer small messages (eager) and let large ones wait (rendezvous), with a limit that depends on the way between the
processes, the library and its settings. The record shows it: a send that returned before its receive was posted was
eager, and so was every smaller one. A send that was there first and returned soon after the receive was posted, with
nothing else to wait for, was held by the receive, and so was every larger one. Sizes that the run shows nothing of are
taken to wait for nobody, as nothing proves it.
"""

from __future__ import annotations

import numpy as np

from weft.match import Match
from weft.native.headers.waits import Messages
from weft.terms.datatype_sizes import size_in_bytes
from weft.trace import Rank, Trace
from weft.trace.layout import ID_DYNAMIC, Def
from weft.waits import kernels
from weft.waits.event_times import EventTimes
from weft.waits.kernels import Ints

NEVER = int(np.iinfo(np.int64).max)

# A process that loses its core inside an eager send looks once like one that waits for its receive. And an eager send
# may be held until the receiver calls MPI at all: Open MPI's shared memory gives the buffer of 257 bytes and more back
# only then. So the smaller a message, the less is such a sight worth; no library has a smaller limit than 4 KiB.
_SEEN = ((64 << 10, 1), (4 << 10, 2))
"""From how many bytes on how many sends that clearly blocked show that sends of this size do. Below: none do."""

_KNOWN_TYPES = 1 << 16
"""Datatypes of a rank whose sizes are looked up, by id."""


def datatype_sizes(trace: Trace) -> list[Ints]:
    """Return, for each rank, the size in bytes of its datatypes by id; -1 if it is unknown. Ranks that made no datatype
    share one table.
    """
    basic: Ints | None = None
    found = []
    for rank in trace.ranks:
        if basic is None:
            basic = _sizes(rank, range(ID_DYNAMIC))
        made = [id for id in rank.definitions.ids(Def.DATATYPE) if ID_DYNAMIC <= id < _KNOWN_TYPES]
        found.append(np.concatenate([basic, _sizes(rank, range(ID_DYNAMIC, max(made) + 1))]) if made else basic)
    return found


def _sizes(rank: Rank, ids: range) -> Ints:
    sizes = (size_in_bytes(rank.datatype(id)) for id in ids)
    return np.array([-1 if size is None or not 0 <= size < 1 << 31 else size for size in sizes], np.int64)


def host_numbers(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return the number of each rank's host. Hosts are counted from 0 in the order of ranks."""
    names: dict[str, int] = {}
    found = [names.setdefault(rank.file.header.host if rank.file else "", len(names)) for rank in trace.ranks]
    return np.array(found, np.int32)


def find_eager_limits(
    clock: EventTimes, match: Match, sends: list[Messages], recvs: list[Messages]
) -> tuple[int, int, bool]:
    """Return the sizes from which on standard sends wait for their receive, as they were seen in the run.

    Three parts: the least such size in bytes within one host, the same between two hosts (NEVER if no send waited), and
    whether any send was seen that may have waited.
    """
    eager = np.full(2, -1, np.int64)
    shown = []
    for rank in range(len(sends)):
        room = int(match.sends.first[rank + 1]) - int(match.sends.first[rank])
        if room:
            shown.append(kernels.find_blocked_sends(clock.clocks, sends[rank], recvs[rank], eager, room))
    blocked = np.concatenate([np.zeros(0, np.int64), *shown])
    here, between = blocked[blocked & 1 == 0] >> 1, blocked[blocked & 1 == 1] >> 1
    some = bool((blocked >> 1 >= _SEEN[-1][0]).any())
    return _least_proven_size(here, int(eager[0])), _least_proven_size(between, int(eager[1])), some


def _least_proven_size(blocked: Ints, eager: int) -> int:
    """Return the least size in bytes from which on sends clearly waited for their receive; NEVER if none is proven.
    `blocked`: sizes of sends that waited; `eager`: the largest size of a send that did not wait.
    """
    sizes = np.sort(blocked[(blocked > eager) & (blocked >= _SEEN[-1][0])])
    seen = np.arange(1, len(sizes) + 1)  # so many blocked sends are no larger
    needed = np.select([sizes >= least for least, _ in _SEEN], [times for _, times in _SEEN])
    proven = sizes[seen >= needed]
    return int(proven[0]) if len(proven) else NEVER
