"""Compute which elements of an array with ghost cells a view has, which the rank owns, and which its neighbours
copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Cells = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Elements of a part: bytes after its first, shape and strides."""


def compute_flat_indices(cells: Cells, shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    """Return the flat indices of some elements in an array that contains them. `cells`: the elements, as (offset,
    shape, strides in bytes); `shape` and `strides`: those of the array.
    """
    offset, form, steps = cells
    at = np.full(form, offset, np.int64)
    for axis, step in enumerate(steps):
        at += (np.arange(form[axis], dtype=np.int64) * step).reshape([-1 if k == axis else 1 for k in range(len(form))])
    number = np.zeros(form, np.int64)
    sized = [int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))]
    for axis in sorted(range(len(shape)), key=lambda k: -abs(strides[k])):
        if shape[axis] > 1:
            index, at = np.divmod(at, strides[axis])
            number += index * sized[axis]
    return number


def owned_ranges(shape: Sequence[int], halo: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return for each dimension the first element that is owned, and the end."""
    return [(low, n - high) for n, (low, high) in zip(shape, halo, strict=True)]


def make_shell_mask(shape: Sequence[int], layers: int) -> NDArray[np.bool_]:
    """Return a mask of the array's elements that are within `layers` layers of an end of some dimension."""
    made = np.ones(shape, bool)
    made[tuple(slice(min(layers, n), max(n - layers, 0)) for n in shape)] = False
    return made


def make_edge_mask(shape: Sequence[int], halo: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return a mask of the array's elements near its edges of which a neighbour has a copy. Only elements that this
    rank owns are in the mask.
    """
    made = np.zeros(shape, bool)
    whole = [slice(*one) for one in owned_ranges(shape, halo)]
    for axis, (low, high) in enumerate(halo):
        first, last = whole[axis].start, whole[axis].stop
        for part in (slice(first, min(first + high, last)), slice(max(last - low, first), last)):
            made[tuple(part if k == axis else one for k, one in enumerate(whole))] = True
    return made
