"""Lay out the bytes that elements of a datatype take (MPI-4.1, 5.1); what repeats is stored once, with a stride and a
count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import count as numbers
from typing import Final, NamedTuple

from weft.base.lazy import dataclass
from weft.terms.byte_layouts import MOST_PARTS, TOO_MUCH, Layout, gapless_layout
from weft.terms.datatype_sizes import gapless_size, size_in_bytes
from weft.terms.strided_blocks import Level, Strided, simplify_parts
from weft.terms.type_maps import iterate_pair_runs
from weft.trace import Datatype
from weft.trace.datatypes import PADDED_PAIRS

_DEEPEST: Final = 50


@dataclass(frozen=True)
class _Element:
    """One element of a datatype. Without parts its bytes are unknown, or `too_many`."""

    extent: int | None
    parts: tuple[Strided, ...] | None
    too_many: bool = False
    number: int = field(default_factory=numbers().__next__)
    """A number of its own: elements that are made of equal ones are equal."""


def layout_of_elements(datatype: Datatype | None, count: int) -> Layout | None:
    """Return which bytes `count` elements of a datatype cover, relative to the buffer's address. None if the record
    does not tell.
    """
    if datatype is None:
        return None
    if size := gapless_size(datatype):
        return _cached_layout((-1, size * count), lambda: gapless_layout(size * count))
    element = _lay_out_element(datatype, {}, 0)
    if element.too_many:
        return TOO_MUCH
    if element.parts is None or element.extent is None:
        return None
    if count <= 0:
        return gapless_layout(0)
    parts, extent = element.parts, element.extent
    return _cached_layout((element.number, count), lambda: Layout(parts, extent, count))


def _cached_layout(key: tuple[int, int], make: Callable[[], Layout]) -> Layout:
    """Return the layout that is cached under `key`. If there is none, `make` makes it and it is cached."""
    if key not in _layouts:
        if len(_layouts) >= _MOST_LAID:
            _layouts.clear()
        _layouts[key] = make()
    return _layouts[key]


_MOST_LAID: Final = 64
_layouts: dict[tuple[int, int], Layout] = {}
"""Layouts by the number of their element and how many there are: one function's calls mostly have few."""


_PLACED_BY_BYTES: Final = ("STRUCT", "HINDEXED", "HINDEXED_BLOCK")
_MOST_MEMBERS: Final = 1 << 12


def list_members(datatype: Datatype, count: int) -> list[tuple[int, int]] | None:
    """Return, for each block of a datatype that the program placed by a displacement in bytes (STRUCT, HINDEXED), which
    bytes it covers in `count` elements together: (the first, the one after the last), relative to the buffer's address.

    None if the datatype was made in another way, has more than _MOST_MEMBERS blocks, or is not known.
    """
    extent = datatype.extent
    while datatype.combiner in ("DUP", "RESIZED") and len(datatype.inner) == 1 and datatype.inner[0] is not None:
        datatype = datatype.inner[0]
    elements = [_UNKNOWN if of is None else _lay_out_element(of, {}, 0) for of in datatype.inner]
    is_placed = datatype.combiner.removesuffix("_INTEGER") in _PLACED_BY_BYTES
    pieces = list(_inner_elements(datatype, elements) or ()) if is_placed and extent is not None else []
    if not 0 < len(pieces) <= _MOST_MEMBERS or any(of.parts is None or of.extent is None for of, _ in pieces):
        return None
    found = []
    for of, piece in pieces:
        if piece.times > 0 and of.parts:
            member = Layout(of.parts, of.extent or 0, piece.times)
            last = (extent or 0) * (count - 1)
            found.append((piece.offset + member.low + min(last, 0), piece.offset + member.high + max(last, 0)))
    return found


class _ElementCache:
    """A cache of elements by what they are made of: programs that make a datatype for each message make few that
    differ.
    """

    def __init__(self) -> None:
        self.elements: dict[Hashable, _Element] = {}
        self.parts = 0

    def add(self, key: Hashable, element: _Element) -> _Element:
        """Store the blocks of a datatype's element in the cache and return them. If the cache is too large, it is
        cleared before.
        """
        if len(self.elements) >= _MOST_KEPT or self.parts > 4 * MOST_PARTS:
            self.elements.clear()
            self.parts = 0
        self.elements[key] = element
        self.parts += len(element.parts or ())
        return element


