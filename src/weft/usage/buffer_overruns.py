"""Find buffers that are longer than the memory behind them, and windows that outlive their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import numpy as np

from weft.base.event_id import EventId
from weft.evidence import Evidence
from weft.findings import Finding
from weft.kinds import Severity
from weft.match import NONE, Match
from weft.mpi.meaning import base_name
from weft.terms import calls
from weft.terms.call_buffers import BufferRegion, list_buffer_regions
from weft.terms.calls import masks_of, word_set
from weft.terms.datatype_layouts import list_members
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.event_findings import call_at, cause_key, make_finding
from weft.trace import Event, Rank, Trace
from weft.trace.layout import COUNT_IN_TAIL
from weft.usage.buffer_memory import (
    MemoryRange,
    RankMemory,
    find_first_event_since,
    has_memory_facts,
    select_calls_with_buffers,
)
from weft.usage.variable_types import report_type_misfits

_RECEIVES: Final = calls.RECVS | calls.IRECVS | calls.RECV_INITS | calls.MRECVS | calls.SENDRECVS | calls.ISENDRECVS


Around = Callable[[EventId], tuple[Match, EventId]]
"""The match that holds an event, and what the event is called there."""


class Overrun(Evidence):
    """The bytes that a call's parameter has, the room that there is, and what lies before and after that."""

    parameter: str
    bytes: int
    room: int
    behind: int
    before: int
    variable: str = ""


class Outlived(Evidence):
    """A window that outlives its memory."""

    parameter: str
    outlived: Literal[True]


def find(trace: Trace, around: Around) -> list[Finding]:
    """Find buffers that are longer than their variable or heap block, buffers of another type than their variable, and
    windows that outlive their memory.

    `around(event id)`: returns the match that contains the event, and the event's id in that match.
    """
    found: list[Finding] = []
    for rank in trace.own:
        if rank.missing or not has_memory_facts(rank):
            continue
        memory = RankMemory(rank)
        for index in select_calls_with_buffers(rank):
            event = rank.event(index)
            for region in list_buffer_regions(event):
                found += _check_buffer(memory, around, event, region)
        found += _report_windows_on_ended_frames(memory)
        found += _report_windows_on_freed_heap(rank)
    return found


def _check_buffer(memory: RankMemory, around: Around, event: Event, region: BufferRegion) -> Iterator[Finding]:
    """Report a buffer of a call that exceeds its variable or heap block, or whose type differs from that of its
    variable.
    """
    room = memory.find_memory(event, region.address)
    if room is None or _is_within(region, room):
        yield from report_type_misfits(memory, event, region, room)
        return
    for part, own_room in _split_by_memory(memory, event, region, room):
        if not _is_within(part, own_room):
            yield _overrun_finding(around, event, part, own_room)


def _is_within(region: BufferRegion, room: MemoryRange) -> bool:
    return room.low <= region.address + region.low and region.address + region.high <= room.high


def _split_by_memory(
    memory: RankMemory, event: Event, region: BufferRegion, room: MemoryRange
) -> Iterator[tuple[BufferRegion, MemoryRange]]:
    """Yield the parts of a buffer, each with the memory that it belongs to; parts in memory that is not known are left
    out.

    A datatype can name several objects by the differences of their addresses. A block of it belongs to another object
    than `room`, the memory at the buffer's address, if another variable begins where the block does, or if the block
    lies away from `room`: an overrun leaves no gap.
    """
    members = _list_members_of_region(region)
    if not members or _are_rows_of_room(members, region.address, room):
        yield region, room
        return
    own: list[tuple[int, int]] = []
    elsewhere: list[tuple[BufferRegion, MemoryRange]] = []
    for low, high in members:
        other = memory.find_memory(event, region.address + low)
        if _is_of_room(region.address + low, region.address + high, other, room):
            own.append((low, high))
        elif other is not None:
            elsewhere.append((region._replace(low=low, high=high), other))
    if own:
        yield region._replace(low=min(low for low, _ in own), high=max(high for _, high in own)), room
    yield from elsewhere


