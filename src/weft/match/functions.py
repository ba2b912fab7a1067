"""What each MPI function means to matching, and where in its tail the arguments lie that matching reads.

The numbers mirror native/kernel/ops.h; a test holds them against it.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.trace import Function, FunctionTable


class Op(IntEnum):
    """What a function does, as far as matching goes."""

    NONE = 0
    SEND = 1
    RECV = 2
    SENDRECV = 3
    PROBE = 4
    MPROBE = 5
    MRECV = 6
    SEND_INIT = 7
    RECV_INIT = 8
    COLL_INIT = 9
    START = 10
    STARTALL = 11
    WAIT = 12
    WAITALL = 13
    WAITANY = 14
    WAITSOME = 15
    GET_STATUS = 16
    REQUEST_FREE = 17
    COLL = 18
    COLL_OBJECT = 19
    FINALIZE = 20
    CANCEL = 21


class Spec(IntFlag):
    """More about a function."""

    NONBLOCKING = 0x01
    SYNCHRONOUS = 0x02
    BUFFERED = 0x04
    READY = 0x08
    PARTITIONED = 0x10
    FLAGGED = 0x20
    MAKES_OBJECT = 0x40
    FILE = 0x80


class Post(IntFlag):
    """What an operation is like: the `flags` columns of a Match.

    UNDECIDED: a wildcard whose outcome the record does not tell. FREED: its request was freed, so nobody saw it
    complete. HALF: one half of a Sendrecv. INIT: the making of a persistent collective. RECALLED:
    MPI_Cancel was called for it.
    """

    ANY_SOURCE = 0x0001
    ANY_TAG = 0x0002
    SYNCHRONOUS = 0x0004
    BUFFERED = 0x0008
    READY = 0x0010
    NONBLOCKING = 0x0020
    PERSISTENT = 0x0040
    PARTITIONED = 0x0080
    MATCHED_PROBE = 0x0100
    HALF = 0x0200
    UNDECIDED = 0x0400
    FREED = 0x0800
    CANCELLED = 0x1000
    INIT = 0x2000
    RECALLED = 0x4000


class Role(IntEnum):
    """What a parameter in a tail is read for."""

    SKIP = 0
    SOURCE = 1
    RECVTAG = 2
    STATUS = 3
    REQUESTS = 4
    STATUSES = 5
    INDICES = 6
    INDEX = 7
    OUTCOUNT = 8
    OBJECT = 9


class Code(IntEnum):
    """How a value in a tail is encoded."""

    INT = 0
    ADDRESS = 1
    HANDLE = 2
    STRING = 3
    STATUS = 4
    DOUBLE = 5


CODE_ARRAY: Final = 0x80

_NOTHING: Final = (Op.NONE, Spec(0))
_MODES = {"": Spec(0), "s": Spec.SYNCHRONOUS, "b": Spec.BUFFERED, "r": Spec.READY}
_DATA = (
    "allgather allgatherv allreduce alltoall alltoallv alltoallw barrier bcast exscan gather gatherv reduce"
    " reduce_scatter reduce_scatter_block scan scatter scatterv neighbor_allgather neighbor_allgatherv"
    " neighbor_alltoall neighbor_alltoallv neighbor_alltoallw"
).split()
# Collective over the communicator that the slot names. MPI_Comm_create_group is not: it is over a group only.
_MAKERS = (
    "comm_create comm_dup comm_dup_with_info comm_split comm_split_type cart_create cart_sub graph_create"
    " dist_graph_create dist_graph_create_adjacent intercomm_create intercomm_merge"
    " comm_accept comm_connect comm_spawn comm_spawn_multiple comm_free comm_disconnect"
).split()
_WINDOW_MAKERS = "win_create win_allocate win_allocate_shared win_create_dynamic".split()
_FILE_COLLECTIVES = (
    "close set_size preallocate set_view set_info set_atomicity sync seek_shared read_all write_all read_at_all"
    " write_at_all read_ordered write_ordered read_at_all_begin read_at_all_end write_at_all_begin write_at_all_end"
    " read_all_begin read_all_end write_all_begin write_all_end read_ordered_begin read_ordered_end"
    " write_ordered_begin write_ordered_end"
).split()

_PLAIN: dict[str, tuple[Op, Spec]] = {
    "recv": (Op.RECV, Spec(0)),
    "irecv": (Op.RECV, Spec.NONBLOCKING),
    "sendrecv": (Op.SENDRECV, Spec(0)),
    "sendrecv_replace": (Op.SENDRECV, Spec(0)),
    "isendrecv": (Op.SENDRECV, Spec.NONBLOCKING),
    "isendrecv_replace": (Op.SENDRECV, Spec.NONBLOCKING),
    "probe": (Op.PROBE, Spec(0)),
    "iprobe": (Op.PROBE, Spec.FLAGGED),
    "mprobe": (Op.MPROBE, Spec(0)),
    "improbe": (Op.MPROBE, Spec.FLAGGED),
    "mrecv": (Op.MRECV, Spec(0)),
    "imrecv": (Op.MRECV, Spec.NONBLOCKING),
    "recv_init": (Op.RECV_INIT, Spec(0)),
    "precv_init": (Op.RECV_INIT, Spec.PARTITIONED),
    "psend_init": (Op.SEND_INIT, Spec.PARTITIONED),
    "start": (Op.START, Spec(0)),
    "startall": (Op.STARTALL, Spec(0)),
    "wait": (Op.WAIT, Spec(0)),
    "test": (Op.WAIT, Spec.FLAGGED),
    "waitall": (Op.WAITALL, Spec(0)),
    "testall": (Op.WAITALL, Spec.FLAGGED),
    "waitany": (Op.WAITANY, Spec(0)),
    "testany": (Op.WAITANY, Spec.FLAGGED),
    "waitsome": (Op.WAITSOME, Spec(0)),
    "testsome": (Op.WAITSOME, Spec(0)),
    "request_get_status": (Op.GET_STATUS, Spec.FLAGGED),
    "request_free": (Op.REQUEST_FREE, Spec(0)),
    "cancel": (Op.CANCEL, Spec(0)),
    "comm_idup": (Op.COLL, Spec.NONBLOCKING),
    "comm_idup_with_info": (Op.COLL, Spec.NONBLOCKING),
    "file_open": (Op.COLL, Spec.MAKES_OBJECT | Spec.FILE),
    "win_free": (Op.COLL_OBJECT, Spec(0)),
    "win_fence": (Op.COLL_OBJECT, Spec(0)),
    "finalize": (Op.FINALIZE, Spec(0)),
}


# Names in sets, no patterns: these are asked for each of some 600 functions in every run that is opened.
_KNOWN: Final[dict[str, tuple[Op, Spec]]] = {
    **{f"{letter}send": (Op.SEND, spec) for letter, spec in _MODES.items()},
    **{f"i{letter}send": (Op.SEND, spec | Spec.NONBLOCKING) for letter, spec in _MODES.items()},
    **{f"{letter}send_init": (Op.SEND_INIT, spec) for letter, spec in _MODES.items()},
    **dict.fromkeys([*_DATA, *_MAKERS], (Op.COLL, Spec(0))),
    **dict.fromkeys(_WINDOW_MAKERS, (Op.COLL, Spec.MAKES_OBJECT)),
    **dict.fromkeys([f"i{name}" for name in _DATA], (Op.COLL, Spec.NONBLOCKING)),
    **dict.fromkeys([f"{name}_init" for name in _DATA], (Op.COLL_INIT, Spec(0))),
    **dict.fromkeys([f"file_{name}" for name in _FILE_COLLECTIVES], (Op.COLL_OBJECT, Spec.FILE)),
    **dict.fromkeys(
        [f"file_i{verb}{at}_all" for verb in ("read", "write") for at in ("", "_at")],
        (Op.COLL_OBJECT, Spec.FILE | Spec.NONBLOCKING),
    ),
    **_PLAIN,
}


def classify(name: str) -> tuple[Op, Spec]:
    """What the function of this name does, large-count form or not."""
    return _KNOWN.get(name.removeprefix("MPI_").removesuffix("_c").lower(), _NOTHING)


_ROLES = {
    "source": Role.SOURCE,
    "recvtag": Role.RECVTAG,
    "status": Role.STATUS,
    "array_of_requests": Role.REQUESTS,
    "array_of_statuses": Role.STATUSES,
    "array_of_indices": Role.INDICES,
    "index": Role.INDEX,
    "outcount": Role.OUTCOUNT,
    "message": Role.OBJECT,
    "fh": Role.OBJECT,
}
CODES: Final = {
    "int": Code.INT,
    "address": Code.ADDRESS,
    "string": Code.STRING,
    "status": Code.STATUS,
    "double": Code.DOUBLE,
}

POLL = 0x80
SPEC = np.dtype([("op", "u1"), ("flags", "u1"), ("program", "<u2")])


class Functions(NamedTuple):
    """The classes as C reads them: `specs` by function id (dtype SPEC), and how to read each tail."""

    specs: NDArray[np.void]
    programs: NDArray[np.uint8]


def _program(function: Function) -> bytes:
    """How to read the function's tail: the numbers of entry and exit values, then (code, role) for each.

    POLL beside the second number: the exit values are there only where the poll did not fail.
    """
    steps = []
    for parameter in (*function.tail_in, *function.tail_out):
        code = CODES.get(parameter.type, Code.HANDLE) | (CODE_ARRAY if parameter.array else 0)
        steps.append(bytes([code, _ROLES.get(parameter.name, Role.SKIP)]))
    exits = len(function.tail_out) | (POLL if function.is_poll else 0)
    return bytes([len(function.tail_in), exits]) + b"".join(steps)


@cache
def tables(functions: FunctionTable) -> Functions:
    """The classes of a run's functions. Programs are shared, so that all of them stay below 64 KB."""
    known = list(functions)
    specs = np.zeros(1 + max((f.id for f in known), default=0), SPEC)
    programs = bytearray(b"\0\0")
    offsets: dict[bytes, int] = {b"\0\0": 0}
    for function in known:
        op, flags = classify(function.name)
        if op is Op.NONE:
            continue
        program = _program(function)
        if program not in offsets:
            offsets[program] = len(programs)
            programs += program
        specs[function.id] = (op, flags, offsets[program])
    return Functions(specs, np.frombuffer(bytes(programs), np.uint8))
