"""The causes of time in MPI: every nanosecond of a call has one of them.

The wait states are those of KOJAK and Scalasca (Wolf and Mohr, "Automatic performance analysis of hybrid MPI/OpenMP
applications", 2003; Geimer, Wolf et al., "The Scalasca performance toolset architecture", 2010; the pattern
descriptions of Scalasca 2). With E and X the times of entry and exit:

- late sender: min(E_send, X) - E of the call that waits for the message (a receive, a probe, a completion);
- late receiver: min(E_receive, X) - E of the call that waits for a send which cannot be buffered;
- barrier, N x N, fence: max(E_j) - E_i; late broadcast: E_root - E_i; early reduce: max(E_j) - E_root;
  early scan: max(E_j of lower ranks) - E_i;
- collective completion: X_i - min(X_j), once all are there;
- late post, early wait (general active target synchronisation): max(E_post) - E of the access epoch's call that
  waits, max(E_complete) - E_wait.

Of all that one call needs only the last to come counts, as in Scalasca: so no second is counted twice. Scalasca ends
an early reduce with the first sender and leaves the rest to the library; the root cannot go before the last one came,
so here it is the last.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.mpi.meaning import Act, Sync, all_meanings, base_name, functions_with
from weft.native.headers.waits import Blocks, Late
from weft.native.headers.waits import Cause as InC
from weft.terms import calls
from weft.terms.calls import masks_of, word_set
from weft.trace.functions import FunctionTable


class Cause(IntEnum):
    """Why time passed inside MPI. REST: the library itself, and transfer. What C finds has its number in waits.h."""

    REST = 0
    LATE_SENDER = InC.LATE_SENDER
    LATE_RECEIVER = InC.LATE_RECEIVER
    WAIT_AT_BARRIER = InC.WAIT_AT_BARRIER
    WAIT_AT_NXN = InC.WAIT_AT_NXN
    LATE_BROADCAST = InC.LATE_BROADCAST
    EARLY_REDUCE = InC.EARLY_REDUCE
    EARLY_SCAN = InC.EARLY_SCAN
    WAIT_AT_FENCE = InC.WAIT_AT_FENCE
    LATE_POST = 9
    EARLY_WAIT = 10
    COMPLETION = InC.COMPLETION
    POLLING = 12
    ONE_SIDED = 13
    FILES = 14
    MANAGEMENT = 15
    START_AND_END = 16

    @property
    def label(self) -> str:
        """Return the name of the cause in tables for people."""
        return _LABELS[self]

    @property
    def slug(self) -> str:
        """Return the name of the cause in JSON."""
        return self.name.lower().replace("_", "-")


_LABELS: Final = {
    Cause.LATE_SENDER: "late sender",
    Cause.LATE_RECEIVER: "late receiver",
    Cause.WAIT_AT_BARRIER: "wait at barrier",
    Cause.WAIT_AT_NXN: "wait at N x N",
    Cause.LATE_BROADCAST: "late broadcast",
    Cause.EARLY_REDUCE: "early reduce",
    Cause.EARLY_SCAN: "early scan",
    Cause.WAIT_AT_FENCE: "wait at fence",
    Cause.LATE_POST: "late post",
    Cause.EARLY_WAIT: "early wait",
    Cause.COMPLETION: "collective completion",
    Cause.POLLING: "polling",
    Cause.ONE_SIDED: "one-sided, not attributed",
    Cause.FILES: "files",
    Cause.MANAGEMENT: "making and freeing objects",
    Cause.START_AND_END: "start and end of MPI",
    Cause.REST: "transfer and library",
}

ORDER: Final = tuple(_LABELS)
"""The causes as tables show them: first those that somebody late is to blame for, at the end what is left."""

LATE: Final = ORDER[: ORDER.index(Cause.COMPLETION)]
"""Waiting: somebody else was late."""

COLLECTIVE: Final = (
    Cause.WAIT_AT_BARRIER, Cause.WAIT_AT_NXN, Cause.LATE_BROADCAST, Cause.EARLY_REDUCE, Cause.EARLY_SCAN,
    Cause.WAIT_AT_FENCE,
)  # fmt: skip
"""Those of the finding wait-at-collective."""

EPOCHS: Final = (Cause.LATE_POST, Cause.EARLY_WAIT)

# Functions

_BLOCKS_ONE: Final = calls.SENDS | calls.RECVS | calls.PROBES | {"Mrecv"} | (calls.WAITS & calls.OF_ONE)
_BLOCKS_ALL: Final = (calls.WAITS & calls.OF_ALL) | calls.SENDRECVS
_BLOCKS_FIRST: Final = calls.WAITS & (calls.OF_ANY | calls.OF_SOME)
_POLLS: Final = calls.POLLS - {"Parrived"}

_START_AND_END: Final = functions_with(Act.BEGIN_OR_END)
_OBJECTS: Final = frozenset(
    m.name for m in all_meanings().values() if {"COMM", "WINDOW"} & {*m.makes, m.frees}
) | word_set("Open_port Close_port Type_commit Type_free Group_free Op_create Op_free")
_WINDOWS: Final = (
    (calls.ON_WINDOWS - calls.POLLS) - calls.functions_with_sync(Sync.FREE)
)  # fmt: skip

_LATE: Final = (
    (Late.ALL, calls.ALL_TO_ALL - {"Barrier"}), (Late.FROM_ROOT, calls.FROM_ROOT), (Late.TO_ROOT, calls.TO_ROOT),
    (Late.SCAN, calls.SCANS), (Late.BARRIER, word_set("Barrier")),
)  # fmt: skip


@cache
def blocking_table(functions: FunctionTable) -> NDArray[np.uint8]:
    """Return a table by function id that says how a function waits: for one operation, for all, for the first, or not
    (enum weft_blocks).
    """
    table, of = np.zeros(65536, np.uint8), masks_of(functions)
    collectives = calls.DATA_COLLECTIVES | calls.functions_with_sync(Sync.FENCE)
    for how, names in (
        (Blocks.BLOCKS_ONE, _BLOCKS_ONE | collectives), (Blocks.BLOCKS_ALL, _BLOCKS_ALL),
        (Blocks.BLOCKS_FIRST, _BLOCKS_FIRST), (Blocks.POLLS, _POLLS),
    ):  # fmt: skip
        table[of.ids(names)] = how
    return table


@cache
def late_table(functions: FunctionTable) -> NDArray[np.uint8]:
    """Return a table by function id that says which members of a collective the others wait for: all of them, the root,
    and so on (enum weft_late).
    """
    table, of = np.zeros(65536, np.uint8), masks_of(functions)
    for sort, names in _LATE:
        table[of.ids(calls.forms_of(names))] = sort
    table[of.ids(calls.functions_with_sync(Sync.FENCE))] = Late.FENCE
    return table


@cache
def non_waiting_causes(functions: FunctionTable) -> NDArray[np.uint8]:
    """Return a table by function id with the cause to which time in a call counts if the call does not wait for
    anybody.
    """
    table, of = np.zeros(65536, np.uint8), masks_of(functions)
    for cause, names in (
        (Cause.START_AND_END, _START_AND_END), (Cause.MANAGEMENT, _OBJECTS), (Cause.ONE_SIDED, _WINDOWS),
    ):  # fmt: skip
        table[of.ids(names)] = cause
    files = [f.id for f in functions if base_name(f.name).startswith("File_")]
    table[files] = Cause.FILES
    return table
