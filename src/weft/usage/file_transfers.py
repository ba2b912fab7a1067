"""Check file transfers: split collectives that are not ended, and closes while a transfer is pending (MPI-4.1, 14.2.2,
14.4.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.deadlock.traffic import Traffic
from weft.findings import Finding
from weft.mpi.meaning import Act, Form, Over, base, named
from weft.mpi.meaning import of as meaning_of
from weft.terms import calls
from weft.terms.argument_columns import Ints, columns, distinct, ints
from weft.terms.calls import catalogue, words
from weft.terms.event_findings import Some, cause, finding, said
from weft.terms.rank_progress import reached_finalize
from weft.trace import Event, Rank
from weft.trace.layout import ID_DYNAMIC
from weft.usage.pending_buffers import ends_of_requests, find_request_ends

_TOGETHER: Final = named(Act.COLLECTIVE, where=lambda m: m.over is Over.FILE and m.form is Form.BLOCKING) & (
    calls.FILE_READS | calls.FILE_WRITES
)
_CLOSE: Final = words("File_close")
_STEPS: Final = calls.FILE_BEGINS | calls.FILE_ENDS | _TOGETHER | _CLOSE


def report_wrong_transfers(of: Traffic) -> Iterator[Finding]:
    """Report split collectives that do not go together, and files that are closed while a transfer is pending."""
    some = Some()
    found = (
        [*_check_split_collectives(of), *_find_closed_while_pending(of)]
        if catalogue(of.rank).count(of.masks.table(_STEPS))
        else []
    )
    for kind, why, events in found:
        if some.more((kind, events[0].site_id)):
            yield finding(kind, f"rank {of.rank.index} {why}", events, cause=cause(*events))


Wrong = tuple[str, str, list[Event]]
"""The kind of a finding, what the rank does, and the calls."""


def _check_split_collectives(of: Traffic) -> Iterator[Wrong]:
    """Check the split collectives of each file."""
    rank = of.rank
    if not catalogue(rank).count(of.masks.table(calls.FILE_BEGINS | calls.FILE_ENDS)):
        return
    steps = of.masks.where(rank, _STEPS)
    files = rank.events["object"][steps]
    for file in distinct(files[files >= ID_DYNAMIC]).tolist():
        yield from _check_calls_on_file(rank, steps[files == file])


def _check_calls_on_file(rank: Rank, steps: Ints) -> Iterator[Wrong]:
    """Check the calls on one file, on which one split collective at a time may be active. `steps`: the calls."""
    active: Event | None = None
    for event in (rank.event(int(index)) for index in steps):
        name = base(event.function.name)
        row = meaning_of(name)
        form = row.form if row else Form.BLOCKING
        if form is Form.END:
            if active is None:
                yield "request-misuse", f"ends in {said(event)} a split collective that it did not begin", [event]
            elif base(active.function.name).removesuffix("_begin") != name.removesuffix("_end"):
                why = f"ends in {said(event)} the split collective of {said(active)}, which is another one"
                yield "request-misuse", why, [event, active]
            active = None
        elif active is not None and name in _CLOSE:
            why = f"never ends the split collective of {said(active)}: it closes the file in {said(event)}"
            yield "request-leak", why, [active, event]
            active = None
        elif active is not None:
            why = f"calls {said(event)} while the split collective of {said(active)} on the file is not ended"
            yield "request-misuse", why, [event, active]
        if form is Form.BEGIN:
            active = event
    if active is not None and reached_finalize(rank):
        yield "request-leak", f"never ends the split collective of {said(active)}", [active]


def _find_closed_while_pending(of: Traffic) -> Iterator[Wrong]:
    """Yield files that are closed before a transfer is complete."""
    rank = of.rank
    makers = of.masks.where(rank, calls.FILE_IREADS | calls.FILE_IWRITES)
    closes = of.masks.where(rank, _CLOSE)
    if not len(makers) or not len(closes):
        return
    ids = rank.events["object"][closes]
    closed = {int(file): int(at) for file, at in zip(ids, closes, strict=True)}
    done = find_request_ends(of)
    for events, found in columns(rank, makers, frozenset(("fh",))):
        overs = ends_of_requests(rank, events, done)
        for index, file, over in zip(events.tolist(), ints(found, "fh").tolist(), overs.tolist(), strict=True):
            at = closed.get(file)
            leaks = over == len(rank) and reached_finalize(rank)  # then the request itself is told
            if at is not None and index < at < over and not leaks:
                close, begun, *wait = (rank.event(i) for i in (at, index, over) if i < len(rank))
                later = f": {said(wait[0])} comes later" if wait else ""
                why = f"closes a file in {said(close)} before {said(begun)} is complete{later}"
                yield "request-misuse", why, [close, begun, *wait]
