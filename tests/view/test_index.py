"""Columns and boxes against the slow, obvious definition of the same; the index in the cache."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from view import runs
from weft.picture.classes import CLASSES, class_number_of
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.view import timeline
from weft.view.rows import Rows
from weft.view.timeline import Timeline, last_event_time, load_or_build_timeline

CALLS = ("MPI_Send", "MPI_Recv", "MPI_Wait", "MPI_Barrier", "MPI_Put", "MPI_File_read", "MPI_Iprobe", "MPI_Comm_rank")

Made = tuple[int, int, int, bool]
"""Which call, ns after the start of the one before, ns it takes, whether it never returns."""

calls = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 400), st.integers(0, 900), st.booleans()), min_size=1, max_size=40
)


def run_of(rows: list[list[Made]], folder: str) -> Trace:
    """A run whose rank r makes the calls rows[r]."""
    b = Builder(ranks=len(rows), path=Path(folder))
    for rank, made in zip(b.ranks, rows, strict=True):
        at = 0
        for which, gap, length, hangs in made:
            at += gap
            rank.call(CALLS[which], enter=at, exit=at + length, open=hangs)
            at += length // 2  # calls that overlap: a record may be damaged
    return b.open()


def slow_calls(trace: Trace, rank: int, last: int) -> list[tuple[int, int, int]]:
    """(class, start, end) of each call by the rule that native/kernel/view.c states."""
    found = []
    events = list(trace.ranks[rank])
    latest = -(2**62)
    for i, event in enumerate(events):
        start = latest = max(latest, event.enter_ns)
        end = max(start, last if event.exit_ns is None else event.exit_ns)
        if i + 1 < len(events):
            end = min(end, max(start, events[i + 1].enter_ns))
        found.append((class_number_of(event.function.name), start, end))
    return found


def slow_share(calls: list[tuple[int, int, int]], cls: int, start: int, end: int) -> float:
    """Share of [start, end) in calls of a class."""
    inside = sum(max(0, min(b, end) - max(a, start)) for c, a, b in calls if c == cls)
    return inside / (end - start) if end > start else 0.0


@pytest.mark.matrix
@settings(max_examples=40, deadline=None)
@given(st.lists(calls, min_size=1, max_size=4), st.integers(1, 60), st.integers(-300, 4000), st.integers(1, 9000))
def test_columns_are_the_true_shares(rows: list[list[Made]], columns: int, start: int, span: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = run_of(rows, folder)
        all_rows = Rows(trace)
        timeline = Timeline(all_rows, last_event_time(all_rows) + 500)
        timeline.build()
        edges = np.rint(np.linspace(start, start + span, columns + 1)).astype(np.int64)
        lanes = [[r] for r in range(len(rows))] + [list(range(len(rows)))]
        found = timeline.class_shares(lanes, edges)
        made = [slow_calls(trace, r, timeline.last) for r in range(len(rows))]
        for lane, of in enumerate(lanes):
            for cls in range(len(CLASSES)):
                for x in range(columns):
                    share = sum(slow_share(made[r], cls, int(edges[x]), int(edges[x + 1])) for r in of) / len(of)
                    level = int(found[lane, cls, x])
                    assert abs(level - share * 255) <= 0.5 + 1e-6 or (0 < share < 1 / 255 and level == 1)


@settings(max_examples=25, deadline=None)
@given(calls, st.integers(-300, 4000), st.integers(1, 9000))
def test_boxes_are_the_calls_under_way(made: list[Made], start: int, span: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = run_of([made], folder)
        rows = Rows(trace)
        timeline = Timeline(rows, last_event_time(rows) + 500)
        timeline.build()
        first, end = timeline.events_between(start, start + span)
        boxes = timeline.event_boxes(0, int(first[0]), int(end[0]))
        slow = slow_calls(trace, 0, timeline.last)
        wanted = {i for i, (_, a, b) in enumerate(slow) if a < start + span and b > start}
        assert wanted <= set(boxes["index"].tolist())
        for box in boxes:
            cls, a, b = slow[box["index"]]
            # The first box of a window does not know of disorder before it.
            assert box["class"] == cls
            assert box["start"] == a or box["index"] == int(first[0])
            assert box["end"] == b or box["index"] == int(first[0])


def test_many_blocks_give_what_one_scan_gives(tmp_path: Path) -> None:
    trace = weft.open(runs.halo(tmp_path / "run", 6, 40))
    rows = Rows(trace)
    timeline = Timeline(rows, last_event_time(rows))
    timeline.build()
    edges = np.linspace(0, timeline.last, 700).astype(np.int64)
    found = timeline.class_shares([[3]], edges)[0]
    slow = slow_calls(trace, 3, timeline.last)
    for cls in range(len(CLASSES)):
        exact = [slow_share(slow, cls, int(a), int(b)) * 255 for a, b in pairwise(edges.tolist())]
        assert np.abs(found[cls] - exact).max() <= 1


class TestCache:
    """The index is kept, found again, and built anew for another run."""

    def test_an_index_is_found_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        trace = weft.open(runs.halo(tmp_path / "run"))
        rows = Rows(trace)
        built = load_or_build_timeline(rows, last_event_time(rows))
        monkeypatch.setattr(Timeline, "build", lambda *_: pytest.fail("it was built again"))
        again = load_or_build_timeline(rows, last_event_time(rows))
        edges = np.linspace(0, built.last, 100).astype(np.int64)
        assert np.array_equal(built.class_shares([[0]], edges), again.class_shares([[0]], edges))

    def test_another_run_at_the_same_place_is_indexed_anew(self, tmp_path: Path) -> None:
        for steps in (4, 9):
            trace = weft.open(runs.halo(tmp_path / "run", steps=steps))
            rows = Rows(trace)
            timeline = load_or_build_timeline(rows, last_event_time(rows))
            fresh = Timeline(rows, last_event_time(rows))
            fresh.build()
            assert np.array_equal(timeline.sums, fresh.sums)
            for file in (tmp_path / "run" / "ranks").iterdir():
                file.unlink()

    def test_the_run_itself_is_left_as_it_is(self, tmp_path: Path) -> None:
        path = runs.halo(tmp_path / "run")
        before = sorted((p, p.stat().st_mtime_ns) for p in path.rglob("*"))
        rows = Rows(weft.open(path))
        load_or_build_timeline(rows, last_event_time(rows))
        assert sorted((p, p.stat().st_mtime_ns) for p in path.rglob("*")) == before

    def test_a_damaged_index_is_built_again(self, tmp_path: Path) -> None:
        rows = Rows(weft.open(runs.halo(tmp_path / "run")))
        folder = timeline._cache_folder(rows.trace, last_event_time(rows))
        good = load_or_build_timeline(rows, last_event_time(rows))
        (folder / "sums.npy").write_bytes(b"nothing of the kind")
        assert np.array_equal(load_or_build_timeline(rows, last_event_time(rows)).sums, good.sums)
