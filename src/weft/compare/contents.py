"""Compare what messages hold: where the hashes of two runs differ first, and at which end of a message.

What a rank sends is decided where the call begins; what it receives, where the call, or the one that completes it,
returns. A message with other received bytes was sent with other bytes, unless the record of its sender says that it was
not: then it was changed on its way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.compare.calls import AlikeRange, Ints, ThreadCalls
from weft.compare.differences import Comparison
from weft.match import NONE, Match
from weft.order import Order
from weft.trace import Rank, Trace
from weft.trace.conditions import Term
from weft.trace.filter import Filter
from weft.trace.layout import HashSide

_OF_A_CALL: Final = 20
"""Bits that count the operations of one call (MPI_Startall)."""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """A message, or a rank's part in a collective, that holds other bytes than in the reference.

    `sent`: what the rank sends differs; else what it receives. `before` and `after` are the calls that began it, in the
    reference and in the run; `bytes_before` and `bytes_after` its sizes. `known`: the last call of the rank before it
    with the content of the reference.
    """

    rank: int
    sent: bool
    before: EventId
    after: EventId
    bytes_before: int
    bytes_after: int
    known: EventId | None
    rows: tuple[int, int]
    """Of `Rank.message_hashes` in the reference and in the run."""


@dataclass(frozen=True, slots=True)
class ContentComparison:
    """How many contents both runs have, how many differ and on which ranks, and the differences that come first."""

    compared: int
    differing: int
    ranks: tuple[int, ...]
    first: tuple[MessageContent, ...]
    unlike: dict[int, tuple[Ints, Ints]]
    left_out: int = 0
    """How many contents were not compared, as they belong to exempt calls."""
    """By rank the calls whose content differs, in the reference and in the run."""


def _select_calls_at(place: str, rank: Rank) -> NDArray[np.bool_]:
    """Return a mask of a rank's events that were called from a place in the source, as a filter's `site:` has it."""
    return Filter([Term("site", ":", place)]).mask(rank)


class ExemptCalls:
    """Calls whose messages are not compared, such as those that reduce times."""

    def __init__(self, places: Sequence[str]) -> None:
        """Take calls from places in the source, each given as FILE:LINE, FILE or a function's name."""
        self.places = tuple(places)
        self._masks: dict[int, NDArray[np.bool_]] = {}

    def mask(self, rank: Rank) -> NDArray[np.bool_]:
        """Return a mask of a rank's events, which is True for the calls whose messages are not compared. It is computed
        once for each rank.
        """
        if rank.index not in self._masks:
            self._masks[rank.index] = np.logical_or.reduce([_select_calls_at(place, rank) for place in self.places])
        return self._masks[rank.index]

    def has_call(self, trace: Trace, event: EventId) -> bool:
        """Return whether a call is exempt."""
        return bool(self.mask(trace.ranks[event.rank])[event.event])

    def find_unknown_places(self, trace: Trace) -> list[str]:
        """Return the places from which a run makes no call."""
        return [place for place in self.places if not any(_select_calls_at(place, rank).any() for rank in trace.ranks)]


