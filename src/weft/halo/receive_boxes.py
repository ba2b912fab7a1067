"""Find where receives of a rank put data into an array: for each the box of elements that it may fill.

The arguments of a call say what it may write, so a call that receives from MPI_PROC_NULL says as much as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weft.base.lazy import dataclass
from weft.halo.global_arrays import DeclaredPart
from weft.terms.argument_columns import Ints
from weft.terms.calls import (
    GETS,
    IRECVS,
    ISENDRECVS,
    MRECVS,
    NEIGHBOURS,
    RECV_INITS,
    RECVS,
    SENDRECVS,
    forms_of,
    masks_of,
)
from weft.terms.datatype_layouts import layout_of_elements
from weft.trace import Datatype, Event, Rank
from weft.trace.layout import IN_PLACE

MOST_CALLS: Final = 1 << 14
"""Calls of a rank whose buffers are looked at, of those that differ in what a row of the record holds."""

_IN_ROW: Final = RECVS | IRECVS | RECV_INITS | MRECVS
"""Calls of which a row of the record holds buffer, count and datatype."""
_NEIGHBOURS: Final = forms_of(NEIGHBOURS)
_OTHERS: Final = SENDRECVS | ISENDRECVS | GETS | _NEIGHBOURS

Box = tuple[tuple[int, int], ...]
"""Of each dimension the first and the last index."""


@dataclass(frozen=True)
class WatchedArray:
    """An array of a rank in its memory, from one of its calls on to another."""

    part: DeclaredPart
    address: int
    first: int
    end: int


@dataclass(frozen=True)
class Received:
    """A receive into an array. `box` None: it is not known what of the array it fills."""

    event: int
    box: Box | None


def find_received_boxes(rank: Rank, arrays: list[WatchedArray]) -> dict[int, list[Received]]:
    """Return part number -> the boxes of the part's elements that receives fill, each box once, with the event of its
    first receive.
    """
    found: dict[int, dict[Box | None, int]] = {place.part.number: {} for place in arrays}
    for event in _find_receiving_calls(rank):
        for address, datatype, count in _find_receive_buffers(rank.event(event)):
            for place in arrays:
                if place.first <= event < place.end and 0 <= address - place.address < _size_in_bytes(place.part):
                    box = _find_box(place.part, address - place.address, datatype, count)
                    found[place.part.number].setdefault(box, event)
    return {number: [Received(event, box) for box, event in boxes.items()] for number, boxes in found.items()}


def _find_receiving_calls(rank: Rank) -> list[int]:
    """Return the event indices of a rank's receiving calls. Of the calls with equal buffer, count and datatype, only
    the first is in the result.
    """
    of = masks_of(rank.trace.functions)
    rows, others = of.where(rank, _IN_ROW), of.where(rank, _OTHERS)
    alike = np.stack([rank.events[name][rows].astype(np.uint64) for name in ("buffer", "count", "datatype")])
    _, first = np.unique(alike, axis=1, return_index=True)
    return sorted([*rows[np.sort(first)].tolist()[:MOST_CALLS], *others.tolist()[:MOST_CALLS]])


def _find_receive_buffers(event: Event) -> Iterator[tuple[int, Datatype | None, int]]:
    """Yield (address, datatype, count) of the buffers that a call receives into; the count is -1 if it is unknown."""
    name, args = masks_of(event.rank.trace.functions).name(event.function.id), event.args
    if event.error:
        return
    if name in _NEIGHBOURS:
        yield from _find_neighbour_buffers(event, args)
    elif "recvbuf" in args:
        yield from _known_buffer(event, args["recvbuf"], args.get("recvtype"), args.get("recvcount"))
    elif "origin_addr" in args:
        yield from _known_buffer(event, args["origin_addr"], args.get("origin_datatype"), args.get("origin_count"))
    else:
        yield from _known_buffer(event, args.get("buf"), args.get("datatype"), args.get("count"))


def _known_buffer(event: Event, address: Any, datatype: Any, count: Any) -> Iterator[tuple[int, Datatype | None, int]]:
    if isinstance(address, int) and address not in (0, IN_PLACE) and isinstance(count, int) and count != 0:
        yield address, event.rank.datatype(datatype) if isinstance(datatype, int) else None, count


def _find_neighbour_buffers(event: Event, arguments: dict[str, Any]) -> Iterator[tuple[int, Datatype | None, int]]:
    """Yield (address, datatype, count) of the buffer for each neighbour of a neighbourhood collective. If the call has
    one count for all neighbours, yield its buffer once, with count -1.
    """
    address, counts, where = (
        arguments.get("recvbuf"),
        arguments.get("recvcounts"),
        arguments.get("rdispls", arguments.get("displs")),
    )
    if not isinstance(counts, list) or not isinstance(where, list) or not isinstance(address, int):
        yield from _known_buffer(event, address, arguments.get("recvtype"), -1)
        return
    one = arguments.get("recvtype")
    types = arguments["recvtypes"] if "recvtypes" in arguments else [one] * len(counts)
    datatype = event.rank.datatype(one) if isinstance(one, int) else None
    step = 1 if "recvtypes" in arguments else (datatype.extent if datatype is not None else None) or 0
    for count, at, kind in zip(counts, where, types, strict=False):
        yield from _known_buffer(event, address + at * step, kind, count)


def _size_in_bytes(part: DeclaredPart) -> int:
    return sum((n - 1) * stride for n, stride in zip(part.shape, part.strides, strict=True)) + part.item


def _find_box(part: DeclaredPart, byte_offset: int, datatype: Datatype | None, count: int) -> Box | None:
    """Return the box of a part's elements that a buffer covers, `byte_offset` after the part's first element; None if
    it is unknown.
    """
    layout = layout_of_elements(datatype, count) if count > 0 else None
    found = layout.blocks() if layout else None
    if found is None:
        return None
    at, length = found
    first, last = byte_offset + at, byte_offset + at + length - part.item
    if first.min() < 0 or last.max() >= _size_in_bytes(part):
        return None
    low, high = _compute_indices_by_axis(part, first), _compute_indices_by_axis(part, last)
    widest = sorted(range(len(part.shape)), key=lambda axis: -part.strides[axis])
    apart = np.zeros(len(first), bool)
    box = {}
    for axis in widest:  # a block that goes on after the end of a row takes all of the rows
        lowest = np.where(apart, 0, low[axis])
        highest = np.where(apart, part.shape[axis] - 1, high[axis])
        box[axis] = int(np.minimum(lowest, highest).min()), int(np.maximum(lowest, highest).max())
        apart |= low[axis] != high[axis]
    return tuple(box[axis] for axis in range(len(part.shape)))


def _compute_indices_by_axis(part: DeclaredPart, byte_offsets: Ints) -> dict[int, Ints]:
    """Return dimension -> index for the elements at some byte offsets of a part."""
    found = {}
    for axis in sorted(range(len(part.shape)), key=lambda axis: -part.strides[axis]):
        index = byte_offsets // part.strides[axis] if part.shape[axis] > 1 else byte_offsets * 0
        found[axis] = np.minimum(index, part.shape[axis] - 1)
        byte_offsets = byte_offsets - found[axis] * part.strides[axis]
    return found
