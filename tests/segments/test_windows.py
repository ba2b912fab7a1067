"""Runs of one-sided communication in segments have the findings that they have whole."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_segments import compared, ends_quiet, first_cut, in_segments, short
from windows import EXCLUSIVE, NO_SUCCEED, SHARED, one_sided

from segments.seeds import seeds
from weft.findings import Finding
from weft.segments import scan_rank
from weft.trace import Trace
from weft.trace.builder import Builder
from weft.trace.layout import Def
from weft.trace.varint import encode_unsigned

__all__ = ["short"]


@pytest.mark.matrix
@pytest.mark.parametrize("wrong", [0.0, 0.05, 0.3])
@seeds(3, 16)
def test_random_one_sided_programs_have_the_same_findings(seeds: range, wrong: float, tmp_path: Path) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        trace = one_sided(random.Random(seed), tmp_path / str(seed), wrong=wrong)
        segments[compared(trace)] += 1
        if not wrong:
            assert not one_sided_findings(trace)
    assert sum(count for many, count in segments.items() if many > 1) > 0.6 * len(seeds), segments


def one_sided_findings(trace: Trace) -> list[Finding]:
    made = in_segments(trace)
    return [] if made is None else made[1]["one-sided"]


class Run:
    """Three ranks with a window of 4096 bytes."""

    def __init__(self, path: Path | None = None, **window: Any) -> None:
        self.b = Builder(ranks=3, path=path) if path else Builder(ranks=3)
        for r in self.b.ranks:
            r.init()
        self.wins = self.b.window(**window)

    def call(self, me: int, name: str, **kw: Any) -> None:
        kw.setdefault("site", ("a.c", self.b.clock // 1000, "f"))
        self.b.ranks[me].call(f"MPI_{name}", win=self.wins[me], **kw)

    def each(self, name: str, **kw: Any) -> None:
        for me in range(3):
            self.call(me, name, **kw)

    def fence(self, asserts: int = 0) -> None:
        self.each("Win_fence", **{"assert": asserts})

    def op(self, me: int = 0, name: str = "Put", target: int = 2, at: int = 0, **kw: Any) -> None:
        self.call(
            me, name, origin_addr=0x10_0000_0000 + 64 * self.b.clock, origin_count=1, origin_datatype="MPI_INT",
            target_rank=target, target_disp=at, target_count=1, target_datatype="MPI_INT", **kw,
        )  # fmt: skip

    def barrier(self, times: int = 1) -> None:
        for _ in range(times):
            for r in self.b.ranks:
                r.barrier()

    def group(self, me: int, member: int) -> int:
        id = self.b.ranks[me].new_id("GROUP")
        self.b.ranks[me].define(Def.GROUP, b"".join(map(encode_unsigned, (id, 1, 0, member, 2, 1))))
        return id

    def stored(self, me: int, fences: int, at: int) -> None:
        self.b.ranks[me].define(Def.STORED, b"".join(map(encode_unsigned, (self.wins[me], fences, 1, at, 4, 0))))

    def end(self) -> Trace:
        self.each("Win_free")
        for r in self.b.ranks:
            r.finalize()
        return self.b.open()


def lock(run: Run) -> None:
    run.call(0, "Win_lock", rank=2, lock_type=SHARED)


def post(run: Run) -> None:
    run.call(2, "Win_post", group=run.group(2, 0), **{"assert": 0})


def start(run: Run) -> None:
    run.call(0, "Win_start", group=run.group(0, 2), **{"assert": 0})


def complete(run: Run) -> None:
    run.call(0, "Win_complete")


def own_send(run: Run) -> None:
    run.b.ranks[1].send(0, 3, count=1, buffer=0x200000)
    run.b.ranks[0].recv(1, 3, count=1)


def in_lock(run: Run) -> None:
    lock(run)
    run.op(0)
    run.call(0, "Win_unlock", rank=2)


def no_more(run: Run) -> None:
    run.fence(NO_SUCCEED)


def flush(name: str, **kw: Any) -> Callable[[Run], None]:
    return lambda run: run.call(0, name, **kw)


def get(run: Run) -> None:
    run.op(0, "Get")


UNDER_WAY: dict[str, tuple[Callable[[Run], None], ...]] = {
    "an operation between fences": (Run.fence, Run.op),
    "an operation that was not flushed": (lock, Run.op),
    "one that is complete at its origin": (lock, Run.op, flush("Win_flush_local", rank=2)),
    "a post": (post,),
    "a start": (start,),
    "a post whose start is complete": (post, start, Run.op, complete),
    "a start before its post": (start, complete),
    "what a rank does to its own memory after a fence": (Run.fence, own_send),
    "epochs of locks after a fence": (Run.fence, in_lock),
}
OVER: dict[str, tuple[Callable[[Run], None], ...]] = {
    "nothing": (),
    "a fence": (Run.fence, Run.op, Run.fence),
    "an operation that was flushed": (lock, Run.op, flush("Win_flush", rank=2)),
    "all were flushed": (lock, Run.op, flush("Win_flush_all")),
    "a fetch that is complete at its origin": (lock, get, flush("Win_flush_local", rank=2)),
    "a post and its wait": (post, start, Run.op, complete, lambda run: run.call(2, "Win_wait")),
    "its own memory after the last fence": (no_more, own_send),
    "epochs of locks after the last fence": (no_more, in_lock),
}


@pytest.mark.parametrize("what", UNDER_WAY)
def test_a_moment_is_not_quiet_while_more_is_under_way(what: str) -> None:
    assert not _quiet(UNDER_WAY[what])


@pytest.mark.parametrize("what", OVER)
def test_a_moment_is_quiet_where_operations_are_complete(what: str) -> None:
    assert _quiet(OVER[what])


def _quiet(steps: tuple[Callable[[Run], None], ...]) -> bool:
    run = Run()
    for step in steps:
        step(run)
    run.barrier(4)
    trace, of = first_cut(run.b)
    behind = len(trace.ranks[0]) - 4
    return ends_quiet(of, next(k for k in range(1, len(of)) if of.at[k, 0] > behind))


@pytest.mark.matrix
def test_a_lock_of_all_is_held_over_the_whole_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.each("Win_lock_all")
    for step in range(30):
        for me in range(3):
            run.op(me, at=8 * me + 64 * step, site=("a.c", 10, "f"))
            run.call(me, "Win_flush_all", site=("a.c", 11, "f"))
        run.barrier()
    run.each("Win_unlock_all")
    trace = run.end()
    assert compared(trace) > 15 and one_sided_findings(trace) == []


@pytest.mark.matrix
def test_a_race_in_one_segment_of_a_held_lock_is_found(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.each("Win_lock_all")
    for step in range(30):
        for me in range(2):
            run.op(me, at=8 * me * (step != 21), site=("a.c", 10, "f"))
            run.call(me, "Win_flush_all", site=("a.c", 11, "f"))
        run.barrier()
    run.each("Win_unlock_all")
    trace = run.end()
    assert compared(trace) > 15
    assert [f.kind for f in one_sided_findings(trace)] == ["rma-race"]


@pytest.mark.matrix
def test_fences_alone_are_moments_to_cut_at(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.fence()
    for step in range(30):
        for me in range(3):
            run.op(me, at=8 * me * (step != 17))
        run.fence()
    trace = run.end()
    assert compared(trace) > 15
    races = one_sided_findings(trace)
    assert {f.kind for f in races} == {"rma-race"}
    assert {access["fence"] for f in races for access in f.facts()["accesses"]} == {18}


def test_fences_that_assert_something_are_no_moments(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    for _ in range(30):
        run.fence(NO_SUCCEED)
    assert in_segments(run.end()) is None


@pytest.mark.matrix
def test_an_epoch_that_is_left_open_across_segments_is_told_at_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.call(0, "Win_lock", rank=2, lock_type=EXCLUSIVE)
    run.barrier(30)
    trace = run.end()
    assert compared(trace) > 10
    told = one_sided_findings(trace)
    assert [(f.kind, f.events[1]) for f in told] == [("epoch-misuse", (0, 2))]


@pytest.mark.cases(1)
@pytest.mark.parametrize("behind", [False, True])
def test_a_store_before_the_last_fence_is_told_with_what_others_do_behind_it(behind: bool, tmp_path: Path) -> None:
    """Whose bytes changed is known only with those who write there in the next epoch."""
    run = Run(tmp_path / "run")
    run.barrier(4)
    run.fence()
    run.op(0, "Get", at=0)
    run.fence()
    run.stored(2, 1, 0)
    run.barrier()
    if behind:
        run.op(1, at=0)
    run.fence()
    run.barrier(6)
    trace = run.end()
    assert compared(trace) > 3
    assert [f.kind for f in one_sided_findings(trace)] == ([] if behind else ["rma-race"])


@pytest.mark.matrix
def test_memory_attached_before_a_segment_is_known_in_it(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", flavor=2)
    for me in range(3):
        run.call(me, "Win_attach", base=0x5000, size=64)
    run.each("Win_lock_all")
    for step in range(20):
        run.op(0, at=0x5000 + 4 * (step % 4) + 4096 * (step == 15))
        run.call(0, "Win_flush", rank=2)
        run.barrier()
    run.each("Win_unlock_all")
    trace = run.end()
    assert compared(trace) > 8
    assert [f.kind for f in one_sided_findings(trace)] == ["invalid-argument"]


def test_a_run_that_hangs_at_a_fence_is_told_by_its_last_segment(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    for _ in range(20):
        run.fence()
        run.barrier()
    run.b.ranks[0].open.recv(1, 77)
    for me in (1, 2):
        run.call(me, "Win_fence", open=True, **{"assert": 0})
    assert compared(run.b.open()) > 10


@pytest.mark.matrix
def test_windows_that_come_and_go_are_followed_while_they_are_there(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    for _ in range(20):
        run.fence()
        run.op(0)
        run.fence()
        run.each("Win_free")
        run.barrier()
        run.wins = run.b.window()
    trace = run.end()
    assert compared(trace) > 10
    made = in_segments(trace)
    assert made is not None and made[0].parts is not None
    of = made[0].parts.cuts
    assert max(len(before) for k in range(len(of)) for before in of.segment(k, k + 1).earlier) <= 2


def test_where_much_goes_on_fewer_moments_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path / "run")
    for _ in range(40):
        run.fence()
        run.op(0)
        run.fence(NO_SUCCEED)
        run.barrier()
    trace = run.end()
    all_ = scan_rank(trace.ranks[0])
    monkeypatch.setattr("weft.segments.cut_points._MOST_CARRIED", 40)
    few = scan_rank(trace.ranks[0])
    assert len(all_.candidates) == 80 and len(few.candidates) <= 20
    assert set(few.candidates) < set(all_.candidates)
    assert compared(trace) > 5
