"""One-sided epochs and races in built traces: each wrong one and its corrected twin."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from proofs import unproven

from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.trace.builder import Builder
from weft.trace.layout import Def
from weft.trace.varint import encode_unsigned
from weft.usage.one_sided import find

SHARED, EXCLUSIVE = 2, 1


class Run:
    """Three ranks with one window of 4096 bytes."""

    def __init__(self) -> None:
        self.b = Builder(ranks=3)
        self.wins = self.b.window()

    def call(self, me: int, name: str, **kw: Any) -> None:
        self.b.ranks[me].call(f"MPI_{name}", win=self.wins[me], site=("a.c", self.b.clock // 1000, "f"), **kw)

    def fence(self) -> None:
        for r in range(3):
            self.call(r, "Win_fence", **{"assert": 0})

    def op(self, rank: int, name: str = "Put", target: int = 2, disp: int = 0, count: int = 1, **kw: Any) -> None:
        self.call(
            rank, name, origin_addr=0x10, origin_count=count, origin_datatype="MPI_INT", target_rank=target,
            target_disp=disp, target_count=count, target_datatype="MPI_INT", **kw,
        )  # fmt: skip

    def find(self) -> list[Finding]:
        for r in range(3):
            self.call(r, "Win_free")
            self.b.ranks[r].finalize()
        trace = self.b.open()
        ordered = order_events(trace, match_operations(trace))
        found = find(trace, ordered)
        assert unproven(trace, found, ordered) == []
        return found


def kinds(*steps: Callable[[Run], Any]) -> list[str]:
    run = Run()
    for step in steps:
        step(run)
    return [f.kind for f in run.find()]


def fence(run: Run) -> None:
    run.fence()


def lock(rank: int, target: int = 2, how: int = SHARED) -> Callable[[Run], None]:
    return lambda run: run.call(rank, "Win_lock", rank=target, lock_type=how)


def unlock(rank: int, target: int = 2) -> Callable[[Run], None]:
    return lambda run: run.call(rank, "Win_unlock", rank=target)


def put(rank: int, **kw: Any) -> Callable[[Run], None]:
    return lambda run: run.op(rank, **kw)


def call(me: int, name: str, **kw: Any) -> Callable[[Run], None]:
    return lambda run: run.call(me, name, **kw)


MISUSE = {
    "outside": (put(0),),
    "other target locked": (lock(0, 1), put(0, target=2), unlock(0, 1)),
    "unlock without lock": (unlock(0),),
    "locked twice": (lock(0), lock(0), unlock(0)),
    "never unlocked": (lock(0), put(0)),
    "complete without start": (call(0, "Win_complete"),),
    "start twice": (call(0, "Win_start"), call(0, "Win_start"), call(0, "Win_complete")),
    "wait without post": (call(0, "Win_wait"),),
    "post never waited for": (call(0, "Win_post"),),
    "flush outside": (call(0, "Win_flush", rank=1),),
    "fence never closed": (fence, put(0)),
    "fence in a lock": (lock(0), fence, unlock(0)),
    "lock in a fence": (fence, put(0, target=1), lock(0), unlock(0), fence),
    "start in a lock": (lock(0, 1), call(0, "Win_start"), put(0), call(0, "Win_complete"), unlock(0, 1)),
    "lock in a start": (call(0, "Win_start"), put(0), lock(0, 1), unlock(0, 1), call(0, "Win_complete")),
    "lock_all in a start": (
        call(0, "Win_start"),
        call(0, "Win_lock_all"),
        call(0, "Win_unlock_all"),
        call(0, "Win_complete"),
    ),
    "start in a fence": (fence, put(0), call(0, "Win_start"), call(0, "Win_complete"), fence),
    "lock_all in a fence": (fence, put(0), call(0, "Win_lock_all"), call(0, "Win_unlock_all"), fence),
    "fence in an exposure": (call(0, "Win_post"), fence, call(0, "Win_wait")),
    "lock between two fences": (fence, lock(0), put(0), unlock(0), fence),
    "start between two fences": (fence, call(0, "Win_start"), put(0), call(0, "Win_complete"), fence),
    "unlock_all without lock_all": (call(0, "Win_unlock_all"),),
    "lock_all never unlocked": (call(0, "Win_lock_all"),),
}
GOOD = {
    "fence": (fence, put(0), fence),
    "lock": (lock(0), put(0), call(0, "Win_flush", rank=2), unlock(0)),
    "lock_all": (call(0, "Win_lock_all"), put(0), call(0, "Win_flush_all"), call(0, "Win_unlock_all")),
    "start": (call(0, "Win_start"), put(0), call(0, "Win_complete"), call(2, "Win_post"), call(2, "Win_wait")),
    "lock behind the last fence": (fence, put(0), fence, lock(0), put(0), unlock(0)),
    "lock between fences that assert": (
        fence,
        lock(0),
        put(0),
        unlock(0),
        lambda run: [run.call(r, "Win_fence", **{"assert": 1}) for r in range(3)],
    ),
    "exposure while locking": (call(2, "Win_post"), lock(2, 1), put(2, target=1), unlock(2, 1), call(2, "Win_wait")),
    "lock behind a closed fence": (fence, put(0), fence, lock(0), put(0), unlock(0)),
}
RACES = {
    "two puts": (fence, put(0), put(1), fence),
    "put and get": (fence, put(0), put(1, name="Get"), fence),
    "put and accumulate": (fence, put(0), put(1, name="Accumulate", op="MPI_SUM"), fence),
    "other operations": (
        fence,
        put(0, name="Accumulate", op="MPI_SUM"),
        put(1, name="Accumulate", op="MPI_MAX"),
        fence,
    ),
    "part of it": (fence, put(0, count=4), put(1, disp=12), fence),
    "one origin": (fence, put(0), put(0), fence),
    "shared locks": (lock(0), lock(1), put(0), put(1), unlock(0), unlock(1)),
}
NO_RACES = {
    "two gets": (fence, put(0, name="Get"), put(1, name="Get"), fence),
    "equal updates": (fence, put(0, name="Accumulate", op="MPI_SUM"), put(1, name="Accumulate", op="MPI_SUM"), fence),
    "other bytes": (fence, put(0, count=4), put(1, disp=16), fence),
    "other targets": (fence, put(0, target=1), put(1, target=2), fence),
    "other fences": (fence, put(0), fence, put(1), fence),
    "exclusive locks": (
        lock(0, how=EXCLUSIVE), put(0), unlock(0), lock(1, how=EXCLUSIVE), put(1), unlock(1),
    ),
    "a flush between": (lock(0), put(0), call(0, "Win_flush", rank=2), put(0), unlock(0)),
    "a barrier between": (
        lock(0), put(0), unlock(0), lambda run: [r.barrier() for r in run.b.ranks], lock(1), put(1), unlock(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_a_misused_epoch(name: str) -> None:
    assert "epoch-misuse" in kinds(*MISUSE[name])


@pytest.mark.parametrize("name", GOOD)
def test_a_right_epoch_is_silent(name: str) -> None:
    assert kinds(*GOOD[name]) == []


@pytest.mark.parametrize("name", RACES)
def test_a_race(name: str) -> None:
    assert kinds(*RACES[name]) == ["rma-race"]


@pytest.mark.parametrize("name", NO_RACES)
def test_no_race(name: str) -> None:
    assert kinds(*NO_RACES[name]) == []


def test_an_access_behind_the_window_is_an_invalid_argument() -> None:
    assert kinds(fence, put(0, disp=4096), fence) == ["invalid-argument"]
    assert kinds(fence, put(0, disp=4092), fence) == []


def _atomics(second: str, **kw: Any) -> list[Finding]:
    run = Run()
    run.fence()
    ask = {"origin_addr": 0x10, "result_addr": 0x20, "datatype": "MPI_INT", "target_rank": 2, "target_disp": 0}
    run.call(0, "Fetch_and_op", op="MPI_SUM", **ask)
    run.call(1, second, **ask, **kw)
    run.fence()
    return run.find()


def test_different_atomics_on_one_place_are_a_warning_and_equal_ones_silent() -> None:
    for second, kw in (("Compare_and_swap", {"compare_addr": 0x30}), ("Fetch_and_op", {"op": "MPI_REPLACE"})):
        [finding] = _atomics(second, **kw)
        assert (finding.kind, finding.severity, finding.certainty) == ("rma-race", "warning", "possible")
    assert _atomics("Fetch_and_op", op="MPI_SUM") == []
    assert _atomics("Fetch_and_op", op="MPI_NO_OP") == []


def stored(rank: int, fences: int, *ranges: tuple[int, int, int]) -> Callable[[Run], None]:
    """What the recorder says of a window's memory: (offset, bytes, whether they changed once more)."""

    def define(run: Run) -> None:
        numbers = [run.wins[rank], fences, len(ranges), *(n for r in ranges for n in r)]
        run.b.ranks[rank].define(Def.STORED, b"".join(map(encode_unsigned, numbers)))

    return define