class _RankHashes:
    """The hashes of one rank in both runs, paired by call, in the order of the run."""

    def __init__(self, before: Rank, after: Rank, pairs: tuple[Ints, Ints]) -> None:
        one, two = before.hashes, after.hashes
        at = np.minimum(np.searchsorted(pairs[1], two["event"]), max(len(pairs[1]) - 1, 0))
        paired = pairs[1][at] == two["event"] if len(pairs[1]) else np.zeros(len(two), bool)
        own = _compute_row_keys(two, two["event"].astype(np.int64))
        rows, two, at, own = np.flatnonzero(paired), two[paired], at[paired], own[paired]
        ordinal = own & ((1 << _OF_A_CALL + 2) - 1)
        keys = pairs[0][at] << _OF_A_CALL + 2 | ordinal if len(pairs[0]) else ordinal
        _, i, j = np.intersect1d(_compute_row_keys(one, one["event"].astype(np.int64)), keys, return_indices=True)
        shown = np.argsort(j)
        self.one, self.two = one[i[shown]], two[j[shown]]
        self.rows = i[shown], rows[j[shown]]
        self.other = (self.one["hash"] != self.two["hash"]) | (self.one["bytes"] != self.two["bytes"])
        self.sent = self.two["side"] == HashSide.SENT

    def make_difference(self, rank: int, row: int) -> MessageContent:
        """Return the MessageContent (what differs, and in which calls) for one row of this rank's paired hashes."""
        event = int(self.two["event"][row])
        alike = np.flatnonzero(~self.other[:row] & (self.two["event"][:row] < event))
        return MessageContent(
            rank, bool(self.sent[row]), EventId(rank, int(self.one["event"][row])), EventId(rank, event),
            int(self.one["bytes"][row]), int(self.two["bytes"][row]),
            EventId(rank, int(self.two["event"][alike[-1]])) if len(alike) else None,
            (int(self.rows[0][row]), int(self.rows[1][row])),
        )  # fmt: skip

    def leave_out_exempt(self, match: Match, rank: int, exempt: ExemptCalls) -> int:
        """Count the contents of exempt calls as alike, and return how many there are. A message is left out if the
        call at either end of it is exempt.
        """
        left_out = exempt.mask(match.trace.ranks[rank])[self.two["event"]]
        for row in np.flatnonzero(self.other & ~left_out).tolist():
            partners = match.partner_events(EventId(rank, int(self.two["event"][row])))
            left_out[row] = any(exempt.has_call(match.trace, partner) for partner in partners)
        self.other &= ~left_out
        return int(left_out.sum())

    def unlike_calls(self) -> tuple[Ints, Ints]:
        """Return the calls whose content differs, in both runs."""
        one, two = (side["event"][self.other].astype(np.int64) for side in (self.one, self.two))
        return one, two

    def is_sent_alike(self, event: int, reference_event: int | None = None) -> bool | None:
        """Return whether a call sends the same content as the same call of the reference; None if one of the runs has
        no hash of it.

        `event`: the call's event index. `reference_event`: if given, False unless this is the call of the reference.
        """
        rows = np.flatnonzero((self.two["event"] == event) & self.sent)
        if not len(rows):
            return None
        return not self.other[rows].any() and (
            reference_event is None or int(self.one["event"][rows[0]]) == reference_event
        )


def _compute_row_keys(rows: NDArray[Any], events: Ints) -> Ints:
    """Return a key for each hash of message contents. Two hashes have equal keys if they are for the same call, the
    same side (sent or received), and the same message on that side.

    `events`: the call's event index for each row of hashes.
    """
    requests = np.lexsort((rows["request"], rows["side"], events))
    event, side = events[requests], rows["side"][requests].astype(np.int64)
    starts = np.flatnonzero(np.diff(event, prepend=-1).astype(bool) | np.diff(side, prepend=-1).astype(bool))
    ordinal = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    keys = np.empty(len(rows), np.int64)
    keys[requests] = event << _OF_A_CALL + 2 | side << _OF_A_CALL | ordinal
    return keys


def has_hashes(match: Match) -> bool:
    """Tell whether a run has hashes of its messages."""
    return any(len(rank.hashes) for rank in match.trace.ranks)


def compare_contents(
    comparison: Comparison, order: Order, exempt: ExemptCalls | None = None
) -> ContentComparison | None:
    """Return where the contents of messages differ first between two runs. Only calls that are alike in both runs are
    compared. None if one of the runs has no hashes of contents.

    `order`: the happens-before order of the run. `exempt`: calls whose messages are not compared.
    """
    if not (has_hashes(comparison.before) and has_hashes(comparison.after)):
        return None
    kept = {rank: _RankHashes(*ranks, pairs) for rank, ranks, pairs in _pair_events(comparison)}
    left_out = (
        sum(rows.leave_out_exempt(comparison.after, rank, exempt) for rank, rows in kept.items()) if exempt else 0
    )
    found = [one for rank, rows in kept.items() for one in _find_candidate_causes(rank, rows, kept, comparison)]
    points = {id(one): _find_deciding_event(one, comparison.after) for one in found}

    def explains(a: MessageContent, b: MessageContent) -> bool:
        return a is not b and order.reaches(points[id(a)], points[id(b)], a_end=not a.sent, b_end=not b.sent)

    first = [b for b in found if not any(explains(a, b) and not explains(b, a) for a in found)]
    differing = {rank: int(rows.other.sum()) for rank, rows in kept.items() if rows.other.any()}
    compared = sum(len(rows.two) for rows in kept.values()) - left_out
    unlike = {rank: kept[rank].unlike_calls() for rank in differing}
    return ContentComparison(compared, sum(differing.values()), tuple(differing), tuple(first), unlike, left_out)


