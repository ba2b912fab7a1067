"""Find messages that are never received, receives that get none, type mismatches and truncated messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import lcm
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft import sources
from weft.deadlock.rounds import RoundCounts
from weft.evidence import Evidence
from weft.findings import Finding
from weft.kinds import Severity
from weft.match import NONE, Match, Post, Posts
from weft.mpi.meaning import base_name
from weft.systems import MPI
from weft.terms import calls
from weft.terms.analysis_sections import AnalysisSection, run_sections
from weft.terms.argument_columns import decode_columns, integer_column
from weft.terms.calls import catalogue_of, masks_of
from weft.terms.datatype_sizes import machine_type, size_in_bytes
from weft.terms.describe import site_suffix, tag_argument
from weft.terms.event_findings import (
    MAX_OF_ONE_SITE,
    FindingLimiter,
    call_at,
    cause_key,
    make_finding,
    make_left_out_note,
)
from weft.terms.rank_progress import has_ended, has_reached_finalize
from weft.trace import Datatype, Event, Rank, Trace
from weft.trace.datatypes import Signature
from weft.trace.layout import ANY_SOURCE, ANY_TAG, COUNT_IN_TAIL, ID_DYNAMIC

MAX_PAIRS = 20_000
MAX_STEPS = 10_000
_RECEIVING = calls.RECVS | calls.MRECVS | calls.SENDRECVS | calls.WAITS | calls.TESTS
_PACKED = frozenset(("MPI_PACKED", "packed"))
_FREEING = frozenset(("Comm_free", "Comm_disconnect"))
_UNTYPED = frozenset(("MPI_BYTE", "PVM_BYTE")) | _PACKED


class Sent(Evidence):
    """To whom a message that nobody receives was sent, and with which tag."""

    dest: int
    tag: int


class Wanted(Evidence):
    """From whom a message that never comes was wanted, and with which tag."""

    source: int
    tag: int


_IRECV_ROOM: Final = 32768
"""Bytes of the buffer that mpi4py's irecv makes (`mpi4py.rc.irecv_bufsz`)."""


class Sizes(Evidence):
    """The bytes that were sent, those that there was room for, and how many such messages there were."""

    sent: int
    room: int
    messages: int


def find(trace: Trace, match: Match) -> list[Finding]:
    """Find unmatched messages of ranks that ended, and matched ones whose types or lengths do not fit."""
    return run_sections(PARTS, trace, match)


