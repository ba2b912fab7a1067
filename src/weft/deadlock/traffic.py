"""Read the messages that a rank sent and asked for as columns, and how its requests ended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match.operations import request_completions
from weft.terms import calls
from weft.terms.argument_columns import Ints, Ragged, RaggedStatuses, Statuses, decode_columns, sorted_distinct
from weft.terms.calls import masks_of
from weft.trace import Flag, Rank
from weft.trace.errors import NoArgument
from weft.trace.layout import ANY_SOURCE, ANY_TAG, PROC_NULL

_Kind = TypeVar("_Kind")
UNKNOWN = -9
"""Source or tag that the record does not tell."""

NONE = -1

_SENDING = calls.SENDS | calls.ISENDS | calls.SENDRECVS | calls.ISENDRECVS
_RECEIVING = calls.RECVS | calls.IRECVS
_STARTABLE = calls.SEND_INITS | calls.RECV_INITS


@dataclass(frozen=True)
class MessageEnds:
    """One side of messages, in the order in which the rank issued them. All columns have one length.

    `comm` is the index in trace.communicators, `peer` the index in trace.ranks, ANY_SOURCE for a wildcard whose
    source is not known, or below -1 for one that is not known; `tag` likewise; `event` the issuing call; `request`
    the request's id or 0; `done` whether a completion was seen.
    """

    comm: Ints
    peer: Ints
    tag: Ints
    event: Ints
    request: Ints
    done: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.comm)

    def pick(self, which: Any) -> MessageEnds:
        """Return the rows that a mask or an index selects."""
        return MessageEnds(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Completions:
    """Requests completed by waits and tests, in the order of the calls. `known` is False without a status."""

    request: Ints
    event: Ints
    status: Statuses

    def __len__(self) -> int:
        return len(self.request)


def _join_ends(parts: list[MessageEnds]) -> MessageEnds:
    """Return several tables of message ends as one, by event."""
    if not parts:
        empty = np.zeros(0, np.int64)
        return MessageEnds(empty, empty, empty, empty, empty, np.zeros(0, np.bool_))
    joined = MessageEnds(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in MessageEnds.__dataclass_fields__)
    )
    return joined.pick(np.argsort(joined.event, kind="stable"))


class Traffic:
    """The point-to-point calls of one rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.events = rank.events
        self.masks = masks_of(rank.trace.functions)

    def _where(self, names: frozenset[str]) -> Ints:
        return self.masks.where(self.rank, names)

    # Columns

    def _resolve_peers(self, comm_ids: NDArray[Any], peers: Ints) -> tuple[Ints, Ints]:
        """Return (communicator indices, rank indices) of peers that are given as ranks in communicators. Negative
        peers, such as wildcards, stay as they are; a peer that cannot be resolved becomes UNKNOWN."""
        comms = np.full(len(comm_ids), NONE, np.int64)
        found = np.where(peers < 0, peers, UNKNOWN)
        for id in sorted_distinct(comm_ids):
            comm = self.rank.comm(int(id))
            if comm is None:
                continue
            rows = comm_ids == id
            comms[rows] = comm.index
            members = np.asarray(comm.peers(self.rank.index), np.int64)
            named = rows & (peers >= 0) & (peers < len(members))
            member = members[peers[named]]
            found[named] = np.where(member < 0, UNKNOWN, member)
        return comms, found

    def _make_ends(
        self, which: Ints, peer: Ints, tag: Ints, request: Ints | None = None, source: Ints | None = None
    ) -> MessageEnds:
        """Return one side of the messages of the events `which`, with these peers and tags. Messages to MPI_PROC_NULL
        and of failed calls are left out.

        `source`: the events with the communicators, if these are other ones: the calls that made persistent requests.
        """
        at = which if source is None else source
        comm, found = self._resolve_peers(self.events["comm"][at], peer)
        request = np.zeros(len(which), np.int64) if request is None else request
        keep = (found != PROC_NULL) & (comm != NONE) & ((self.events["error"][which] == 0) | (found >= 0))
        closed = (self.events["flags"][which] & Flag.CLOSED) != 0
        done = closed & (request == 0)
        return MessageEnds(comm, found, tag, which, request, done).pick(keep)

    def _column(self, name: str, which: Ints) -> Ints:
        column: Ints = self.events[name][which].astype(np.int64)
        return column

    def _tail_columns(self, which: Ints, *names: str) -> tuple[Ints, dict[str, Any]]:
        """Return (event indices, {name: column}) of scalar arguments that are recorded in the variable part of a call,
        as its row of fixed size has no room for them.

        Events of functions that lack one of the arguments are left out.
        """
        kept: list[Ints] = []
        values: dict[str, list[Ints]] = {name: [] for name in names}
        for events, found in decode_columns(self.rank, which, frozenset(names)):
            if all(name in found for name in names):
                kept.append(events)
                for name in names:
                    values[name].append(found[name])  # type: ignore[arg-type]
        empty = np.zeros(0, np.int64)
        return (np.concatenate(kept) if kept else empty), {
            name: np.concatenate(parts) if parts else empty for name, parts in values.items()
        }

    # Persistent requests

    @cached_property
    def starts(self) -> tuple[Ints, Ints, Ints]:
        """Return every start of a persistent request, as columns: the event that starts it, the request, the event
        that made the request (-1 if unknown)."""
        single = self._where(frozenset(("Start",)))
        parts = [(single, self._column("object", single))]
        many = self._where(frozenset(("Startall",)))
        for events, found in decode_columns(self.rank, many, frozenset(("array_of_requests",))):
            requests = _require_column(found, "array_of_requests", Ragged)
            parts.append((events[requests.owners], requests.values))
        event, request = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
        order = np.argsort(event, kind="stable")
        event, request = event[order], request[order]
        inits = self._where(calls.PERSISTENT)
        ids = self._column("object", inits)
        by_id = np.argsort(ids, kind="stable")
        place = np.searchsorted(ids[by_id], request)
        place = np.minimum(place, max(len(ids) - 1, 0))
        if not len(ids):
            return event, request, np.full(len(event), NONE, np.int64)
        hit = ids[by_id][place] == request
        return event, request, np.where(hit, inits[by_id][place], NONE)

    def _persistent_ends(self, names: frozenset[str]) -> MessageEnds:
        """Return the messages of persistent requests, one for each start. `names`: the functions that made the
        requests."""
        event, request, init = self.starts
        table = self.masks.table(names)
        rows = (init >= 0) & table[self.events["function"][init]]
        event, request, init = event[rows], request[rows], init[rows]
        return self._make_ends(event, self._column("peer", init), self._column("tag", init), request, init)

    # Completions

    @cached_property
    def done(self) -> tuple[Ints, Ints]:
        """Return every completion of a request that a wait or a test reported, without its status: (request, event)."""
        return request_completions(self.rank)

    @cached_property
    def completions(self) -> Completions:
        """Return every completion of a request that a wait or a test reported."""
        closed = (self.events["flags"] & Flag.CLOSED) != 0
        parts = [
            *self._completed_by_one(closed),
            *self._completed_by_any(closed),
            *self._completed_by_all(closed),
            *self._completed_by_some(closed),
        ]
        if not parts:
            return _no_completions()
        request, event = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
        fields = [np.concatenate([getattr(p[2], name) for p in parts]) for name in Statuses.__dataclass_fields__]
        live = request > 1
        order = np.flatnonzero(live)[np.argsort(event[live], kind="stable")]
        return Completions(request[order], event[order], Statuses(*(f[order] for f in fields)))

    def _completing_calls(self, names: frozenset[str], closed: NDArray[np.bool_]) -> Ints:
        """Return the indices of the calls of `names` that completed a request: waits that returned, and tests that
        came out true."""
        which = self._where(names)
        which = which[closed[which]]
        tests = self.masks.table(calls.TESTS - calls.OF_SOME)[self.events["function"][which]]
        done: Ints = which[~tests | ((self.events["flags"][which] & Flag.TRUE) != 0)]
        return done

    def _status_in_row(self, which: Ints) -> Statuses:
        """Return the statuses of calls that complete a single request. The fixed part of their events has it."""
        zero = np.zeros(len(which), np.int64)
        cancelled = (self.events["flags"][which] & Flag.CANCELLED) != 0
        return Statuses(
            np.ones(len(which), np.bool_), cancelled, self._column("peer", which), self._column("tag", which),
            self._column("result", which), zero,
        )  # fmt: skip

    def _completed_by_one(self, closed: NDArray[np.bool_]) -> list[tuple[Ints, Ints, Statuses]]:
        which = self._completing_calls(calls.OF_ONE, closed)
        return [(self._column("object", which), which, self._status_in_row(which))] if len(which) else []

    def _completed_by_any(self, closed: NDArray[np.bool_]) -> list[tuple[Ints, Ints, Statuses]]:
        """Return the requests that Waitany and Testany completed, as (requests, events, statuses): columns of equal
        length."""
        parts = []
        wanted = frozenset(("array_of_requests", "index"))
        for events, found in decode_columns(self.rank, self._completing_calls(calls.OF_ANY, closed), wanted):
            requests, index = (
                _require_column(found, "array_of_requests", Ragged),
                _require_column(found, "index", np.ndarray),
            )
            ok = (index >= 0) & (index < requests.lengths)
            place = requests.starts[:-1][ok] + index[ok]
            parts.append((requests.values[place], events[ok], self._status_in_row(events[ok])))
        return parts

    def _completed_by_all(self, closed: NDArray[np.bool_]) -> list[tuple[Ints, Ints, Statuses]]:
        """Return the requests that Waitall and Testall completed, as (requests, events, statuses): columns of equal
        length."""
        parts = []
        wanted = frozenset(("array_of_requests", "array_of_statuses"))
        for events, found in decode_columns(self.rank, self._completing_calls(calls.OF_ALL, closed), wanted):
            requests = _require_column(found, "array_of_requests", Ragged)
            statuses = _require_column(found, "array_of_statuses", RaggedStatuses)
            rows = _statuses_at(requests.owners, requests.offsets, statuses)
            parts.append((requests.values, events[requests.owners], rows))
        return parts

    def _completed_by_some(self, closed: NDArray[np.bool_]) -> list[tuple[Ints, Ints, Statuses]]:
        """Return the requests that Waitsome and Testsome completed, as (requests, events, statuses): columns of equal
        length."""
        parts = []
        wanted = frozenset(("array_of_requests", "array_of_indices", "array_of_statuses"))
        for events, found in decode_columns(self.rank, self._completing_calls(calls.OF_SOME, closed), wanted):
            requests, indices = (
                _require_column(found, name, Ragged) for name in ("array_of_requests", "array_of_indices")
            )
            statuses = _require_column(found, "array_of_statuses", RaggedStatuses)
            ok = (indices.values >= 0) & (indices.values < requests.lengths[indices.owners])
            place = requests.starts[:-1][indices.owners[ok]] + indices.values[ok]
            rows = _statuses_at(indices.owners[ok], indices.offsets[ok], statuses)
            parts.append((requests.values[place], events[indices.owners[ok]], rows))
        return parts

    # Ends

    @cached_property
    def sends(self) -> MessageEnds:
        """Return every message that the rank sent or tried to send, in the order of the calls. Cancelled sends are
        left out."""
        which = self._where(_SENDING)
        requests = self.masks.table(calls.ISENDS | calls.ISENDRECVS)[self.events["function"][which]]
        request = np.where(requests, self._column("object", which), 0)
        direct = self._make_ends(which, self._column("peer", which), self._column("tag", which), request)
        ends = _join_ends([direct, self._persistent_ends(calls.SEND_INITS)])
        return ends.pick(~self._cancelled(ends)) if self._cancels else ends

    @cached_property
    def receives(self) -> MessageEnds:
        """Return every receive that the rank posted, in order. Where a status shows them, source and tag are the
        actual ones instead of wildcards.

        A matched probe counts as the posting of its message's receive. Cancelled receives are left out.
        """
        which = self._where(_RECEIVING)
        request = np.where(
            self.masks.table(calls.IRECVS)[self.events["function"][which]], self._column("object", which), 0
        )
        parts = [self._make_ends(which, self._column("peer", which), self._column("tag", which), request)]
        probes = self._where(calls.MATCHED_PROBES)
        took = (self.events["flags"][probes] & Flag.CLOSED) != 0
        polls = self.masks.table(calls.MATCHED_PROBES & calls.IPROBES)[self.events["function"][probes]]
        took &= ~polls | ((self.events["flags"][probes] & Flag.TRUE) != 0)
        # An open Mprobe asks for a message like a receive, and takes none away: it is not a post.
        probes = probes[took]
        parts.append(self._make_ends(probes, self._column("peer", probes), self._column("tag", probes)))
        both, tail = self._tail_columns(self._where(calls.SENDRECVS | calls.ISENDRECVS), "source", "recvtag")
        isendrecv = self.masks.table(calls.ISENDRECVS)[self.events["function"][both]]
        request = np.where(isendrecv, self._column("object", both), 0)
        parts.append(self._sendrecv_source(both, tail, request))
        parts.append(self._persistent_ends(calls.RECV_INITS))
        ends = _join_ends(parts)
        unresolved = (ends.request != 0) & ((ends.peer == ANY_SOURCE) | (ends.tag == ANY_TAG))
        return self._resolve_wildcards(ends) if unresolved.any() or self._cancels else ends

    def _sendrecv_source(self, which: Ints, tail: dict[str, Any], request: Ints) -> MessageEnds:
        """Return the receiving half of the Sendrecv calls `which`. Where source or tag is a wildcard and the call has
        returned, they are those of its status."""
        source, tag = tail["source"].copy(), tail["recvtag"].copy()
        wild = (source == ANY_SOURCE) | (tag == ANY_TAG)
        wild &= (request == 0) & ((self.events["flags"][which] & Flag.CLOSED) != 0)
        place = {int(event): i for i, event in enumerate(which[wild])}
        rows = np.flatnonzero(wild)
        for events, found in decode_columns(self.rank, which[wild], frozenset(("status",))):
            status = found.get("status")
            if not isinstance(status, Statuses):
                continue
            at = rows[[place[int(event)] for event in events]]
            source[at] = np.where(status.known, status.source, UNKNOWN)
            tag[at] = np.where(status.known, status.tag, UNKNOWN)
        return self._make_ends(which, source, tag, request)

    @property
    def _cancels(self) -> bool:
        return bool(len(self._where(calls.CANCELS)))

    def _completion_rows(self, ends: MessageEnds) -> Ints:
        """Return for each message end the row in `completions` that completed its request; -1 without a request or
        completion."""
        done = self.completions
        found = np.full(len(ends), NONE, np.int64)
        rows = np.flatnonzero(ends.request > 1)
        found[rows] = first_row_after(done.request, done.event, ends.request[rows], ends.event[rows])
        return found

    def _cancelled(self, ends: MessageEnds) -> NDArray[np.bool_]:
        row = self._completion_rows(ends)
        return (row >= 0) & self.completions.status.cancelled[row]

    def _resolve_wildcards(self, ends: MessageEnds) -> MessageEnds:
        """Return receives with the actual source and tag in place of wildcards, from the status of their completion. A
        wildcard stays if the receive did not complete, and becomes UNKNOWN without a status. Cancelled receives are
        left out."""
        row = self._completion_rows(ends)
        status, has = self.completions.status, row >= 0
        row = row[has]
        source, tag = ends.peer.copy(), ends.tag.copy()
        told = status.known[row] & (status.source[row] >= 0)
        at = np.flatnonzero(has)
        wild_source = source[at] == ANY_SOURCE
        wild_tag = tag[at] == ANY_TAG
        peers = np.where(told, status.source[row], UNKNOWN)
        for comm in sorted_distinct(ends.comm[at]):
            rows = ends.comm[at] == comm
            members = np.asarray(self.rank.trace.communicators[int(comm)].peers(self.rank.index), np.int64)
            known = rows & (peers >= 0) & (peers < len(members))
            peers[known] = members[peers[known]]
        source[at] = np.where(wild_source, peers, source[at])
        tag[at] = np.where(wild_tag, np.where(told, status.tag[row], UNKNOWN), tag[at])
        cancelled = np.zeros(len(ends), np.bool_)
        cancelled[at] = status.cancelled[row]
        return MessageEnds(ends.comm, source, tag, ends.event, ends.request, ends.done | has).pick(~cancelled)