def _pair_events(comparison: Comparison) -> Iterator[tuple[int, tuple[Rank, Rank], tuple[Ints, Ints]]]:
    """Yield (rank number; its Rank in the reference, its Rank in the run; event indices of calls in the reference,
    event indices of the same calls in the run). Only calls that are alike in both runs are included, in the order of
    the run.
    """
    by_rank: dict[int, list[tuple[ThreadCalls, ThreadCalls, list[AlikeRange]]]] = defaultdict(list)
    for thread in comparison.threads:
        by_rank[thread[1].rank.index].append(thread)
    for rank, threads in by_rank.items():
        parts = [
            (one.events[s.before : s.before + s.count], two.events[s.after : s.after + s.count])
            for one, two, alike_ranges in threads for s in alike_ranges
        ]  # fmt: skip
        before, after = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        sorted_ = np.argsort(after)
        yield rank, (threads[0][0].rank, threads[0][1].rank), (before[sorted_], after[sorted_])


def _find_candidate_causes(
    rank: int, hashes: _RankHashes, hashes_by_rank: dict[int, _RankHashes], comparison: Comparison
) -> Iterator[MessageContent]:
    """Yield what a rank sent or received with other contents than in the reference, and what may have caused the
    differences of others. These are its first such message sent, and the first one received although the senders sent
    the same as in the reference.

    `hashes`: of this rank; `hashes_by_rank`: of all ranks.
    """
    sent = np.flatnonzero(hashes.other & hashes.sent)
    if len(sent):
        yield hashes.make_difference(rank, int(sent[0]))
    for row in np.flatnonzero(hashes.other & ~hashes.sent).tolist():
        if len(sent) and row > sent[0]:
            return
        content = hashes.make_difference(rank, row)
        if _were_sources_sent_alike(content, comparison, hashes_by_rank):
            yield content
            return


def _were_sources_sent_alike(
    content: MessageContent, comparison: Comparison, hashes_by_rank: dict[int, _RankHashes]
) -> bool:
    """Return whether all messages that a rank received in one call were sent as in the reference. False if that is
    known of no message. `content`: what the rank received.
    """
    match = comparison.after
    if match.collective_of(content.after) is not None:
        members = [match.collectives.id(int(row)) for row in _member_rows(match, content.after)]
        said = [hashes_by_rank[rank].is_sent_alike(event) for rank, event in members if rank in hashes_by_rank]
    else:
        # A wildcard may have taken another message: that is reported with the calls.
        ends = zip(match.partner_events(content.after), comparison.before.partner_events(content.before), strict=False)
        said = [
            hashes_by_rank[now[0]].is_sent_alike(now[1], then[1]) if now[0] == then[0] else False
            for now, then in ends if now[0] in hashes_by_rank
        ]  # fmt: skip
    known = [one for one in said if one is not None]
    return bool(known) and all(known)


def _member_rows(match: Match, event: EventId) -> NDArray[Any]:
    instance = match.collective_of(event)
    return np.flatnonzero(match.collectives.instance == instance)


def _find_deciding_event(content: MessageContent, match: Match) -> EventId:
    """Return the event that fixes what a message contains: the sending call for a sent message, the completion of the
    receive for a received one.
    """
    if content.sent:
        return content.after
    for row in match.receives_of(content.after):
        if int(match.recvs.completion[row]) != NONE:
            return EventId(content.rank, int(match.recvs.completion[row]))
    part = match.collectives.of_rank(content.rank)
    for row in np.flatnonzero(match.collectives.event[part] == content.after[1]).tolist():
        completion = int(match.collectives.completion[part][row])
        if completion != NONE:
            return EventId(content.rank, completion)
    return content.after