def _report_truncations(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    yield [_truncation_finding(event) for rank in trace.own for event in _truncated_receives(rank)]


def _report_unmatched_sends(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    """Report sends whose message nobody receives. Left out are messages that a receive refused because they are too
    long.
    """
    short: dict[int, set[int]] = {}
    for found in _find_unmatched_sends(trace, match, _EndedPartners(trace)):
        assert isinstance(found.evidence, Sent)
        dest = found.evidence.dest
        if dest not in short:
            short[dest] = {event.tag for event in _truncated_receives(trace.ranks[dest])}
        # The message that a receive refused came to a receive all the same.
        if not short[dest].intersection((found.evidence.tag, ANY_TAG)):
            yield [found]


def _report_unmatched_receives(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    yield list(_find_unmatched_receives(trace, match, _EndedPartners(trace)))


def _truncated_receives(rank: Rank) -> Iterator[Event]:
    """Yield the receives that failed because their message was too long."""
    trace = rank.trace
    if trace.system is not MPI or not catalogue_of(rank).failed:
        return
    library = str(trace.functions.mpi or trace.run.get("mpi") or "").lower()
    truncate = 15 if "open mpi" in library or "openmpi" in library else 14
    which = masks_of(trace.functions).where(rank, _RECEIVING)
    for index in which[rank.events["error"][which] == truncate][:MAX_OF_ONE_SITE].tolist():
        yield rank.event(index)


def _truncation_finding(event: Event) -> Finding:
    """Make the finding for a receive whose buffer is too small for its message."""
    return make_finding(
        "truncation",
        f"rank {event.rank.index} got a message in {call_at(event)} that is longer than its buffer",
        [event],
        cause=cause_key(event),
    )


# Unmatched


class _EndedPartners:
    """The ranks that receive and send nothing any more: those that ended, or that MPI ended while they freed the
    communicator.
    """

    def __init__(self, trace: Trace) -> None:
        self.ranks = np.array([has_ended(rank) for rank in trace.ranks], np.bool_)
        self.freed = {rank.index: comm for rank in trace.ranks if (comm := _communicator_being_freed(rank)) is not None}

    def have_ended(self, peer: NDArray[Any], comm: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the rows whose partner takes part no more: the rank in `peer` has ended, or has freed the
        communicator in `comm`. False for an unknown rank.
        """
        done: NDArray[np.bool_] = (peer >= 0) & self.ranks[np.maximum(peer, 0)]
        for rank, freed in self.freed.items():
            done |= (peer == rank) & (comm == freed)
        return done


def _communicator_being_freed(rank: Rank) -> int | None:
    """Return the index of the communicator that a rank was freeing when MPI ended the rank; None if it was not freeing
    one.
    """
    if rank.state != "exited" or not len(rank.events):
        return None
    last = rank.event(len(rank.events) - 1)
    comm = last.comm if last.open and base_name(last.function.name) in _FREEING else None
    return comm.index if comm is not None else None


def _select_own_rows(trace: Trace, posts: Posts, excluded_flags: int, *, matched: bool) -> NDArray[np.int64]:
    """Return the rows of the sends or receives `posts` that belong to the ranks which this process analyses. Only rows
    with a partner (`matched`) or only rows without one (not `matched`) are taken, and none with a flag in
    `excluded_flags`.
    """
    part = posts.rows_of_ranks(trace.share)
    found = ((posts.partner[part] != NONE) == matched) & ((posts.flags[part] & excluded_flags) == 0)
    rows: NDArray[np.int64] = np.flatnonzero(found) + part.start
    return rows


def _find_unmatchable_rows(trace: Trace, posts: Posts, done: _EndedPartners) -> NDArray[np.int64]:
    """Return the rows of the sends or receives `posts` that have no partner and can get none, as the other side has
    ended (all ranks, for a receive from any source). Only rows of the ranks that this process analyses are taken.
    """
    skip = Post.CANCELLED | Post.RECALLED | Post.UNDECIDED | Post.PARTITIONED | Post.INIT
    rows = _select_own_rows(trace, posts, skip, matched=False)
    peer = posts.peer[rows]
    named = done.have_ended(peer, posts.comm[rows])
    anyone = (peer < 0) & ((posts.flags[rows] & Post.ANY_SOURCE) != 0) & bool(done.ranks.all())
    left: NDArray[np.int64] = rows[named | anyone]
    return left


def _find_unmatched_sends(trace: Trace, match: Match, done: _EndedPartners) -> Iterator[Finding]:
    """Yield a finding for each send whose message nobody receives; it names a receive that nearly fits if there is one.
    `done`: the ranks that have ended.
    """
    counts = RoundCounts(trace)
    for event, row in _limit_per_call_site(trace, match.sends, _find_unmatchable_rows(trace, match.sends, done)):
        receiver = int(match.sends.peer[row])
        if _was_fitting_receive_cancelled(trace, match, row):
            continue
        near, other = _find_near_miss(trace, match.recvs, receiver, match.sends, row)
        told = near or f"rank {receiver} " + (
            counts.describe_missing_rounds([event], [receiver])
            or counts.describe_missing_receives(event.rank.index, receiver, *_channel(match.sends, row))
            or "posts no receive for it"
        )
        yield make_finding(
            "unmatched-send",
            f"the message of rank {event.rank.index} to rank {receiver} in {call_at(event)} is never received: {told}",
            [event, *other],
            evidence=Sent(dest=receiver, tag=int(match.sends.tag[row])),
            cause=cause_key(event),
        )


def _report_unreceived_probed_messages(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    """Report messages that a matched probe (MPI_Mprobe) took out of the queue and that were never received (MPI-4.1,
    3.8.2).
    """
    table = masks_of(trace.functions)
    for rank in trace.own:
        taken = table.where(rank, calls.MATCHED_PROBES)
        if not len(taken) or not has_reached_finalize(rank):
            continue
        events = rank.events
        got = set(_message_handles(rank, table.where(rank, calls.MRECVS)).values())
        some = FindingLimiter()
        for index, message in _message_handles(rank, taken).items():
            event = rank.event(index)
            if message < ID_DYNAMIC or message in got or events["error"][index]:
                continue
            if some.more(event.site_id):
                told = make_finding(
                    "unmatched-send",
                    f"rank {rank.index} takes a message of rank {event.peer} in {call_at(event)} and "
                    f"never receives it: "
                    "no MPI_Mrecv or MPI_Imrecv of it follows",
                    [event],
                    evidence=Sent(dest=rank.index, tag=event.tag),
                    cause=cause_key(event),
                )
                yield [told]


def _message_handles(rank: Rank, which: NDArray[Any]) -> dict[int, int]:
    """Return for each of the events `which` (matched probes and matched receives) the id of its message handle, by
    event index.
    """
    functions, events = rank.trace.functions, rank.events
    in_tail = {f.id for f in functions if any(p.name == "message" for p in f.tail_in)}
    tails = np.isin(events["function"][which], list(in_tail))
    found = dict(zip(which[~tails].tolist(), events["object"][which[~tails]].tolist(), strict=True))
    for at, values in decode_columns(rank, which[tails], frozenset(("message",))):
        found.update(zip(at.tolist(), integer_column(values, "message").tolist(), strict=True))
    return found


def _was_fitting_receive_cancelled(trace: Trace, match: Match, row: int) -> bool:
    """Return whether the receiver of an unmatched send cancelled a receive that fits the message, and freed the
    receive's request without asking for the outcome. `row`: the send's row in match.sends.
    """
    sends = match.sends
    rank = trace.ranks[int(sends.peer[row])]
    table, events = masks_of(trace.functions), rank.events
    cancelled, freed = (events["object"][table.where(rank, names)] for names in (calls.CANCELS, calls.RELEASES))
    given_up = np.intersect1d(cancelled, freed)
    makers = table.where(rank, calls.IRECVS | calls.RECV_INITS) if len(given_up) else np.zeros(0, np.int64)
    source = trace.communicators[int(sends.comm[row])].peers(rank.index).index(sends.rank_of(row))
    for index in makers[np.isin(events["object"][makers], given_up)].tolist():
        event = rank.event(index)
        fits = event.comm is not None and event.comm.index == sends.comm[row]
        if fits and event.tag in (ANY_TAG, sends.tag[row]) and event.peer in (ANY_SOURCE, source):
            return True
    return False


def _find_unmatched_receives(trace: Trace, match: Match, done: _EndedPartners) -> Iterator[Finding]:
    """Yield a finding for each receive that gets no message; it names a send that nearly fits if there is one. `done`:
    the ranks that have ended.
    """
    rows, counts = _find_unmatchable_rows(trace, match.recvs, done), RoundCounts(trace)
    for event, row in _limit_per_call_site(trace, match.recvs, rows):
        source = int(match.recvs.peer[row])
        if event.open:
            continue  # a rank that is blocked in it is a deadlock
        flags = int(match.recvs.flags[row])
        pending = flags & (Post.NONBLOCKING | Post.PERSISTENT) and not flags & Post.FREED
        if pending and match.recvs.completion[row] == NONE and has_reached_finalize(event.rank):
            continue  # its request leaks, which is a finding
        who = f"rank {source}" if source >= 0 else "anybody"
        near, other = _find_near_miss(trace, match.sends, source, match.recvs, row)
        told = near or (
            "nobody sends it" if source < 0
            else f"rank {source} " + (
                counts.describe_missing_rounds([event], [source])
                or counts.describe_missing_sends(source, event.rank.index, *_channel(match.recvs, row))
                or "never sends it"
            )
        )  # fmt: skip
        yield make_finding(
            "unmatched-receive",
            f"rank {event.rank.index} waits in {call_at(event)} for a message of {who}: {told}",
            [event, *other],
            evidence=Wanted(source=source, tag=int(match.recvs.tag[row])),
            cause=cause_key(event),
        )


def _channel(posts: Posts, row: int) -> tuple[int, int]:
    """Return the communicator's index and the tag of a row."""
    return int(posts.comm[row]), int(posts.tag[row])


def _limit_per_call_site(trace: Trace, posts: Posts, rows: NDArray[np.generic]) -> Iterator[tuple[Event, int]]:
    """Yield (event, row) for the rows of sends or receives, at most MAX_OF_ONE_SITE for each call site of a rank."""
    some = FindingLimiter()
    ranks = posts.ranks()[rows]
    for row, rank in zip(rows.tolist(), ranks.tolist(), strict=True):
        event = trace.ranks[rank].event(int(posts.event[row]))
        if some.more((rank, event.site_id)):
            yield event, row


def _find_near_miss(trace: Trace, others: Posts, rank: int, mine: Posts, row: int) -> tuple[str, list[Event]]:
    """Find an unmatched call of the other side that would fit an unmatched send or receive but for one thing: the tag,
    the communicator or the partner. Return the difference in words, and the call in a list; both empty if there is no
    such call.

    `others`: the other side's sends or receives. `rank`: the other side's rank, negative if unknown. `mine`, `row`: the
    sends or receives with the unmatched one, and its row.
    """
    if rank < 0:
        return "", []
    part = others.of_rank(rank)
    left = np.flatnonzero((others.partner[part] == NONE) & ((others.flags[part] & Post.CANCELLED) == 0)) + part.start
    me = mine.rank_of(row)
    for same_peer in (True, False):
        for candidate in left.tolist():
            tag, comm = int(others.tag[candidate]), int(others.comm[candidate])
            same_tag, same_comm = tag == int(mine.tag[row]), comm == int(mine.comm[row])
            if (int(others.peer[candidate]) in (me, -1)) != same_peer or same_tag + same_comm + same_peer != 2:
                continue
            other = trace.ranks[rank].event(int(others.event[candidate]))
            return _describe_difference(others, candidate, other, mine, row), [other]
    return "", []


def _describe_difference(others: Posts, candidate: int, other: Event, mine: Posts, row: int) -> str:
    """Say in words what makes an unmatched call of the other side not fit: `rank 1 sent tag 3 at a.c:7`.

    `others`, `candidate`, `other`: the sends or receives of the other side, the row and the event of the call. `mine`,
    `row`: the same for this side.
    """
    rank = other.rank.index
    sent = mine.tag[row], others.tag[candidate]
    names = other.rank.trace.communicators
    verb = "waits for" if "recv" in other.function.name.lower() else "sent"
    if others.comm[candidate] != mine.comm[row]:
        return f"rank {rank} {verb} it on {names[int(others.comm[candidate])].name}{site_suffix(other)}"
    if sent[0] != sent[1]:
        return f"rank {rank} {verb} tag {tag_argument(int(sent[1]), other.rank.trace.system)}{site_suffix(other)}"
    where = "a message from rank" if verb == "waits for" else "it to rank"
    return f"rank {rank} {verb} {where} {int(others.peer[candidate])}{site_suffix(other)}"


# Types and lengths


def _types_and_counts(
    trace: Trace, posts: Posts, rows: NDArray[Any], receive: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two columns for the rows of sends or receives: the datatype ids (0 if unknown) and the counts (-1 if the
    event's record has none). `receive`: the rows are receives.
    """
    types = np.zeros(len(rows), np.int64)
    counts = np.full(len(rows), -1, np.int64)
    for rank, some in _split_rows_by_rank(trace, posts, rows):
        args = posts.args[rows[some]].astype(np.int64)
        known = args != NONE
        mine, args = some[known], args[known]
        types[mine] = rank.events["datatype"][args]
        counts[mine] = rank.events["count"][args]
        half = (posts.flags[rows[mine]] & Post.HALF) != 0
        if receive and half.any():
            _fill_receiving_half(rank, mine[half], args[half], types, counts)
    counts[counts == COUNT_IN_TAIL] = -1
    return types, counts


def _split_rows_by_rank(trace: Trace, posts: Posts, rows: NDArray[Any]) -> Iterator[tuple[Rank, NDArray[np.int64]]]:
    """Yield (rank, indices into `rows`) for each rank that some of the rows belong to."""
    ranks = posts.ranks()[rows]
    order = np.argsort(ranks, kind="stable")
    behind = np.cumsum(np.bincount(ranks, minlength=len(trace.ranks)))
    for rank, end in enumerate(behind.tolist()):
        mine = order[int(behind[rank - 1]) if rank else 0 : end]
        if len(mine):
            yield trace.ranks[rank], mine


def _fill_receiving_half(
    rank: Rank, rows: NDArray[Any], events: NDArray[Any], types: NDArray[Any], counts: NDArray[Any]
) -> None:
    """Set the types and counts of the receiving half of MPI_Sendrecv, which are among its further arguments.
    MPI_Sendrecv_replace has one type and count for both halves and stays as it is.

    `rows`: where to write in `types` and `counts`. `events`: the calls, one for each row.
    """
    order = np.argsort(events, kind="stable")
    for found, values in decode_columns(rank, events, frozenset(("recvcount", "recvtype"))):
        at = rows[order[np.searchsorted(events[order], found)]]
        if "recvcount" in values and "recvtype" in values:
            counts[at], types[at] = values["recvcount"], values["recvtype"]


def _report_type_and_size_misfits(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    """Report matched messages whose type signatures differ, or that are longer than their receive."""
    rows = _select_own_rows(trace, match.sends, Post.PARTITIONED, matched=True)
    if not len(rows):
        return
    partner = match.sends.partner[rows].astype(np.int64)
    send_type, send_count = _types_and_counts(trace, match.sends, rows, False)
    recv_type, recv_count = _types_and_counts(trace, match.recvs, partner, True)
    # Predefined types have the same ids on all ranks: equal ones that are no longer than their receive fit.
    plain = (send_type == recv_type) & (send_type < 256) & (send_count <= recv_count)
    odd = np.flatnonzero(~plain & (send_count >= 0) & (recv_count >= 0) & (send_type > 1) & (recv_type > 1))
    if not len(odd):
        return
    keys = np.stack(
        [match.sends.ranks()[rows[odd]], send_type[odd], send_count[odd],
         match.recvs.ranks()[partner[odd]], recv_type[odd], recv_count[odd]], axis=1,
    ).astype(np.int64)  # fmt: skip
    unique, first, times = np.unique(keys, axis=0, return_index=True, return_counts=True)
    for key, place, n in zip(unique[:MAX_PAIRS].tolist(), first.tolist(), times.tolist(), strict=False):
        send = trace.event(*match.sends.id(int(rows[odd[place]])))
        receive = trace.event(*match.recvs.id(int(partner[odd[place]])))
        sent = trace.ranks[key[0]].datatype(key[1]), key[2]
        wanted = trace.ranks[key[3]].datatype(key[4]), key[5]
        yield list(_compare_sizes_and_types(send, receive, sent, wanted, n))


def _report_partitioned_misfits(trace: Trace, match: Match) -> Iterator[list[Finding]]:
    """Report partitioned messages whose total size or type does not fit the receive (MPI-4.1, 4.2).

    Requests with one tag are matched in the order in which they were made, so only requests whose tag no other has are
    compared.
    """
    rows = _select_own_rows(trace, match.sends, 0, matched=True)
    rows = rows[(match.sends.flags[rows] & Post.PARTITIONED) != 0]
    made: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for rank in trace.ranks if len(rows) else ():
        for event in map(rank.event, masks_of(trace.functions).where(rank, calls.PARTITIONED).tolist()):
            made[rank.index, base_name(event.function.name), event.comm, event.peer, event.args.get("tag")].append(
                event
            )
    alone = {(one.rank.index, one.index): one for events in made.values() if len(events) == 1 for one in events}
    seen = set()
    for row in rows.tolist():
        partner = int(match.sends.partner[row])
        send = alone.get((match.sends.id(row)[0], int(match.sends.args[row])))
        receive = alone.get((match.recvs.id(partner)[0], int(match.recvs.args[partner])))
        if send is None or receive is None or (send.rank.index, send.index) in seen:
            continue
        seen.add((send.rank.index, send.index))
        sent, wanted = ((e.rank.datatype(e.args["datatype"]), e.args["partitions"] * e.count) for e in (send, receive))
        yield list(_compare_sizes_and_types(send, receive, sent, wanted, 1))


def _explain_irecv_room(receive: Event, room: int) -> str:
    """Return why a receive has room for `room` bytes only, and how to give it more, if the receive is mpi4py's irecv
    with its own buffer; "" for other receives.
    """
    spelled = sources.sources_of(receive.rank.trace).called_names(receive.site.file or "", receive.site.line) or ()
    if room != _IRECV_ROOM or not any(name.rpartition(".")[2] == "irecv" for name in spelled):
        return ""
    return (
        f", because mpi4py's irecv makes a buffer of {room >> 10} KiB; give it one: irecv(bytearray({room << 5}), "
        "source, tag), or set mpi4py.rc.irecv_bufsz before mpi4py.MPI is imported"
    )


def _compare_sizes_and_types(
    send: Event, receive: Event, sent: tuple[Datatype | None, int], wanted: tuple[Datatype | None, int], times: int
) -> Iterator[Finding]:
    """Report that a message is too long for its receive, or that its type differs.

    `sent`, `wanted`: datatype and count of the send and of the receive. `times`: how many such messages there are.
    """
    sizes = size_in_bytes(sent[0]), size_in_bytes(wanted[0])
    if sent[0] is None or wanted[0] is None or sizes[0] is None or sizes[1] is None:
        return
    bytes_sent, bytes_wanted = sizes[0] * sent[1], sizes[1] * wanted[1]
    told = (
        f"rank {send.rank.index} in {call_at(send)}",
        f"rank {receive.rank.index} in {call_at(receive)}",
    )
    evidence = Sizes(sent=bytes_sent, room=bytes_wanted, messages=times)
    if bytes_sent > bytes_wanted:
        yield make_finding(
            "truncation",
            f"{told[0]} sends {bytes_sent:,} bytes where {told[1]} has room for {bytes_wanted:,}"
            + _explain_irecv_room(receive, bytes_wanted),
            [receive, send], evidence=evidence, cause=cause_key(receive, send),
        )  # fmt: skip
    (one, times_sent), (other, times_wanted) = sent[0].repeated_signature(), wanted[0].repeated_signature()
    severity = compare_signatures(one, sent[1] * times_sent, other, wanted[1] * times_wanted)
    if severity == "note" or (one is None and sent[0].is_large) or (other is None and wanted[0].is_large):
        yield make_left_out_note("type-mismatch", receive, "they fit those of the message")
    elif severity is not None:
        yield make_finding(
            "type-mismatch",
            f"{told[0]} sends {sent[1]} x {sent[0].name} where {told[1]} expects {wanted[1]} x {wanted[0].name}",
            [receive, send], severity=severity, evidence=evidence, cause=cause_key(receive, send),
        )  # fmt: skip


def compare_signatures(sent: Signature | None, count: int, wanted: Signature | None, room: int) -> Severity | None:
    """Return how severely the type signature of a message differs from that of its receive, up to the end of the
    shorter one (MPI-4.1, 3.3.1). None if they agree or are unknown.

    "error": basic types differ. "warning": one side says bytes, which the standard forbids and every library lets pass.
    "note": there are too many types to compare. `count`, `room`: how often each signature is repeated.
    """
    if sent is None or wanted is None or count <= 0 or room <= 0 or sent == wanted:
        return None
    bytes_only = False
    for steps, ((a, _), (b, _)) in enumerate(_pair_signature_runs(sent, count, wanted, room)):
        if steps == MAX_STEPS:
            return "note"
        if a == b or a in _PACKED or b in _PACKED or machine_type(a) == machine_type(b):
            continue
        if a in _UNTYPED or b in _UNTYPED:
            bytes_only = True
            continue
        return "error"
    return "warning" if bytes_only else None


def _pair_signature_runs(
    sent: Signature, count: int, wanted: Signature, room: int
) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Yield pairs of runs, (basic type, length) of the message and of its receive, that begin at the same element. Ends
    after the period with which such pairs repeat, so each pair of basic types comes at least once.
    """
    one, two = _repeat_signature(sent, count), _repeat_signature(wanted, room)
    a, b = next(one, None), next(two, None)
    period = lcm(sum(n for _, n in sent), sum(n for _, n in wanted))  # from there on all comes again
    while a is not None and b is not None and period > 0:
        yield a, b
        length = min(a[1], b[1])
        period -= length
        a = (a[0], a[1] - length) if a[1] > length else next(one, None)
        b = (b[0], b[1] - length) if b[1] > length else next(two, None)


def _repeat_signature(signature: Signature, times: int) -> Iterator[tuple[str, int]]:
    """Yield the runs (basic type, length) of a signature, `times` times over."""
    if len(signature) == 1:
        yield signature[0][0], signature[0][1] * times
        return
    for _ in range(times):
        yield from signature


PARTS = (
    AnalysisSection(_report_truncations),
    AnalysisSection(_report_unmatched_sends),
    AnalysisSection(_report_unreceived_probed_messages),
    AnalysisSection(_report_unmatched_receives),
    AnalysisSection(_report_type_and_size_misfits, MAX_PAIRS),
    AnalysisSection(_report_partitioned_misfits),
)
"""The sections in the order of their findings."""
