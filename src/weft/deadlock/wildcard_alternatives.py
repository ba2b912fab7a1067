"""Potential deadlocks behind a wildcard: had it taken the other message, somebody would wait for ever.

For each message that races with a wildcard receive (weft.races) the record is matched again with that choice forced:
the receiver's later receives take what is left, each wildcard what it had, if it still can. Then the run is carried out
again with these matches (native/kernel/progress.c), where only synchronous sends and collectives of all with all wait.
Ranks that can never continue are reported.

The calls are taken as recorded. A program that looks at whom it received from goes on otherwise, so nothing is claimed
where it shows that it looks: where what waits names the source that the wildcard really had, and where a later wildcard
would have had to choose anew. For the same reason such a finding is never more than possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from weft.base.facts import changed
from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.deadlock.blocked_ranks import Standstill
from weft.deadlock.unbuffered_sends import Constraints, Processes, make_constraints
from weft.evidence import Alternative, Place, Untried
from weft.findings import Finding
from weft.match import NONE, Match, Post, Posts
from weft.match.grouping import group_rows
from weft.mpi.meaning import Leaves, base_name
from weft.order import Order
from weft.order.edges import exit_condition
from weft.races import can_exchange, detect_races
from weft.terms import calls, describe
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.event_findings import make_finding
from weft.trace import Event, Trace
from weft.trace.segment import lookahead_of

MOST_OF_ONE_PLACE: Final = 4
"""Alternatives that are tried of one pair of lines: a wildcard and the receive that took the other message."""

BUDGET: Final = 1 << 27
"""Constraints that are looked at in all; each alternative takes all of them once. At least MIN_TRIED are tried."""

MIN_TRIED: Final = 8

_WAITING: Final = (
    calls.RECVS | calls.SENDRECVS | calls.PROBES | ((calls.OF_ONE | calls.OF_ALL) & calls.WAITS) | {"Mrecv"}
)
"""Calls that cannot return without what they wait for; Waitany may return with something else."""


class Choice(NamedTuple):
    """Rows: the wildcard receive, and the send that it takes in place of the one it took."""

    recv: int
    send: int


def find(trace: Trace, match: Match, order: Order) -> list[Finding]:
    """Return findings on wildcard receives that could take another message, after which a rank would wait for ever.

    Findings of the same cause are one finding. If there are more choices than are tried, the findings say so. The list
    is empty for a run that does hang.
    """
    choices = _find_other_choices(match, order)
    if not len(choices.recv) or Standstill(trace).stuck:
        return []
    replays = _Reruns(match)
    if replays.find_stuck(match):
        return []  # the record itself is not understood
    found: dict[str, Finding] = {}
    hit: set[int] = set()
    tried = left = open_ = 0
    for recv, send, place in zip(choices.recv.tolist(), choices.send.tolist(), choices.place.tolist(), strict=True):
        if place in hit:
            continue
        if tried >= replays.most:
            left += 1
            continue
        tried += 1
        try:
            told = _try_choice(match, replays, Choice(recv, send))
        except _Beyond:
            left, open_ = left + 1, open_ + 1
            continue
        if told is not None:
            found.setdefault(told.cause or told.message, told)
            hit.add(place)
    if left:
        return [_with_untried(one, left) for one in found.values()] or [_make_bound_note(tried - open_, left)]
    return list(found.values())


def _with_untried(one: Finding, left: int) -> Finding:
    assert isinstance(one.evidence, Alternative)
    return replace(one, evidence=changed(one.evidence, untried=left))


def _make_bound_note(tried: int, untried: int) -> Finding:
    """Return the note that says how many other matches were tried, and how many were not."""
    return Finding(
        kind="potential-deadlock",
        severity="note",
        certainty="undecided",
        message=(
            f"{plural(tried, 'other match')} of wildcard receives would not hang; {untried:,} more were not tried, "
            "because the record is large"
        ),
        evidence=Untried(tried=tried, untried=untried),
    )


def is_bound_note(one: Finding) -> bool:
    """Return whether a finding only says how many other matches were tried, and how many were not."""
    return isinstance(one.evidence, Untried)


def join_bound_notes(notes: Sequence[Finding]) -> Finding:
    """Return one such note for those of several segments of a run."""
    held = [note.evidence for note in notes if isinstance(note.evidence, Untried)]
    return _make_bound_note(sum(one.tried for one in held), sum(one.untried for one in held))


class _Choices(NamedTuple):
    """Choices as columns, with a number for the pair of lines of each."""

    recv: Ints
    send: Ints
    place: Ints


def _find_other_choices(match: Match, order: Order) -> _Choices:
    """Return which other messages the wildcard receives could have taken. Messages that a receive of another form took
    come first; of choices at the same pair of lines at most MOST_OF_ONE_PLACE are kept."""
    races = detect_races(match, order)
    first = races.first.astype(np.int64)
    listed = first[1:] - first[:-1]
    recv, probe = np.repeat(races.row.astype(np.int64), listed), np.repeat(races.probe, listed)
    recv, send = recv[~probe], races.messages[~probe].astype(np.int64)
    exchange = can_exchange(match, recv, send)
    synchronous = bool((match.sends.flags & Post.SYNCHRONOUS).any())
    rows = np.concatenate([np.flatnonzero(~exchange), np.flatnonzero(exchange)[: None if synchronous else 0]])
    recv, send = recv[rows], send[rows]
    place = _number_line_pairs(match, recv, send)
    by_place = np.argsort(place, kind="stable")
    ordered = place[by_place]
    nth = np.arange(len(place)) - np.searchsorted(ordered, ordered)
    few = np.sort(by_place[nth < MOST_OF_ONE_PLACE])
    return _Choices(recv[few], send[few], place[few])


def _number_line_pairs(match: Match, recv: Ints, send: Ints) -> Ints:
    """Return for each choice a number that is equal for equal call sites: that of the wildcard receive together with
    that of the receive which took the other message in the run."""
    other = match.sends.partner[send].astype(np.int64)
    lines = [
        _call_sites(match, recv),
        np.where(other == NONE, -1, _call_sites(match, np.where(other == NONE, 0, other))),
    ]
    one, two = (np.unique(line, return_inverse=True)[1].reshape(-1).astype(np.int64) for line in lines)
    return one << 32 | two


def _call_sites(match: Match, rows: Ints) -> Ints:
    """Return for each receive its rank and its call site, packed into one number."""
    recvs = match.recvs
    ranks = np.searchsorted(recvs.first, rows.astype(np.uint64), side="right") - 1
    site = np.zeros(len(rows), np.int64)
    for rank in sorted_distinct(ranks).tolist():
        mine = ranks == rank
        site[mine] = match.trace.ranks[rank].events["site"][recvs.event[rows[mine]]]
    found: Ints = ranks.astype(np.int64) << 32 | site
    return found


# Matching again


class _Unclear(Exception):
    """What a receive would take depends on more than the record tells."""


class _Beyond(Exception):
    """What comes of a choice shows after the calls that a segment looks at."""


class _Rematch:
    """The messages to one rank in one communicator, matched again from a wildcard on that takes another message."""

    def __init__(self, match: Match, choice: Choice) -> None:
        self.match = match
        self.choice = choice
        recvs = match.recvs
        self.rank = recvs.rank_of(choice.recv)
        self.comm = int(recvs.comm[choice.recv])
        self.took = int(recvs.partner[choice.recv])
        self.queues = self._untaken_sends()
        self.partner: dict[int, int] = {}
        """By row of a receive or (as -1 - row) of a probe that gets another message: the send, or NONE."""
        self.gone: set[int] = set()
        """Sends taken here and not yet there in the record, and `kept`, the other way round."""
        self.kept: set[int] = set()
        self.back = self._match_again()
        """Whether from some receive on all is as recorded."""
        self.sends_moved = {self.took, choice.send, *self.kept, *self.gone, *self.partner.values()} - {NONE}
        self.sends_moved |= {int(recvs.partner[r]) for r in self.partner if r >= 0} - {NONE}

    def _untaken_sends(self) -> dict[int, list[int]]:
        """Return {sender: its sends in order} with the messages that nobody has taken when the wildcard receive is
        posted."""
        sends = self.match.sends
        first, rows = _sends_by_receiver(self.match)
        mine = rows[int(first[self.rank]) : int(first[self.rank + 1])].astype(np.int64)
        mine = mine[sends.comm[mine] == self.comm]
        taker = sends.partner[mine]
        mine = mine[(taker == NONE) | (taker >= self.choice.recv)]
        queues: dict[int, list[int]] = {}
        for row, rank in zip(
            mine.tolist(),
            (np.searchsorted(sends.first, mine.astype(np.uint64), side="right") - 1).tolist(),
            strict=True,
        ):
            queues.setdefault(rank, []).append(row)
        return queues

    def _match_again(self) -> bool:
        """Match the wildcard receive with the other message, then the later receives and probes anew. Return True once
        the same messages are taken as in the record, False if that does not happen until its end."""
        recvs, probes = self.match.recvs, self.match.probes
        part, seen = recvs.of_rank(self.rank), probes.of_rank(self.rank)
        here = [(int(recvs.event[r]), r) for r in range(self.choice.recv, part.stop) if recvs.comm[r] == self.comm]
        start = here[0][0]
        here += [(int(probes.event[r]), -1 - r) for r in range(seen.start, seen.stop)
                 if probes.comm[r] == self.comm and probes.event[r] > start]  # fmt: skip
        for _, row in sorted(here):
            if row < 0:
                self._match_probe(-1 - row)
            else:
                self._match_receive(row)
                if not self.gone and not self.kept:
                    return True
        return False

    def _match_receive(self, row: int) -> None:
        """Give a receive the message that it takes after the other choice, and note which messages are then taken that
        were not taken in the record so far, and the other way round."""
        recvs = self.match.recvs
        before = int(recvs.partner[row])
        now = self.choice.send if row == self.choice.recv else self._first_message(recvs, row)
        if now != NONE:
            self.queues[self.match.sends.rank_of(now)].remove(now)
        if now == before:
            return
        self.partner[row] = now
        # Symmetric difference of what is taken here and what was taken in the record up to here.
        for send, mine, other in ((now, self.gone, self.kept), (before, self.kept, self.gone)):
            if send != NONE:
                if send in other:
                    other.remove(send)
                else:
                    mine.add(send)

    def _match_probe(self, row: int) -> None:
        """If another receive took the message that a probe saw in the record, give the probe the message that it sees
        instead. Raises _Unclear for a wildcard probe."""
        probes = self.match.probes
        before = int(probes.partner[row])
        if before == NONE or before not in self.gone:
            return
        if probes.flags[row] & Post.ANY_SOURCE:
            raise _Unclear
        self.partner[-1 - row] = self._first_message(probes, row)

    def _first_message(self, posts: Posts, row: int) -> int:
        """Return the message that a receive or probe takes after the other choice, NONE if there is none. Raises
        _Unclear if the record does not tell."""
        flags, source = int(posts.flags[row]), int(posts.peer[row])
        if flags & (Post.UNDECIDED | Post.PARTITIONED):
            raise _Unclear
        tag = -1 if flags & Post.ANY_TAG else int(posts.tag[row])
        if not flags & Post.ANY_SOURCE:
            return self._first_in_queue(source, tag)
        own, left = self._first_in_queue(source, tag), self._first_in_queue(self.match.sends.rank_of(self.took), tag)
        if own == int(posts.partner[row]) or left == NONE:
            left = own
        if left != NONE:
            return left
        if any(self._first_in_queue(sender, tag) != NONE for sender in self.queues):
            raise _Unclear
        return NONE

    def _first_in_queue(self, source: int, tag: int) -> int:
        tags = self.match.sends.tag
        return next((row for row in self.queues.get(source, ()) if tag < 0 or int(tags[row]) == tag), NONE)

    def changed_match(self) -> Match:
        """Return the run's match with these changes."""
        match = self.match
        recv, probe, send = match.recvs.partner.copy(), match.probes.partner.copy(), match.sends.partner.copy()
        send[list(self.sends_moved)] = NONE
        for row, now in self.partner.items():
            if row < 0:
                probe[-1 - row] = now
            else:
                recv[row] = now
                if now != NONE:
                    send[now] = row
        return replace(
            match,
            sends=replace(match.sends, partner=send),
            recvs=replace(match.recvs, partner=recv),
            probes=replace(match.probes, partner=probe),
        )


