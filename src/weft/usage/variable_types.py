"""Compare the type that a call names for a buffer with that of the variable behind it (MPI-4.1, 3.3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.evidence import Evidence
from weft.findings import Finding
from weft.kinds import Severity
from weft.sources.variables import TypePart, VariableType
from weft.terms.call_buffers import BufferRegion
from weft.terms.datatype_sizes import machine_type, size_in_bytes
from weft.terms.event_findings import call_at, cause_key, make_finding
from weft.terms.type_maps import TypeMapRun, type_map
from weft.trace import Datatype, Event
from weft.trace.layout import ID_DYNAMIC
from weft.usage.buffer_memory import MemoryRange, RankMemory

_ELEMENTS: Final = 64
"""The most elements of a datatype that are compared with a structure."""
_INSTANCES: Final = 3
_SORTS: Final = {"i": "i", "u": "i", "f": "f", "c": "c"}


class Variable(Evidence):
    """The datatype of a call, and the variable that is of another type."""

    datatype: str
    variable: str
    type: str
    parameter: str


def report_type_misfits(
    memory: RankMemory, event: Event, region: BufferRegion, room: MemoryRange | None
) -> Iterator[Finding]:
    """Report a buffer whose datatype has other elements than the variable behind it.

    `room`: the memory behind the buffer, if known. A variable's type proves an error. The declared type of a pointer
    proves less, as its memory may have been made for another use, and gives a warning.
    """
    if region.datatype is None or region.parameter == "base":
        return
    if room is not None and room.type is not None:
        offset, kind, name, severity = region.address - room.low, room.type, room.name, "error"
    elif room is None or room.heap:
        pointed = memory.find_pointer_argument(event, region.parameter)
        if pointed is None:
            return
        if region.elements == 1 and len(type_map(region.datatype) or ()) == 1:
            return  # one number in the memory of many: it may be lent for it
        offset, (name, kind), severity = 0, pointed, "warning"
    else:
        return
    wrong = _first_misfit(region, kind, offset, whole=severity == "error")
    if wrong is not None:
        yield _misfit_finding(event, region, (name, kind), wrong, "error" if severity == "error" else "warning")


def _misfit_finding(
    event: Event, region: BufferRegion, named: tuple[str, VariableType], wrong: str, severity: Severity
) -> Finding:
    """Make the finding that a buffer's datatype does not fit its variable.

    `named`: name and type of the variable. `wrong`: what does not fit, as the end of the sentence. `severity`:
    "warning" if the variable is a pointer.
    """
    name, kind = named
    datatype = _name_datatype(event, region.datatype) if region.datatype else "?"
    points = "is" if severity == "error" else "points to"
    verb = "receives into" if region.written else "takes"
    return make_finding(
        "type-mismatch",
        f"rank {event.rank.index} {verb} `{name}` as {datatype} in {call_at(event)}, but `{name}` {points} {kind.text}"
        f"{wrong}",
        [event],
        severity=severity,
        certainty="certain" if severity == "error" else "possible",
        evidence=Variable(datatype=datatype, variable=name, type=kind.text, parameter=region.parameter),
        cause=cause_key(event),
    )


def _name_datatype(event: Event, datatype: Datatype) -> str:
    """Return the name of a datatype; for one without a name the line at which the rank made it."""
    if datatype.id < ID_DYNAMIC or datatype.name != f"datatype {datatype.id - ID_DYNAMIC}":
        return datatype.name
    rank = event.rank
    made = np.flatnonzero(rank.events["object"][: event.index] == datatype.id)
    makers = [rank.event(int(row)) for row in made[-8:]]
    maker = next((one for one in reversed(makers) if one.function.base.startswith("MPI_Type_")), None)
    return f"the datatype of {call_at(maker)}" if maker is not None else datatype.name


def _first_misfit(region: BufferRegion, kind: VariableType, offset: int, *, whole: bool) -> str | None:
    """Return in words where the first element of the buffer does not fit its variable, as the end of a sentence that
    may be "". None if all elements fit or that is unknown.

    `offset`: bytes from the variable's begin to the buffer's. `whole`: compare several elements of the datatype, not
    only the first, also where it is a single basic type.
    """
    runs = type_map(region.datatype)
    if not runs or not kind.element or not kind.parts or any(p.sort == "?" for p in kind.parts):
        return None
    extent = region.datatype.extent if region.datatype is not None else None
    extent = extent if extent is not None else size_in_bytes(region.datatype) or 0
    repeats = whole or len(kind.parts) == 1 or len(runs) > 1  # a datatype of members was made for the structure
    for k in range(min(region.elements, _INSTANCES) if repeats else 1):
        for run in runs[:_ELEMENTS]:
            wrong = _misfit_of_run(run, offset + k * extent, kind)
            if wrong is not None and k and len(runs) > 1 and extent % kind.element:
                return (
                    f", whose elements are {kind.element} bytes apart, while those of the datatype are {extent} bytes "
                    "apart: give it that extent by MPI_Type_create_resized"
                )
            if wrong is not None:
                return wrong
    return None


def _misfit_of_run(run: TypeMapRun, start: int, kind: VariableType) -> str | None:
    """Return in words which element of a run of equal basic types does not fit the variable, "" for a variable of one
    type; None if all fit. `start`: bytes from the variable's begin to the run's datatype.
    """
    for k in range(min(run.times, _ELEMENTS)):
        place = (start + run.at + k * run.width) % kind.element
        part = next((p for p in kind.parts if p.at <= place < p.at + p.width), None)
        if _does_element_fit(run.name, run.width, place, part):
            continue
        if len(kind.parts) == 1:
            return ""
        if part is None:
            return f", which has no member at byte {place}, where the datatype has {run.name}"
        if place != part.at and part.sort == _basic_type_letter(run.name):
            return f": at byte {place}, where the datatype has {run.name}, its member `{part.name}` goes on"
        return f": at byte {place}, where the datatype has {run.name}, it has the member `{part.name}`"
    return None


def _basic_type_letter(name: str) -> str:
    """Return "i" for an integer type, "f" for a floating-point type, "c" for a complex one, and "" for a type that may
    be anything.
    """
    kind = machine_type(name)
    return _SORTS.get(kind[0], "") if kind[1:].isdigit() else ""


def _does_element_fit(name: str, width: int, byte_offset: int, part: TypePart | None) -> bool:
    """Return whether an element of a basic type may begin at a byte of a structure.

    `width`: bytes of the element. `part`: the structure's member at that byte, None for a gap.
    """
    sort = _basic_type_letter(name)
    if not sort or width == 1:
        return True  # bytes are taken of anything
    if part is None:
        return False
    if part.sort == "b":
        return True  # room for anything
    if part.sort == "p":
        return sort == "i" and width == part.width
    inside = (byte_offset - part.at) % width == 0
    if sort == "f" and part.sort == "c":
        return inside and width * 2 == part.width
    if sort == "c" and part.sort == "f":
        return width == part.width * 2
    return sort == part.sort and width == part.width and byte_offset == part.at
