"""Find the owner of each ghost cell: the parts that ranks declared, put together to global arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.halo.cell_geometry import make_edge_mask, owned_ranges
from weft.terms.argument_columns import Ints

NOBODY: Final = -1
LOW: Final = 0
HIGH: Final = 1
Key = tuple[Any, ...]
Side = tuple[int, int]
"""A dimension, and its low or its high end."""


@dataclass(frozen=True)
class DeclaredPart:
    """A part of a global array as a rank declared it."""

    rank: int
    number: int
    name: str
    at: tuple[str, int, str]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    halo: tuple[tuple[int, int], ...]
    lower: tuple[int, ...] | None
    whole: tuple[int, ...] | None
    periodic: tuple[bool, ...] | None
    lag: int
    dims: tuple[int, ...]
    coordinates: tuple[int, ...]
    periods: tuple[bool, ...]
    copy: bool
    """Made of another part by the program."""
    reversed: bool = False
    """The program counts dimensions from the other end, and indices from 1: Fortran."""
    inferred: bool = False
    """The widths are not declared, but told by where receives put data."""
    guessed: bool = False
    """It was watched with widths that may not be those that receives tell."""
    late: bool = False
    """It was watched with others at first: its history begins later."""
    unfilled: frozenset[Side] = frozenset()
    """Sides whose ghosts no receive fills: nobody knows that they should hold what their owners have."""

    @property
    def item(self) -> int:
        """Bytes of an element, for all that is known."""
        return min(self.strides)

    @property
    def size(self) -> tuple[int, ...]:
        """Return how many elements of each dimension are owned."""
        return tuple(last - first for first, last in owned_ranges(self.shape, self.halo))

    def to_program_index(self, index: list[int]) -> list[int]:
        """Return an index as the program writes it."""
        return [one + 1 for one in reversed(index)] if self.reversed else index


class PlacedPart:
    """A part with its place in the global array.

    `owner` and `cell` are by ghost: the rank that owns the cell, and its number among the owner's edge cells; NOBODY at
    physical boundaries, and for the rank's own cells. `unfilled` is the owner of a ghost that no receive fills.
    """

    def __init__(self, of: DeclaredPart, lower: Sequence[int]) -> None:
        self.of, self.lower = of, tuple(lower)
        owned = np.zeros(of.shape, bool)
        owned[tuple(slice(*one) for one in owned_ranges(of.shape, of.halo))] = True
        self.owned = owned.ravel()
        self.ghosts: Ints = np.flatnonzero(~self.owned)
        self.edge: Ints = np.flatnonzero(make_edge_mask(of.shape, of.halo))
        self.ghost_of = _inverse(self.ghosts, self.owned.size)
        self.edge_of = _inverse(self.edge, self.owned.size)
        self.owner: Ints = np.full(len(self.ghosts), NOBODY, np.int64)
        self.cell: Ints = np.full(len(self.ghosts), NOBODY, np.int64)
        self.unfilled: Ints = np.full(len(self.ghosts), NOBODY, np.int64)

    def clear_unfilled_ghosts(self) -> None:
        """Note that ghosts at sides of the part which no receive fills are copies of no cell, so that they have no
        owner.
        """
        index = np.stack(np.unravel_index(self.ghosts, self.of.shape))
        for axis, end in self.of.unfilled:
            low, high = self.of.halo[axis]
            there = index[axis] < low if end == LOW else index[axis] >= self.of.shape[axis] - high
            self.unfilled[there] = np.maximum(self.owner[there], self.unfilled[there])
            self.owner[there] = NOBODY

    def to_global(self, flat_indices: Ints) -> Ints:
        """Convert flat indices in this part to indices in the global array, with one row for each element."""
        local = np.stack(np.unravel_index(flat_indices, self.of.shape), axis=-1).astype(np.int64)
        shift = np.array([low - h for low, (h, _) in zip(self.lower, self.of.halo, strict=True)], np.int64)
        return np.asarray(local + shift)

    def to_local(self, global_indices: Ints) -> Ints:
        """Convert indices of the global array (one row for each element) to flat indices into this part's own array.
        The index of an element that the part does not own is NOBODY.
        """
        first = np.array(self.lower)
        own = global_indices - first
        there = ((own >= 0) & (own < np.array(self.of.size))).all(axis=1)
        own = own + np.array([h for h, _ in self.of.halo])
        places = np.full(len(global_indices), NOBODY, np.int64)
        if there.any():
            places[there] = np.ravel_multi_index(tuple(own[there].T), self.of.shape)
        return places

    def ghost_index(self, ghost: int) -> list[int]:
        """Return the local index of a ghost."""
        return [int(one) for one in np.unravel_index(int(self.ghosts[ghost]), self.of.shape)]


class GlobalArray:
    """A global array: the part of each rank."""

    def __init__(self, parts: Sequence[DeclaredPart]) -> None:
        self.parts: dict[int, PlacedPart] = {}
        lowers = _find_lower_corners(parts)
        if lowers is None:
            return
        self.whole, self.periodic = lowers[1], _find_periodic_axes(parts)
        self.parts = {part.rank: PlacedPart(part, lower) for part, lower in zip(parts, lowers[0], strict=True)}
        if self._parts_overlap():
            self.parts = {}
        for one in self.parts.values():
            self._set_owners(one)

    def _parts_overlap(self) -> bool:
        cells = sum(int(np.prod(one.of.size)) for one in self.parts.values())
        return cells > int(np.prod(self.whole))

    def _set_owners(self, part: PlacedPart) -> None:
        """Set, for each ghost of a part, the rank that owns the ghost's cell, and the cell's number among that rank's
        cells.
        """
        where = self.wrap_indices(part.to_global(part.ghosts))
        for rank, other in self.parts.items():
            if rank == part.of.rank:
                continue
            places = other.to_local(where)
            cells = np.where(places >= 0, other.edge_of[places], NOBODY)
            part.owner[cells >= 0] = rank
            part.cell[cells >= 0] = cells[cells >= 0]
        part.clear_unfilled_ghosts()

    def wrap_indices(self, indices: Ints) -> Ints:
        """Global indices, of periodic dimensions within the array."""
        whole = np.array(self.whole)
        return np.where(np.array(self.periodic), indices % whole, indices)


def group_parts(parts: Iterable[DeclaredPart]) -> list[list[DeclaredPart]]:
    """Return the parts grouped by global array. Parts belong to one array if their ranks declared them with the same
    name (or, without a name, at the same line), as the first, second … part of that name.
    """
    groups: dict[Key, list[DeclaredPart]] = defaultdict(list)
    counts: dict[Key, int] = defaultdict(int)
    for part in parts:
        key = (part.name, None if part.name else part.at[:2], part.copy)
        ordinal = counts[part.rank, key]
        counts[part.rank, key] += 1
        groups[*key, ordinal].append(part)
    return list(groups.values())


def make_global_arrays(parts: Iterable[DeclaredPart]) -> list[GlobalArray]:
    """Return the global arrays."""
    return [GlobalArray(group) for group in group_parts(parts)]


def _inverse(places: Ints, size: int) -> NDArray[np.int32]:
    made = np.full(size, NOBODY, np.int32)  # parts have fewer than 2**31 cells
    made[places] = np.arange(len(places))
    return made


def _find_lower_corners(parts: Sequence[DeclaredPart]) -> tuple[list[tuple[int, ...]], tuple[int, ...]] | None:
    """Return (the first index of each part in the global array, the global shape); None if that is not known."""
    dimensions = {len(part.shape) for part in parts}
    if len(dimensions) != 1:
        return None
    said = [part.lower for part in parts if part.lower is not None]
    lowers = said if len(said) == len(parts) else _compute_corners_from_grid(parts)
    if lowers is None:
        return None
    ends = np.array([np.add(lower, part.size) for lower, part in zip(lowers, parts, strict=True)])
    whole = next((part.whole for part in parts if part.whole is not None), None)
    return lowers, whole if whole is not None and said else tuple(int(one) for one in ends.max(axis=0))


def find_divided_axes(part: DeclaredPart) -> list[int]:
    """Return the dimensions of a part's global array that are divided among ranks, in the order of the dimensions of
    the communicator's grid."""
    every = list(range(len(part.shape)))
    if part.inferred and len(part.dims) == len(every):
        return every  # one that has no neighbours anywhere shows no ghosts
    return (axes_with_ghosts(part) or every)[: len(part.dims)]


