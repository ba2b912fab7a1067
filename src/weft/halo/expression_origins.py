"""Remember what the elements of an expression were made of: which elements of shared arrays, and as of when.

A ghost cell counts as used if a value made of it is stored at another element, or summed up with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from weft.halo.log_writer import Array, Log, Part, Place, address, shown

READ: Final = 1
_MOST_ORIGINS: Final = 48
_BASIC: Final = (int, np.integer, slice, type(Ellipsis), type(None))


class Origin(NamedTuple):
    """Elements that were read, as an array of the shape of what was made of them."""

    view: Array
    part: Part
    moment: int
    ghosts: int
    runs: int
    at: Place


class Remembering(np.ndarray):
    """An array that knows of which part it is, or what it was made of."""

    _part: Part | None = None
    _from: tuple[Origin, ...] = ()
    _computed: bool = False


def plain_of(value: Any) -> Any:
    """Return the same value without watched arrays, also inside tuples, lists and dictionaries."""
    if isinstance(value, Remembering):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(plain_of(one) for one in value)
    if type(value) is dict:
        return {name: plain_of(one) for name, one in value.items()}
    return value


def bare(key: Any) -> Any:
    """Return a key without watched arrays: numbers and slices, as most are, are so."""
    for one in key if type(key) is tuple else (key,):
        if type(one) is not slice and type(one) is not int:
            return plain_of(key)
    return key


def basic(key: Any) -> bool:
    """Return whether a key chooses a view: numbers and slices."""
    return all(isinstance(one, _BASIC) for one in key) if type(key) is tuple else isinstance(key, _BASIC)


def view_of(plain: Array, key: Any) -> Array:
    """Return the elements of a basic key as an array, of one element too."""
    keys = key if type(key) is tuple else (key,)
    return plain[keys if any(one is ... for one in keys) else (*keys, ...)]


def same(one: Array, other: Array) -> bool:
    """Return whether two arrays are the same elements."""
    return one.shape == other.shape and one.strides == other.strides and address(one) == address(other)


def log_of(value: Any) -> Log | None:
    if not isinstance(value, Remembering):
        return None
    return value._part.log if value._part is not None else value._from[0].part.log if value._from else None


def guarded(part: Part, work: Callable[[Part], object]) -> None:
    """Run code that records, and stop recording if it fails."""
    if part.log.here():
        try:
            work(part)
        except Exception as error:  # the program goes on, whatever is wrong here
            part.log.fail(f"{type(error).__name__}: {error} (an array)")


def read(view: Remembering, at: Place) -> tuple[Origin, ...]:
    """Return what an operand was made of: itself, if it lies in a part."""
    if view._from or view._part is None:
        return view._from
    part, plain = view._part, view.view(np.ndarray)
    cells = part.cells(plain)
    if cells is None:
        return ()
    part.accessed(cells, READ)
    moment = part.log.moment()
    ghosts = part.look_at_ghosts(moment) if part.reaches(cells, ghosts=True) else part.ghosts_seen
    return (Origin(plain, part, moment, ghosts, part.log.runs, at),)


def spread(origins: tuple[Origin, ...], shape: tuple[int, ...]) -> tuple[Origin, ...]:
    """Return origins in the shape of what was made of them."""
    for one in origins:
        if one.view.shape != shape:
            break
    else:
        return origins
    return tuple(one._replace(view=np.broadcast_to(one.view, shape)) for one in origins)


def origins_of(ufunc: np.ufunc, inputs: Sequence[Any], watched: Sequence[Remembering], at: Place) -> tuple[Origin, ...]:
    """Return what a result is made of, element by element; nothing if that is not known."""
    try:
        found: tuple[Origin, ...] = ()
        for one in watched:
            found += read(one, at)
        if ufunc is np.multiply and any(_masks(one) for one in inputs):
            return ()  # what is multiplied by nothing is not used
        return found if len(found) <= _MOST_ORIGINS and ufunc.signature is None else ()
    except Exception as error:  # the program goes on, whatever is wrong here
        for log in filter(None, map(log_of, watched)):
            log.fail(f"{type(error).__name__}: {error} (origins)")
        return ()


def _masks(value: Any) -> bool:
    """Return whether a factor is 0 somewhere, and no array that ranks share."""
    if isinstance(value, (int, float)):
        return value == 0
    if isinstance(value, Remembering) and (value._from or value._part is not None):
        return False
    return not np.all(value)


def element(part: Part, array: Remembering, key: Any, at: Place) -> None:
    """Record that a single element is read."""
    plain = array.view(np.ndarray)
    view = view_of(plain, key)
    cells = part.cells(view)
    if cells is None:
        return
    part.accessed(cells, READ)
    if part.reaches(cells, ghosts=True):
        moment = part.log.moment()
        origin = Origin(view, part, moment, part.look_at_ghosts(moment), part.log.runs, at)
        told(part, ("element", at, cells), [origin], at, {"what": "element"})


def summed(part: Part, origins: Sequence[Origin], at: Place) -> None:
    """Elements are summed up, or the like, that were made of several."""
    if len({(o.part.number, address(o.view), o.view.strides) for o in origins}) > 1:
        told(part, ("sum", at), origins, at, {"what": "sum"})


def told(part: Part, key: tuple[Any, ...], origins: Sequence[Origin], at: Place, fields: dict[str, Any]) -> None:
    """Record a use, with the ghosts among what it was made of."""
    reads = [(o, cells) for o in origins if (cells := o.part.cells(o.view)) and o.part.reaches(cells, ghosts=True)]
    if not reads and fields["what"] != "store":
        return
    use = part.log.use(
        (part.number, key, tuple((o.part.number, cells, o.at) for o, cells in reads)),
        lambda: {
            "part": part.number, "at": shown(at), **fields,
            "reads": [{"part": o.part.number, "cells": cells, "at": shown(o.at)} for o, cells in reads],
        },
    )  # fmt: skip
    part.log.run(use, [(o.moment, o.ghosts, o.runs) for o, _ in reads])
