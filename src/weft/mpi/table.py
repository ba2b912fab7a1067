"""Lists every procedure of the MPI standard, with the place that each of its arguments has in the record.

The procedures come from the standard's machine-readable form (apis.json, as packaged by pympistandard); only what
the standard has removed since MPI-3.0, but libraries still export, is written down here. The recorder's wrappers,
the run's functions.json and the coverage table of the documentation are all generated from `functions()`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from weft.mpi.meaning import Act, Many, find_meaning, why_refused

HANDLES = {
    "COMMUNICATOR": "COMM",
    "DATATYPE": "DATATYPE",
    "GROUP": "GROUP",
    "OPERATION": "OP",
    "REQUEST": "REQUEST",
    "WINDOW": "WINDOW",
    "FILE": "FILE",
    "INFO": "INFO",
    "ERRHANDLER": "ERRHANDLER",
    "MESSAGE": "MESSAGE",
    "SESSION": "SESSION",
}
"""Parameter kinds of the standard that are handles, and the class of object that they name."""

CLASSES = {name: index for index, name in enumerate(HANDLES.values(), start=1)}
"""Numbers of the classes, as enum weft_object_class of format.h has them."""

# Elements that are moved or described: what "count" means to a reader.
_COUNT_KINDS = re.compile(r"(POLY)?(XFER|DTYPE)_NUM_ELEM(_NNI)?|ARRAY_LENGTH(_NNI)?")
_BUFFER_KINDS = {"BUFFER", "C_BUFFER", "C_BUFFER2", "C_BUFFER3", "C_BUFFER4"}
_SCALAR_TYPES = {"int", "MPI_Count", "MPI_Aint", "MPI_Offset"}

# Removed by MPI-3.0 or 4.0, still exported by libraries: (name, C prototype's parameters, kinds and directions).
_REMOVED = {
    "MPI_Address": "void* location BUFFER in, MPI_Aint* address DISPLACEMENT out",
    "MPI_Errhandler_create": "MPI_Handler_function* function FUNCTION in, MPI_Errhandler* errhandler ERRHANDLER out",
    "MPI_Errhandler_get": "MPI_Comm comm COMMUNICATOR in, MPI_Errhandler* errhandler ERRHANDLER out",
    "MPI_Errhandler_set": "MPI_Comm comm COMMUNICATOR in, MPI_Errhandler errhandler ERRHANDLER in",
    "MPI_Type_extent": "MPI_Datatype datatype DATATYPE in, MPI_Aint* extent DISPLACEMENT out",
    "MPI_Type_lb": "MPI_Datatype datatype DATATYPE in, MPI_Aint* displacement DISPLACEMENT out",
    "MPI_Type_ub": "MPI_Datatype datatype DATATYPE in, MPI_Aint* displacement DISPLACEMENT out",
    "MPI_Type_hvector": (
        "int count POLYDTYPE_NUM_ELEM_NNI in, int blocklength POLYDTYPE_NUM_ELEM_NNI in, MPI_Aint stride DISPLACEMENT"
        " in, MPI_Datatype oldtype DATATYPE in, MPI_Datatype* newtype DATATYPE out"
    ),
    "MPI_Type_hindexed": (
        "int count POLYDTYPE_NUM_ELEM_NNI in, int array_of_blocklengths[] POLYDTYPE_NUM_ELEM_NNI in:count, MPI_Aint"
        " array_of_displacements[] DISPLACEMENT in:count, MPI_Datatype oldtype DATATYPE in, MPI_Datatype* newtype"
        " DATATYPE out"
    ),
    "MPI_Type_struct": (
        "int count POLYDTYPE_NUM_ELEM_NNI in, int array_of_blocklengths[] POLYDTYPE_NUM_ELEM_NNI in:count, MPI_Aint"
        " array_of_displacements[] DISPLACEMENT in:count, MPI_Datatype array_of_types[] DATATYPE in:count,"
        " MPI_Datatype* newtype DATATYPE out"
    ),
}


@dataclass(frozen=True)
class Parameter:
    """One C parameter of a procedure.

    `declaration` is the C type without the name (`const int []`); `kind` the standard's parameter kind; `direction`
    in, out or inout; `length` the standard's length expression of an array ("*" where it only says so), None for a
    scalar; `root_only` whether it is significant at the root alone; `type` how the record encodes a value: int,
    address, handle:CLASS, string, status or double; `place` a field of the event slot, "tail" or "none".
    """

    name: str
    declaration: str
    kind: str
    direction: str
    length: str | None
    root_only: bool
    type: str
    place: str = "none"

    @property
    def array(self) -> bool:
        """Return whether the record has several values."""
        return self.length is not None

    @property
    def part(self) -> str | None:
        """Return when the parameter is written to the end of an event's record (its tail): `entry`, `exit` or `both`;
        None if it is not written there.

        The address of a buffer is known at entry, whatever the direction of its content; so are handles.
        """
        if self.place != "tail":
            return None
        if self.direction == "in" or self.kind in _BUFFER_KINDS:
            return "entry"
        if self.direction == "inout":
            return "entry" if self.handle else "both"
        return "exit"

    @property
    def handle(self) -> str | None:
        """Return the class of object that the parameter names, or None."""
        return self.type.removeprefix("handle:") if self.type.startswith("handle:") else None


@dataclass(frozen=True)
class Function:
    """One procedure: its id in records made with this table, its C result type and parameters.

    `passed_through` is None for a recorded function, else the reason why it is not.
    """

    id: int
    name: str
    result: str
    parameters: tuple[Parameter, ...]
    passed_through: str | None

    def parameter(self, place: str) -> Parameter | None:
        """Return the parameter that is in the slot's field `place`, or None."""
        return next((p for p in self.parameters if p.place == place), None)

    def to_json(self) -> dict[str, Any]:
        """Return the function as it stands in a run's file functions.json, for MPI as for other systems."""
        return {
            "id": self.id,
            "name": self.name,
            "parameters": [
                {
                    "name": p.name,
                    "kind": p.kind,
                    "direction": p.direction,
                    "array": True if p.array else None,
                    "type": p.type,
                    "place": p.place,
                    "part": p.part,
                }
                for p in self.parameters
            ],
        }

    @property
    def tail(self) -> bool:
        """Return whether each event of this function has a tail."""
        return any(p.place == "tail" for p in self.parameters)


