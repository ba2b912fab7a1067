"""Check file transfers: split collectives that are not ended, and closes while a transfer is pending (MPI-4.1, 14.2.2,
14.4.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.deadlock.traffic import Traffic
from weft.findings import Finding
from weft.mpi.meaning import Act, Form, Over, base_name, functions_with
from weft.mpi.meaning import find_meaning as meaning_of
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
from weft.terms.calls import catalogue_of, word_set
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, make_finding
from weft.terms.rank_progress import has_reached_finalize
from weft.trace import Event, Rank
from weft.trace.layout import ID_DYNAMIC
from weft.usage.pending_buffers import ends_of_requests, find_request_ends

_TOGETHER: Final = functions_with(Act.COLLECTIVE, where=lambda m: m.over is Over.FILE and m.form is Form.BLOCKING) & (
    calls.FILE_READS | calls.FILE_WRITES
)
_CLOSE: Final = word_set("File_close")
_STEPS: Final = calls.FILE_BEGINS | calls.FILE_ENDS | _TOGETHER | _CLOSE


def report_wrong_transfers(traffic: Traffic) -> Iterator[Finding]:
    """Report split collectives whose begin and end do not fit, and files that are closed while a transfer is
    pending.
    """
    some = FindingLimiter()
    found = (
        [*_check_split_collectives(traffic), *_find_closed_while_pending(traffic)]
        if catalogue_of(traffic.rank).count(traffic.masks.table(_STEPS))
        else []
    )
    for kind, why, events in found:
        if some.more((kind, events[0].site_id)):
            yield make_finding(kind, f"rank {traffic.rank.index} {why}", events, cause=cause_key(*events))


Wrong = tuple[str, str, list[Event]]
"""The kind of a finding, what the rank does, and the calls."""


def _check_split_collectives(traffic: Traffic) -> Iterator[Wrong]:
    """Yield (kind of finding, what is wrong, calls) for wrong uses of split collectives (MPI_File_…_begin and _end) on
    any file.
    """
    rank = traffic.rank
    if not catalogue_of(rank).count(traffic.masks.table(calls.FILE_BEGINS | calls.FILE_ENDS)):
        return
    steps = traffic.masks.where(rank, _STEPS)
    files = rank.events["object"][steps]
    for file in sorted_distinct(files[files >= ID_DYNAMIC]).tolist():
        yield from _check_calls_on_file(rank, steps[files == file])


def _check_calls_on_file(rank: Rank, steps: Ints) -> Iterator[Wrong]:
    """Yield (kind of finding, what is wrong, calls) for one file: only one split collective may be active on it at a
    time. `steps`: the rank's calls on the file, as event indices.
    """
    active: Event | None = None
    for event in (rank.event(int(index)) for index in steps):
        name = base_name(event.function.name)
        row = meaning_of(name)
        form = row.form if row else Form.BLOCKING
        if form is Form.END:
            if active is None:
                yield (
                    "request-misuse",
                    f"calls {call_at(event)}, but began no split collective on the file",
                    [event],
                )
            elif base_name(active.function.name).removesuffix("_begin") != name.removesuffix("_end"):
                why = (
                    f"calls {call_at(event)}, which does not end the split collective that it began, {call_at(active)}"
                )
                yield "request-misuse", why, [event, active]
            active = None
        elif active is not None and name in _CLOSE:
            why = f"never ends the split collective of {call_at(active)}: it closes the file in {call_at(event)}"
            yield "request-leak", why, [active, event]
            active = None
        elif active is not None:
            why = f"calls {call_at(event)} while the split collective of {call_at(active)} on the file has not ended"
            yield "request-misuse", why, [event, active]
        if form is Form.BEGIN:
            active = event
    if active is not None and has_reached_finalize(rank):
        yield "request-leak", f"never ends the split collective of {call_at(active)}", [active]


def _find_closed_while_pending(traffic: Traffic) -> Iterator[Wrong]:
    """Yield (kind of finding, what is wrong, calls) for files that are closed before a transfer on them is complete."""
    rank = traffic.rank
    makers = traffic.masks.where(rank, calls.FILE_IREADS | calls.FILE_IWRITES)
    closes = traffic.masks.where(rank, _CLOSE)
    if not len(makers) or not len(closes):
        return
    ids = rank.events["object"][closes]
    closed = {int(file): int(at) for file, at in zip(ids, closes, strict=True)}
    done = find_request_ends(traffic)
    for events, found in decode_columns(rank, makers, frozenset(("fh",))):
        overs = ends_of_requests(rank, events, done)
        for index, file, over in zip(
            events.tolist(), integer_column(found, "fh").tolist(), overs.tolist(), strict=True
        ):
            at = closed.get(file)
            leaks = over == len(rank) and has_reached_finalize(rank)  # then the finding is about the request itself
            if at is not None and index < at < over and not leaks:
                close, begun, *wait = (rank.event(i) for i in (at, index, over) if i < len(rank))
                later = f": {call_at(wait[0])} completes it only later" if wait else ""
                why = f"closes a file in {call_at(close)} before {call_at(begun)} is complete{later}"
                yield "request-misuse", why, [close, begun, *wait]
