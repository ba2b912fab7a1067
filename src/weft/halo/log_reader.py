"""Read what ranks recorded of their shared arrays, with care: the files may come from other people.

A record that a rank would not write ends the file there, with a problem that names the byte; sizes are checked against
what is there before memory of that size is allocated.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

from weft.halo.cell_geometry import Cells, owned_ranges
from weft.halo.global_arrays import DeclaredPart
from weft.halo.log import HEAD, MAGIC, MOST, Record
from weft.native.headers.halo_kinds import HaloKind as Kind
from weft.trace.rankfile import open_record

MOST_CELLS: Final = 1 << 27
"""Cells of all parts of a run, and of what one use reads or stores: some ten bytes of memory each."""
MOST_DIMENSIONS: Final = 32
_FAR: Final = 1 << 40
_MISTAKES: Final = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, struct.error)


class Damaged(ValueError):
    """A file is not what a rank writes, from some byte on."""


def read_log(path: Path, run: Path) -> bytes:
    """Return the bytes of a rank's log. Raises RunError if it cannot be read or leads out of the run, Damaged if it is
    too large.
    """
    with os.fdopen(open_record(path, run), "rb") as file:
        found = file.read(2 * MOST)
    if len(found) == 2 * MOST:
        raise Damaged(f"{path.name} is larger than a rank writes ({MOST >> 20} MB)")
    return found


def for_each_record(name: str, data: bytes, process_record: Callable[[Record], None]) -> None:
    """Call `process_record` with each whole record of a log. Raises Damaged for another kind of file, or if a record is
    invalid.
    """
    at = len(MAGIC)
    if data[:at] != MAGIC:
        raise Damaged(f"{name} is not a file of ghost cells")
    while at + HEAD.size <= len(data):
        kind, size, moment = HEAD.unpack_from(data, at)
        if at + HEAD.size + size > len(data):
            return  # the process was killed while it wrote
        try:
            process_record(Record(Kind(kind), moment, data[at + HEAD.size : at + HEAD.size + size]))
        except _MISTAKES as error:
            raise Damaged(f"{name} is damaged from byte {at:,} on: Weft reads only what comes before") from error
        at += HEAD.size + size


def require_integer(value: Any, low: int = 0, end: int = _FAR) -> int:
    """Return a value if it is an integer from `low` to below `end`. Raises ValueError otherwise."""
    if type(value) is not int or not low <= value < end:
        raise ValueError(f"{value!r} is not a number from {low} to {end - 1}")
    return value


def require_integers(values: Any, length: int | None = None, low: int = 0, end: int = _FAR) -> tuple[int, ...]:
    """Return `length` integers from `low` to below `end`; without `length`, at most as many as an array may have
    dimensions. Raises ValueError otherwise.
    """
    found = tuple(require_integer(one, low, end) for one in values)
    if len(found) > MOST_DIMENSIONS or length not in (None, len(found)):
        raise ValueError(f"{len(found)} numbers are too few or too many")
    return found


def parse_line(given: Any) -> tuple[str, int, str]:
    """Return file, line and function from the fields of a record."""
    file, number, function = given
    return str(file), require_integer(number), str(function)


def parse_part(rank: int, fields: Mapping[str, Any]) -> DeclaredPart:
    """Return the part of a shared array that a PART record declares. Raises ValueError, KeyError or TypeError if it is
    invalid.
    """
    grid, periodic = fields["grid"], fields["periodic"]
    shape = require_integers(fields["shape"], None, 1)
    given = fields["halo"]
    halo = (
        tuple((0, 0) for _ in shape)
        if given is None
        else tuple((require_integer(low), require_integer(high)) for low, high in given)
    )
    strides = require_integers(fields["strides"], len(shape), 1)
    if not shape or len(halo) != len(shape) or any(last <= first for first, last in owned_ranges(shape, halo)):
        raise ValueError("the part owns nothing")
    if not _elements_are_distinct(shape, strides):
        raise ValueError("elements of the part overlap")
    dims = require_integers(grid["dims"], None, 0, 1 << 20)
    return DeclaredPart(
        rank=rank, number=require_integer(fields["id"]), name=str(fields["of"]), at=parse_line(fields["at"]),
        shape=shape, strides=strides, halo=halo, lower=_optional_integers(fields["lower"], len(shape)),
        whole=_optional_integers(fields["whole"], len(shape)),
        periodic=None if periodic is None else tuple(bool(one) for one in require_integers(periodic, len(shape), 0, 2)),
        lag=require_integer(fields["lag"]), dims=dims,
        coordinates=require_integers(grid["coordinates"], len(dims), 0, 1 << 20),
        periods=tuple(bool(one) for one in grid["periods"][:MOST_DIMENSIONS]), copy="like" in fields,
        reversed=bool(fields.get("reversed")), inferred=given is None or bool(fields.get("inferred")),
        guessed=given is not None and bool(fields.get("inferred")), late="again" in fields,
    )  # fmt: skip


def _optional_integers(given: Any, dimensions: int) -> tuple[int, ...] | None:
    return None if given is None else require_integers(given, dimensions, -_FAR)


def _elements_are_distinct(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether an array of a shape and strides has no two elements at one place of memory."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def parse_cells(given: Any, part: DeclaredPart) -> Cells:
    """Return elements of a part as (offset, shape, strides in bytes). Raises ValueError if some are outside of it, or
    there are too many.
    """
    offset, form = require_integer(given[0]), require_integers(given[1])
    steps = require_integers(given[2], len(form), -_FAR)
    ways = [(n - 1) * step for n, step in zip(form, steps, strict=True)]
    last = sum((n - 1) * stride for n, stride in zip(part.shape, part.strides, strict=True))
    first, end = offset + sum(min(way, 0) for way in ways), offset + sum(max(way, 0) for way in ways)
    elements: int = prod(form)
    if elements > MOST_CELLS or (elements and not 0 <= first <= end <= last):
        raise ValueError("some elements lie outside of the part")
    return offset, form, steps


def parse_places(given: Any, part: DeclaredPart) -> tuple[int, ...]:
    """Return numbers of elements of a part. ValueError if the part has no such elements."""
    size = prod(part.shape)
    return tuple(require_integer(one, 0, size) for one in given)


def parse_pairs(given: Any, part: DeclaredPart, into: DeclaredPart) -> tuple[tuple[int, int], ...]:
    """Return pairs of an element of one part and an element of another. ValueError if a part has no such element."""
    sizes = prod(part.shape), prod(into.shape)
    return tuple((require_integer(one, 0, sizes[0]), require_integer(other, 0, sizes[1])) for one, other in given)


def count_values(kind: Kind, part: DeclaredPart, shell: int | None = None) -> int:
    """Return how many values of a part a record of kind OWNED, UNSEEN or GHOSTS has. With `shell` (a number of layers),
    return how many elements are in that many outer layers of the part.
    """
    if shell is not None:
        return prod(part.shape) - prod(max(n - 2 * shell, 0) for n in part.shape)
    if kind is Kind.GHOSTS:
        return prod(part.shape) - prod(part.size)
    return prod(part.size) - prod(max(n - sum(width), 0) for n, width in zip(part.size, part.halo, strict=True))