def _split_declaration(text: str) -> tuple[str, str]:
    """Split a parameter such as `const int dims[]` into its name, and its type with the brackets."""
    match = re.fullmatch(r"\s*(.*?)(\w+)((?:\[\d*\])*)\s*", text)
    if match is None:
        raise ValueError(f"not a C parameter: {text!r}")
    return match[2], (match[1].strip() + " " + match[3]).strip()


def _record_type(kind: str, declaration: str) -> str:
    """Return how the record encodes a parameter. `kind`: the standard's kind of it; `declaration`: its C type."""
    if kind in HANDLES:
        return f"handle:{HANDLES[kind]}"
    if kind in ("STRING", "STRING_ARRAY"):
        return "string"
    if kind == "STATUS":
        return "status"
    base = declaration.removeprefix("const ").rstrip("[]0123456789 ").rstrip("* ")
    return "int" if base in _SCALAR_TYPES else "address"


def _array_length(declaration: str, kind: str, length: str | None) -> str | None:
    """Return the length of an array parameter as the standard gives it, `*` if it gives none; None for a scalar."""
    if "[" not in declaration or kind == "STRING":
        return None
    return length or "*"


def _assign_places(name: str, parameters: list[Parameter]) -> Iterable[str]:
    """Yield for each parameter where the record has it: "peer", "tag" and so on for a field that every event has (in
    its slot), "tail" for the end of the event's record, "none". The first parameter that fits a field gets it.
    """
    taken: set[str] = set()
    object_index = _find_object_index(parameters)
    row = find_meaning(name)
    replaces = row is not None and row.act is Act.SEND_RECEIVE
    poll = row is not None and row.act is Act.COMPLETE and row.polls and row.many is not Many.ONE
    for index, p in enumerate(parameters):
        field = _slot_field(p, replaces)
        if index == object_index:
            field = "object"
        if field == "count" and poll:
            yield "none"  # the array of requests carries its own length; the slot counts failed polls
        elif field in ("tail", "none"):
            yield field
        elif field in taken:
            yield "tail"
        else:
            taken.add(field)
            yield field


def _find_object_index(parameters: list[Parameter]) -> int | None:
    """Return the index of the parameter that counts as the object of the call: a request, else a window, file, message
    or session, else what the call makes, else a group, info or error handler. None if there is none.
    """
    scalars = [(i, p) for i, p in enumerate(parameters) if p.handle and not p.array]
    for classes in (("REQUEST",), ("WINDOW", "FILE", "MESSAGE", "SESSION")):
        for i, p in scalars:
            if p.handle in classes:
                return i
    for i, p in scalars:
        if p.direction == "out":
            return i
    for i, p in scalars:
        if p.handle in ("GROUP", "INFO", "ERRHANDLER"):
            return i
    return None


