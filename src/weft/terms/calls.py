"""Classify MPI's functions by what they do to progress: who sends, who receives, who waits, and what is collective over
what.

Names are those of the standard without `MPI_` and without the large-count ending `_c`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from threading import local
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.mpi import meaning
from weft.mpi.meaning import (
    Access,
    Act,
    Form,
    Leaves,
    Many,
    Meaning,
    Mode,
    Over,
    Share,
    Sync,
    Trait,
    base_name,
    functions_with,
    names_of,
)
from weft.terms import kernels
from weft.trace import Rank
from weft.trace.functions import Function, FunctionTable
from weft.trace.mapping import release_pages


def word_set(text: str) -> frozenset[str]:
    """Return the set of the words of a text."""
    return frozenset(text.split())


def _functions_in_form(form: Form, *acts: Act) -> frozenset[str]:
    """Return the functions that do one of these in this form, partitioned communication left out."""
    return functions_with(*acts, where=lambda m: m.form is form and m.mode is not Mode.PARTITIONED)


SENDS: Final = _functions_in_form(Form.BLOCKING, Act.SEND)
ISENDS: Final = _functions_in_form(Form.NONBLOCKING, Act.SEND)
SEND_INITS: Final = _functions_in_form(Form.PERSISTENT, Act.SEND)
SYNCHRONOUS: Final = functions_with(Act.SEND, where=lambda m: m.mode is Mode.SYNCHRONOUS)
BUFFERED: Final = functions_with(Act.SEND, where=lambda m: m.mode in (Mode.BUFFERED, Mode.READY))
"""Sends that return whatever the receiver does (a ready send has its receive by contract)."""

SENDRECVS: Final = _functions_in_form(Form.BLOCKING, Act.SEND_RECEIVE)
ISENDRECVS: Final = _functions_in_form(Form.NONBLOCKING, Act.SEND_RECEIVE)
RECVS: Final = _functions_in_form(Form.BLOCKING, Act.RECEIVE)
IRECVS: Final = _functions_in_form(Form.NONBLOCKING, Act.RECEIVE)
RECV_INITS: Final = _functions_in_form(Form.PERSISTENT, Act.RECEIVE)
PROBES: Final = _functions_in_form(Form.BLOCKING, Act.PROBE, Act.MATCHED_PROBE)
IPROBES: Final = _functions_in_form(Form.NONBLOCKING, Act.PROBE, Act.MATCHED_PROBE)
MATCHED_PROBES: Final = functions_with(Act.MATCHED_PROBE)
MRECVS: Final = functions_with(Act.MATCHED_RECEIVE)
PARTITIONED: Final = functions_with(Act.SEND, Act.RECEIVE, where=lambda m: m.mode is Mode.PARTITIONED)
READIES: Final = functions_with(Act.PARTITION)

WAITS: Final = _functions_in_form(Form.BLOCKING, Act.COMPLETE)
TESTS: Final = _functions_in_form(Form.NONBLOCKING, Act.COMPLETE)
OF_ONE: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.ONE)
OF_ALL: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.ALL)
OF_ANY: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.ANY)
OF_SOME: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.SOME)
RELEASES: Final = functions_with(Act.RELEASE)
CANCELS: Final = functions_with(Act.CANCEL)
COMPLETIONS: Final = WAITS | TESTS | RELEASES
STATUS_CHECKS: Final = _functions_in_form(Form.BLOCKING, Act.ASK)
STARTS: Final = functions_with(Act.START)
POLLS: Final = functions_with(Act.COMPLETE, Act.ASK, Act.PROBE, Act.MATCHED_PROBE, Act.EPOCH, where=lambda m: m.polls)


def data_collectives(where: Callable[[Meaning], bool]) -> frozenset[str]:
    """Return the blocking collectives that move data and for which `where` holds."""
    return functions_with(Act.COLLECTIVE, where=lambda m: m.moves and m.form is Form.BLOCKING and where(m))


ALL_TO_ALL: Final = data_collectives(lambda m: m.leaves is Leaves.AFTER_ALL)
"""Every member needs every other (MPI-4.1, 6.2.1): a rank that is blocked here waits for all that are absent."""
FROM_ROOT: Final = data_collectives(lambda m: m.leaves is Leaves.AFTER_ROOT)
TO_ROOT: Final = data_collectives(lambda m: m.leaves is Leaves.ROOT_AFTER_ALL)
BROADCASTS: Final = data_collectives(lambda m: m.leaves is Leaves.AFTER_ROOT and m.sends is Share.COUNT)
SCANS: Final = data_collectives(lambda m: m.leaves in (Leaves.AFTER_LOWER, Leaves.AFTER_LOWER_ALONE))
NEIGHBOURS: Final = data_collectives(lambda m: m.is_neighbourhood)
REDUCTIONS: Final = data_collectives(lambda m: m.is_reduction)
DATA_COLLECTIVES: Final = data_collectives(lambda m: True)


def forms_of(kin: frozenset[str], *wanted: Form) -> frozenset[str]:
    """Return all forms of some blocking functions, such as Iallreduce and Allreduce_init for Allreduce. With `wanted`,
    return only these forms. `kin`: the blocking functions, without `MPI_`.
    """
    acts = {meaning.all_meanings()[name].act for name in kin}
    return functions_with(*acts, where=lambda m: m.kin in kin and (not wanted or m.form in wanted))


def nonblocking_forms(kin: frozenset[str]) -> frozenset[str]:
    """Return the nonblocking forms of collectives: Iallreduce for Allreduce."""
    return forms_of(kin, Form.NONBLOCKING)


def _collectives_over(over: Over, *wanted: Form) -> frozenset[str]:
    return functions_with(Act.COLLECTIVE, where=lambda m: m.over is over and m.form in wanted)


COMM_MAKERS: Final = functions_with(
    Act.COLLECTIVE,
    where=lambda m: m.over is Over.COMMUNICATOR and m.makes == ("COMM",) and Trait.MEETS_STRANGERS not in m.traits,
)
WINDOW_MAKERS: Final = functions_with(Act.COLLECTIVE, where=lambda m: "WINDOW" in m.makes)
COMM_COLLECTIVES: Final = _collectives_over(Over.COMMUNICATOR, Form.BLOCKING)
"""Blocking calls that every member of their communicator makes in the same order."""
ICOLLECTIVES: Final = _collectives_over(Over.COMMUNICATOR, Form.NONBLOCKING)
COLLECTIVE_INITS: Final = _collectives_over(Over.COMMUNICATOR, Form.PERSISTENT)
WINDOW_COLLECTIVES: Final = _collectives_over(Over.WINDOW, Form.BLOCKING)
FILE_COLLECTIVES: Final = _collectives_over(Over.FILE, Form.BLOCKING, Form.BEGIN, Form.END)
FILE_ICOLLECTIVES: Final = _collectives_over(Over.FILE, Form.NONBLOCKING)


def _file_transfers(word: str, *wanted: Form) -> frozenset[str]:
    acts = (Act.TRANSFER, Act.COLLECTIVE)
    return functions_with(*acts, where=lambda m: m.topic == "files" and word in m.name and m.form in wanted)


FILE_READS: Final = _file_transfers("read", Form.BLOCKING)
FILE_WRITES: Final = _file_transfers("write", Form.BLOCKING)
FILE_IREADS: Final = _file_transfers("read", Form.NONBLOCKING)
FILE_IWRITES: Final = _file_transfers("write", Form.NONBLOCKING)
FILE_BEGINS: Final = _collectives_over(Over.FILE, Form.BEGIN)
FILE_ENDS: Final = _collectives_over(Over.FILE, Form.END)

FINALIZE: Final = functions_with(Act.BEGIN_OR_END, where=lambda m: m.over is Over.WORLD)
SESSION_ENDS: Final = functions_with(Act.BEGIN_OR_END, where=lambda m: m.over is Over.SESSION)
ENDS: Final = FINALIZE | SESSION_ENDS
"""The calls with which a program ends its use of MPI."""


@cache
def functions_with_sync(*wanted: Sync) -> frozenset[str]:
    """Return the functions that have one of these effects on the epochs of a window, such as opening one."""
    return functions_with(Act.EPOCH, Act.COLLECTIVE, where=lambda m: m.sync in wanted)


LOCKS: Final = functions_with_sync(Sync.LOCK, Sync.LOCK_ALL)
UNLOCKS: Final = functions_with_sync(Sync.UNLOCK, Sync.UNLOCK_ALL)
FLUSHES: Final = functions_with_sync(Sync.FLUSH, Sync.FLUSH_ALL, Sync.FLUSH_LOCAL, Sync.FLUSH_LOCAL_ALL)
RMA: Final = _functions_in_form(Form.BLOCKING, Act.ACCESS)
REQUEST_RMA: Final = _functions_in_form(Form.NONBLOCKING, Act.ACCESS)
GETS: Final = functions_with(Act.ACCESS, where=lambda m: m.access is Access.READ)
ON_WINDOWS: Final = RMA | REQUEST_RMA | functions_with(Act.EPOCH) | WINDOW_COLLECTIVES

PERSISTENT: Final = SEND_INITS | RECV_INITS | COLLECTIVE_INITS | PARTITIONED
REQUEST_MAKERS: Final = names_of(m for m in meaning.all_meanings().values() if "REQUEST" in m.makes)


def message_name(name: str) -> str:
    """Return a function's name as messages write it: `send` for MPI_Send_c."""
    return base_name(name).lower()


