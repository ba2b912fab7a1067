"""Which bytes an element of a datatype takes: as (offset, length) blocks in the order of memory (MPI-4.1, 5.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from weft.terms.columns import Ints, distinct
from weft.terms.sizes import size_of, solid
from weft.trace import Datatype, Rank

Block = tuple[int, int]
MOST: Final = 4096
"""Blocks of one element that are kept apart."""
_DEEPEST: Final = 50


class Spread(NamedTuple):
    """Blocks of several buffers: of which buffer, how far from its start, and how long."""

    buffer: Ints
    offset: Ints
    length: Ints


MOST_SPREAD: Final = 1 << 19
"""Blocks of buffers with gaps that are kept for one rank; of a buffer all are kept, or none."""
MOST_COUNTS: Final = 1000
"""Counts of one datatype with gaps that are looked at: each is laid out anew."""


def spread(rank: Rank, datatype: Ints, count: Ints) -> Spread:
    """The blocks of buffers of `count` elements of datatypes, in the order of the buffers; none where not known."""
    parts = list(_spread(rank, datatype, count))
    buffer, offset, length = (np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True))
    order = np.argsort(buffer, kind="stable")
    return Spread(buffer[order], offset[order], length[order])


def _spread(rank: Rank, datatype: Ints, count: Ints) -> Iterator[Spread]:
    nothing = np.zeros(0, np.int64)
    yield Spread(nothing, nothing, nothing)
    left = MOST_SPREAD
    for id in distinct(datatype).tolist():
        rows, of = np.flatnonzero(datatype == id), rank.datatype(id)
        if size := solid(of):
            yield Spread(rows, np.zeros(len(rows), np.int64), count[rows] * size)
            continue
        for n in distinct(count[rows]).tolist()[:MOST_COUNTS]:
            mine, found = rows[count[rows] == n], blocks(of, n)
            if found is None or len(found) * len(mine) > left:
                continue
            found = found or [(0, 0)]
            left -= len(found) * len(mine)
            offset, length = np.array(found, np.int64).T
            yield Spread(np.repeat(mine, len(found)), np.tile(offset, len(mine)), np.tile(length, len(mine)))


class _TooMany(Exception):
    """A datatype of more blocks than are kept."""


def blocks(datatype: Datatype | None, count: int) -> list[Block] | None:
    """The blocks of `count` elements, offsets from the buffer's address; None where they are not known."""
    if datatype is None:
        return None
    if size := solid(datatype):
        return [(0, size * count)]
    key = count, _layout(datatype, 0)
    found = _kept.get(key, _NOT_YET)
    if found is _NOT_YET:
        if len(_kept) >= _KEPT:
            _kept.clear()
        found = _kept[key] = _found(datatype, count)
    return None if found is None else [*found]


_KEPT: Final = 64
_NOT_YET: Final[list[Block]] = []
_kept: dict[tuple[int, Hashable], list[Block] | None] = {}
"""Blocks by count, extent and layout: programs that make a datatype for each message make few that differ."""


def _layout(datatype: Datatype, depth: int) -> Hashable:
    """What the blocks of a datatype depend on."""
    definition = datatype.definition
    if (size := solid(datatype)) or definition is None or depth > _DEEPEST:
        return size or size_of(datatype), datatype.extent, definition is None
    parts = dict(zip(definition.types, datatype.inner, strict=True))
    inner = {id: None if of is None else (of.id <= 1, _layout(of, depth + 1)) for id, of in parts.items()}
    numbers = {id: number for number, id in enumerate(inner)}
    which = tuple(numbers[id] for id in definition.types)
    return (
        datatype.combiner, datatype.extent, definition.integers, definition.addresses, which, tuple(inner.values()),
    )  # fmt: skip


def _found(datatype: Datatype, count: int) -> list[Block] | None:
    try:
        one = _of(datatype, 0)
        if one is None or datatype.extent is None:
            return None
        return joined((offset + k * datatype.extent, n) for k in range(count) for offset, n in one)
    except _TooMany:
        return None


def meet(one: Sequence[Block], other: Sequence[Block]) -> bool:
    """Whether some of one buffer's blocks and some of another's have a byte in common; both in the order of memory."""
    left, right = [*reversed(one)], [*reversed(other)]
    while left and right:
        (a, n), (b, m) = left[-1], right[-1]
        if a < b + m and b < a + n:
            return True
        (left if a + n <= b else right).pop()
    return False


def _of(datatype: Datatype, depth: int) -> list[Block] | None:
    """The blocks of one element."""
    if size := solid(datatype):
        return [(0, size)]
    definition = datatype.definition
    if definition is None or depth > _DEEPEST:
        size = size_of(datatype) or 0
        return [(0, size)] if size and definition is None else None
    parts = _parts(datatype)
    if parts is None:
        return None
    found: list[Block] = []
    seen: Datatype | None = None
    inner: list[Block] | None = None
    for child, offset, times in parts:
        if child is not seen:  # mostly they are all of one
            seen, inner = child, _of(child, depth + 1)
        if inner is None or child.extent is None:
            return None
        if len(inner) * times > MOST and inner != [(0, child.extent)]:
            raise _TooMany
        if inner == [(0, child.extent)]:
            found.append((offset, child.extent * times))
        else:
            found += [(offset + k * child.extent + at, n) for k in range(times) for at, n in inner]
        if len(found) > MOST:
            raise _TooMany
    return joined(found)