def test_a_store_that_meets_a_get_of_the_same_fences_is_told() -> None:
    get = put(0, name="Get", disp=1)
    run = Run()
    for step in (fence, get, fence, stored(2, 1, (2, 2, 0))):
        step(run)
    [finding] = run.find()
    assert (finding.kind, finding.facts()["bytes"]) == ("rma-race", 2)
    assert "rank 2 in a store of its own before win_fence" in finding.message
    assert kinds(fence, get, fence, stored(2, 1, (5, 3, 0))) == []
    assert kinds(fence, fence, get, fence, stored(2, 1, (2, 2, 0))) == []


def test_what_an_operation_wrote_is_no_store() -> None:
    def both(run: Run) -> None:
        put(0)(run)
        put(1, name="Get", disp=64)(run)

    assert kinds(fence, both, fence, stored(2, 1, (0, 4, 0))) == []
    assert kinds(fence, both, fence, stored(2, 1, (64, 4, 0))) == ["rma-race"]
    assert kinds(fence, put(0), fence, stored(2, 1, (0, 4, 1))) == ["rma-race"]
    # The next epoch's value may be there before the fence of this one is over here.
    assert kinds(fence, put(0), fence, put(1), fence, stored(2, 1, (0, 4, 1))) == []
    assert kinds(fence, put(1, name="Get"), fence, put(0), fence, stored(2, 1, (0, 4, 0))) == []


