"""One-sided communication: epochs opened, used and closed as the standard asks, and accesses that race.

The rules are those of MPI-4.1, chapter 12: 12.5 (epochs) and 12.7 (which accesses may overlap).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.deadlock.blocked import group_members
from weft.deadlock.gatherings import Gatherings
from weft.findings import Finding
from weft.order import Order
from weft.terms import calls
from weft.terms.calls import words
from weft.terms.sizes import kind_of, solid
from weft.terms.telling import cause, finding, reached_finalize, said
from weft.trace import Event, Rank, Trace
from weft.trace.layout import PROC_NULL

MAX_PAIRS = 200_000
EXCLUSIVE = 1  # as the recorder numbers MPI_LOCK_EXCLUSIVE for every library; shared is 2
"""Pairs of overlapping accesses of one target that are looked at."""

_OPS = calls.RMA | calls.REQUEST_RMA
_EPOCHS = (
    calls.LOCKS
    | calls.UNLOCKS
    | calls.FLUSHES
    | words("Win_fence Win_start Win_complete Win_post Win_wait Win_test Win_free")
)
_READS = words("Get Rget")
_WRITES = words("Put Rput")
_DYNAMIC = 2

Window = tuple[int, int]


@dataclass
class Epoch:
    """One access epoch of one rank on one window: from the return of `begin` to `end` (None: never closed).

    `sort` is fence, start, lock or lock_all; `number` counts the fences of the window before it; `exclusive` is set
    by the kind of its lock.
    """

    sort: str
    begin: Event
    end: Event | None = None
    number: int = 0
    targets: frozenset[int] | None = None
    lock_type: int = 0
    used: bool = False


@dataclass(frozen=True)
class Access:
    """One operation on a target's window: bytes low to high there, in an epoch. `phase` counts flushes before it."""

    event: Event
    epoch: Epoch
    window: Window
    target: int
    low: int
    high: int
    name: str
    operation: tuple[int, str] | None
    phase: int

    @property
    def sort(self) -> str:
        """read, write or update."""
        return "read" if self.name in _READS else "write" if self.name in _WRITES else "update"


def find(trace: Trace, order: Order) -> list[Finding]:
    """Misused epochs of every rank and window, accesses outside of a window, and accesses that race."""
    gatherings = Gatherings(trace)
    found: list[Finding] = []
    accesses: list[Access] = []
    for rank in trace.ranks:
        if not len(gatherings.masks.where(rank.events, _EPOCHS | _OPS)):
            continue
        walk = _Walk(rank, gatherings)
        found += walk.walk()
        accesses += walk.accesses
    by_target: dict[tuple[Window, int], list[Access]] = defaultdict(list)
    for access in accesses:
        by_target[access.window, access.target].append(access)
    for group in by_target.values():
        found += _races(group, order)
    return found


@dataclass
class _State:
    """What one rank has open on one window."""

    fence: Epoch | None = None
    fences: int = 0
    start: Epoch | None = None
    post: Event | None = None
    locks: dict[int, Epoch] = field(default_factory=dict)
    lock_all: Epoch | None = None
    flushes: dict[int, int] = field(default_factory=dict)

    def open_ones(self) -> list[Epoch]:
        """Epochs that must be closed."""
        fence = [self.fence] if self.fence and self.fence.used else []
        return [
            *fence,
            *([self.start] if self.start else []),
            *self.locks.values(),
            *([self.lock_all] if self.lock_all else []),
        ]


