"""The timeline of a run: sums of its calls, built once and cached, so that any interval is summed up at once.

The cache is the user's and not a part of the run: a run is evidence, which looking at it must not change, and an index
that came with somebody else's run could not be believed. The timeline is built anew if a file of the run has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.native.bridge import as_c_array
from weft.native.headers.view import BOX, Lanes, Row, kernel
from weft.picture.classes import CLASSES, class_table
from weft.safety.folders import cache_folder, make_private
from weft.trace import Trace
from weft.trace.layout import compute_return_ticks
from weft.view.rows import Rows
from weft.waits.kernels import axes

VERSION: Final = 1
"""Rises when an older index cannot be used any more."""

MARKS: Final = 1 << 16
"""Parts of the run's time of which it is known whether a call begins or ends in them."""

MAX_CACHED: Final = 20
"""Indices that are kept, the latest ones."""

Ints = NDArray[np.int64]

Progress = Callable[[int, int], None]
"""Told how many of how many events are done."""


class Timeline:
    """How long each row was in which class of calls by which time: on the clock, or in logical steps.

    `last`: the end of the picture in ns; `ends`: by row the step at which each event ends, for logical time.
    """

    def __init__(self, rows: Rows, last: int, ends: Sequence[NDArray[np.uint32]] | None = None) -> None:
        self.rows = rows
        self.last = last
        """The end of the picture, where calls that are open end."""
        self.block = _events_per_block(rows.trace.event_count)
        self.classes = class_table(rows.trace.functions)
        counts = [len(row.events) for row in rows]
        self._counts = np.array([*counts, 0], np.int64)
        blocks = np.concatenate([[0], np.cumsum([-(-n // self.block) for n in counts])]).astype(np.int64)
        self.first_block = blocks
        self.starts = np.zeros(int(blocks[-1]) + 1, np.int64)
        self.sums = np.zeros((int(blocks[-1]) + 1, len(CLASSES)), np.int64)
        self.marks = np.zeros(MARKS, np.uint8)
        self._ends = ends
        self._events = [np.ascontiguousarray(row.events) for row in rows]
        self._axes = axes([row.rank for row in rows])
        self._fill_c_rows()

    def _fill_c_rows(self) -> None:
        """Fill the C structures from which the native kernel reads the rows of the picture."""
        made = []
        for r, events in enumerate(self._events):
            first, ends = int(self.first_block[r]), self._ends[r] if self._ends is not None else None
            made.append(Row(
                events=events, count=len(events), axis=self._axes[r:], ends=ends, last=self.last, block=self.block,
                starts=self.starts[first:], sums=self.sums[first:],
            ))  # fmt: skip
        self.c_rows = as_c_array(made, Row)

    def build(self, progress: Progress | None = None) -> None:
        """Compute the sums from which pictures of any interval are drawn, on several cores. `progress` is called with
        the number of events done, and of all.
        """
        total, done = sum(map(len, self._events)), 0
        workers = max(1, min(os.cpu_count() or 1, 8))

        def one(r: int) -> int:
            kernel().weft_index_view_row(self.c_rows[r], self.classes, self.marks, MARKS, self.last)
            return len(self._events[r])

        with ThreadPoolExecutor(workers) as pool:
            for count in pool.map(one, range(len(self.rows))):
                done += count
                if progress:
                    progress(done, total)

    # Questions

    def events_between(self, t0: int, t1: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the events that are active at some time from `t0` up to `t1`, as two arrays: the first index in each
        row of the picture, and the index after the last.
        """
        first, end = np.zeros(len(self.rows), np.uint64), np.zeros(len(self.rows), np.uint64)
        kernel().weft_find_view_range(self.c_rows, len(self.rows), t0, t1, first, end)
        return first, end

    def class_shares(self, lanes: Sequence[Sequence[int]], edges: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return how much of each column's time the classes of calls fill, from 0 to 255 for all of it: an array uint8
        of the shape (lanes, classes, columns).

        `lanes`: the rows that each lane of the picture combines; `edges`: (columns + 1,) int64, the times between
        columns.
        """
        columns = len(edges) - 1
        of = np.array([row for lane in lanes for row in lane], np.uint32)
        first = np.concatenate([[0], np.cumsum([len(lane) for lane in lanes])]).astype(np.uint32)
        edges = np.ascontiguousarray(edges, np.int64)
        out = np.zeros((len(lanes), len(CLASSES), columns), np.uint8)
        given = Lanes(rows=self.c_rows, count=len(lanes), first=first, of=of, edges=edges, columns=columns)
        workers = max(1, min(os.cpu_count() or 1, 8, len(lanes)))
        cuts = [len(lanes) * k // workers for k in range(workers + 1)]

        def some(k: int) -> None:
            sums = np.empty((len(CLASSES), columns))
            kernel().weft_shade_view_columns(given, self.classes, cuts[k], cuts[k + 1], sums, out)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(some, range(workers)))
        return out

    def event_boxes(self, row: int, first: int, end: int) -> NDArray[Any]:
        """Return the boxes that draw some events of a row: start, end, function and so on (dtype BOX). The field
        `index` is the position in the row. `first`, `end`: positions in the row.
        """
        end = min(end, len(self._events[row]))
        out = np.zeros(max(0, end - first), BOX)
        kernel().weft_fill_view_boxes(self.c_rows[row], self.classes, first, end, out)
        return out

    def event_times(self, rows: NDArray[Any], positions: NDArray[Any]) -> tuple[Ints, Ints]:
        """Return the starts and ends of events, as two arrays. `rows`, `positions`: parallel; the row of each event and
        its position in the row. IndexError if there is no such event.
        """
        of, which = np.ascontiguousarray(rows, np.uint32), np.ascontiguousarray(positions, np.int64)
        if len(which) and ((which < 0) | (which >= self._counts[of])).any():
            raise IndexError("a row has no event there")
        starts, ends = np.empty(len(which), np.int64), np.empty(len(which), np.int64)
        kernel().weft_find_view_times(self.c_rows, of, which, len(which), starts, ends)
        return starts, ends

    def rank_event_times(self, ranks: NDArray[Any], events: NDArray[np.generic]) -> tuple[Ints, Ints, Ints]:
        """Return rows, starts and ends of events, as three arrays. `ranks`, `events`: the rank index and event index of
        each.
        """
        rows, positions = self.rows.rows_of_events(np.asarray(ranks, np.int64), np.asarray(events, np.int64))
        return rows, *self.event_times(rows, positions)


def _events_per_block(events: int) -> int:
    """Return how many events one stored sum covers. The sums take about 10 bytes an event in small runs, 2.5 in large
    ones.
    """
    return 8 if events <= 20_000_000 else 32


def last_event_time(rows: Rows) -> int:
    """Return the time (ns) of the last begin or end of an event in any row."""
    found = 0
    for row in rows:
        if len(row.events):
            ticks = compute_return_ticks(row.events[-1:])
            found = max(found, int(row.rank.axis.ns_array(ticks)[0]))
    return min(found, 1 << 60)


def end_margin(last: float) -> int:
    """Return how far (ns) the picture extends beyond the last event, so that a call that never returned can be seen."""
    return max(int(last) // 16, 1000)


def load_or_build_timeline(rows: Rows, last: int, progress: Progress | None = None) -> Timeline:
    """Return the timeline of a run in ns. It is read from the cache, or built and stored there. `last`: the end of the
    run.
    """
    timeline = Timeline(rows, last)
    place = _cache_folder(rows.trace, last)
    if not _load_cached(timeline, place):
        timeline.build(progress)
        _store_in_cache(timeline, place)
    return timeline


def load_or_make_json(trace: Trace, last: int, name: str, make: Callable[[], object]) -> object:
    """Return JSON values that are computed from the run. They are read from the cache; if they are missing, or the run
    has changed, `make` computes them.
    """
    file = _cache_folder(trace, last) / f"{name}.json"
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        made = make()
    with suppress(OSError):
        if file.parent.is_dir():
            _write_atomically(file, json.dumps(made))
    return made


def _write_atomically(file: Path, text: str) -> None:
    """Write a file completely or not at all."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=file.parent)
    with os.fdopen(handle, "w") as to:
        to.write(text)
    Path(name).replace(file)


def _cache_folder(trace: Trace, last: int) -> Path:
    """Return the folder in the cache that belongs to the run as it is now. A change of its files leads to another
    folder.
    """
    known: list[object] = [VERSION, last, _events_per_block(trace.event_count), str(trace.path.resolve())]
    for rank in trace.ranks:
        if rank.file:
            status = rank.file.path.stat()
            known.append((rank.file.name, rank.file.size, status.st_mtime_ns, status.st_ino))
    return cache_folder() / "view" / hashlib.sha256(repr(known).encode()).hexdigest()[:32]


def _load_cached(timeline: Timeline, folder: Path) -> bool:
    """Read the timeline's arrays from the cache folder `folder`. Return False if they are missing or do not fit."""
    found = []
    try:
        for name, like in (("starts", timeline.starts), ("sums", timeline.sums), ("marks", timeline.marks)):
            array = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            if array.shape != like.shape or array.dtype != like.dtype:
                return False
            found.append(array)
    except (OSError, ValueError):
        return False
    timeline.starts, timeline.sums, timeline.marks = found
    timeline._fill_c_rows()
    with suppress(OSError):
        os.utime(folder)
    return True


def _store_in_cache(timeline: Timeline, folder_in_cache: Path) -> None:
    """Write the timeline's arrays to a folder in the cache, all or none. If that fails, nothing is raised."""
    try:
        make_private(folder_in_cache.parent)
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=folder_in_cache.parent))
        for name in ("starts", "sums", "marks"):
            np.save(folder / f"{name}.npy", getattr(timeline, name))
        (folder / "run.json").write_text(json.dumps({"path": str(timeline.rows.trace.path), "version": VERSION}))
        if folder_in_cache.exists():
            shutil.rmtree(folder_in_cache, ignore_errors=True)
        folder.replace(folder_in_cache)
        _remove_old_caches(folder_in_cache.parent)
    except OSError:
        return


def _remove_old_caches(folder: Path) -> None:
    """Remove all cached timelines but the latest `MAX_CACHED`."""
    kept = sorted((p for p in folder.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in kept[MAX_CACHED:]:
        shutil.rmtree(old, ignore_errors=True)
