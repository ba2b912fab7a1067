"""Classifies MPI functions for matching, and says where in a tail the arguments are that matching reads.

The numbers are those of native/kernel/ops.h.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.mpi import meaning
from weft.mpi.meaning import Act, Form, Many, Meaning, Mode, Over, base_name
from weft.native.headers.ops import CODE_ARRAY, PROGRAM_POLL, SPEC, Code, Op, Post, Role, Spec
from weft.trace import Function, FunctionTable

__all__ = [
    "CODES",
    "CODE_ARRAY",
    "POLL",
    "SPEC",
    "Code",
    "Functions",
    "Op",
    "Post",
    "Role",
    "Spec",
    "classify",
    "classify_functions",
    "communicates",
]


_NOTHING: Final = (Op.NONE, Spec(0))
_MODES: Final = {
    Mode.STANDARD: Spec(0), Mode.SYNCHRONOUS: Spec.SYNCHRONOUS, Mode.BUFFERED: Spec.BUFFERED, Mode.READY: Spec.READY,
    Mode.PARTITIONED: Spec.PARTITIONED,
}  # fmt: skip
_OPS: Final = {
    Act.SEND: Op.SEND, Act.RECEIVE: Op.RECV, Act.SEND_RECEIVE: Op.SENDRECV, Act.PROBE: Op.PROBE,
    Act.MATCHED_PROBE: Op.MPROBE, Act.MATCHED_RECEIVE: Op.MRECV, Act.RELEASE: Op.REQUEST_FREE, Act.CANCEL: Op.CANCEL,
}  # fmt: skip
_COLLECTIVES: Final = {Over.COMMUNICATOR: Op.COLL, Over.WINDOW: Op.COLL_OBJECT, Over.FILE: Op.COLL_OBJECT}
_MATTERS: Final = {*_OPS, Act.COLLECTIVE, Act.COMPLETE, Act.START, Act.ASK, Act.BEGIN_OR_END}
_PERSISTENT: Final = {Op.SEND: Op.SEND_INIT, Op.RECV: Op.RECV_INIT, Op.COLL: Op.COLL_INIT}
_WAITS: Final = {Many.ONE: Op.WAIT, Many.ALL: Op.WAITALL, Many.ANY: Op.WAITANY, Many.SOME: Op.WAITSOME}


def classify(name: str) -> tuple[Op, Spec]:
    """Return what a function does and its flags. `name`: with `MPI_`, in the large-count form or not."""
    return _classify_base_name(base_name(name))


@cache
def _classify_base_name(name: str) -> tuple[Op, Spec]:
    """Return a function's operation (send, receive, collective and so on) and its flags. `name`: without `MPI_` and
    `_c`.
    """
    found = meaning.all_meanings().get(name)
    op = Op.NONE if found is None or found.act not in _MATTERS else _operation_of(found)
    if found is None or op is Op.NONE:
        return _NOTHING
    of_file = found.over is Over.FILE or "FILE" in found.makes
    return op, _flags_of(
        op, found.mode, found.form, polls=found.polls, file=of_file, makes=of_file or "WINDOW" in found.makes
    )


def _operation_of(meaning_row: Meaning) -> Op:
    """Return the operation of a function (send, receive, collective and so on), from its row in the table of
    meanings.
    """
    if meaning_row.act is Act.COLLECTIVE:
        op = _COLLECTIVES.get(meaning_row.over)
    elif meaning_row.act is Act.COMPLETE:
        op = _WAITS[meaning_row.many]
    elif meaning_row.act is Act.START:
        op = Op.START if meaning_row.many is Many.ONE else Op.STARTALL
    elif meaning_row.act is Act.ASK:  # of several requests at once, and of partitions, the answer decides no match
        op = Op.GET_STATUS if meaning_row.many is Many.ONE and meaning_row.mode is not Mode.PARTITIONED else None
    else:
        op = Op.FINALIZE if meaning_row.over is Over.WORLD else _OPS.get(meaning_row.act)
    if op is None:
        return Op.NONE
    return _PERSISTENT[op] if meaning_row.form is Form.PERSISTENT else op


@cache
def _flags_of(op: Op, mode: Mode, form: Form, *, polls: bool, file: bool, makes: bool) -> Spec:
    """Return the flags of a function: its mode, and whether it is nonblocking, polls, makes an object, or concerns
    files.
    """
    spec = _MODES[mode]
    if op is not Op.WAITSOME:  # MPI_Testsome tells with a number, not a flag
        spec |= Spec.FLAGGED if polls else Spec.NONBLOCKING if form is Form.NONBLOCKING else Spec(0)
    if makes and op is Op.COLL:
        spec |= Spec.MAKES_OBJECT
    return spec | Spec.FILE if file else spec


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

_ALSO_COMMUNICATE: Final = meaning.functions_with(Act.CANCEL, Act.ACCESS, Act.EPOCH, Act.PARTITION) | {
    "Parrived", "Comm_create_group", "Abort",
}  # fmt: skip
"""Calls that communicate besides those that are paired."""


def communicates(function: Function) -> bool:
    """Return whether a function takes part in communication, and does not only ask MPI for something.

    Bindings to different MPIs make these calls in the same order, and other calls as they need.
    """
    return classify(function.name)[0] is not Op.NONE or base_name(function.name) in _ALSO_COMMUNICATE


_ASKS: Final = meaning.functions_with(
    Act.COMPLETE, Act.ASK, Act.PROBE, where=lambda row: row.polls or row.many is Many.SOME
)


def asks_what_came(function: Function) -> bool:
    """Return whether a function tells which requests or messages have arrived by now. Timing decides its result."""
    return base_name(function.name) in _ASKS


POLL = PROGRAM_POLL


class Functions(NamedTuple):
    """The classes as C reads them: `specs` by function id (dtype SPEC), and how to read each tail."""

    specs: NDArray[np.void]
    programs: NDArray[np.uint8]


def _tail_reading_program(function: Function) -> bytes:
    """Return instructions by which C reads the further arguments of a call. They have no room in the fixed part of its
    record (its tail).

    The bytes are: the number of values at entry, the number at exit, then (code, role) for each value. If the second
    number has the bit POLL, the values at exit exist only if the poll succeeded.
    """
    steps = []
    for parameter in (*function.tail_in, *function.tail_out):
        code = CODES.get(parameter.type, Code.HANDLE) | (CODE_ARRAY if parameter.array else 0)
        steps.append(bytes([code, _ROLES.get(parameter.name, Role.SKIP)]))
    exits = len(function.tail_out) | (POLL if function.is_poll else 0)
    return bytes([len(function.tail_in), exits]) + b"".join(steps)


@cache
def classify_functions(functions: FunctionTable) -> Functions:
    """Return what each function of a run does, and the instructions for reading its arguments. Functions with equal
    instructions share them, so that all stay below 64 KB.
    """
    known = list(functions)
    specs = np.zeros(1 + max((f.id for f in known), default=0), SPEC)
    programs = bytearray(b"\0\0")
    offsets: dict[bytes, int] = {b"\0\0": 0}
    for function in known:
        op, flags = classify(function.name)
        if op is Op.NONE:
            continue
        program = _tail_reading_program(function)
        if program not in offsets:
            offsets[program] = len(programs)
            programs += program
        specs[function.id] = (op, flags, offsets[program])
    return Functions(specs, np.frombuffer(bytes(programs), np.uint8))
