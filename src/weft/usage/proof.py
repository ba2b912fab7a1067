"""Whether what a finding of buffer-reuse or rma-race says is so, from the record alone: the proof, replayed.

It asks the record again, by other means than the analyses: bytes out of the arguments of calls, what is pending out of
the calls between, order out of whole causal pasts.
"""

from __future__ import annotations

from typing import Final

from weft.evidence import BufferAccess, Overlap, Sampled, WindowAccess, WindowOverlap
from weft.mpi.meaning import Sync, base_name
from weft.order import Order
from weft.terms.byte_layouts import covers_range
from weft.terms.call_buffers import BufferRegion, buffer_layout, list_buffer_regions
from weft.terms.calls import FLUSHES, UNLOCKS, functions_with_sync
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.windows import window_of
from weft.trace import Event, Trace
from weft.trace.definitions import WindowDefinition
from weft.trace.layout import Def, Flag

_DYNAMIC: Final = 2
_ENDS_ACCESS: Final = UNLOCKS | FLUSHES | functions_with_sync(Sync.FENCE, Sync.COMPLETE, Sync.FREE)
"""Calls on a window that complete what the caller began there."""


def is_evidence_confirmed(trace: Trace, evidence: Sampled | Overlap | WindowOverlap, order: Order) -> bool:
    """Return whether the record alone confirms a finding's evidence. Either the recorder saw that the buffer was
    changed; or two accesses overlap, at least one writes, and neither their order nor fences and locks keep them apart.
    """
    if isinstance(evidence, Sampled):
        return bool(trace.event(*evidence.completed).flags & Flag.BUFFER_CHANGED)
    one, two = sorted(evidence.accesses, key=lambda access: access.call)
    target = evidence.target if isinstance(evidence, WindowOverlap) else None
    meet = max(one.from_, two.from_) < min(one.to, two.to)
    if not meet or one.access == two.access == "read":
        return False
    if not all(_touches_bytes(trace, access, target) and _can_complete(trace, access) for access in (one, two)):
        return False
    if one.call.rank == two.call.rank:
        return one.until is None or one.until.event >= two.call.event
    if not isinstance(one, WindowAccess) or not isinstance(two, WindowAccess):
        return False
    return not _are_kept_apart(one, two) and not _ends_before(order, one, two) and not _ends_before(order, two, one)


def _touches_bytes(trace: Trace, access: BufferAccess, target: int | None) -> bool:
    """Return whether the arguments of the evidence's call show that it accesses the bytes that the evidence names.

    `target`: the rank in whose window the bytes are; None for plain memory.
    """
    event = trace.event(*access.named)
    if access.as_ == "store":
        ranges = [part for stored in event.rank.definitions.stored for part in stored.ranges]
        return any(at < access.to and access.from_ < at + size for at, size, _ in ranges)
    if access.as_ == "operation":
        assert target is not None
        return _operation_covers(trace, event, target, access.from_, access.to)
    start = _window_base(trace, access, target) if access.as_ == "local buffer" else 0
    low, high = start + access.from_, start + access.to
    return any(_buffer_has_bytes(event, region, low, high) for region in list_buffer_regions(event))


def _buffer_has_bytes(event: Event, region: BufferRegion, low: int, high: int) -> bool:
    """Return whether a buffer of a call contains all bytes from address `low` to `high`."""
    if not region.address + region.low <= low <= high <= region.address + region.high:
        return False
    layout = buffer_layout(event, region.parameter) if region.datatype is not None else None
    return layout is None or not layout.is_known or covers_range(layout, low, high)


def _window_base(trace: Trace, access: BufferAccess, target: int | None) -> int:
    """Return the start address of the window on rank `target` in which a buffer of the call lies; 0 if there is
    none."""
    rank = trace.ranks[access.call.rank]
    made = [rank.definitions.window(id) for id in rank.definitions.ids(Def.WINDOW)]
    buffers = [r.address for r in list_buffer_regions(trace.event(*access.named))]
    held = [w.base for w in made if w and rank.index == target and any(w.base <= b < w.base + w.size for b in buffers)]
    return max(held, default=0)


def _operation_covers(trace: Trace, event: Event, target: int, first: int, end: int) -> bool:
    """Return whether an operation accesses all bytes from `first` up to `end` (excluded) of the window of rank
    `target`. False if the window or the layout is unknown.
    """
    window = _target_window(trace, event, target)
    if window is None:
        return False
    args = event.args
    datatype = event.rank.datatype(args.get("target_datatype", event.datatype_id))
    low = args["target_disp"] * (1 if window.flavor == _DYNAMIC else window.unit)
    layout = layout_of_elements(datatype, args.get("target_count", 1))
    return layout is not None and covers_range(layout, first - low, end - low)


def _target_window(trace: Trace, event: Event, target: int) -> WindowDefinition | None:
    """Return what the target of an operation recorded of its part of the window; None if nothing."""
    there, wanted = trace.ranks[target], window_of(event.rank, event.args["win"])
    ids = [id for id in there.definitions.ids(Def.WINDOW) if window_of(there, id) == wanted]
    return there.definitions.window(ids[0]) if wanted is not None and len(ids) == 1 else None


def _can_complete(trace: Trace, access: BufferAccess) -> bool:
    """Return whether the call that completes an access, by the evidence, comes later and can do so: it closes an epoch,
    or names the request that the access's call made. True also if the evidence names no such call.
    """
    if access.until is None or access.until == access.call or access.as_ == "store":
        return True
    start, end = trace.event(*access.call), trace.event(*access.until)
    if start.id >= end.id:
        return False
    if base_name(end.function.name) in _ENDS_ACCESS:
        return True
    asked, made = (_requests(event) for event in (end, start))
    return bool(asked & made)


def _requests(event: Event) -> set[int]:
    """The requests that a call names or makes."""
    return {event.args.get("request", 0), *event.args.get("array_of_requests", ())} - {0, 1}


def _are_kept_apart(one: WindowAccess, two: WindowAccess) -> bool:
    """Return whether the accesses of two ranks are in different fence epochs, or under locks of which one is
    exclusive.
    """
    fences = one.fence, two.fence
    locks = {one.lock, two.lock}
    return (None not in fences and fences[0] != fences[1]) or (None not in locks and "exclusive" in locks)


def _ends_before(order: Order, one: WindowAccess, two: WindowAccess) -> bool:
    """Return whether access `one` is over before access `two` begins, by the happens-before order of the calls at their
    origins and at the target.
    """
    ends = [end for end in (one.until, one.closed) if end]
    begins = [begin for begin in (two.begins, two.opened) if begin]
    return any(order.past(begin).started[end.rank] > end.event for end in ends for begin in begins)
