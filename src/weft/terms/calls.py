"""What MPI's functions do to progress: who sends, who receives, who waits, and what is collective over what.

Names are those of the standard without `MPI_` and without the large-count ending `_c`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.terms import native
from weft.trace import Rank
from weft.trace.functions import FunctionTable


def words(text: str) -> frozenset[str]:
    """The set of the words of a text."""
    return frozenset(text.split())


def nonblocking(names: frozenset[str]) -> frozenset[str]:
    """The nonblocking forms of collectives: Iallreduce of Allreduce."""
    return frozenset("I" + name.lower() for name in names)


SENDS: Final = words("Send Ssend Bsend Rsend")
ISENDS: Final = words("Isend Issend Ibsend Irsend")
SEND_INITS: Final = words("Send_init Ssend_init Bsend_init Rsend_init")
SYNCHRONOUS: Final = words("Ssend Issend Ssend_init")
BUFFERED: Final = words("Bsend Ibsend Bsend_init Rsend Irsend Rsend_init")
"""Sends that return whatever the receiver does (a ready send has its receive by contract)."""

SENDRECVS: Final = words("Sendrecv Sendrecv_replace")
ISENDRECVS: Final = words("Isendrecv Isendrecv_replace")
RECVS: Final = words("Recv")
IRECVS: Final = words("Irecv")
RECV_INITS: Final = words("Recv_init")
PROBES: Final = words("Probe Mprobe")
MATCHED_PROBES: Final = words("Mprobe Improbe")
MRECVS: Final = words("Mrecv Imrecv")
PARTITIONED: Final = words("Psend_init Precv_init")

WAITS: Final = words("Wait Waitall Waitany Waitsome")
TESTS: Final = words("Test Testall Testany Testsome")
COMPLETIONS: Final = WAITS | TESTS | words("Request_free")
STATUS_CHECKS: Final = words("Request_get_status Request_get_status_all Request_get_status_any Request_get_status_some")
STARTS: Final = words("Start Startall")

ALL_TO_ALL: Final = words(
    "Barrier Allgather Allgatherv Allreduce Alltoall Alltoallv Alltoallw Reduce_scatter Reduce_scatter_block"
)
"""Every member needs every other (MPI-4.1, 6.2.1): who is blocked here waits for all that are absent."""
FROM_ROOT: Final = words("Bcast Scatter Scatterv")
TO_ROOT: Final = words("Gather Gatherv Reduce")
SCANS: Final = words("Scan Exscan")
NEIGHBOURS: Final = words(
    "Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw"
)
REDUCTIONS: Final = words("Allreduce Reduce Reduce_scatter Reduce_scatter_block Scan Exscan")
DATA_COLLECTIVES: Final = ALL_TO_ALL | FROM_ROOT | TO_ROOT | SCANS | NEIGHBOURS
COMM_MAKERS: Final = words(
    "Comm_dup Comm_dup_with_info Comm_split Comm_split_type Comm_create Cart_create Cart_sub Graph_create"
    " Dist_graph_create Dist_graph_create_adjacent Intercomm_merge Intercomm_create"
)
WINDOW_MAKERS: Final = words("Win_create Win_allocate Win_allocate_shared Win_create_dynamic")
COMM_COLLECTIVES: Final = DATA_COLLECTIVES | COMM_MAKERS | WINDOW_MAKERS | words("File_open Comm_free Comm_disconnect")
"""Blocking calls that every member of their communicator makes in the same order."""
ICOLLECTIVES: Final = nonblocking(DATA_COLLECTIVES) | words("Comm_idup Comm_idup_with_info")
COLLECTIVE_INITS: Final = frozenset(name + "_init" for name in DATA_COLLECTIVES)
WINDOW_COLLECTIVES: Final = words("Win_fence Win_free")
FILE_COLLECTIVES: Final = words(
    "File_close File_set_view File_set_size File_preallocate File_set_atomicity File_sync File_read_all"
    " File_read_at_all File_write_all File_write_at_all File_read_ordered File_write_ordered File_seek_shared"
    " File_read_all_begin File_read_all_end File_write_all_begin File_write_all_end File_read_at_all_begin"
    " File_read_at_all_end File_write_at_all_begin File_write_at_all_end File_read_ordered_begin"
    " File_read_ordered_end File_write_ordered_begin File_write_ordered_end"
)
NEVER_WAITS_FOR_ALL: Final = words("Comm_free")
"""Collective by the standard, local in practice."""

FINALIZE: Final = words("Finalize")
LOCKS: Final = words("Win_lock Win_lock_all")
UNLOCKS: Final = words("Win_unlock Win_unlock_all")
FLUSHES: Final = words("Win_flush Win_flush_all Win_flush_local Win_flush_local_all")
RMA: Final = words("Put Get Accumulate Get_accumulate Fetch_and_op Compare_and_swap")
REQUEST_RMA: Final = words("Rput Rget Raccumulate Rget_accumulate")

FILE_REQUESTS: Final = words(
    "File_iread File_iread_all File_iread_at File_iread_at_all File_iread_shared File_iwrite File_iwrite_all"
    " File_iwrite_at File_iwrite_at_all File_iwrite_shared"
)
PERSISTENT: Final = SEND_INITS | RECV_INITS | COLLECTIVE_INITS | PARTITIONED
REQUEST_MAKERS: Final = (
    ISENDS | IRECVS | ISENDRECVS | words("Imrecv Grequest_start Comm_iflush_buffer Buffer_iflush") | ICOLLECTIVES
    | REQUEST_RMA | FILE_REQUESTS | PERSISTENT
)  # fmt: skip


def base(name: str) -> str:
    """`MPI_Send_c` as this module calls it: Send."""
    return name.removeprefix("MPI_").removesuffix("_c")


def spoken(name: str) -> str:
    """A function's name as messages for people have it: `MPI_Send_c` is send."""
    return base(name).lower()


