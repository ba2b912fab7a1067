"""Match: which send went to which receive, and which calls make one collective.

`match(trace)` reads the operations out of the record (operations.py, native/kernel/extract.c) and pairs them
(native/kernel/match.c). The result is arrays, with a few accessors for people; all analyses build on it.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match.functions import Op, Post, Spec, asks_what_came, classify, communicates
from weft.match.grouping import group_rows
from weft.match.operations import NONE, U32, Collectives, Instances, MakeColumn, Operations, Posts, extract_operations
from weft.match.rings import dropped_operations, select_pairable
from weft.native.headers.match import kernel
from weft.native.threads import run_in_threads, worker_count
from weft.trace import Trace

__all__ = [
    "NONE", "Collectives", "Instances", "MakeColumn", "Match", "Op", "Operations", "Post", "Posts", "Spec",
    "asks_what_came", "classify", "communicates", "group_collectives", "match_operations", "pair_messages",
    "pair_posts",
]  # fmt: skip


@dataclass(slots=True)
class Match:
    """Sends, receives, probes (Posts), the parts of collectives, and the collectives as wholes.

    `sends.partner[i]` is the receive that took send i, `recvs.partner[j]` the send that receive j took, NONE where the
    record has none. A probe's partner is the send whose message it saw.
    """

    trace: Trace
    sends: Posts
    recvs: Posts
    probes: Posts
    collectives: Collectives
    instances: Instances
    made: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    """Results that analyses computed from the match and cache here, by room."""

    def unmatched_sends(self) -> U32:
        """Return the rows of sends that no receive of the record took."""
        return np.flatnonzero(self.sends.partner == NONE).astype(np.uint32)

    def unmatched_receives(self) -> U32:
        """Return the rows of receives that took no send of the record."""
        return np.flatnonzero(self.recvs.partner == NONE).astype(np.uint32)

    def sends_of(self, event: EventId) -> list[int]:
        """Return the rows of the sends that an event started: none, one, or as many as MPI_Startall started."""
        return _find_rows(self.sends, event)

    def receives_of(self, event: EventId) -> list[int]:
        """Return the rows of the receives that an event started."""
        return _find_rows(self.recvs, event)

    def collective_of(self, event: EventId) -> int | None:
        """Return the number of the collective in which an event takes part; None if it is in none."""
        rows = _find_rows(self.collectives, event)
        return int(self.collectives.instance[rows[0]]) if rows else None

    def collectives_before_segment(self) -> NDArray[np.bool_]:
        """Return a mask of the collectives that began before this segment. A segment is a part of a long run that is
        analysed on its own.
        """
        ahead = np.array([rank.ahead for rank in self.trace.ranks], np.int64)
        first = self.instances.rows[self.instances.first[:-1].astype(np.int64)]
        found: NDArray[np.bool_] = self.collectives.event[first] < ahead[self.collectives.ranks()[first]]
        return found

    def partner_events(self, event: EventId) -> list[EventId]:
        """Return the events that started the other side of each message which an event sends or receives."""
        found = [self.recvs.id(int(p)) for i in self.sends_of(event) if (p := self.sends.partner[i]) != NONE]
        return found + [self.sends.id(int(p)) for i in self.receives_of(event) if (p := self.recvs.partner[i]) != NONE]


def _find_rows(rows: Posts | Collectives, event: EventId) -> list[int]:
    part = rows.of_rank(event[0])
    return [part.start + int(i) for i in np.flatnonzero(rows.event[part] == event[1])]


def match_operations(trace: Trace) -> Match:
    """Find out which send each receive of a run took, and which calls make one collective.

    Per (communicator, source, destination, tag) the i-th send in issue order goes to the i-th receive in posting order
    (MPI-4.1, 3.5). Source and tag of a wildcard are taken from the status at its completion. The k-th collective calls
    on a communicator are one instance, blocking or not, whatever their operation (6.14); calls on a window, a file or a
    persistent collective count on that object.
    """
    operations = pair_messages(trace)
    wholes = group_collectives(operations.collectives)
    return Match(trace, operations.sends, operations.recvs, operations.probes, operations.collectives, wholes)


def pair_messages(trace: Trace, make_column: MakeColumn = np.empty) -> Operations:
    """Return the operations of a run with sends and receives paired, but with the collective calls not yet grouped.

    `make_column` allocates the columns. If it puts them into files, a run larger than memory can be paired.
    """
    operations = extract_operations(trace, make_column)
    if (dropped := dropped_operations(trace)) is not None:
        operations = select_pairable(operations, dropped)
    pair_posts(trace.share, operations.sends, operations.recvs, operations.probes, make_column)
    return operations


def pair_posts(share: range, sends: Posts, recvs: Posts, probes: Posts, make_column: MakeColumn = np.empty) -> None:
    """Set the partners of sends, receives and probes in their columns, on several cores. Only receives of the ranks in
    `share` are looked at.
    """
    lib, views = kernel(), (sends.view(), recvs.view(), probes.view())
    sends.partner.fill(NONE)
    scratch = make_column(len(sends), np.uint32)
    columns = (sends.partner, recvs.partner, probes.partner, scratch)
    ranks = len(sends.first) - 1
    count = worker_count(len(sends) + len(recvs), min(8, max(1, len(share))))
    cuts = [share.start + len(share) * k // count for k in range(count + 1)]
    done = run_in_threads(
        count, lambda k: lib.weft_match_messages(ranks, cuts[k], cuts[k + 1], *views, *columns), range(count)
    )
    if any(done):
        raise MemoryError(f"not enough memory to match {len(sends)} sends with {len(recvs)} receives")


def _number_pairs(keys: U32, ordinals: U32, base: int) -> tuple[U32, U32, U32]:
    """Number the pairs (key, ordinal) without gaps from `base` on. Return the number of each row, and for each number
    its key and its ordinal.
    """
    if not len(keys):
        empty = np.empty(0, np.uint32)
        return empty, empty, empty
    most = np.zeros(int(keys.max()) + 1, np.int64)
    np.maximum.at(most, keys, ordinals.astype(np.int64) + 1)
    starts = np.concatenate([[0], np.cumsum(most)])
    key_of = np.repeat(np.arange(len(most)), most).astype(np.uint32)
    ordinal_of = (np.arange(len(key_of)) - starts[key_of]).astype(np.uint32)
    return (base + starts[keys] + ordinals).astype(np.uint32), key_of, ordinal_of


def group_collectives(collectives: Collectives) -> Instances:
    """Group the rows of collective calls into collectives and return these; also sets the column `instance`.
    Collectives on communicators come first; then come collectives on objects that such a call made, such as windows.
    """
    top = collectives.parent == NONE
    numbers, comm, ordinal = _number_pairs(collectives.comm[top].astype(np.uint32), collectives.ordinal[top], 0)
    collectives.instance[top] = numbers
    below = ~top
    of_parent = collectives.instance[collectives.parent[below]]
    numbers, parent, ordinal_below = _number_pairs(of_parent, collectives.ordinal[below], len(comm))
    collectives.instance[below] = numbers
    first, rows = group_rows(collectives.instance, len(comm) + len(parent))
    return Instances(
        np.concatenate([comm, comm[parent]]).astype(np.int32),
        np.concatenate([ordinal, ordinal_below]),
        np.concatenate([np.full(len(comm), NONE, np.uint32), parent]),
        first,
        rows,
    )
