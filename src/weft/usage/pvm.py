"""Check what is specific to PVM: calls that fail, messages unpacked otherwise than they were packed, buffers never
freed.

A message is what was packed into its buffer before it was sent. pvm_initsend frees the active buffer, and so does a
receive, unless the program has put another one in its place (pvm_setsbuf(3PVM), pvm_setrbuf(3PVM)).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from weft.base.event_id import EventId
from weft.evidence import Evidence, OfClass
from weft.findings import Finding
from weft.kinds import Severity
from weft.match import NONE, Match
from weft.terms.calls import catalogue_of, masks_of
from weft.terms.describe import site_suffix
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, limit_per_site, make_finding
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Event, Rank, Trace
from weft.trace.layout import ID_DYNAMIC

_TYPES: Final = "byte cplx dcplx double float int long short str uint ulong ushort".split()
PACKS: Final = frozenset(f"pvm_pk{name}" for name in _TYPES)
UNPACKS: Final = frozenset(f"pvm_upk{name}" for name in _TYPES)
UNSEEN: Final = frozenset(("pvm_packf", "pvm_unpackf", "pvm_pkmesg", "pvm_pkmesgbody"))
"""They pack or unpack, and the record does not tell what."""
RECEIVES: Final = frozenset(("pvm_recv", "pvm_nrecv", "pvm_trecv", "pvm_recv.notice", "pvm_nrecv.notice",
                             "pvm_trecv.notice", "pvm_recvinfo", "pvm_upkmesg"))  # fmt: skip
_KEPT: Final = RECEIVES | {"pvm_mkbuf", "pvm_initsend", "pvm_setsbuf", "pvm_setrbuf", "pvm_freebuf"}
_WIDTHS: Final = {"PVM_UINT": "PVM_INT", "PVM_USHORT": "PVM_SHORT", "PVM_ULONG": "PVM_LONG"}


class Returned(Evidence):
    """The error that a call returned."""

    returned: str


class Spawned(Evidence):
    """How many tasks were started, and how many were asked for."""

    started: int
    wanted: int


def find(trace: Trace, match: Match) -> list[Finding]:
    """Find failed calls, mismatched messages and unfreed buffers of every task."""
    unpacked = list(_report_mismatched_unpacks(trace, match))
    told = {finding.events[0] for finding in unpacked}
    found = unpacked
    for rank in trace.ranks:
        if len(rank) and not rank.serves:
            found += _report_failed_calls(rank, told)
            found += _report_short_spawns(rank)
            if has_reached_finalize(rank):
                found += _report_unfreed_buffers(rank)
    return found


# Calls that fail


def _report_failed_calls(rank: Rank, explained: set[EventId]) -> Iterator[Finding]:
    """Report calls that returned an error. `explained`: events that another finding explains."""
    which = np.flatnonzero(rank.events["error"] != 0) if catalogue_of(rank).failed else np.zeros(0, np.int64)
    for index in which[limit_per_site(rank, which)].tolist() if len(which) else ():
        event = rank.event(index)
        if event.id in explained or not rank.trace.system.failed(event.function.name, event.error):
            continue
        name = rank.trace.system.error_name(event.error) or f"-{event.error}"
        yield make_finding(
            "invalid-argument",
            f"{event.function.called} of rank {rank.index} failed{site_suffix(event)}: it returned {name}",
            [event],
            evidence=Returned(returned=name),
            cause=f"{name} {cause_key(event)}",
        )


def _report_short_spawns(rank: Rank) -> Iterator[Finding]:
    """Report calls of pvm_spawn that started fewer tasks than the program asked for."""
    for index in masks_of(rank.trace.functions).where(rank, rank.trace.system.spawns).tolist():
        event = rank.event(index)
        started, wanted = event.args.get("result", 0), event.count
        if event.open or event.error or started >= wanted:
            continue
        yield make_finding(
            "invalid-argument",
            f"rank {rank.index} asks for {wanted} tasks of {event.args.get('task', '')!r}{site_suffix(event)}, and "
            f"{started} were started: PVM looks for programs where its hosts' `ep` says, beside the program that was "
            "started, and on the PATH",
            [event],
            severity="warning",
            evidence=Spawned(started=started, wanted=wanted),
            cause=cause_key(event),
        )


# Messages that are unpacked otherwise than they were packed


class PackedElements(NamedTuple):
    """Elements of one type that a call packed or unpacked."""

    event: int
    datatype: str
    elements: int
    failed: bool


class _BufferContents:
    """What a rank packed into each of its buffers, or unpacked from it, in order."""

    def __init__(self, rank: Rank, names: frozenset[str]) -> None:
        table = masks_of(rank.trace.functions)
        self.parts: dict[int, list[PackedElements]] = defaultdict(list)
        which = table.where(rank, names)
        events = rank.events
        functions = {id: rank.trace.functions[id].name for id in table.ids(names)}
        columns = (events[name][which].tolist() for name in ("object", "function", "datatype", "count", "error"))
        for index, buffer, function, datatype, count, error in zip(which.tolist(), *columns, strict=True):
            elements = 1 if functions[function].endswith("str") else count
            if elements > 0:
                self.parts[buffer].append(
                    PackedElements(index, rank.object_name("DATATYPE", datatype), elements, error != 0)
                )
        self.unseen = set(events["object"][table.where(rank, UNSEEN)].tolist())


def _report_mismatched_unpacks(trace: Trace, match: Match) -> Iterator[Finding]:
    """Report messages from which a task unpacks other elements than the sender packed."""
    packed = [_BufferContents(rank, PACKS) for rank in trace.ranks]
    taken = [_BufferContents(rank, UNPACKS) for rank in trace.ranks]
    some = FindingLimiter()
    sends, recvs = match.sends, match.recvs
    for row in np.flatnonzero(sends.partner != NONE).tolist():
        (sender, sent), (receiver, received) = sends.id(row), recvs.id(int(sends.partner[row]))
        source, target = trace.ranks[sender].events, trace.ranks[receiver].events
        into, out_of = int(source["object"][sent]), int(target["object"][received])
        if into in packed[sender].unseen or out_of in taken[receiver].unseen:
            continue
        there = [part for part in packed[sender].parts.get(into, ()) if part.event < sent and not part.failed]
        asked = [part for part in taken[receiver].parts.get(out_of, ()) if part.event > received]
        if into < ID_DYNAMIC:  # pvm_psend's message is of its own arguments
            there = [_elements_of_own_arguments(trace.ranks[sender], sent)]
        if (differs := find_first_difference(there, asked)) is None:
            continue
        has, wants = differs
        sites = (sender, int(source["site"][sent]), receiver, int(target["site"][wants.event]))
        if some.more(sites):
            yield _mismatch_finding(trace.ranks[sender].event(sent), trace.ranks[receiver], has, wants)


def _elements_of_own_arguments(rank: Rank, event: int) -> PackedElements:
    slot = rank.events[event]
    return PackedElements(event, rank.object_name("DATATYPE", int(slot["datatype"])), int(slot["count"]), False)


def find_first_difference(
    packed: Iterable[PackedElements], unpacked: Iterable[PackedElements]
) -> tuple[PackedElements | None, PackedElements] | None:
    """Return the first elements that were packed into a message and are unpacked as something else: (what the message
    has, what is asked for). The first is None if nothing is left in the message. None instead of a pair if all fits.
    """
    left = iter(packed)
    has = next(left, None)
    for wants in unpacked:
        count = wants.elements
        while count:
            if has is None:
                return (None, wants) if wants.failed else None
            if not are_types_alike(has.datatype, wants.datatype):
                return has, wants
            step = min(has.elements, count)
            count -= step
            has = has._replace(elements=has.elements - step) if has.elements > step else next(left, None)
    return None


def are_types_alike(one: str, other: str) -> bool:
    """Return whether elements of two types look the same in a message."""
    return _WIDTHS.get(one, one) == _WIDTHS.get(other, other) or "packed" in (one, other)


def _mismatch_finding(sent: Event, receiver: Rank, has: PackedElements | None, wants: PackedElements) -> Finding:
    """Make the finding that a task unpacks other elements (`wants`) than the sender packed (`has`, None if nothing is
    left).
    """
    taker, sender = receiver.event(wants.event), sent.rank
    severity: Severity = "error"
    if has is None:
        why, others = f"the message that rank {sender.index} sent in {call_at(sent)} has no more data", [sent]
    else:
        packer = sender.event(has.event)
        why, others = f"rank {sender.index} packed {has.datatype} there{site_suffix(packer)}", [packer, sent]
        severity = "warning" if "PVM_BYTE" in (has.datatype, wants.datatype) else "error"
    return make_finding(
        "type-mismatch",
        f"rank {receiver.index} unpacks {wants.elements} x {wants.datatype}{site_suffix(taker)}: {why}",
        list(dict.fromkeys([taker, *others])),
        severity=severity,
        cause=cause_key(taker, *others),
    )


# Buffers that are kept


def _report_unfreed_buffers(rank: Rank) -> Iterator[Finding]:
    """Report buffers that the program made, or took out of use, and then neither freed nor left PVM to free."""
    table = masks_of(rank.trace.functions)
    which = table.where(rank, _KEPT)
    names = {id: rank.trace.functions[id].name for id in table.ids(_KEPT)}
    events = rank.events
    live: dict[int, int] = {}
    active = {"send": 0, "receive": 0}
    columns = (events[name][which].tolist() for name in ("function", "object", "error"))
    for index, function, buffer, error in zip(which.tolist(), *columns, strict=True):
        name = names[function]
        if error:
            continue
        if name == "pvm_freebuf":
            live.pop(buffer, None)
        elif name in ("pvm_setsbuf", "pvm_setrbuf"):
            active["send" if name == "pvm_setsbuf" else "receive"] = buffer
        elif name == "pvm_mkbuf":
            live[buffer] = index
        elif buffer >= ID_DYNAMIC:
            side = "send" if name == "pvm_initsend" else "receive"
            live.pop(active[side], None)
            active[side] = buffer
            live[buffer] = index
    kept = [index for buffer, index in live.items() if buffer not in active.values()]
    yield from _leak_findings(rank, kept)


def _leak_findings(rank: Rank, makers: list[int]) -> Iterator[Finding]:
    """Yield a finding for each buffer that is never freed. `makers`: the calls that made them, by event index."""
    some = FindingLimiter()
    for index in makers:
        event = rank.event(index)
        if some.more(event.site_id):
            yield make_finding(
                "resource-leak",
                f"rank {rank.index} never frees the buffer that {event.function.called} made{site_suffix(event)}",
                [event],
                evidence=OfClass(class_="buffer"),
                cause=f"buffer {cause_key(event)}",
            )
