"""Record stores into shared arrays: where, and what the stored values were made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.expression_origins import Origin, Remembering, guarded, plain_of, read, told
from weft.halo.log_writer import Array, Part, Place, place

WRITE: Final = 2


class Made(NamedTuple):
    """What is stored, where it is known already."""

    origins: tuple[Origin, ...]
    computed: bool
    plain: Array | None


class Stored(NamedTuple):
    """What is stored where: the elements, None if a list of indices chooses them; the array and the key; the value."""

    target: Array | None
    whole: Array
    key: Any
    value: Any


def storing(part: Part, what: Stored, store: Callable[[], object]) -> None:
    """Call `store`, and record where and what was stored."""
    ready: list[Any] = []

    def before(of: Part) -> None:
        at = place()
        cells = of.cells(what.target) if what.target is not None else chosen(of, what.whole, what.key)
        made = what.value if isinstance(what.value, Made) else value_of(what.value, at)
        of.look_for_unseen(of.log.moment())
        ready.extend((at, cells, made))

    def after(of: Part) -> None:
        at, cells, made = ready
        if cells is None:
            return
        if isinstance(cells, tuple):
            of.accessed(cells, WRITE)
        origins = [o for o in made.origins if not _pointwise(o, of, cells)]
        from_memory = made.plain is not None
        fields = {"what": "store", "cells": cells, "computed": made.computed and not from_memory}
        shown = cells if isinstance(cells, tuple) else tuple(cells["places"])
        told(of, ("store", at, shown, fields["computed"]), origins, at, fields)
        of.stored(cells if isinstance(cells, tuple) else None)

    guarded(part, before)
    store()
    if ready:
        guarded(part, after)


def _pointwise(origin: Origin, part: Part, cells: Any) -> bool:
    """Return whether elements come from the same places that they are stored at."""
    other = origin.part
    same = other.shape == part.shape and other.strides == part.strides
    return same and isinstance(cells, tuple) and other.cells(origin.view) == cells


def value_of(value: Any, at: Place) -> Made:
    """Return what is known of a value that is stored."""
    if isinstance(value, Remembering):
        origins = read(value, at)
        return Made(origins, bool(origins) or value._computed, None)
    if isinstance(value, np.ndarray):
        return Made((), False, value)
    return Made((), isinstance(value, (bool, int, float, complex, np.number, np.bool_)), None)


def chosen(part: Part, view: Array, key: Any) -> dict[str, Any] | None:
    """Return the elements that lists of indices or truth values choose."""
    cells = part.cells(view)
    if cells is None:
        return None
    mask = np.zeros(view.shape, bool)
    mask[plain_of(key)] = True
    return {"places": part.places(cells)[mask].tolist()}


def unknown(array: Remembering) -> None:
    """Something is stored somewhere in an array."""
    part = array._part
    if part is not None:
        guarded(part, lambda of: setattr(of, "changes", of.changes + 1))