def _parts(datatype: Datatype) -> list[tuple[Datatype, int, int]] | None:
    """What it is made of: (inner datatype, offset in bytes, how many behind each other); None for other forms."""
    definition = datatype.definition
    inner = datatype.inner
    if definition is None or not inner or any(child is None for child in inner):
        return None
    children = [child for child in inner if child is not None]
    i, a = list(definition.integers), list(definition.addresses)
    step = children[0].extent
    combiner = datatype.combiner.removesuffix("_INTEGER")
    if combiner in ("STRUCT",) and len(i) == 1 + len(children) == 1 + len(a):
        return [(child, at, n) for child, at, n in zip(children, a, i[1:], strict=True) if n > 0]
    if step is None or len(children) != 1:
        return None
    places = _places(combiner, i, a, step)
    return None if places is None else [(children[0], at, n) for at, n in places if n > 0]


def _places(combiner: str, i: list[int], a: list[int], step: int) -> list[Block] | None:
    """Offsets in bytes, and how many elements lie behind each other there."""
    if combiner in ("DUP", "RESIZED"):
        return [(0, 1)]
    if combiner == "CONTIGUOUS" and i:
        return [(0, i[0])]
    if combiner == "VECTOR" and len(i) == 3:
        return [(k * i[2] * step, i[1]) for k in range(_bounded(i[0]))]
    if combiner == "HVECTOR" and len(i) >= 2 and a:
        return [(k * a[0], i[1]) for k in range(_bounded(i[0]))]
    if combiner == "INDEXED" and i and len(i) == 1 + 2 * i[0]:
        return [(at * step, n) for n, at in zip(i[1 : 1 + i[0]], i[1 + i[0] :], strict=True)]
    if combiner == "HINDEXED" and i and len(i) == 1 + i[0] and len(a) == i[0]:
        return list(zip(a, i[1:], strict=True))
    if combiner == "INDEXED_BLOCK" and len(i) > 1 and len(i) == 2 + i[0]:
        return [(at * step, i[1]) for at in i[2:]]
    if combiner == "HINDEXED_BLOCK" and len(i) == 2 and len(a) == i[0]:
        return [(at, i[1]) for at in a]
    if combiner == "SUBARRAY" and i and len(i) == 2 + 3 * i[0]:
        return _subarray(i, step)
    return None


def subarray(i: Sequence[int]) -> tuple[list[int], list[int], list[int], bool]:
    """Sizes, subsizes and starts of MPI_Type_create_subarray, and whether its order is Fortran's.

    MPI_Type_get_contents gives the order behind them, MPI_Type_get_contents_c before them, as it is not large: MPICH's,
    Open MPI has none.
    """
    n = i[0]
    forms = ((_MPICH, i[-1], i[1:-1]), (_MPICH, i[1], i[2:]), (_OPEN_MPI, i[-1], i[1:-1]))
    for (c, fortran), order, listed in forms:
        sizes, subsizes, starts = (list(listed[k * n : (k + 1) * n]) for k in range(3))
        inside = all(0 <= at <= at + few <= size for size, few, at in zip(sizes, subsizes, starts, strict=True))
        if order in (c, fortran) and inside:
            return sizes, subsizes, starts, order == fortran
    raise ValueError(f"{i} is not what makes a subarray")


_MPICH: Final = (56, 57)
"""MPI_ORDER_C and MPI_ORDER_FORTRAN."""
_OPEN_MPI: Final = (0, 1)


def _subarray(i: list[int], step: int) -> list[Block] | None:
    try:
        sizes, subsizes, starts, fortran = subarray(i)
    except ValueError:
        return None
    if fortran:
        sizes, subsizes, starts = sizes[::-1], subsizes[::-1], starts[::-1]
    offsets = [0]
    for size, subsize, start in zip(sizes[:-1], subsizes[:-1], starts[:-1], strict=True):
        offsets = [(offset + start + k) * 1 for offset in (o * size for o in offsets) for k in range(_bounded(subsize))]
        _bounded(len(offsets))
    return [((offset * sizes[-1] + starts[-1]) * step, subsizes[-1]) for offset in offsets]


def _bounded(n: int) -> int:
    if n > MOST:
        raise _TooMany
    return max(n, 0)


def joined(found: Iterable[Block]) -> list[Block]:
    """Blocks in order, those that touch as one."""
    made: list[Block] = []
    for number, (offset, n) in enumerate(sorted(block for block in found if block[1] > 0)):
        if number > MOST * 16:
            raise _TooMany
        if made and made[-1][0] + made[-1][1] >= offset:
            made[-1] = (made[-1][0], max(made[-1][1], offset + n - made[-1][0]))
        else:
            made.append((offset, n))
    return made