def _slot_field(p: Parameter, replaces: bool) -> str:
    """Return the field of an event's record that fits a parameter; `tail` if it goes to the end of the record, `none`
    if it is not recorded. `replaces`: whether the call sends and receives.
    """
    if p.kind in ("VARARGS", "ARGUMENT_COUNT", "ARGUMENT_LIST", "STRING_2DARRAY"):
        return "none"
    if p.array:
        return "tail"
    if p.kind == "STATUS":
        return "status" if p.direction == "out" and not replaces else "tail"
    if p.kind == "LOGICAL" and p.direction == "out" and p.name == "flag":
        return "flag"
    if p.direction == "out" and p.kind not in _BUFFER_KINDS:
        return "tail"
    if p.handle == "COMM":
        return "comm"
    if p.handle == "DATATYPE":
        return "datatype"
    if p.handle == "OP" or p.kind == "TAG":
        return "tag"
    if p.kind in ("RANK", "RANK_NNI"):
        return "peer"
    if _COUNT_KINDS.fullmatch(p.kind):
        return "count"
    return "buffer" if p.kind in _BUFFER_KINDS else "tail"


def _make_function(number: int, name: str, result: str, parameters: list[Parameter]) -> Function:
    """Make a function, and choose for each of its parameters the place in the record. `number`: its id. `result`: its C
    result type.
    """
    placed = [
        Parameter(p.name, p.declaration, p.kind, p.direction, p.length, p.root_only, p.type, place)
        for p, place in zip(parameters, _assign_places(name, parameters), strict=True)
    ]
    return Function(number, name, result, tuple(placed), why_refused(name))