def test_stores_are_not_judged_where_other_epochs_or_unknown_types_are() -> None:
    def locked(run: Run) -> None:
        for step in (lock(0), put(0, disp=512), unlock(0)):
            step(run)

    get = put(1, name="Get")
    assert kinds(locked, fence, get, fence, stored(2, 1, (0, 4, 0))) == []
    assert kinds(fence, get, fence, stored(2, 1, (0, 4, 0))) == ["rma-race"]
    assert kinds(fence, get, fence, stored(2, 9, (0, 4, 0)), stored(2, 0, (0, 4, 0))) == []


def _origins(*steps: Callable[[Run], Any]) -> list[Finding]:
    run = Run()
    for step in (lock(0), *steps, unlock(0)):
        step(run)
    return run.find()


def test_two_gets_into_one_buffer_of_an_epoch_are_told() -> None:
    [finding] = _origins(put(0, name="Get"), put(0, name="Get", disp=64))
    assert finding.kind == "buffer-reuse"
    assert "receives into 4 bytes" in finding.message


def test_a_put_from_what_a_pending_get_receives_into_is_told() -> None:
    assert [f.kind for f in _origins(put(0, name="Get"), put(0, disp=64))] == ["buffer-reuse"]


@pytest.mark.parametrize("flush", ["Win_flush", "Win_flush_local", "Win_flush_all", "Win_flush_local_all"])
def test_a_flush_gives_the_origin_buffer_back(flush: str) -> None:
    arguments = {} if flush.endswith("_all") else {"rank": 2}
    assert _origins(put(0, name="Get"), call(0, flush, **arguments), put(0, name="Get", disp=64)) == []


@pytest.mark.parametrize("disp", [0, 2, 4])
def test_elements_that_meet_in_part_are_told_to_need_a_displacement_unit(disp: int) -> None:
    run = Run()
    run.fence()
    run.op(0)
    run.op(1, disp=disp)
    run.fence()
    messages = [finding.message for finding in run.find()]
    assert len(messages) == (disp < 4)
    assert all(("make the window with a displacement unit of 4" in one) == (disp == 2) for one in messages), messages


def test_two_puts_from_one_buffer_only_read_it() -> None:
    assert _origins(put(0), put(0, disp=64)) == []
