"""Writes, of the table of functions, an MPI that takes memory of a device, and calls of each with such memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from weft.mpi import meaning, table
from weft.mpi.meaning import Act, Form
from weft.mpi.table import Function, Parameter

_ACTS = {
    Act.SEND, Act.RECEIVE, Act.MATCHED_RECEIVE, Act.SEND_RECEIVE, Act.COLLECTIVE, Act.ACCESS, Act.TRANSFER,
}  # fmt: skip
_KINDS = {
    "COMMUNICATOR": "comm", "DATATYPE": "type", "FILE": "file", "INFO": "MPI_INFO_NULL", "MESSAGE": "&message",
    "OFFSET": "0", "OPERATION": "MPI_SUM", "POLYXFER_NUM_ELEM": "4", "POLYXFER_NUM_ELEM_NNI": "4", "RANK": "0",
    "RANK_NNI": "0", "REQUEST": "&request", "RMA_DISPLACEMENT_NNI": "0", "STATUS": "MPI_STATUS_IGNORE", "TAG": "5",
    "WINDOW": "window",
}  # fmt: skip


def _is_buffer(p: Parameter) -> bool:
    return p.kind == "BUFFER"


def called(exported: Collection[str]) -> list[Function]:
    """The functions that move data from or into buffers, as far as the library has them. Partitioned ones need two
    calls that know of each other, those of windows' memory make it."""
    found = []
    for f in table.all_functions():
        row = meaning.find_meaning(f.name)
        if row is None or row.act not in _ACTS or f.name not in exported or not any(map(_is_buffer, f.parameters)):
            continue
        if f.name.startswith(("MPI_Psend", "MPI_Precv", "MPI_Win_")) or row.form is Form.END:
            continue
        found.append(f)
    return found


def _declared(p: Parameter) -> str:
    base, bracket, rest = p.declaration.partition("[")
    return f"{base.strip()} {p.name}{bracket}{rest}"


def _taking(f: Function) -> Iterator[str]:
    parameters = ", ".join(map(_declared, f.parameters))
    given = ", ".join(f"host_of({p.name})" if _is_buffer(p) else p.name for p in f.parameters)
    for prefix in ("", "P"):
        yield f"int {prefix}{f.name}({parameters}) {{ NEXT({f.name}) return next({given}); }}"


def stand_in(exported: Collection[str]) -> str:
    """The functions of such an MPI, with the MPI beneath it."""
    ends = [f for f in table.all_functions() if f.name.endswith("_end") and f.name in exported]
    windows = [f for f in table.all_functions() if f.name == "MPI_Win_create"]
    return "\n".join(line for f in [*called(exported), *ends, *windows] for line in _taking(f)) + "\n"


def _argument(f: Function, p: Parameter, buffer: int) -> str:
    if _is_buffer(p):
        return f"device + {buffer} * SLOT"
    if "[" not in p.declaration:
        return _KINDS[p.kind]
    if p.kind == "DATATYPE":
        return "types"
    integer = p.declaration.removeprefix("const ").partition(" ")[0].removeprefix("MPI_").lower()
    if p.kind.startswith("POLYXFER"):
        return f"fours_{integer}"
    # Those of functions that end with w are in bytes, others in elements.
    in_bytes = f.name.removesuffix("_c").removesuffix("_init").endswith("w")
    return f"{'bytes' if in_bytes else 'places'}_{integer}"


def _around(f: Function) -> tuple[str, str]:
    row = meaning.find_meaning(f.name)
    assert row is not None
    before, after = {
        Act.SEND: ("taken();", "MPI_Wait(&other, MPI_STATUS_IGNORE);"),
        Act.RECEIVE: ("given();", "MPI_Wait(&other, MPI_STATUS_IGNORE);"),
        Act.MATCHED_RECEIVE: ("given(); MPI_Mprobe(0, 5, comm, &message, MPI_STATUS_IGNORE);",
                              "MPI_Wait(&other, MPI_STATUS_IGNORE);"),
        Act.ACCESS: ("MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);", "MPI_Win_unlock(0, window);"),
    }.get(row.act, ("", ""))  # fmt: skip
    if row.form is Form.NONBLOCKING:
        after = "MPI_Wait(&request, MPI_STATUS_IGNORE); " + after
    if row.form is Form.PERSISTENT:
        after = "MPI_Start(&request); MPI_Wait(&request, MPI_STATUS_IGNORE); MPI_Request_free(&request); " + after
    if row.form is Form.BEGIN:
        end = f.name.removesuffix("_begin").removesuffix("_begin_c") + "_end"
        after = f"{end}(file, device, MPI_STATUS_IGNORE); " + after
    return before, after


def calls(exported: Collection[str]) -> str:
    """One call of each, with its own buffers and what it needs around it."""
    lines = []
    for f in called(exported):
        buffers = 0
        arguments = []
        for p in f.parameters:
            arguments.append(_argument(f, p, buffers))
            buffers += _is_buffer(p)
        before, after = _around(f)
        # MPICH 5.0.2 sends, of a type with gaps, what lies behind its own copy of the buffer: other bytes in each run.
        is_broken = f.name.startswith("MPI_Isendrecv_replace")
        basic = is_broken or any(p.kind == "OPERATION" for p in f.parameters) or f.name.startswith("MPI_Compare")
        lines.append(f"CALL({f.name}, {int(basic)}, {before} {f.name}({', '.join(arguments)}); {after})")
    return "\n".join(lines) + "\n"