def _list_members_of_region(region: BufferRegion) -> list[tuple[int, int]]:
    """Return the bytes of each block that the datatype of a buffer places by a displacement of its own; [] if it has
    none, or if they are not all of the buffer.
    """
    members = list_members(region.datatype, region.elements) if region.datatype is not None else None
    if not members or (min(members)[0], max(high for _, high in members)) != (region.low, region.high):
        return []
    return members


def _is_of_room(first: int, end: int, memory: MemoryRange | None, room: MemoryRange) -> bool:
    """Return whether a block of a datatype from address `first` to `end` belongs to the memory `room`. `memory`: what
    is known at its first byte.
    """
    if room.low <= first < room.high:
        return True
    is_beside = room.low - _BESIDE < end <= room.low or room.high <= first < room.high + _BESIDE
    return is_beside and (memory is None or memory.low != first)


_BESIDE: Final = 8
"""Bytes beside a block of the heap in which no other begins: glibc's malloc needs them for itself."""


def _are_rows_of_room(members: list[tuple[int, int]], address: int, room: MemoryRange) -> bool:
    """Return whether blocks of a datatype follow each other at equal distances and more than one begins in `room`: then
    they are rows of one object.
    """
    steps = {later[0] - one[0] for one, later in pairwise(members)}
    return len(steps) == 1 and sum(room.low <= address + low < room.high for low, _ in members) > 1


def _overrun_finding(around: Around, event: Event, region: BufferRegion, room: MemoryRange) -> Finding:
    """Make the finding for a buffer that begins before its memory `room`, or ends after it."""
    before = max(0, room.low - region.address - region.low)
    behind = max(0, region.address + region.high - room.high)
    fitted = _did_message_fit(around, event, region, room)
    severity: Severity = "warning" if fitted else "error"
    outside = " and ".join(
        text for n, text in ((before, f"{before:,} bytes before it"), (behind, f"{behind:,} bytes past its end")) if n
    )
    size = region.high - region.low
    tail = "; the message that came was short enough, a longer one is written outside" if fitted else ""
    return make_finding(
        "buffer-overrun",
        f"rank {event.rank.index} {_verb_of_call(event, region)} {size:,} bytes in {call_at(event)}, "
        f"{_describe_memory(event, room)}: {outside}{tail}",
        [event],
        severity=severity,
        evidence=Overrun(
            parameter=region.parameter, bytes=size, room=room.high - room.low, behind=behind,
            before=before, variable=room.name or "",
        ),
        cause=cause_key(event),
    )  # fmt: skip


def _verb_of_call(event: Event, region: BufferRegion) -> str:
    """Say what a call does with a buffer: "reads", "writes", "sends", "has room for", "exposes a window of"."""
    name = base_name(event.function.name)
    if region.parameter == "base":
        return "exposes a window of"
    if name in _RECEIVES and region.written:
        return "has room for"
    return "writes" if region.written else "reads" if "sendrecv" not in name.lower() else "sends"


def _describe_memory(event: Event, room: MemoryRange) -> str:
    """Return words for the memory behind a buffer and its size, as the second half of a sentence."""
    if room.heap:
        return f"but the heap block that holds the buffer has {room.high - room.low:,}"
    file = event.site.file
    declared = f" (declared at {Path(file).name}:{room.line})" if file and room.line and not room.above else ""
    return f"but `{room.name}`{declared} has {room.high - room.low:,}"


def _did_message_fit(around: Around, event: Event, region: BufferRegion, room: MemoryRange) -> bool:
    """Return whether a call receives and overwrote nothing outside of the memory `room`, as the message was short
    enough or none came. False if the length of the message is unknown.
    """
    name = base_name(event.function.name)
    if not region.written or name not in _RECEIVES:
        return False
    came = event.received if "status" in event.function.slot else None
    if came is None:
        match, here = around(event.id)
        rows = match.receives_of(here)
        partner = int(match.recvs.partner[rows[0]]) if rows else NONE
        came = _sent_bytes(match, partner) if partner != NONE else 0
    return came is not None and region.low >= 0 and region.address + came <= room.high


