"""Boxes of a global array: intersect them, find what is not covered, and sum hashes of the elements in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from weft.native.headers.values import kernel
from weft.values.process import Box, KeptValue


def intersect_boxes(first_box: Box, second_box: Box) -> Box | None:
    """Return the intersection of two boxes; None if it is empty."""
    if len(first_box) != len(second_box):
        return None
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(first_box, second_box, strict=True))
    return shared if all(first < end for first, end in shared) else None


def box_size(box: Box) -> int:
    """Return the number of elements in a box."""
    return prod(end - first for first, end in box)


def box_slices(box: Box, of: Box) -> tuple[slice, ...]:
    """Return the slices of a box in an array that holds the box `of`."""
    return tuple(slice(first - base, end - base) for (first, end), (base, _) in zip(box, of, strict=True))


def find_uncovered_box(box: Box, covering_boxes: Sequence[Box]) -> Box | None:
    """Return a part of `box` that no covering box covers. None if everything is covered, or the box is empty."""
    if not box_size(box):
        return None
    return next(_find_uncovered_boxes(box, [one for one in covering_boxes if intersect_boxes(one, box)]), None)


def _find_uncovered_boxes(box: Box, covering_boxes: Sequence[Box]) -> Iterator[Box]:
    """Yield the uncovered parts of a box, cut along the sides of the covering boxes that intersect it."""
    for number, other in enumerate(covering_boxes):
        shared = intersect_boxes(box, other)
        if shared is None:
            continue
        rest = list(box)
        for d, ((first, end), (low, high)) in enumerate(zip(box, shared, strict=True)):
            for part in ((first, low), (high, end)):
                if part[0] < part[1]:
                    yield from _find_uncovered_boxes((*rest[:d], part, *box[d + 1 :]), covering_boxes[number + 1 :])
            rest[d] = (low, high)
        return
    yield box


def sum_hashes(value: KeptValue) -> int | None:
    """Return the sum of the hashes of all elements. Each element is hashed together with its indices in the global
    array, so that sums of parts can be added. None if the run kept neither hashes nor elements.
    """
    if value.hashes is not None:
        return value.sum
    values = value.values()
    if values is None:
        return None
    return _hash_elements(values, value.box)


def _hash_elements(values: np.ndarray, box: Box) -> int:
    """Return the sum, modulo 2**64, of the hashes of all elements of an array. Each element is hashed together with its
    indices in the global array. `box`: the part of the global array that `values` is.
    """
    if not values.size:
        return 0
    lower = [first for first, _ in box]
    steps = [kernel().weft_find_place_step(d) for d in range(len(box))]
    total, kind, itemsize = 0, ord(values.dtype.kind), values.dtype.itemsize
    rows = values.reshape(1) if not values.ndim else np.ascontiguousarray(values)
    for index in np.ndindex(*rows.shape[:-1]) if values.ndim else [()]:
        line = np.ascontiguousarray(rows[index]) if values.ndim else rows
        place = sum((k + first) * step for k, first, step in zip(index, lower, steps, strict=False))
        last = len(index)
        place += lower[last] * steps[last] if lower else 0
        step = steps[last] if lower else 0
        raw = line.view(np.uint8)
        total += kernel().weft_hash_values(raw, len(line), itemsize, kind, itemsize, place % 2**64, step)
    return total % 2**64