def _require_column(found: Mapping[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    """Return the column of the argument `name`, which the calls must have. Raises NoArgument if they lack it, as with
    a wrong functions.json."""
    if not isinstance(value := found.get(name), kind):
        raise NoArgument(name)
    return value


def first_row_after(ids: Ints, events: Ints, request: Ints, event: Ints) -> Ints:
    """Find for each use of a request the next row about the same request after it.

    `ids`, `events`: request and event index of the rows. `request`, `event`: the uses. Returns row indices, -1 for
    none.
    """
    found = np.full(len(request), NONE, np.int64)
    if not len(ids) or not len(request):
        return found
    width = 1 + max(int(events.max()), int(event.max()))
    key = ids * width + events
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], request * width + event, side="right")
    inside = order[np.minimum(place, len(order) - 1)]
    hit = (place < len(order)) & (ids[inside] == request)
    found[hit] = inside[hit]
    return found


def _statuses_at(owners: Ints, offsets: Ints, statuses: RaggedStatuses) -> Statuses:
    """Return the statuses at `offsets` of the arrays of statuses that calls filled. `owners`: which call's array, as
    index into `statuses`. A status beyond the end of its array is marked as not known."""
    lengths = np.diff(statuses.starts)[owners]
    there = offsets < lengths
    place = np.where(there, statuses.starts[:-1][owners] + offsets, 0)
    columns_ = []
    for name in Statuses.__dataclass_fields__:
        values = getattr(statuses.rows, name)
        columns_.append(np.where(there, values[place], 0) if len(values) else np.zeros(len(owners), values.dtype))
    known, cancelled, *numbers = columns_
    return Statuses(known.astype(np.bool_), cancelled.astype(np.bool_), *numbers)


def _no_completions() -> Completions:
    empty, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    return Completions(empty, empty, Statuses(no, no, empty, empty, empty, empty))
