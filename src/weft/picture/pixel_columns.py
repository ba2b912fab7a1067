"""What each pixel column of a row shows: short calls as exact shares of the column's time, long ones as boxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.picture.classes import CLASSES, class_table
from weft.trace import Flag, Rank, Thread
from weft.trace.layout import compute_return_ticks

Ints = NDArray[np.int64]

_PART: Final = 1 << 17


class CallBoxes(NamedTuple):
    """Calls of one thread, as arrays: index in thread.events, times in ns, class, and whether they never returned."""

    position: Ints
    enter: Ints
    leave: Ints
    call_class: NDArray[np.uint8]
    open: NDArray[np.bool_]

    def select(self, which: NDArray[np.bool_]) -> CallBoxes:
        """Return the calls for which `which` is true."""
        return CallBoxes(
            self.position[which], self.enter[which], self.leave[which], self.call_class[which], self.open[which]
        )  # fmt: skip


class ThreadColumns(NamedTuple):
    """A thread's row of the picture. `short`: (columns, classes) ns of the calls that are no boxes."""

    thread: Thread
    short: Ints
    boxes: CallBoxes


def column_edges(start: int, end: int, width: int) -> Ints:
    """Return the borders of `width` columns of time, as width + 1 times in ns from `start` to `end`. No column is
    empty."""
    end = max(end, start + width)
    # In Python's numbers: the product of a span and a width may need more than 64 bits.
    return np.array([start + k * (end - start) // width for k in range(width + 1)], np.int64)


def thread_columns(thread: Thread, borders: Ints, last: int) -> ThreadColumns:
    """Return what a thread did in each column of time. `borders`: the columns' borders in ns; `last`: until when a
    call that never returned is drawn."""
    width = len(borders) - 1
    short = np.zeros(width * len(CLASSES), np.int64)
    pixel = int(borders[-1] - borders[0]) / width
    kept = []
    for part in _read_calls_in_window(thread, borders, last):
        long = (part.leave - part.enter >= pixel) | part.open
        kept.append(part.select(long))
        _add_short_calls(short, borders, part.select(~long))
    return ThreadColumns(thread, short.reshape(width, len(CLASSES)), _concatenate_boxes(kept))


def _concatenate_boxes(parts: list[CallBoxes]) -> CallBoxes:
    """Return the boxes of several parts as one table."""
    none = np.zeros(0, np.int64)
    every = [CallBoxes(none, none, none, np.zeros(0, np.uint8), np.zeros(0, np.bool_)), *parts]
    return CallBoxes(
        np.concatenate([part.position for part in every]),
        np.concatenate([part.enter for part in every]),
        np.concatenate([part.leave for part in every]),
        np.concatenate([part.call_class for part in every]),
        np.concatenate([part.open for part in every]),
    )


def _read_calls_in_window(thread: Thread, borders: Ints, last: int) -> Iterator[CallBoxes]:
    """Yield the calls between the first and last of `borders` (ns), in blocks. A call that never returned ends where
    the thread's next call begins, the last one at `last`."""
    events, axis = thread.events, thread.rank.axis
    table = class_table(thread.rank.trace.functions)
    for start in range(0, len(events), _PART):
        part = events[start : start + _PART + 1]
        enter = axis.ns_array(part["enter"])
        leave = axis.ns_array(compute_return_ticks(part))
        open_ = (part["flags"] & Flag.CLOSED) == 0
        following = np.append(enter[1:], last)
        # Calls of one thread follow each other; only a damaged record has them overlap.
        leave = np.maximum(np.minimum(np.where(open_, following, leave), following), enter)
        here = (leave >= borders[0]) & (enter < borders[-1])
        here[_PART:] = False
        position = np.flatnonzero(here) + start
        yield CallBoxes(position, enter[here], leave[here], table[part["function"][here]], open_[here])
        if len(enter) and enter[-1] >= borders[-1]:
            return


def _add_short_calls(short: Ints, borders: Ints, calls: CallBoxes) -> None:
    """Add the time of calls that are shorter than a column to `short`, a flat table (columns, classes) of ns. A call
    may lie across two columns."""
    enter, leave = np.clip(calls.enter, borders[0], borders[-1]), np.clip(calls.leave, borders[0], borders[-1])
    column = np.clip(np.searchsorted(borders, enter, side="right") - 1, 0, len(borders) - 2)
    border = borders[column + 1]
    first, rest = np.minimum(leave, border) - enter, np.maximum(leave - border, 0)
    place = column * len(CLASSES) + calls.call_class
    np.add.at(short, place, first)
    over = rest > 0
    np.add.at(short, place[over] + len(CLASSES), rest[over])


def class_totals(found: ThreadColumns, borders: Ints) -> Ints:
    """Return how many ns the calls of each class take in each column, as (columns, classes); short and long calls
    together."""
    whole = found.short.copy()
    for enter, leave, kind in zip(found.boxes.enter, found.boxes.leave, found.boxes.call_class, strict=True):
        whole[:, kind] += np.maximum(np.minimum(leave, borders[1:]) - np.maximum(enter, borders[:-1]), 0)
    return whole


def rank_columns(ranks: list[Rank], borders: Ints, last: int) -> list[ThreadColumns]:
    """Return the rows of all threads of some ranks."""
    return [thread_columns(thread, borders, last) for rank in ranks for thread in rank.threads]