def _sends_by_receiver(match: Match) -> tuple[np.ndarray, np.ndarray]:
    return group_rows(match.sends.peer.view(np.uint32), len(match.trace.ranks))


# Carrying out again


@dataclass(frozen=True)
class _StuckProcess:
    """A process that can never continue, and the event in which it waits."""

    rank: int
    event: int


class _Reruns:
    """The run carried out with other matches."""

    def __init__(self, match: Match) -> None:
        self.base = match
        self.processes = Processes(match.trace)
        table = np.zeros(65536, np.bool_)
        for function in match.trace.functions:
            table[function.id] = exit_condition(function.name) is Leaves.AFTER_ALL
        self.together = table[match.collectives.function]
        size = len(match.sends) + 2 * len(match.recvs) + 2 * len(match.collectives)
        self.most = max(MIN_TRIED, BUDGET // max(1, size))

    def make_constraints(self, match: Match) -> Constraints:
        """Return the constraints of the run with another match. A receive, probe or synchronous send that has lost its
        partner can then never be passed."""
        base, waits = self.base, (match.sends.flags & Post.SYNCHRONOUS) != 0
        hungry = [
            _events(mine, (was.partner != NONE) & (mine.partner == NONE) & mask)
            for mine, was, mask in (
                (match.recvs, base.recvs, np.ones(len(match.recvs), np.bool_)),
                (match.probes, base.probes, np.ones(len(match.probes), np.bool_)),
                (match.sends, base.sends, waits),
            )
        ]
        never = tuple(np.concatenate([h[i] for h in hungry]) for i in (0, 1))
        return make_constraints(match, self.processes, waits, self.together, never)

    def find_stuck(self, match: Match) -> list[_StuckProcess]:
        """Carry out the record again with another match, and return the processes that cannot continue."""
        constraints = self.make_constraints(match)
        place = constraints.run_processes()
        rows = np.flatnonzero(place < constraints.first[1:]).tolist()
        return [_StuckProcess(int(self.processes.rank[p]), int(constraints.at[place[p]])) for p in rows]


def _events(posts: Posts, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rank and completing event of rows."""
    rows = np.flatnonzero(which & (posts.completion != NONE))
    return posts.ranks()[rows].astype(np.int64), posts.completion[rows].astype(np.int64)


def _try_choice(match: Match, replays: _Reruns, choice: Choice) -> Finding | None:
    """Try another message for one wildcard receive. Return the finding if a rank would then wait for ever, else None.
    Raises _Beyond if that shows only after the calls of this segment."""
    try:
        again = _Rematch(match, choice)
    except _Unclear:
        return None
    stuck = replays.find_stuck(again.changed_match())
    if _is_decided_outside_segment(match, again, stuck):
        raise _Beyond
    mine = _stuck_thread_of_rank(match, again, stuck)
    if mine is None:
        return None
    event = match.trace.event(mine.rank, mine.event)
    if base_name(event.function.name) not in _WAITING:
        return None
    waiting = {s.rank for s in stuck}
    wanting = [row for row in _receives_completed_at(match, mine) if _gets_nothing(match, again, row, waiting)]
    return _make_finding(again, event, wanting[0], len(stuck)) if wanting else None


def _is_decided_outside_segment(match: Match, again: _Rematch, stuck: list[_StuckProcess]) -> bool:
    """Return whether it is still open in this segment of a long run if the wildcard's rank would wait for ever: calls
    after those that the analysis looks at decide it."""
    look = lookahead_of(match.trace)
    if look is None or not look.sends:
        return False
    stand = {one.rank for one in stuck}
    if again.rank not in stand:
        return bool(stand) or not again.back
    return not again.back and not stand.issuperset(look.sends.get(again.rank, ()))


def _stuck_thread_of_rank(match: Match, again: _Rematch, stuck: list[_StuckProcess]) -> _StuckProcess | None:
    """Return the stuck process of the thread that posted the wildcard receive, else another stuck one of the same
    rank; None if the rank is not stuck."""
    here = [s for s in stuck if s.rank == again.rank]
    thread = match.trace.ranks[again.rank].event_threads
    received = thread[int(match.recvs.event[again.choice.recv])]
    return next((s for s in here if thread[s.event] == received), here[0] if here else None)


def _receives_completed_at(match: Match, stuck: _StuckProcess) -> list[int]:
    """Return the rows of the receives that would be completed by the call in which a process is stuck."""
    part = match.recvs.of_rank(stuck.rank)
    rows: list[int] = (part.start + np.flatnonzero(match.recvs.completion[part] == stuck.event)).tolist()
    return rows


def _gets_nothing(match: Match, again: _Rematch, row: int, waiting: set[int]) -> bool:
    """Return whether a receive gets no message because of the other choice. `waiting`: the ranks that are stuck.

    False for a receive from the rank whose message the wildcard did not take this time, and for MPI_Improbe, which
    does not wait.
    """
    recvs = match.recvs
    post = match.trace.event(*recvs.id(row))
    if base_name(post.function.name) == "Improbe":
        return False  # asks, and goes on
    starved = again.partner.get(row) == NONE
    if recvs.flags[row] & Post.ANY_SOURCE:
        return starved  # else it may take something else
    source = int(recvs.peer[row])
    return source != match.sends.rank_of(again.took) and (starved or source in waiting)


def _make_finding(again: _Rematch, stuck_call: Event, wanting: int, stuck: int) -> Finding:
    """Return the finding that a wildcard receive could have taken another message, after which a rank waits for ever.
    `wanting`: the row of the receive that gets no message; `stuck`: how many processes wait for ever."""
    match, choice = again.match, again.choice
    trace = match.trace
    receive, took = trace.event(*match.recvs.id(choice.recv)), trace.event(*match.sends.id(again.took))
    other, waiting = trace.event(*match.sends.id(choice.send)), trace.event(*match.recvs.id(wanting))
    # A matched probe is what waits, not the receive that takes its message.
    via = (
        ""
        if waiting.index == stuck_call.index or base_name(stuck_call.function.name) == "Mrecv"
        else f", in {describe.call_words(stuck_call)}{describe.site_suffix(stuck_call)}"
    )
    company = f", and {plural(stuck - 1, 'more rank')} with it" if stuck > 1 else ""
    return make_finding(
        "potential-deadlock",
        f"rank {again.rank} receives from any source{describe.site_suffix(receive)} and took the message of rank "
        f"{took.rank.index} (sent{describe.site_suffix(took)}); had it taken the one of rank {other.rank.index} "
        f"(sent{describe.site_suffix(other)}), which could have come first, it would wait for ever for "
        f"{describe.call_words(waiting)}{describe.site_suffix(waiting)}{via}{company}",
        list(dict.fromkeys((receive, waiting, other, took, stuck_call))),
        certainty="possible",
        evidence=Alternative(
            took=Place(rank=took.rank.index, event=took.index),
            alternative=Place(rank=other.rank.index, event=other.index),
            stuck=stuck,
        ),
        cause=(
            f"{receive.function.name}{describe.site_suffix(receive)}; "
            f"{waiting.function.name}{describe.site_suffix(waiting)}"
        ),
    )