class _Walk:
    """One rank's one-sided calls, in their order."""

    def __init__(self, rank: Rank, gatherings: Gatherings) -> None:
        self.rank = rank
        self.gatherings = gatherings
        self.states: dict[Window, _State] = defaultdict(_State)
        self.accesses: list[Access] = []

    def walk(self) -> Iterator[Finding]:
        """Misuse, call by call, then what was left open."""
        for index in self.gatherings.masks.where(self.rank.events, _EPOCHS | _OPS).tolist():
            event = self.rank.event(index)
            id = event.args.get("win", 0)
            window = self.gatherings.window(self.rank, id) if id > 1 else None
            if window is None:
                continue
            name = calls.base(event.function.name)
            state = self.states[window]
            if name in _OPS:
                yield from self._operation(event, window, state)
            else:
                yield from getattr(self, "_" + name.removeprefix("Win_").lower())(event, state)
        if reached_finalize(self.rank):
            for state in self.states.values():
                yield from self._left_open(state)

    def _wrong(self, event: Event, why: str, *others: Event) -> Finding:
        return finding(
            "epoch-misuse", f"rank {self.rank.index} {why} in {said(event)}", [event, *others], cause=cause(event)
        )

    # Epochs

    def _fence(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.locks or state.lock_all or state.start:
            other = state.open_ones()[-1].begin
            yield self._wrong(event, f"calls a fence inside the epoch of {said(other)}", other)
        if state.fence:
            state.fence.end = event
        state.fences += 1
        state.fence = Epoch("fence", event, number=state.fences)

    def _start(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.start:
            yield self._wrong(
                event, f"starts an epoch while that of {said(state.start.begin)} is open", state.start.begin
            )
        members = group_members(self.rank, event.args.get("group", 0))
        known = event.args.get("group", 0) > 2 and members
        state.start = Epoch("start", event, targets=frozenset(members) if known else None)

    def _complete(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.start is None:
            yield self._wrong(event, "completes an access epoch that was not started")
        else:
            state.start.end = event
        state.start = None

    def _post(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.post:
            yield self._wrong(event, f"posts an exposure epoch while that of {said(state.post)} is open", state.post)
        state.post = event

    def _wait(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.post is None:
            yield self._wrong(event, "waits for the end of an exposure epoch that was not posted")
        if not event.open:
            state.post = None

    def _test(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.post is None:
            yield self._wrong(event, "tests for the end of an exposure epoch that was not posted")
        if event.flag:
            state.post = None

    def _lock(self, event: Event, state: _State) -> Iterator[Finding]:
        target = event.peer
        if target == PROC_NULL:
            return
        if target in state.locks or state.lock_all:
            other = (
                state.locks[target].begin
                if target in state.locks
                else state.lock_all.begin
                if state.lock_all
                else event
            )
            yield self._wrong(event, f"locks rank {target} twice, first in {said(other)},", other)
        elif state.fence and state.fence.used:
            yield self._wrong(event, "locks a window whose fence epoch is still open", state.fence.begin)
        state.locks[target] = Epoch("lock", event, lock_type=int(event.args.get("lock_type", 0)))

    def _lock_all(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.lock_all or state.locks:
            other = state.open_ones()[-1].begin
            yield self._wrong(event, f"locks all ranks while the lock of {said(other)} is held", other)
        state.lock_all = Epoch("lock_all", event)

    def _unlock(self, event: Event, state: _State) -> Iterator[Finding]:
        if event.peer == PROC_NULL:
            return
        epoch = state.locks.pop(event.peer, None)
        if epoch is None:
            yield self._wrong(event, f"unlocks rank {event.peer}, which it has not locked,")
        else:
            epoch.end = event

    def _unlock_all(self, event: Event, state: _State) -> Iterator[Finding]:
        if state.lock_all is None:
            yield self._wrong(event, "unlocks all ranks, which it has not locked,")
        else:
            state.lock_all.end = event
        state.lock_all = None

    def _flushed(self, event: Event, state: _State) -> Iterator[Finding]:
        name = calls.base(event.function.name)
        everyone = name.endswith("_all")
        if not (state.lock_all or (state.locks if everyone else event.peer in state.locks)) and event.peer != PROC_NULL:
            yield self._wrong(event, "flushes outside of a lock")
        if "local" not in name:
            key = -1 if everyone else event.peer
            state.flushes[key] = state.flushes.get(key, 0) + 1

    _flush = _flush_all = _flush_local = _flush_local_all = _flushed

    def _free(self, event: Event, state: _State) -> Iterator[Finding]:
        for epoch in state.open_ones():
            if epoch.sort != "fence":
                yield self._wrong(event, f"frees a window while the epoch of {said(epoch.begin)} is open", epoch.begin)
            elif epoch.used:
                yield self._wrong(epoch.begin, "never closes the epoch that it opened", event)
        if state.post:
            yield self._wrong(event, f"frees a window whose exposure epoch of {said(state.post)} is open", state.post)
        # A window's id is never used twice: what comes behind is not judged.
        state.__dict__.update(_State(fences=state.fences).__dict__)

    def _left_open(self, state: _State) -> Iterator[Finding]:
        for epoch in state.open_ones():
            yield self._wrong(epoch.begin, "never closes the epoch that it opened")
        if state.post:
            yield self._wrong(state.post, "never waits for the end of the epoch that it posted")

    # Operations

    def _epoch(self, event: Event, target: int, state: _State) -> tuple[Epoch | None, str]:
        """The epoch that an operation belongs to, else what is wrong with it."""
        if event.peer in state.locks:
            return state.locks[event.peer], ""
        if state.lock_all:
            return state.lock_all, ""
        if state.start:
            if state.start.targets is None or target in state.start.targets:
                return state.start, ""
            return None, f"accesses rank {target}, which is not in the group of its epoch,"
        if state.fence:
            return state.fence, ""
        if state.locks:
            return None, f"accesses rank {target} while it has locked only {', '.join(map(str, state.locks))}"
        return None, "accesses a window outside of any epoch"

    def _operation(self, event: Event, window: Window, state: _State) -> Iterator[Finding]:
        if event.peer == PROC_NULL:
            return
        comm = self.gatherings.trace.communicators[window[0]]
        target = comm.peer(self.rank.index, event.peer)
        epoch, why = self._epoch(event, target, state)
        if epoch is None:
            yield self._wrong(event, why)
            return
        epoch.used = True
        span = self._span(event, window, target)
        if span is None:
            return
        low, high, size = span
        if low < 0 or (size is not None and high > size):
            yield finding(
                "invalid-argument",
                f"rank {self.rank.index} accesses bytes {low:,} to {high:,} "
                f"of rank {target}'s window of {size:,} bytes "
                f"in {said(event)}",
                [event], evidence={"parameter": "target_disp"}, cause=cause(event),
            )  # fmt: skip
            return
        phase = state.flushes.get(event.peer, 0) + state.flushes.get(-1, 0)
        name = calls.base(event.function.name)
        self.accesses.append(Access(event, epoch, window, target, low, high, name, _operation(event), phase))

    def _span(self, event: Event, window: Window, target: int) -> tuple[int, int, int | None] | None:
        """The bytes of the target's window that are touched, and its size or None; None for types with gaps."""
        args = event.args
        if target < 0 or "target_disp" not in args:
            return None
        owner = self.gatherings.trace.ranks[target]
        id = self.gatherings.window_ids(owner).get(window)
        definition = owner.definitions.window(id) if id else None
        datatype = self.rank.datatype(args.get("target_datatype", args.get("datatype", 0)))
        width = solid(datatype)
        if definition is None or not width:
            return None
        unit = 1 if definition.flavor == _DYNAMIC else definition.unit
        low = args["target_disp"] * unit
        size = None if definition.flavor == _DYNAMIC else definition.size
        return low, low + width * args.get("target_count", 1), size


def _operation(event: Event) -> tuple[int, str] | None:
    """The operation and basic type of an update: two updates with equal ones may meet."""
    args = event.args
    if "op" not in args:
        return (-1, "") if calls.base(event.function.name) == "Compare_and_swap" else None
    datatype = event.rank.datatype(args.get("target_datatype", args.get("datatype", 0)))
    signature = datatype.signature() if datatype else None
    return int(args["op"]), kind_of(signature[0][0]) if signature else ""


# Races


def _races(accesses: list[Access], order: Order) -> Iterator[Finding]:
    """Overlapping accesses of one target's window in concurrent epochs.

    A sweep over the addresses. Accesses of one rank meet only inside one epoch; those of different ranks are paired
    epoch by epoch, and accesses that could not tell anything new (same line, same epoch, same bytes) are left out.
    """
    told: set[tuple[Any, ...]] = set()
    pending: dict[int, dict[int, list[Access]]] = defaultdict(dict)  # by rank and epoch
    looked_at = 0
    for access in sorted(_distinct(accesses), key=lambda a: a.low):
        rank, epoch = access.event.rank.index, id(access.epoch)
        own = [(rank, epoch)] if epoch in pending[rank] else []
        for place in own + [(r, e) for r, epochs in pending.items() if r != rank for e in epochs]:
            others = [other for other in pending[place[0]].pop(place[1]) if other.high > access.low]
            if not others:
                continue
            pending[place[0]][place[1]] = others
            looked_at += len(others)
            if looked_at > MAX_PAIRS:
                return
            for other in others:
                key = _key(other, access)
                if key in told or not _conflict(other, access) or not _concurrent(other, access, order):
                    continue
                told.add(key)
                yield _race(other, access)
        pending[rank].setdefault(epoch, []).append(access)


def _distinct(accesses: list[Access]) -> list[Access]:
    """One of the accesses that a line makes to the same bytes in one epoch and phase, two where they may race."""
    seen: dict[tuple[Any, ...], int] = defaultdict(int)
    kept = []
    for a in accesses:
        key = (a.event.rank.index, a.event.site_id, id(a.epoch), a.phase, a.low, a.high, a.sort, a.operation)
        seen[key] += 1
        if seen[key] <= 2:  # the second shows that the line races with itself
            kept.append(a)
    return kept


def _key(one: Access, two: Access) -> tuple[Any, ...]:
    return tuple(sorted((a.event.rank.index, a.event.site_id) for a in (one, two)))


def _conflict(one: Access, two: Access) -> bool:
    """Whether the accesses may not overlap: one changes what the other touches, and they are no equal updates."""
    if one.sort == two.sort == "read":
        return False
    if one.sort == two.sort == "update":
        no_op = 15  # MPI_NO_OP among the predefined operations: a read that may meet any update
        return one.operation != two.operation and no_op not in (one.operation or (0,))[:1] + (two.operation or (0,))[:1]
    return True


def _concurrent(one: Access, two: Access, order: Order) -> bool:
    """Whether nothing puts the accesses in an order: neither an epoch's end nor a lock that excludes the other."""
    a, b = one.epoch, two.epoch
    if one.event.rank is two.event.rank:
        return a is b and one.phase == two.phase
    if a.sort == b.sort == "fence":
        return a.number == b.number
    if a.sort == b.sort == "lock" and (_exclusive(a) or _exclusive(b)):
        return False
    for first, second in ((a, b), (b, a)):
        if first.end is not None and order.before(first.end.id, second.begin.id):
            return False
    return True


def _exclusive(epoch: Epoch) -> bool:
    """Whether the lock excludes others."""
    return epoch.lock_type == EXCLUSIVE


def _race(one: Access, two: Access) -> Finding:
    first, second = sorted((one, two), key=lambda a: a.event.id)
    shared = min(one.high, two.high) - max(one.low, two.low)
    return finding(
        "rma-race",
        f"rank {first.event.rank.index} in {said(first.event)} and rank {second.event.rank.index} in "
        f"{said(second.event)} "
        f"access the same {shared:,} bytes of rank {one.target}'s window ({first.sort} and {second.sort}), and nothing "
        "orders them",
        [first.event, second.event],
        evidence={"target": one.target, "bytes": shared},
        cause="; ".join(sorted((cause(first.event), cause(second.event)))),
    )
