"""Find statuses of Fortran that are declared too small for what MPI writes there (MPI-4.1, 3.2.5)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from weft import sources
from weft.base.lazy import dataclass
from weft.sources.call_arguments import find_call_arguments, split_at_commas
from weft.sources.statement import is_fortran, join_fortran, normalize_fortran
from weft.trace import Event, Rank

_SIZES: Final = {"open mpi": 6, "mpich": 5, "intel": 5}
"""MPI_STATUS_SIZE by words in the name of the library."""
_BEGIN: Final = re.compile(
    r"(?:.*\b)?(?:subroutine|function)\s+\w+\s*(?P<dummies>\(.*)?|program\b.*|(?:sub)?module\b(?!\s+procedure).*"
)
_END: Final = re.compile(r"end\s*(?:(?:subroutine|function|program|module|submodule|procedure)\b.*)?")
_INTERFACE: Final = re.compile(r"(?:abstract\s+)?interface\b.*")
_DECLARED: Final = re.compile(
    r"(?:integer|dimension)(?:\s*\([^()]*\)|\s*\*\s*\d+)?(?:(?P<attributes>\s*,.*?)?\s*::|\s)(?P<names>.*)"
)
_NUMBER: Final = re.compile(r"\d+(?:\s*\*\s*\d+)*")


@dataclass(frozen=True)
class SmallStatus:
    """A status, or an array of them, that is too small: its name, its integers, and how many MPI writes."""

    index: int
    name: str
    parameter: str
    declared: int
    needed: int
    statuses: int


def find_small_statuses(rank: Rank) -> Iterator[SmallStatus]:
    """Yield the first call of each line of a rank that gives MPI a status of too few integers."""
    size = _status_size(rank)
    if not size:
        return
    sites, first = np.unique(rank.events["site"], return_index=True)
    for site, index in zip(sites.tolist(), first.tolist(), strict=True):
        if is_fortran(rank.site(site).file or ""):
            yield from _check_statuses(rank.event(index), size)


def describe_small_status(small: SmallStatus) -> str:
    """Return words for a status that is too small, with the remedy, as an object of `gives MPI_Recv`."""
    each = "a status" if small.statuses == 1 else f"{small.statuses} statuses"
    shape = "MPI_STATUS_SIZE" if small.statuses == 1 else f"MPI_STATUS_SIZE, {small.statuses}"
    integers = "1 integer" if small.declared == 1 else f"{small.declared} integers"
    return (
        f"`{small.name}`, a variable of {integers}, where it writes {each} of {small.needed} "
        f"(declare it as `{small.name}({shape})`),"
    )


def _status_size(rank: Rank) -> int:
    """Return MPI_STATUS_SIZE of the library of a run, 0 if it is not known."""
    library = str(rank.trace.functions.mpi.get("library") or rank.trace.run.get("mpi") or "").lower()
    return next((size for words, size in _SIZES.items() if words in library), 0)


def _check_statuses(event: Event, size: int) -> Iterator[SmallStatus]:
    """Yield the status of a call if it is a variable that is declared too small. `size`: MPI_STATUS_SIZE."""
    kept, file = sources.sources_of(event.rank.trace), event.site.file or ""
    statement = kept.statement(file, event.site.line)
    written = [(i, p) for i, p in enumerate(event.function.parameters) if p.kind == "STATUS" and p.direction == "out"]
    if statement is None or not written:
        return
    given = find_call_arguments(normalize_fortran(statement.lines, file), event.function.base.lower()) or []
    for place, parameter in written:
        name = given[place].strip() if place < len(given) else ""
        statuses = event.count if parameter.array else 1
        source = kept.lines(file, 1)
        if source is None or not name.isidentifier() or statuses < 1:
            continue
        declared = _find_declared_size(join_fortran(source[1][: statement.first - 1], file), name, size)
        if declared is not None and declared < statuses * size:
            yield SmallStatus(event.index, name, parameter.name, declared, statuses * size, statuses)


def _find_declared_size(statements: Sequence[str], name: str, size: int) -> int | None:
    """Return how many integers the variable `name` has at the end of some statements of a file; None if that is not
    known for certain. `size`: MPI_STATUS_SIZE.
    """
    for unit in reversed(_open_units(statements)):
        mentions = [one for one in unit if re.search(rf"\b{name}\b", one)]
        found = [one for one in mentions if _DECLARED.fullmatch(one)]
        dummies = _BEGIN.fullmatch(unit[0]) if unit else None
        if dummies is not None and re.search(rf"\b{name}\b", dummies["dummies"] or ""):
            return None
        if any(re.match(r"equivalence|common|allocatable|pointer", one) for one in mentions) or len(found) > 2:
            return None
        sizes = [_declared_size(one, name, size) for one in found]
        if sizes:
            dimensioned = [one for one, text in zip(sizes, found, strict=True) if text.startswith("dimension")]
            return (dimensioned or sizes)[0] if len(sizes) - len(dimensioned) < 2 and None not in sizes else None
        if any(re.match(r"(?:type|class|real|logical|character|use)\b", one) for one in mentions):
            return None
    return None


def _open_units(statements: Sequence[str]) -> list[list[str]]:
    """Return the statements of the program units that are not yet ended at the end of some statements, outermost first;
    each begins with its first statement. Interfaces are left out.
    """
    units: list[list[str]] = [[""]]
    in_interface = False
    for one in statements:
        if _INTERFACE.fullmatch(one):
            in_interface = True
        elif re.fullmatch(r"end\s*interface\b.*", one):
            in_interface = False
        elif in_interface:
            continue
        elif _END.fullmatch(one):
            units = units[:-1] or [[""]]
        elif _BEGIN.fullmatch(one):
            units.append([one])
        elif units:
            units[-1].append(one)
        else:
            units = [["", one]]
    return units


def _declared_size(statement: str, name: str, size: int) -> int | None:
    """Return how many integers a declaration gives to a variable, None if that is not known. A plain integer has 1."""
    found = _DECLARED.fullmatch(statement)
    if found is None or re.search(r"\b(?:pointer|allocatable|parameter)\b", found["attributes"] or ""):
        return None
    common = re.search(r"\bdimension\s*\((.*)\)", found["attributes"] or "")
    for one in split_at_commas(found["names"]):
        entity = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*(?:=.*)?", one)
        if entity is not None and entity[1] == name:
            dimensions = entity[2] or (common[1] if common is not None else "")
            lengths = [_length(part, size) for part in split_at_commas(dimensions)] if dimensions else []
            return None if None in lengths else math.prod(length or 0 for length in lengths)
    return None


def _length(text: str, size: int) -> int | None:
    """Return the number of elements of a dimension, such as `3` or `mpi_status_size`; None if it is not a number."""
    low, _, high = text.replace("mpi_status_size", str(size)).rpartition(":")
    if not _NUMBER.fullmatch(high.strip()) or (low.strip() and not low.strip().isdigit()):
        return None
    return math.prod(int(factor) for factor in high.split("*")) - (int(low) - 1 if low.strip() else 0)
