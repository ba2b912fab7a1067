"""An interval of the axis as bytes for the page: columns of all lanes, and boxes if there is room for them.

Layout, little-endian: u32 length of a JSON head, the head, zeros up to a multiple of 8, then the arrays that the head
lists as [name, type, count], one after the other, each beginning at a multiple of 8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError
from weft.picture.classes import CLASSES
from weft.view.rows import Rows
from weft.view.scale import Scale

Hits = Mapping[int, NDArray[np.int64]]
"""By row the places of the calls that fit a filter."""

MAX_COLUMNS: Final = 8192
MAX_LANES: Final = 4096
MAX_BOXES: Final = 30_000
ROOM: Final = 3
"""Pixels that a call must have on average to be drawn as a box."""


def parse_lanes(text: str, rows: int) -> list[list[int]]:
    """Return the lanes of a picture that a text such as `0|1|4-7,9` names: for each lane the rows that it combines.
    UsageError for another text.
    """
    lanes: list[list[int]] = []
    total = 0
    for word in text.split("|") if text else []:
        lane: list[int] = []
        for part in word.split(","):
            found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part)
            if found is None or int(found[2] or found[1]) >= rows:
                raise UsageError(f"{part!r} does not name rows from 0 to {rows - 1}")
            lane += range(int(found[1]), int(found[2] or found[1]) + 1)
            if len(lane) > rows:
                raise UsageError("a lane names a row twice")
        lanes.append(lane)
        total += len(lane)
        if len(lanes) > MAX_LANES or total > 4 * rows + MAX_LANES:
            raise UsageError(
                f"too many rows for the picture: at most {MAX_LANES:,}, with at most {4 * rows + MAX_LANES:,} ranks "
                f"in them"
            )
    return lanes


def pack_window(
    rows: Rows, scale: Scale, lanes: Sequence[Sequence[int]], span: tuple[float, float], *, columns: int,
    hits: Hits | None = None,
) -> bytes:  # fmt: skip
    """Return the data to draw an interval of the axis, as bytes: shares of classes by lane and column, single calls
    where there is room, and the columns in which calls fit a filter.
    """
    columns = max(1, min(columns, MAX_COLUMNS))
    start, end = span
    edges = scale.column_edges(start, end, columns)
    shares = scale.timeline.class_shares(lanes, edges)
    used = np.flatnonzero(shares.any(axis=(0, 2)))
    first, last = scale.timeline.events_between(int(edges[0]), int(edges[-1]))
    counts = (last - first).astype(np.int64)
    boxed = _choose_boxed_lanes(lanes, counts, columns)
    parts = [_lane_boxes(rows, scale, lane, r, part=(int(first[r]), int(last[r])), hits=hits)
             for lane in boxed for r in [lanes[lane][0]]]  # fmt: skip
    arrays = {"shares": np.ascontiguousarray(shares[:, used]), **_concatenate_arrays(parts)}
    if hits is not None:
        arrays["hits"] = _hit_columns(scale, lanes, hits, edges)
    counted = [int(sum(counts[r] for r in lane)) for lane in lanes]
    head = {"columns": columns, "classes": [CLASSES[c].word for c in used], "lanes": len(lanes), "events": counted,
            "boxed": [int(lane) for lane in boxed], "from": start, "to": end}  # fmt: skip
    return pack_arrays(head, arrays)


def _choose_boxed_lanes(lanes: Sequence[Sequence[int]], counts: NDArray[np.int64], columns: int) -> list[int]:
    """Return the lanes whose calls are drawn one by one. They combine no rows, and have few enough calls. `counts`: the
    calls of each row in the interval.
    """
    found, left = [], MAX_BOXES
    for lane, rows in enumerate(lanes):
        if len(rows) == 1 and counts[rows[0]] * ROOM <= columns and counts[rows[0]] <= left:
            found.append(lane)
            left -= int(counts[rows[0]])
    return found


def _lane_boxes(
    rows: Rows, scale: Scale, lane: int, row: int, *, part: tuple[int, int], hits: Hits | None
) -> dict[str, NDArray[Any]]:
    """Return the calls of a lane to draw one by one, as an array for each fact: start, end, event, function, class,
    flags, and whether the call fits the filter. `part`: first and end position of the calls in the row.
    """
    found = scale.timeline.event_boxes(row, *part)
    fits = np.ones(len(found), np.uint8)
    if hits is not None:
        fits = np.isin(found["index"], hits.get(row, ())).astype(np.uint8)
    slots = rows[row].events[found["index"]]
    events = rows[row].event_indices(found["index"].astype(np.int64))
    return {
        "lane": np.full(len(found), lane, np.uint32), "start": scale.positions(found["start"]),
        "end": scale.positions(found["end"]), "event": events.astype(np.uint32),
        "function": found["function"], "class": found["class"], "flags": found["flags"], "fits": fits,
        "peer": slots["peer"], "tag": slots["tag"],
    }  # fmt: skip


def _concatenate_arrays(parts: Sequence[Mapping[str, NDArray[np.generic]]]) -> dict[str, NDArray[np.generic]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _hit_columns(
    scale: Scale, lanes: Sequence[Sequence[int]], hits: Hits, edges: NDArray[np.int64]
) -> NDArray[np.uint8]:  # fmt: skip
    """Return in which columns of each lane a call begins that fits the filter: an array uint8 of the shape (lanes,
    columns) with 1 there. `edges`: the times between columns.
    """
    columns = len(edges) - 1
    first, last = scale.timeline.events_between(int(edges[0]), int(edges[-1]))
    out = np.zeros((len(lanes), columns), np.uint8)
    for lane, rows in enumerate(lanes):
        for row in rows:
            of_row = hits.get(row)
            if of_row is None:
                continue
            begin, stop = np.searchsorted(of_row, [int(first[row]), int(last[row])])
            seen = of_row[begin:stop]
            starts, _ = scale.timeline.event_times(np.full(len(seen), row), seen)
            at = np.clip(np.searchsorted(edges, starts, side="right") - 1, 0, columns - 1)
            out[lane, at] = 1
    return out


_TYPES: Final = {"<f8": "f64", "<u4": "u32", "<i4": "i32", "<u2": "u16", "|u1": "u8"}


def pack_arrays(head: Mapping[str, object], arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return a head and named arrays as bytes, in the layout that weft.view.window describes."""
    listed = [[name, _TYPES[array.dtype.str], int(array.size)] for name, array in arrays.items()]
    text = json.dumps({**head, "arrays": listed}).encode()
    parts = [len(text).to_bytes(4, "little"), text]
    size = sum(map(len, parts))
    for array in arrays.values():
        padding = -size % 8
        data = array.tobytes()
        parts += [b"\0" * padding, data]
        size += padding + len(data)
    return b"".join(parts)