def _read_standard() -> dict[str, Any]:
    """Return the standard's machine-readable table of procedures."""
    text = files("pympistandard").joinpath("data/apis.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def _make_from_prototype(number: int, prototype: str, entry: dict[str, Any]) -> Function:
    """Make a function from its C prototype and the standard's machine-readable entry. `number`: its id."""
    match = re.fullmatch(r"(\S+) (MPI_\w+)\((.*)\)", prototype.strip())
    if match is None:
        raise ValueError(f"not a C prototype: {prototype!r}")
    facts = {p["name"]: p for p in entry["parameters"]}
    parameters = []
    for text in [] if match[3].strip() == "void" else match[3].split(","):
        if "ldots" in text:
            parameters.append(Parameter("...", "...", "VARARGS", "in", None, False, "int"))
            continue
        name, declaration = _split_declaration(text)
        fact = facts[name]
        length = str(fact["length"]) if fact["length"] is not None else None
        if isinstance(fact["length"], list):
            length = "*".join(fact["length"])
        kind = fact["kind"]
        parameters.append(
            Parameter(
                name,
                declaration,
                kind,
                fact["param_direction"],
                _array_length(declaration, kind, length),
                bool(fact["root_only"]),
                _record_type(kind, declaration),
            )
        )
    return _make_function(number, match[2], match[1], parameters)


def _make_removed_function(number: int, name: str, text: str) -> Function:
    """Make a function that the standard no longer has. `number`: its id. `text`: its parameters in C."""
    parameters = []
    for part in text.split(", "):
        c, kind, direction = part.rsplit(" ", 2)
        direction, _, length = direction.partition(":")
        parameter, declaration = _split_declaration(c)
        parameters.append(
            Parameter(parameter, declaration, kind, direction, length or None, False, _record_type(kind, declaration))
        )
    return _make_function(number, name, "int", parameters)


@cache
def all_functions() -> tuple[Function, ...]:
    """Return all C functions of the standard, large-count forms included, and after them the removed ones. Their ids
    count from 1.
    """
    # Only who builds a recorder needs the standard's table.
    import pympistandard

    pympistandard.use_api_version(1)
    standard = _read_standard()
    found: list[Function] = []
    for key, procedure in sorted(pympistandard.PROCEDURES.items()):
        expressions = [procedure.express.iso_c]
        if procedure.express.embiggen:
            expressions.append(procedure.express.embiggen.iso_c)
        for expression in expressions:
            if expression:
                found.append(_make_from_prototype(len(found) + 1, str(expression), standard[key]))
    for name, text in _REMOVED.items():
        found.append(_make_removed_function(len(found) + 1, name, text))
    return tuple(found)


@cache
def functions_by_name() -> dict[str, Function]:
    """Return the functions by their C name."""
    return {f.name: f for f in all_functions()}


# Predefined objects and their ids in every record: communicators, then what MPI names. The order is the id, so names
# are only ever added at the end.
_BASIC_TYPES = """CHAR SHORT INT LONG LONG_LONG SIGNED_CHAR UNSIGNED_CHAR UNSIGNED_SHORT UNSIGNED UNSIGNED_LONG
UNSIGNED_LONG_LONG FLOAT DOUBLE LONG_DOUBLE WCHAR C_BOOL INT8_T INT16_T INT32_T INT64_T UINT8_T UINT16_T UINT32_T
UINT64_T AINT COUNT OFFSET C_COMPLEX C_DOUBLE_COMPLEX C_LONG_DOUBLE_COMPLEX BYTE PACKED CXX_BOOL CXX_FLOAT_COMPLEX
CXX_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX INTEGER REAL DOUBLE_PRECISION COMPLEX LOGICAL CHARACTER DOUBLE_COMPLEX
INTEGER1 INTEGER2 INTEGER4 INTEGER8 INTEGER16 REAL2 REAL4 REAL8 REAL16 COMPLEX4 COMPLEX8 COMPLEX16 COMPLEX32 FLOAT_INT
DOUBLE_INT LONG_INT 2INT SHORT_INT LONG_DOUBLE_INT 2REAL 2DOUBLE_PRECISION 2INTEGER LB UB LOGICAL1 LOGICAL2 LOGICAL4
LOGICAL8 LOGICAL16""".split()
_OPS = "MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MINLOC MAXLOC REPLACE NO_OP".split()

PREDEFINED: dict[str, dict[int, str]] = {
    "COMM": {1: "MPI_COMM_NULL", 2: "MPI_COMM_WORLD", 3: "MPI_COMM_SELF"},
    "DATATYPE": {1: "MPI_DATATYPE_NULL", **{i: f"MPI_{n}" for i, n in enumerate(_BASIC_TYPES, 2)}},
    "GROUP": {1: "MPI_GROUP_NULL", 2: "MPI_GROUP_EMPTY"},
    "OP": {1: "MPI_OP_NULL", **{i: f"MPI_{n}" for i, n in enumerate(_OPS, 2)}},
    "REQUEST": {1: "MPI_REQUEST_NULL"},
    "WINDOW": {1: "MPI_WIN_NULL"},
    "FILE": {1: "MPI_FILE_NULL"},
    "INFO": {1: "MPI_INFO_NULL", 2: "MPI_INFO_ENV"},
    "ERRHANDLER": {
        1: "MPI_ERRHANDLER_NULL",
        2: "MPI_ERRORS_ARE_FATAL",
        3: "MPI_ERRORS_RETURN",
        4: "MPI_ERRORS_ABORT",
    },
    "MESSAGE": {1: "MPI_MESSAGE_NULL", 2: "MPI_MESSAGE_NO_PROC"},
    "SESSION": {1: "MPI_SESSION_NULL"},
}
"""Predefined objects of each class by their id."""

DATATYPE_SIZES = dict(
    zip(
        _BASIC_TYPES,
        """1 2 4 8 8 1 1 2 4 8 8 4 8 16 4 1 1 2 4 8 1 2 4 8 8 8 8 8 16 32 1 1 1 8 16 32 4 4 8 8 4 1 16 1 2 4 8 16 2 4 8
        16 4 8 16 32 8 12 12 8 6 20 8 16 8 0 0 1 2 4 8 16""".split(),
        strict=True,
    )
)
"""Sizes in bytes of the predefined datatypes where C's long and pointers have 64 bits and Fortran's default kinds are
4-byte integers and reals. The pair types count what is sent, without padding (MPI-4.1, 6.9.4)."""

COMBINERS = """NAMED DUP CONTIGUOUS VECTOR HVECTOR INDEXED HINDEXED INDEXED_BLOCK HINDEXED_BLOCK STRUCT SUBARRAY DARRAY
F90_REAL F90_COMPLEX F90_INTEGER RESIZED VALUE_INDEX HVECTOR_INTEGER HINDEXED_INTEGER STRUCT_INTEGER""".split()
"""MPI_COMBINER_*, by the number that a DATATYPE definition carries."""


def to_json(exported: set[str] | None = None, mpi: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the table of MPI functions as a run's file functions.json has it.

    `exported`: the names of the functions to include, None for all. `mpi`: facts on the MPI library, for the key `mpi`.
    """
    return {
        "schema": "weft-functions/1",
        "mpi": mpi or {},
        "functions": [
            f.to_json()
            for f in all_functions()
            if f.passed_through is None and (exported is None or f.name in exported)
        ],
        "objects": {name: {str(i): n for i, n in objects.items()} for name, objects in PREDEFINED.items()},
        "datatype_sizes": {str(i): int(DATATYPE_SIZES[n]) for i, n in enumerate(_BASIC_TYPES, 2)},
        "combiners": COMBINERS,
    }
