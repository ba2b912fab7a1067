"""Find objects that are used after they were freed, by a copy of their handle.

The recorder knows each handle from the call that made it to the call that freed it. A handle that is used later is new
to the recorder: an object that no call made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.terms.argument_columns import Ints, Ragged, decode_argument, decode_columns, sorted_distinct
from weft.terms.calls import catalogue_of, masks_of, word_set
from weft.terms.describe import site_suffix
from weft.terms.rank_progress import open_calls
from weft.trace import EndingKind, Function, Rank
from weft.trace.layout import ID_DYNAMIC, Def
from weft.usage.resource_leaks import CLASSES

FreedHandle = tuple[int, str, str]
"""An event, the parameter that is wrong, and what is wrong with it, as an object of `gives MPI_Op_free`."""
_AGAIN: Final = word_set("Type_get_contents File_get_view")
"""What gives a datatype whose handle may be there already: freed once, it may still be used."""
_LOOKED_AT: Final = ("OP", "INFO", "DATATYPE")
"""Of others a library may make some that no call of the record made."""


def find_freed_handles(rank: Rank) -> Iterator[FreedHandle]:
    """Yield (event index, parameter, what is wrong) for calls that are given an object which was freed before."""
    for kind in CLASSES:
        if kind.handle not in _LOOKED_AT:
            continue
        freed = masks_of(rank.trace.functions).where(rank, kind.frees)
        again = kind.handle == "DATATYPE" and len(masks_of(rank.trace.functions).where(rank, _AGAIN))
        if not len(freed) or again:
            continue
        known = None
        for function in _called_functions(rank):
            for name in _input_parameters(function, kind.handle):
                which = catalogue_of(rank).of(function)
                which = which[which > freed[0]]
                values = decode_argument(rank, which, name) if len(which) else which
                which, values = which[values >= ID_DYNAMIC], values[values >= ID_DYNAMIC]
                if len(which):
                    known = _known_object_ids(rank, kind.handle) if known is None else known
                    why = f"a copy of the handle of the {kind.noun}, which was freed before"
                    yield from ((row, name, why) for row in which[~np.isin(values, known)].tolist())


def find_freed_communicator(rank: Rank) -> FreedHandle | None:
    """Return the call inside which MPI ended a rank, or the rank crashed, if it is given a communicator that no call
    made, and the rank had freed one before; None if there is no such call.
    """
    crashed = rank.definitions.ended is not None or any(one.kind is EndingKind.SIGNAL for one in rank.endings)
    [*_, last] = open_calls(rank) or [-1]
    if last < 0 or not crashed:
        return None
    event = rank.event(last)
    place = event.function.slot.get("comm")
    id = int(rank.events["comm"][last])
    if place is None or place.direction == "out" or id < ID_DYNAMIC or rank.comm(id) is not None:
        return None
    freed = masks_of(rank.trace.functions).where(rank, CLASSES[0].frees)
    freed = freed[freed < last]
    lines = {site_suffix(rank.event(row)): row for row in freed[-64:].tolist()}
    if not lines:
        return None
    where = f", as it was{next(iter(lines))}" if len(lines) == 1 else " by then"
    return last, place.name, f"a copy of the handle of a communicator that is freed{where},"


def _called_functions(rank: Rank) -> list[Function]:
    return [rank.trace.functions[id] for id in catalogue_of(rank).present]


def _input_parameters(function: Function, handle: str) -> list[str]:
    """Return the input parameters of a function that name one object of a class."""
    return [p.name for p in function.parameters if p.handle == handle and p.direction != "out" and not p.array]


def _known_object_ids(rank: Rank, handle: str) -> Ints:
    """Return the ids of all objects of a class that calls of the rank returned, or that the record defines. `handle`:
    the class, such as "DATATYPE".
    """
    found = [np.zeros(0, np.int64)]
    if handle == "DATATYPE":
        found.append(np.array(rank.definitions.ids(Def.DATATYPE), np.int64))
    for function in _called_functions(rank):
        for p in function.parameters:
            which = catalogue_of(rank).of(function) if p.handle == handle and p.direction == "out" else found[0][:0]
            if len(which) and p.place != "tail":
                found.append(rank.events[p.place][which].astype(np.int64))
            elif len(which):
                for _, values in decode_columns(rank, which, frozenset((p.name,))):
                    one = values.get(p.name)
                    found.append(one.values if isinstance(one, Ragged) else np.asarray(one if one is not None else []))
    return sorted_distinct(np.concatenate([part.astype(np.int64) for part in found]))