class Masks:
    """Lookup tables by function id: which functions belong to a set of names."""

    def __init__(self, functions: FunctionTable) -> None:
        self._bases = {function.id: base_name(function.name) for function in functions}
        self._ids: dict[str, list[int]] = {}
        for id, name in self._bases.items():
            self._ids.setdefault(name, []).append(id)
        self._size = max(self._bases, default=0) + 1
        self._tables: dict[frozenset[str], NDArray[np.bool_]] = {}

    def name(self, function: int) -> str:
        """Return the base name of a function id."""
        return self._bases.get(int(function), "")

    def ids(self, names: Iterable[str]) -> list[int]:
        """Return the function ids of some base names."""
        return sorted(id for name in set(names) for id in self._ids.get(name, ()))

    def table(self, names: frozenset[str]) -> NDArray[np.bool_]:
        """Return a table to look functions up by id: True at the ids of the functions in `names`."""
        if names not in self._tables:
            table = np.zeros(65536, np.bool_)
            table[self.ids(names)] = True
            self._tables[names] = table
        return self._tables[names]

    def where(self, rank: Rank, names: frozenset[str]) -> NDArray[np.int64]:
        """Return the indices of a rank's events that call one of the functions `names`."""
        return catalogue_of(rank).where(self.table(names))


@cache
def masks_of(functions: FunctionTable) -> Masks:
    """Return the lookup tables of a run's functions."""
    return Masks(functions)