def axes_with_ghosts(part: DeclaredPart) -> list[int]:
    """Return the dimensions that have ghosts."""
    return [axis for axis, width in enumerate(part.halo) if width != (0, 0)]


def find_neighbour_sides(part: DeclaredPart, all_parts: Iterable[DeclaredPart]) -> set[Side]:
    """Return the sides (dimension, low or high end) at which a part has a neighbour. They come from the parts' places
    in the global array if these are known, else from the grid of the communicator.
    """
    found = set()
    if part.lower is not None:
        ends = np.array([np.add(one.lower, one.size) for one in all_parts if one.lower is not None]).max(axis=0)
        whole, periodic = part.whole or ends, part.periodic or (False,) * len(part.shape)
        for axis, (first, n) in enumerate(zip(part.lower, part.size, strict=True)):
            round_ = periodic[axis] and n < whole[axis]
            found |= {(axis, LOW)} if first > 0 or round_ else set()
            found |= {(axis, HIGH)} if first + n < whole[axis] or round_ else set()
        return found
    periods = part.periods or (False,) * len(part.dims)
    for axis, at, n, period in zip(find_divided_axes(part), part.coordinates, part.dims, periods, strict=False):
        round_ = n > 1 and (part.periodic[axis] if part.periodic is not None else period)
        found |= {(axis, LOW)} if at > 0 or round_ else set()
        found |= {(axis, HIGH)} if at + 1 < n or round_ else set()
    return found


def _compute_corners_from_grid(parts: Sequence[DeclaredPart]) -> list[tuple[int, ...]] | None:
    """Return the first global index of each part, computed from the coordinates of its rank in the grid. Return None if
    parts with the same coordinate have different sizes.
    """
    sizes: dict[tuple[int, int], int] = {}
    for part in parts:
        for axis, at in zip(find_divided_axes(part), part.coordinates, strict=False):
            if sizes.setdefault((axis, at), part.size[axis]) != part.size[axis]:
                return None
    lowers = []
    for part in parts:
        lower = [0] * len(part.shape)
        for axis, at in zip(find_divided_axes(part), part.coordinates, strict=False):
            before = [sizes.get((axis, k)) for k in range(at)]
            if None in before:
                return None
            lower[axis] = sum(one for one in before if one is not None)
        lowers.append(tuple(lower))
    return lowers if all(part.dims for part in parts) else None


def _find_periodic_axes(parts: Sequence[DeclaredPart]) -> tuple[bool, ...]:
    """Return for each dimension of the array whether it is periodic, so that its ends are neighbours."""
    part = parts[0]
    if part.periodic is not None:
        return part.periodic
    made = [False] * len(part.shape)
    for axis, period in zip(find_divided_axes(part), part.periods, strict=False):
        made[axis] = period
    return tuple(made)