def _sent_bytes(match: Match, row: int) -> int | None:
    """Return how many bytes the message of a send has; None if unknown. `row`: the send's row in match.sends."""
    rank, args = match.sends.rank_of(row), int(match.sends.args[row])
    if args == NONE:
        return None
    slot = match.trace.ranks[rank].events[args]
    size = size_in_bytes(match.trace.ranks[rank].datatype(int(slot["datatype"])))
    count = int(slot["count"])
    return size * count if size is not None and count != COUNT_IN_TAIL else None


# Windows


def _report_windows_on_freed_heap(rank: Rank) -> Iterator[Finding]:
    """Report windows whose memory the program gave back to the heap before it freed the window."""
    table = masks_of(rank.trace.functions)
    made = table.where(rank, word_set("Win_create"))
    for told in rank.definitions.given_back:
        index = find_first_event_since(rank, told.slot, told.ticks)
        creations = made[rank.events["object"][made] == told.window]
        if index is None or not len(creations):
            continue
        free, create = rank.event(index), rank.event(int(creations[0]))
        yield _outlived_window_finding(free, create, "was freed before")


def _outlived_window_finding(event: Event, create: Event, how: str) -> Finding:
    """Make the finding for a window that outlives its memory; `how` says what happened to the memory before `event`."""
    return make_finding(
        "buffer-overrun",
        f"the memory of the window that rank {event.rank.index} made in {call_at(create)} {how} {call_at(event)}: "
        "keep the memory until MPI_Win_free",
        [event, create],
        evidence=Outlived(parameter="base", outlived=True),
        cause=cause_key(create),
    )


def _report_windows_on_ended_frames(memory: RankMemory) -> Iterator[Finding]:
    """Report windows on local variables of a function that returned before the window was freed."""
    rank = memory.rank
    table = masks_of(rank.trace.functions)
    ids = rank.events["object"]
    freed = table.where(rank, word_set("Win_free"))
    for index in table.where(rank, word_set("Win_create")).tolist():
        create = rank.event(index)
        base_, size = create.args.get("base", 0), create.args.get("size", 0)
        within = memory.find_frame(create, base_) if isinstance(base_, int) and base_ and size else None
        if within is None or create.open:
            continue
        ends = freed[(ids[freed] == create.object) & (freed > index)]
        last = int(ends[0]) if len(ends) else len(rank) - 1
        end = within[0].ends[within[1]]
        gone = _first_call_after_frame(memory, create, range(index + 1, last + 1), base_ + size, end)
        if gone is not None:
            function = create.site.function or "the function that made it"
            yield _outlived_window_finding(gone, create, f"is a variable of {function}, which returned before")


def _first_call_after_frame(
    memory: RankMemory, create: Event, events: range, window_end: int, frame_end: int
) -> Event | None:
    """Return the first call after the return of the function whose local variable is the memory of a window; None if no
    call shows that it returned.

    `create`: the call that made the window, `events`: the calls to look at, by index. `window_end`, `frame_end`: the
    addresses at which the window's memory and the function's frame end.
    """
    rank = memory.rank
    part = slice(events.start, events.stop)
    sites, first = np.unique(rank.events["site"][part], return_index=True)
    for site, place in sorted(zip(sites.tolist(), first.tolist(), strict=True), key=lambda pair: pair[1]):
        ways = memory.ways[site]
        event = rank.event(events.start + place)
        if len(ways) != 1 or event.thread.slot != create.thread.slot:
            continue
        if ways[0].low >= window_end or (
            frame_end not in ways[0].ends and ways[0].low < window_end and ways[0].ends[-1:] > (frame_end,)
        ):
            return event
    return None