_MOST_KEPT: Final = 1024
_element_cache: Final = _ElementCache()


def _lay_out_element(datatype: Datatype, seen: dict[int, _Element], depth: int) -> _Element:
    """Return which bytes one element of a datatype covers, and its extent. `seen`: elements of inner datatypes by id,
    as far as they are known; `depth`: how many datatypes are around this one.
    """
    if datatype.id in seen:
        return seen[datatype.id]
    seen[datatype.id] = _UNKNOWN
    definition = datatype.definition
    inner: list[_Element] = []
    pair = PADDED_PAIRS.get(datatype.name) if datatype.is_predefined else None
    key: Hashable = gapless_size(datatype), size_in_bytes(datatype), datatype.extent, pair
    if depth > _DEEPEST:
        return _UNKNOWN
    if definition is not None and not gapless_size(datatype):
        inner = [_UNKNOWN if of is None else _lay_out_element(of, seen, depth + 1) for of in datatype.inner]
        made_of = tuple(one.number for one in inner)
        key = datatype.combiner, datatype.extent, definition.integers, definition.addresses, made_of
    element = _element_cache.elements.get(key)
    if element is None:
        element = _element_cache.add(key, _make_element(datatype, inner))
    seen[datatype.id] = element
    return element


_UNKNOWN: Final = _Element(None, None)


def _make_element(datatype: Datatype, inner: list[_Element]) -> _Element:
    """Return which bytes one element of a datatype covers, and its extent. `inner`: the elements of its inner
    datatypes.
    """
    extent = datatype.extent
    if size := gapless_size(datatype):
        return _Element(extent, (Strided(0, size),))
    if datatype.definition is None:
        size = size_in_bytes(datatype) or 0
        if datatype.name in PADDED_PAIRS and size:
            runs = iterate_pair_runs(datatype.name)
            return _Element(extent, tuple(Strided(run.at, run.width * run.times) for run in runs))
        return _Element(extent, (Strided(0, size),) if size else None)
    try:
        parts = _blocks_of_element(datatype, inner)
    except _TooMany:
        return _Element(extent, None, too_many=True)
    return _Element(extent, parts)


class _TooMany(Exception):
    """A datatype of more parts than are kept."""


class _RepeatedElements(NamedTuple):
    """Consecutive elements at an offset in bytes, repeated at each sum of multiples of the levels' strides."""

    offset: int
    times: int
    levels: tuple[Level, ...] = ()


def _blocks_of_element(datatype: Datatype, inner: list[_Element]) -> tuple[Strided, ...] | None:
    """Return the blocks of bytes that one element of a derived datatype covers; None if they are unknown. Raises
    _TooMany.
    """
    pieces = _inner_elements(datatype, inner)
    if pieces is None:
        return None
    found: list[Strided] = []
    for child, piece in pieces:
        if piece.times <= 0 or any(times <= 0 for _, times in piece.levels):
            continue
        if child.too_many or len(found) + len(child.parts or ()) > MOST_PARTS:
            raise _TooMany
        if child.parts is None or child.extent is None:
            return None
        moved = [Strided(offset + piece.offset, length, levels) for offset, length, levels in child.parts]
        for stride, times in ((child.extent, piece.times), *piece.levels):
            if times > 1:
                moved = [part.repeat(stride, times) for part in moved]
        found += moved
    return simplify_parts(found)


def _inner_elements(datatype: Datatype, inner: list[_Element]) -> Iterator[tuple[_Element, _RepeatedElements]] | None:
    """Return pairs for a derived datatype: an element of an inner datatype, and where and how often it is repeated.
    None if the combiner is unknown.
    """
    definition = datatype.definition
    if definition is None or not inner:
        return None
    i, a = definition.integers, definition.addresses
    combiner = datatype.combiner.removesuffix("_INTEGER")
    if combiner == "STRUCT" and len(i) == 1 + len(inner) == 1 + len(a):
        return ((child, _RepeatedElements(at, n)) for child, at, n in zip(inner, a, i[1:], strict=True))
    step = inner[0].extent
    if step is None or len(inner) != 1:
        return None
    pieces = _element_places(combiner, i, a, step)
    return None if pieces is None else ((inner[0], piece) for piece in pieces)