class Masks:
    """Which function ids belong to a set of names, as lookup tables for whole columns of events."""

    def __init__(self, functions: FunctionTable) -> None:
        self._bases = {function.id: base(function.name) for function in functions}
        self._ids: dict[str, list[int]] = {}
        for id, name in self._bases.items():
            self._ids.setdefault(name, []).append(id)
        self._size = max(self._bases, default=0) + 1
        self._tables: dict[frozenset[str], NDArray[np.bool_]] = {}

    def name(self, function: int) -> str:
        """The base name of a function id."""
        return self._bases.get(int(function), "")

    def ids(self, names: Iterable[str]) -> list[int]:
        """The function ids of some base names."""
        return sorted(id for name in set(names) for id in self._ids.get(name, ()))

    def table(self, names: frozenset[str]) -> NDArray[np.bool_]:
        """True at the ids of the functions in `names`; unknown ids are False."""
        if names not in self._tables:
            table = np.zeros(65536, np.bool_)
            table[self.ids(names)] = True
            self._tables[names] = table
        return self._tables[names]

    def where(self, rank: Rank, names: frozenset[str]) -> NDArray[np.int64]:
        """Indices of the events of a rank that call one of `names`."""
        return catalogue(rank).where(self.table(names))


@cache
def masks(functions: FunctionTable) -> Masks:
    """The lookup tables of a run's functions."""
    return Masks(functions)


class Catalogue:
    """What the events of one rank call, read once: `function` by event, `counts` by function id.

    `failed`, `open`, `changed`: how many returned an error, did not return, saw a buffer that was changed.
    """

    def __init__(self, rank: Rank) -> None:
        events = rank.events
        self.function = np.empty(len(events), np.uint16)
        self.counts = np.zeros(65536, np.int64)
        self.failed, self.open, self.changed = native.catalogue(events, self.function, self.counts)
        self.present: list[int] = np.flatnonzero(self.counts).tolist()
        """Ids of the functions that are called."""

    def count(self, table: NDArray[np.bool_]) -> int:
        """How many events call a function that is True in a lookup table."""
        return sum(int(self.counts[id]) for id in self.present if table[id])

    def where(self, table: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Indices of these events."""
        count = self.count(table)
        if count in (0, len(self.function)):
            return np.arange(count)
        return native.where(self.function, table, count)


_CATALOGUES: WeakKeyDictionary[Rank, Catalogue] = WeakKeyDictionary()


def catalogue(rank: Rank) -> Catalogue:
    """The catalogue of a rank, made when it is first asked for."""
    found = _CATALOGUES.get(rank)
    if found is None:
        found = _CATALOGUES[rank] = Catalogue(rank)
    return found
