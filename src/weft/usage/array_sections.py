"""Recognize array sections of Fortran that a call was given as a temporary copy."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from weft import sources
from weft.sources.call_arguments import find_call_arguments
from weft.sources.statement import is_fortran, normalize_fortran
from weft.trace import Event
from weft.trace.layout import ID_DYNAMIC

_SECTION: Final = re.compile(r"\w+(?:\s*%\s*\w+)*\s*\((?P<subscripts>[^()]*(?:\([^()]*\)[^()]*)*)\)")


def find_copied_section(event: Event) -> str | None:
    """Return the array section, such as `a(1, 1:n)`, that a call has as its buffer and that Fortran passed as a
    temporary copy: a section with gaps, where the datatype has none. None if there is none, or the source is not known.

    A compiler may copy such an argument of a procedure without an explicit interface for it (MPI-4.1, 19.1.12); the
    copy is gone when the call returns.
    """
    if event.datatype is None or event.datatype.id >= ID_DYNAMIC or not event.site.file:
        return None
    file = event.site.file
    statement = sources.sources_of(event.rank.trace).statement(file, event.site.line)
    if statement is None or not is_fortran(file):
        return None
    lines = normalize_fortran(statement.lines, file)
    buffer = (find_call_arguments(lines, event.function.base.lower()) or [""])[0].strip()
    section = _SECTION.fullmatch(buffer)
    return buffer if section is not None and _has_gaps(section["subscripts"]) else None


def describe_copy(section: str) -> str:
    """Return words for an array section that a nonblocking call was given as a temporary copy, with the remedy."""
    return (
        f"a temporary copy of the array section `{section}`, which is gone when the call returns: give it an array of "
        "your own, or the section's first element with a datatype of MPI_Type_vector"
    )


def _has_gaps(subscripts: str) -> bool:
    """Return whether a section with these subscripts has gaps, so that it is not one piece of memory. (A first
    subscript `1:n` may be the whole extent, and is not looked at further.)
    """
    parts = re.sub(r"\([^()]*\)", "", subscripts).split(",")
    ranges = [":" in one for one in parts]
    if any(one.count(":") == 2 for one in parts):
        return True
    return any(later and not earlier for earlier, later in pairwise(ranges))