PART: Final = 1 << 18
"""Calls that are read before their pages of the record are given back ..."""
LONG: Final = 1 << 20
"""... if there are more than this many: else the next reader finds them in memory."""


class CallCatalogue:
    """Which functions the events of one rank call, read once: `function` by event, `counts` by function id.

    `failed`, `open`, `changed`: how many events returned an error, did not return, or saw a buffer that was changed.
    """

    def __init__(self, rank: Rank) -> None:
        events = rank.events
        self.function = np.empty(len(events), np.uint16)
        counts = _zeroed_counts()  # of every id there could be: longer than the calls of a rank, where ranks are many
        self.failed = self.open = self.changed = 0
        for start in range(0, len(events), PART):
            part = events[start : start + PART]
            failed, unfinished, changed = kernels.fill_catalogue(part, self.function[start : start + PART], counts)
            self.failed, self.open, self.changed = self.failed + failed, self.open + unfinished, self.changed + changed
            if len(events) > LONG:
                release_pages(part)
        most = int(self.function.max(initial=0)) + 1
        self.present: list[int] = np.flatnonzero(counts[:most]).tolist()
        """Ids of the functions that are called."""
        self.counts = dict(zip(self.present, counts[self.present].tolist(), strict=True))
        counts[self.present] = 0

    def of(self, function: Function) -> NDArray[np.int64]:
        """Return the indices of the events that call one function."""
        return np.flatnonzero(self.function == function.id) if function.id in self.counts else np.zeros(0, np.int64)

    def count(self, table: NDArray[np.bool_]) -> int:
        """Return how many events call certain functions. `table`: a mask over function ids."""
        return sum(count for id, count in self.counts.items() if table[id])

    def where(self, table: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the indices of the events that call certain functions. `table`: a mask over function ids."""
        count = self.count(table)
        if count in (0, len(self.function)):
            return np.arange(count)
        return kernels.find_rows_where_true(self.function, table, count)


_SCRATCH: Final = local()
"""For each thread a column with a zero for every id."""


def _zeroed_counts() -> NDArray[np.int64]:
    """Return this thread's scratch column with a counter for each function id. All counters are 0, and whoever uses
    them must set them back to 0.
    """
    if not hasattr(_SCRATCH, "counts"):
        _SCRATCH.counts = np.zeros(65536, np.int64)
    found: NDArray[np.int64] = _SCRATCH.counts
    return found


_CATALOGUES: WeakKeyDictionary[Rank, CallCatalogue] = WeakKeyDictionary()


def catalogue_of(rank: Rank) -> CallCatalogue:
    """Return the catalogue of a rank's MPI calls: the function of each call, and how many failed or are open. It is
    made when it is first asked for, and then kept.
    """
    found = _CATALOGUES.get(rank)
    if found is None:
        found = _CATALOGUES[rank] = CallCatalogue(rank)
    return found
