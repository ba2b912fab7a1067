"""Remember what the elements of an expression were made of: which elements of shared arrays, and as of when.

A ghost cell counts as used if a value made of it is stored at another element, or summed up with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.log_writer import Array, Log, Place, SharedPart, address, describe_place

READ: Final = 1
_MOST_ORIGINS: Final = 48
_BASIC: Final = (int, np.integer, slice, type(Ellipsis), type(None))


class Origin(NamedTuple):
    """Elements that were read, as an array of the shape of what was made of them."""

    view: Array
    part: SharedPart
    moment: int
    ghosts: int
    runs: int
    at: Place


class TracedArray(np.ndarray):
    """An array that knows of which part it is, or what it was made of."""

    _part: SharedPart | None = None
    _from: tuple[Origin, ...] = ()
    _computed: bool = False


def strip_watched(value: Any) -> Any:
    """Return a value with plain NumPy arrays in place of recording ones, also inside tuples, lists and dictionaries."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(strip_watched(one) for one in value)
    if type(value) is dict:
        return {name: strip_watched(one) for name, one in value.items()}
    return value


def strip_key(key: Any) -> Any:
    """Return an index key with plain NumPy arrays in place of recording ones. A key of numbers and slices, as most
    are, is returned unchanged."""
    for one in key if type(key) is tuple else (key,):
        if type(one) is not slice and type(one) is not int:
            return strip_watched(key)
    return key


def is_basic_key(key: Any) -> bool:
    """Return whether a key chooses a view: numbers and slices."""
    return all(isinstance(one, _BASIC) for one in key) if type(key) is tuple else isinstance(key, _BASIC)


def view_of(plain: Array, key: Any) -> Array:
    """Return the elements of a basic key as an array, of one element too."""
    keys = key if type(key) is tuple else (key,)
    return plain[keys if any(one is ... for one in keys) else (*keys, ...)]


def are_same_elements(one: Array, other: Array) -> bool:
    """Return whether two arrays are the same elements."""
    return one.shape == other.shape and one.strides == other.strides and address(one) == address(other)


def log_of(value: Any) -> Log | None:
    if not isinstance(value, TracedArray):
        return None
    return value._part.log if value._part is not None else value._from[0].part.log if value._from else None


def record_safely(part: SharedPart, record: Callable[[SharedPart], object]) -> None:
    """Call `record` with a part. If it raises an exception, recording stops for good, and the program goes on."""
    if part.log.is_recording():
        try:
            record(part)
        except Exception as error:  # the program goes on, whatever is wrong here
            part.log.give_up(f"Weft failed at an array ({type(error).__name__}: {error})")


def read_operand(view: TracedArray, call_site: Place) -> tuple[Origin, ...]:
    """Record that an operand of an expression is read, and return the shared elements that its values come from. For an
    operand inside a shared part, these are its own elements.
    """
    if view._from or view._part is None:
        return view._from
    part, plain = view._part, view.view(np.ndarray)
    cells = part.find_cells(plain)
    if cells is None:
        return ()
    part.report_access(cells, READ)
    moment = part.log.count_calls()
    ghosts = part.record_ghosts(moment) if part.contains_ghosts_or_edges(cells, check_ghosts=True) else part.ghosts_seen
    return (Origin(plain, part, moment, ghosts, part.log.runs, call_site),)


def broadcast_origins(origins: tuple[Origin, ...], shape: tuple[int, ...]) -> tuple[Origin, ...]:
    """Return the origins of a result (the elements that were read for it), each broadcast to the result's shape."""
    for one in origins:
        if one.view.shape != shape:
            break
    else:
        return origins
    return tuple(one._replace(view=np.broadcast_to(one.view, shape)) for one in origins)


def find_origins(
    ufunc: np.ufunc, inputs: Sequence[Any], watched: Sequence[TracedArray], call_site: Place
) -> tuple[Origin, ...]:
    """Return the elements from which a ufunc's result is computed; nothing if they are not known. `watched`: the
    recording arrays among `inputs`.
    """
    try:
        found: tuple[Origin, ...] = ()
        for one in watched:
            found += read_operand(one, call_site)
        if ufunc is np.multiply and any(_may_mask(one) for one in inputs):
            return ()  # what is multiplied by nothing is not used
        return found if len(found) <= _MOST_ORIGINS and ufunc.signature is None else ()
    except Exception as error:  # the program goes on, whatever is wrong here
        for log in filter(None, map(log_of, watched)):
            log.give_up(f"Weft failed at the origins of a value ({type(error).__name__}: {error})")
        return ()


def _may_mask(value: Any) -> bool:
    """Return whether a factor of a product has a 0 somewhere, so that the other factor has no effect there. Arrays made
    of shared elements always give False.
    """
    if isinstance(value, (int, float)):
        return value == 0
    if isinstance(value, TracedArray) and (value._from or value._part is not None):
        return False
    return not np.all(value)


def record_element_read(part: SharedPart, array: TracedArray, key: Any, call_site: Place) -> None:
    """Record that the program reads one element of a shared array. `key`: the element's index in `array`."""
    plain = array.view(np.ndarray)
    view = view_of(plain, key)
    cells = part.find_cells(view)
    if cells is None:
        return
    part.report_access(cells, READ)
    if part.contains_ghosts_or_edges(cells, check_ghosts=True):
        moment = part.log.count_calls()
        origin = Origin(view, part, moment, part.record_ghosts(moment), part.log.runs, call_site)
        record_use(part, ("element", call_site, cells), [origin], call_site, {"what": "element"})


def record_sum(part: SharedPart, origins: Sequence[Origin], at: Place) -> None:
    """Elements are summed up, or the like, that were made of several."""
    if len({(o.part.number, address(o.view), o.view.strides) for o in origins}) > 1:
        record_use(part, ("sum", at), origins, at, {"what": "sum"})


def record_use(
    part: SharedPart, key: tuple[Any, ...], origins: Sequence[Origin], call_site: Place, fields: dict[str, Any]
) -> None:
    """Record a use of a part with `fields` for the log. The record names the ghost cells among the elements that the
    used value was made of.
    """
    reads = [
        (o, cells)
        for o in origins
        if (cells := o.part.find_cells(o.view)) and o.part.contains_ghosts_or_edges(cells, check_ghosts=True)
    ]
    if not reads and fields["what"] != "store":
        return
    use = part.log.find_or_add_use(
        (part.number, key, tuple((o.part.number, cells, o.at) for o, cells in reads)),
        lambda: {
            "part": part.number, "at": describe_place(call_site), **fields,
            "reads": [{"part": o.part.number, "cells": cells, "at": describe_place(o.at)} for o, cells in reads],
        },
    )  # fmt: skip
    part.log.write_run(use, [(o.moment, o.ghosts, o.runs) for o, _ in reads])
