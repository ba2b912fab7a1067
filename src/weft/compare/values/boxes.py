"""Parts of a global array on several ranks, held against those of another run that is cut up in another way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from weft.native.headers.values import kernel
from weft.values.process import Box, Kept


def common(one: Box, two: Box) -> Box | None:
    """What two boxes share, None where that is nothing."""
    if len(one) != len(two):
        return None
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, two, strict=True))
    return shared if all(first < end for first, end in shared) else None


def size(box: Box) -> int:
    """How many elements."""
    return prod(end - first for first, end in box)


def within(box: Box, of: Box) -> tuple[slice, ...]:
    """Where a box lies in an array that begins where `of` does."""
    return tuple(slice(first - base, end - base) for (first, end), (base, _) in zip(box, of, strict=True))


def missing(box: Box, held: Sequence[Box]) -> Box | None:
    """A part of `box` that no other box holds, None where all of it is held, or it has no element."""
    if not size(box):
        return None
    return next(_left(box, [one for one in held if common(one, box)]), None)


def _left(box: Box, held: Sequence[Box]) -> Iterator[Box]:
    """The parts of a box that are left, cut along the sides of the first box that takes something of it."""
    for number, other in enumerate(held):
        shared = common(box, other)
        if shared is None:
            continue
        rest = list(box)
        for d, ((first, end), (low, high)) in enumerate(zip(box, shared, strict=True)):
            for part in ((first, low), (high, end)):
                if part[0] < part[1]:
                    yield from _left((*rest[:d], part, *box[d + 1 :]), held[number + 1 :])
            rest[d] = (low, high)
        return
    yield box


def hash_of(kept: Kept) -> int | None:
    """The sum of the hashes of all elements with their places; None where neither it nor they were kept."""
    if kept.hashes is not None:
        return kept.sum
    values = kept.values()
    if values is None:
        return None
    return _hashed(values, kept.box)


def _hashed(values: np.ndarray, box: Box) -> int:
    if not values.size:
        return 0
    lower = [first for first, _ in box]
    steps = [kernel().weft_values_step(d) for d in range(len(box))]
    total, kind, itemsize = 0, ord(values.dtype.kind), values.dtype.itemsize
    rows = values.reshape(1) if not values.ndim else np.ascontiguousarray(values)
    for index in np.ndindex(*rows.shape[:-1]) if values.ndim else [()]:
        line = np.ascontiguousarray(rows[index]) if values.ndim else rows
        place = sum((k + first) * step for k, first, step in zip(index, lower, steps, strict=False))
        last = len(index)
        place += lower[last] * steps[last] if lower else 0
        step = steps[last] if lower else 0
        raw = line.view(np.uint8)
        total += kernel().weft_values_hash(raw, len(line), itemsize, kind, itemsize, place % 2**64, step)
    return total % 2**64