def _element_places(
    combiner: str, integers: tuple[int, ...], addresses: tuple[int, ...], step: int
) -> Iterable[_RepeatedElements] | None:
    """Return where a derived datatype puts the elements of its only inner datatype; None if the combiner is unknown.
    `step`: the inner datatype's extent; `integers`, `addresses`: the combiner's arguments.
    """
    if combiner in ("DUP", "RESIZED"):
        return [_RepeatedElements(0, 1)]
    if combiner == "CONTIGUOUS" and integers:
        return [_RepeatedElements(0, integers[0])]
    if combiner == "VECTOR" and len(integers) == 3:
        return [_RepeatedElements(0, integers[1], ((integers[2] * step, integers[0]),))]
    if combiner == "HVECTOR" and len(integers) >= 2 and addresses:
        return [_RepeatedElements(0, integers[1], ((addresses[0], integers[0]),))]
    if combiner == "INDEXED" and integers and len(integers) == 1 + 2 * integers[0]:
        return (
            _RepeatedElements(at * step, n)
            for n, at in zip(integers[1 : 1 + integers[0]], integers[1 + integers[0] :], strict=True)
        )
    if combiner == "HINDEXED" and integers and len(integers) == 1 + integers[0] and len(addresses) == integers[0]:
        return (_RepeatedElements(at, n) for at, n in zip(addresses, integers[1:], strict=True))
    if combiner == "INDEXED_BLOCK" and len(integers) > 1 and len(integers) == 2 + integers[0]:
        return (_RepeatedElements(at * step, integers[1]) for at in integers[2:])
    if combiner == "HINDEXED_BLOCK" and len(integers) == 2 and len(addresses) == integers[0]:
        return (_RepeatedElements(at, integers[1]) for at in addresses)
    if combiner == "SUBARRAY" and integers and len(integers) == 2 + 3 * integers[0]:
        return _subarray_elements(integers, step)
    return None


def read_subarray(integers: Sequence[int]) -> tuple[list[int], list[int], list[int], bool]:
    """Return four arguments of MPI_Type_create_subarray: sizes, subsizes, starts, and whether the order is Fortran's.

    ValueError if `integers` does not describe a subarray. The order stands after the other arguments as
    MPI_Type_get_contents returns them, and before them as MPICH's MPI_Type_get_contents_c does.
    """
    n = integers[0]
    if n <= 0:
        raise ValueError(f"a subarray of {n} dimensions")
    forms = (
        (_MPICH, integers[-1], integers[1:-1]),
        (_MPICH, integers[1], integers[2:]),
        (_OPEN_MPI, integers[-1], integers[1:-1]),
    )
    for (c, fortran), order, listed in forms:
        sizes, subsizes, starts = (list(listed[k * n : (k + 1) * n]) for k in range(3))
        inside = all(0 <= at <= at + few <= size for size, few, at in zip(sizes, subsizes, starts, strict=True))
        if order in (c, fortran) and inside:
            return sizes, subsizes, starts, order == fortran
    raise ValueError(f"{integers} are not the arguments of a subarray")


_MPICH: Final = (56, 57)
"""MPI_ORDER_C and MPI_ORDER_FORTRAN."""
_OPEN_MPI: Final = (0, 1)


def _subarray_elements(integers: Sequence[int], step: int) -> list[_RepeatedElements] | None:
    """Return where a subarray datatype puts the elements of its inner datatype; None if its integers are invalid.
    `step`: the inner datatype's extent.
    """
    try:
        sizes, subsizes, starts, fortran = read_subarray(integers)
    except ValueError:
        return None
    if not fortran:
        sizes, subsizes, starts = sizes[::-1], subsizes[::-1], starts[::-1]
    offset, stride, levels = 0, step, []
    for size, subsize, start in zip(sizes, subsizes, starts, strict=True):
        offset += start * stride
        levels.append((stride, subsize))
        stride *= size
    return [_RepeatedElements(offset, 1, tuple(levels))]
