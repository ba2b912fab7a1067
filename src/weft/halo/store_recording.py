"""Record stores into shared arrays: where, and what the stored values were made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.expression_origins import Origin, TracedArray, read_operand, record_safely, record_use, strip_watched
from weft.halo.log_writer import Array, Place, SharedPart, find_call_site

WRITE: Final = 2


class StoredValue(NamedTuple):
    """What is stored, where it is known already."""

    origins: tuple[Origin, ...]
    computed: bool
    plain: Array | None


class Store(NamedTuple):
    """What is stored where: the elements, None if a list of indices chooses them; the array and the key; the value."""

    target: Array | None
    whole: Array
    key: Any
    value: Any


def record_around_store(part: SharedPart, store_facts: Store, perform_store: Callable[[], object]) -> None:
    """Perform a store, and record where and what was stored."""
    ready: list[Any] = []

    def record_before(of: SharedPart) -> None:
        """Find out, before the store is made, which elements are stored, and where their values come from."""
        at = find_call_site()
        cells = (
            of.find_cells(store_facts.target)
            if store_facts.target is not None
            else find_chosen_elements(of, store_facts.whole, store_facts.key)
        )
        made = (
            store_facts.value if isinstance(store_facts.value, StoredValue) else describe_value(store_facts.value, at)
        )
        of.record_unseen_changes(of.log.count_calls())
        ready.extend((at, cells, made))

    def record_after(of: SharedPart) -> None:
        """Record the store after it is made: the stored elements, the elements that their values come from, and the
        part's values now.
        """
        at, cells, made = ready
        if cells is None:
            return
        if isinstance(cells, tuple):
            of.report_access(cells, WRITE)
        origins = [o for o in made.origins if not _comes_from_same_places(o, of, cells)]
        from_memory = made.plain is not None
        fields = {"what": "store", "cells": cells, "computed": made.computed and not from_memory}
        shown = cells if isinstance(cells, tuple) else tuple(cells["places"])
        record_use(of, ("store", at, shown, fields["computed"]), origins, at, fields)
        of.record_store(cells if isinstance(cells, tuple) else None)

    record_safely(part, record_before)
    perform_store()
    if ready:
        record_safely(part, record_after)


def _comes_from_same_places(origin: Origin, part: SharedPart, cells: Any) -> bool:
    """Return whether a store puts elements of a part back where they were read, so that it changes nothing."""
    other = origin.part
    same = other.shape == part.shape and other.strides == part.strides
    return same and isinstance(cells, tuple) and other.find_cells(origin.view) == cells


def describe_value(value: Any, call_site: Place) -> StoredValue:
    """Return what is known of a value before it is stored: the elements it was made of, and whether it was computed."""
    if isinstance(value, TracedArray):
        origins = read_operand(value, call_site)
        return StoredValue(origins, bool(origins) or value._computed, None)
    if isinstance(value, np.ndarray):
        return StoredValue((), False, value)
    return StoredValue((), isinstance(value, (bool, int, float, complex, np.number, np.bool_)), None)


def find_chosen_elements(part: SharedPart, view: Array, key: Any) -> dict[str, Any] | None:
    """Return the elements of a view that an index of lists or truth values chooses, as {"places": flat indices}. Return
    None if the view is not inside the part.
    """
    cells = part.find_cells(view)
    if cells is None:
        return None
    mask = np.zeros(view.shape, bool)
    mask[strip_watched(key)] = True
    return {"places": part.flat_indices(cells)[mask].tolist()}


def record_unknown_store(array: TracedArray) -> None:
    """Record that something is stored somewhere in an array."""
    part = array._part
    if part is not None:
        record_safely(part, lambda of: setattr(of, "changes", of.changes + 1))
