"""Find calls at a time, or from a thread, at which MPI may not be called (MPI-4.1, 6.1, 11.4 and 11.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from weft.evidence import Evidence, Parameter
from weft.findings import Finding, Site
from weft.mpi import meaning
from weft.mpi.meaning import Trait
from weft.terms import calls
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.calls import masks_of, word_set
from weft.terms.describe import communicator_words, site_suffix
from weft.terms.event_findings import call_at, cause_key, make_finding
from weft.trace import EndingKind, Rank, Trace
from weft.trace.layout import Flag
from weft.trace.rank import Event

_FREE: Final = meaning.names_of(m for m in meaning.all_meanings().values() if Trait.ANYTIME in m.traits)
"""May be called at any time and from any thread."""
_INITS: Final = word_set("Init Init_thread")
_LEVELS: Final = ("SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE")
_SERIALIZED: Final = 2
_LOOKS: Final = word_set("Probe Iprobe")
_COLLECTIVE: Final = calls.COMM_COLLECTIVES | calls.ICOLLECTIVES


class Freed(Evidence):
    """The communicator that was freed."""

    communicator: str


def find(trace: Trace) -> list[Finding]:
    """Find calls before MPI_Init and after MPI_Finalize, and calls that the granted level of thread support forbids."""
    found: list[Finding] = []
    for rank in trace.own:
        if not rank.missing:
            found += _check_calls_outside_mpi(rank)
        if not rank.missing and len(rank):
            found += _check_calls_after_finalize(rank)
            found += _check_thread_level(rank)
            found += _check_concurrent_collectives(rank)
            found += _check_finalizing_thread(rank)
            found += _check_racing_probes(rank)
    return found


def _select_restricted_calls(rank: Rank, which: Ints) -> Ints:
    """Return those of the events whose functions may be called only between MPI_Init and MPI_Finalize."""
    table = masks_of(rank.trace.functions)
    rows: Ints = which[~table.table(_FREE)[rank.events["function"][which]]]
    return rows


def _timing_finding(event: Event, why: str) -> Finding:
    """Make the finding that a call comes at a wrong time; `why` ends the sentence."""
    return make_finding(
        "invalid-argument",
        f"rank {event.rank.index} calls {event.function.name}{site_suffix(event)} {why}",
        [event],
        evidence=Parameter(parameter="time"),
        cause=cause_key(event),
    )


def _check_calls_outside_mpi(rank: Rank) -> Iterator[Finding]:
    """Report the first call before MPI was initialised, and the first after MPI_Finalize if no such call is an event of
    the record. The recorder notes such calls aside.
    """
    whens = {EndingKind.NOT_INITIALISED: "before MPI was initialised", EndingKind.FINALISED: "after MPI_Finalize"}
    for kind, when in whens.items():
        told = next((one for one in rank.endings if one.kind is kind), None)
        if told is None or (kind is EndingKind.FINALISED and any(True for _ in _check_calls_after_finalize(rank))):
            continue
        site = told.site
        place = Site(rank.index, told.name, site.file or "", site.line, site.function or "") if site else None
        at = f" at {Path(place.file).name}:{place.line}" if place and place.file else ""
        yield Finding(
            kind="invalid-argument",
            severity="error",
            certainty="certain",
            message=f"rank {rank.index} calls {told.name}{at} {when}",
            ranks=(rank.index,),
            sites=(place,) if place else (),
            evidence=Parameter(parameter="time"),
            cause=f"{told.name}{at} {when}",
        )


def _check_calls_after_finalize(rank: Rank) -> Iterator[Finding]:
    """Report the first call after MPI_Finalize; none if the program uses sessions."""
    table = masks_of(rank.trace.functions)
    ends = table.where(rank, calls.FINALIZE)
    if not len(ends) or len(table.where(rank, word_set("Session_init"))):
        return
    last = rank.event(int(ends[0]))
    if last.open:
        return
    for index in _select_restricted_calls(rank, np.arange(last.index + 1, len(rank), dtype=np.int64))[:1].tolist():
        yield _timing_finding(rank.event(index), f"after MPI_Finalize{site_suffix(last)}")


def _check_thread_level(rank: Rank) -> Iterator[Finding]:
    """Report calls that the level of thread support forbids: with MPI_THREAD_SINGLE or FUNNELED those of other threads
    than the one that initialised MPI, with SERIALIZED those of two threads at once.
    """
    header = rank.header
    table = masks_of(rank.trace.functions)
    inits = table.where(rank, _INITS)
    if header is None or len(rank.threads) < 2 or not 0 <= header.thread_level < 3 or not len(inits):
        return
    level = (
        f"MPI was initialised with MPI_THREAD_{_LEVELS[header.thread_level]}{site_suffix(rank.event(int(inits[0])))}"
    )
    if header.thread_level < _SERIALIZED:
        others = np.flatnonzero(rank.event_threads != rank.event_threads[inits[0]])
        for index in _select_restricted_calls(rank, others)[:1].tolist():
            yield _timing_finding(
                rank.event(index), f"from another thread than the one that initialised MPI, but {level}"
            )
        return
    polls = [function.id for function in rank.trace.functions if function.is_poll]
    events = rank.events
    folds = np.isin(events["function"], polls) & (events["flags"] & Flag.TRUE == 0)
    pair = _first_overlapping_calls(rank, _select_restricted_calls(rank, np.flatnonzero(~folds)))
    if pair:
        one, two = (rank.event(i) for i in pair)
        yield make_finding(
            "invalid-argument",
            f"rank {rank.index} calls {two.function.name}{site_suffix(two)} while another of its threads is still in "
            f"{one.function.name}{site_suffix(one)}, but {level}",
            [one, two],
            evidence=Parameter(parameter="time"),
            cause=cause_key(one, two),
        )


def _check_concurrent_collectives(rank: Rank) -> Iterator[Finding]:
    """Report collectives on one communicator that two threads call at once: their order is then undefined (MPI-4.1,
    11.6.2).
    """
    if len(rank.threads) < 2:
        return
    rows = masks_of(rank.trace.functions).where(rank, _COLLECTIVE)
    comms = rank.events["comm"][rows]
    for id in sorted_distinct(comms).tolist():
        mine, comm = rows[comms == id], rank.comm(id)
        if (
            comm is None
            or len(sorted_distinct(rank.event_threads[mine])) < 2
            or not (pair := _first_overlapping_calls(rank, mine))
        ):
            continue
        one, two = (rank.event(i) for i in pair)
        yield make_finding(
            "collective-mismatch",
            f"rank {rank.index} calls {call_at(two)} on {communicator_words(comm)} while another of its threads is "
            f"still in "
            f"{call_at(one)} on it: nothing decides which call comes first, and all members must make them in the "
            "same order",
            [one, two],
            evidence=Freed(communicator=comm.name),
            cause=cause_key(one, two),
        )


def _check_finalizing_thread(rank: Rank) -> Iterator[Finding]:
    """Report MPI_Finalize in another thread than the one that initialised MPI. Only levels of thread support are
    checked at which several threads may call MPI.
    """
    table, header = masks_of(rank.trace.functions), rank.header
    inits, ends = (table.where(rank, names) for names in (_INITS, calls.FINALIZE))
    if len(rank.threads) < 2 or not len(inits) or not len(ends) or header is None or header.thread_level < _SERIALIZED:
        return
    if rank.event_threads[inits[0]] != rank.event_threads[ends[0]]:
        first, last = rank.event(int(inits[0])), rank.event(int(ends[0]))
        why = f"from another thread than the one that initialised MPI{site_suffix(first)}"
        yield replace(_timing_finding(last, why), severity="warning")


class _ProbeAndReceive(NamedTuple):
    """A probe of a thread, and the receive that the thread makes next on that communicator; times in ns."""

    thread: int
    begin: int
    end: int
    probe: Event
    receive: Event


def _check_racing_probes(rank: Rank) -> Iterator[Finding]:
    """Report probes of two threads that may see the same message before either thread receives it (MPI-4.1, 3.8.2)."""
    if len(rank.threads) < 2:
        return
    looks = sorted(_pair_probes_with_receives(rank), key=lambda look: look.begin)
    open_: list[_ProbeAndReceive] = []
    seen: set[tuple[int, int]] = set()
    for look in looks:
        open_ = [other for other in open_ if other.end > look.begin]
        for other in open_:
            lines = other.probe.site_id, look.probe.site_id
            if other.thread != look.thread and _may_match_same_message(other.probe, look.probe) and lines not in seen:
                seen.add(lines)
                events = [other.probe, look.probe, other.receive, look.receive]
                yield make_finding(
                    "message-race",
                    f"two threads of rank {rank.index} probe for a message, in {call_at(other.probe)} and in "
                    f"{call_at(look.probe)}, before the first receives it in {call_at(other.receive)}: both may see "
                    "the same message, and each may receive the message that the other has probed; use MPI_Mprobe and "
                    "MPI_Mrecv",
                    events,
                    cause=cause_key(other.probe, look.probe),
                )
        open_.append(look)


def _pair_probes_with_receives(rank: Rank) -> Iterator[_ProbeAndReceive]:
    """Yield each probe that saw a message, together with the next receive of the same thread on the same
    communicator.
    """
    table = masks_of(rank.trace.functions)
    rows = table.where(rank, _LOOKS | calls.RECVS | calls.IRECVS)
    looking = table.table(_LOOKS)
    pending: dict[tuple[int, int], int] = {}
    functions, comms = rank.events["function"][rows], rank.events["comm"][rows]
    of = zip(rows.tolist(), functions.tolist(), comms.tolist(), rank.event_threads[rows].tolist(), strict=True)
    for index, function, comm, thread in of:
        if looking[function]:
            pending[thread, comm] = index
        elif (thread, comm) in pending:
            probe, receive = rank.event(pending.pop((thread, comm))), rank.event(index)
            if probe.function.name != "MPI_Iprobe" or probe.flags & Flag.TRUE:
                yield _ProbeAndReceive(thread, probe.enter_ns, receive.enter_ns, probe, receive)


def _may_match_same_message(probe: Event, other_probe: Event) -> bool:
    """Return whether one message may match both probes."""
    either = probe.flags | other_probe.flags
    source = probe.peer == other_probe.peer or either & Flag.ANY_SOURCE
    return bool(
        probe.comm_id == other_probe.comm_id and source and (probe.tag == other_probe.tag or either & Flag.ANY_TAG)
    )


def _first_overlapping_calls(rank: Rank, rows: Ints) -> tuple[int, int] | None:
    """Return the event indices of the first two calls of different threads that overlap in time; None if there are
    none.

    `rows`: the calls to compare. Folds of failed polls must not be among them, as a fold spans the time between its
    polls too.
    """
    enter, leave = rank.enter_ns(rows).tolist(), rank.exit_ns(rows).tolist()
    # Events are in order of their entries: a call overlaps if it begins before the latest end of another thread's.
    latest: dict[int, tuple[int, int]] = {}
    threads, closed = rank.event_threads[rows].tolist(), (rank.events["flags"][rows] & Flag.CLOSED).tolist()
    for row, thread, begin, end, is_closed in zip(rows.tolist(), threads, enter, leave, closed, strict=True):
        for other, (until, index) in latest.items():
            if other != thread and until > begin:
                return index, row
        until = end if is_closed else np.iinfo(np.int64).max
        if thread not in latest or until > latest[thread][0]:
            latest[thread] = until, row
    return None
