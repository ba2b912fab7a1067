"""Draw a finding as text: the messages that led to it, who waits where, and what never comes.

       rank 0        rank 1
         │             │
         │────tag 2───▷│    a.py:3  send, never received
         │╌╌╌tag 1╌╌╌╌╌✗    a.py:5  waits in recv(source=0, tag=1)

`draw_finding(trace, finding)` is all that others need. It draws deadlocks and message races, and no other findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from weft.base.lazy import dataclass
from weft.base.words import plural, printable, rank_words
from weft.deadlock.blocked_ranks import Blocked, Reason, Standstill
from weft.deadlock.polling_ranks import PollingStandstill
from weft.evidence import Deadlock, OrderOnly, Other, OtherMessage, Place, Race
from weft.findings import Finding
from weft.match import Match
from weft.match import match_operations as match_of
from weft.picture.last_messages import Message, arrange_rows, last_messages_between, tag_text
from weft.picture.sequence_diagram import ENDED, WAITS, Stroke, StrokeRow, draw_diagram
from weft.terms import describe
from weft.terms.rank_progress import describe_end, has_reached_finalize
from weft.trace import Event, Trace
from weft.trace.layout import ANY_SOURCE

MAX_COLUMNS: Final = 6
MAX_LINES: Final = 20
MAX_WAITS: Final = 9
"""Rows of waiting ranks."""

_REASONS: Final = 3
"""What a call waits for is drawn for so many of its requests."""

KINDS: Final = frozenset(("deadlock", "message-race"))
"""What there are pictures of."""


def draw_finding(
    trace: Trace, finding: Finding, match: Match | None = None, *, plain: bool = False, width: int | None = None
) -> list[str]:
    """Return the picture of a finding, at most MAX_LINES lines; [] for a finding that has no picture.

    `match`: the match of the trace, if it is known; `plain`: use ASCII only; `width`: the longest line.
    """
    if finding.kind not in KINDS or isinstance(finding.evidence, OrderOnly) or not finding.events:
        return []
    match = match or match_of(trace)
    picture = _draw_deadlock(trace, finding, match) if finding.kind == "deadlock" else _draw_race(trace, finding, match)
    if picture is None:
        return []
    heads = [f"rank {rank}" for rank in picture.ranks]
    rows = [StrokeRow(row.strokes, row.marks, printable(row.note)) for row in picture.rows]
    made = draw_diagram(heads, rows, plain=plain, width=width)
    if others := len(set(finding.ranks).difference(picture.ranks)):
        made[0] += f"    and {plural(others, 'other')}"
    return made


def draw_findings(
    trace: Trace, findings: Iterable[Finding], most: int, *, plain: bool = False, width: int | None = None
) -> list[tuple[Finding, list[str]]]:
    """Return the pictures of the first findings that have one, at most `most`."""
    found: list[tuple[Finding, list[str]]] = []
    match: Match | None = None
    for finding in findings:
        if len(found) < most and finding.kind in KINDS:
            match = match or match_of(trace)
            made = draw_finding(trace, finding, match, plain=plain, width=width)
            found += [(finding, made)] if made else []
    return found


@dataclass
class _Diagram:
    """The ranks of the columns, and the rows."""

    ranks: list[int]
    rows: list[StrokeRow]


def _first_ranks(wanted: Iterable[int], ranks: int) -> list[int]:
    """Return the first of the wanted ranks for which there are columns, sorted."""
    known = [rank for rank in dict.fromkeys(wanted) if 0 <= rank < ranks]
    return sorted(known[:MAX_COLUMNS])


def _call_site_text(event: Event) -> str:
    return describe.site_suffix(event).removeprefix(" at ")


# Deadlocks


def _draw_deadlock(trace: Trace, finding: Finding, match: Match) -> _Diagram | None:
    """Return the diagram of a deadlock: the messages before it, the ranks that have ended, and those that wait."""
    polls = isinstance(finding.evidence, Deadlock) and finding.evidence.polling
    standstill = PollingStandstill(trace) if polls else Standstill(trace)
    groups = _group_waiting_ranks(standstill, finding)
    if not groups:
        return None
    ranks = _choose_ranks(trace, standstill, finding, groups)
    column = {rank: place for place, rank in enumerate(ranks)}
    waits = _waiting_rows(groups, standstill, column)
    ends = _ended_rows(trace, standstill, column)
    open_ = {event.id for events in standstill.open_calls.values() for event in events}
    open_ |= {reason.event.id for group in groups for one in group.blocked.values() for reason in one.reasons}
    sent = [message for message in last_messages_between(trace, match, ranks) if message.sent not in open_]
    room = MAX_LINES - 2 - len(ends) - len(waits)
    return _Diagram(ranks, [*arrange_rows(trace, sent, column, room), *ends, *waits])


@dataclass
class _WaitingGroup:
    """Ranks that wait in the same call of the same line."""

    blocked: dict[int, Blocked]

    @property
    def ranks(self) -> list[int]:
        """Return the ranks of the group."""
        return list(self.blocked)

    @property
    def first(self) -> Blocked:
        """Return the call in which the first rank waits."""
        return next(iter(self.blocked.values()))


def _group_waiting_ranks(standstill: Standstill, finding: Finding) -> list[_WaitingGroup]:
    """Return the waiting ranks of a finding, grouped by line, in the order of its sites."""
    found: dict[tuple[object, ...], _WaitingGroup] = defaultdict(lambda: _WaitingGroup({}))
    order = [site.rank for site in finding.sites]
    for rank in [*dict.fromkeys(order), *(rank for rank in finding.ranks if rank not in order)]:
        of = standstill.blocked.get(rank, [])
        one = next((blocked for blocked in of if blocked.event.id in finding.events), of[0] if of else None)
        if one is not None:
            key = (
                describe.call_words(one.event, peers=False),
                _call_site_text(one.event),
                one.event.comm and one.event.comm.index,
            )
            found[key].blocked[rank] = one
    return list(found.values())


def _choose_ranks(trace: Trace, standstill: Standstill, finding: Finding, groups: Sequence[_WaitingGroup]) -> list[int]:
    """Return the indices of the ranks that get a column: first the ranks of a cycle, then of each waiting group one
    rank and two of those that it waits for, then the finding's other ranks."""
    cycle = finding.evidence.cycle if isinstance(finding.evidence, Deadlock) else ()
    wanted = list(cycle) if len(cycle) <= MAX_COLUMNS else []
    for group in groups:
        rank = group.ranks[0]
        wanted.append(rank)
        whom = sorted(standstill.needs[rank].all_ranks() - {rank}) if rank in standstill.needs else []
        inside = [other for other in whom if other in finding.ranks or other in standstill.gone]
        wanted += inside[:2]
    misses = finding.evidence.near_misses if isinstance(finding.evidence, Deadlock) else ()
    wanted += [miss.source for miss in misses if isinstance(miss, OtherMessage)]
    return _first_ranks([*wanted, *finding.ranks], len(trace.ranks))


def _ended_rows(trace: Trace, standstill: Standstill, column: dict[int, int]) -> list[StrokeRow]:
    """Return a row of the diagram for each way in which ranks have ended, with a mark in the columns of these ranks."""
    told: dict[str, list[int]] = defaultdict(list)
    for rank in column:
        if rank in standstill.gone:
            of = trace.ranks[rank]
            told["finished" if has_reached_finalize(of) else describe_end(of)].append(rank)
    return [
        StrokeRow(marks={column[rank]: ENDED for rank in ranks}, note=f"{rank_words(ranks)}: {how}")
        for how, ranks in told.items()
    ]


def _waiting_rows(groups: Sequence[_WaitingGroup], standstill: Standstill, column: dict[int, int]) -> list[StrokeRow]:
    """Return the rows of ranks that wait, with a stroke for each message that does not come."""
    rows: list[StrokeRow] = []
    for group in groups:
        drawn = [rank for rank in group.ranks if rank in column]
        if not drawn:
            continue
        first = StrokeRow(
            marks=dict.fromkeys((column[rank] for rank in drawn), WAITS), note=_waiting_note(group, standstill)
        )
        mine = [first]
        for found in _missing_strokes(group, drawn, column):
            # Below the crosses a stroke needs a head to say which end it belongs to.
            stroke = found if first.has_room(found) else replace(found, kind="refused")
            row = next((row for row in mine if row.has_room(stroke)), None)
            if row is None:
                mine.append(row := StrokeRow())
            row.strokes.append(stroke)
        rows += mine
    return rows[:MAX_WAITS]


def _missing_strokes(group: _WaitingGroup, drawn: Sequence[int], column: dict[int, int]) -> list[Stroke]:
    """Return the lines to draw for what a group waits for: an arrow for each message or receive that is missing, or
    one line across the group for a collective."""
    places = sorted(column[rank] for rank in drawn)
    if group.first.reasons and group.first.reasons[0].what == "members":
        name = describe.call_words(group.first.event, peers=False).split("(")[0]
        return [Stroke(places[0], places[-1], "gathering", name)] if len(places) > 1 else []
    found = []
    for rank in drawn:
        for reason in group.blocked[rank].reasons[:_REASONS]:
            other = column.get(reason.peer, column[rank])
            if other != column[rank] and reason.what == "message":
                found.append(Stroke(other, column[rank], "missing", tag_text(reason.tag)))
            elif other != column[rank] and reason.what == "receive":
                found.append(Stroke(column[rank], other, "refused", tag_text(reason.tag)))
    return found


def _waiting_note(group: _WaitingGroup, standstill: Standstill) -> str:
    """Return `a.py:5  waits in recv(source=0, tag=1)`, and for which ranks if no stroke shows it."""
    ranks, event = group.ranks, group.first.event
    call = describe.call_words(event, peers=len(ranks) == 1)
    verb = "poll{}" if ranks[0] in standstill.polling else "wait{} in"
    text = f"{_call_site_text(event)}  {verb.format('s' * (len(ranks) == 1))} {call}".strip()
    reasons = group.first.reasons
    if reasons and reasons[0].event != event:
        text += f"() for {_posting_calls_text(reasons)}"
    elif not reasons or reasons[0].what not in ("message", "receive") or reasons[0].peer == ANY_SOURCE:
        whom = frozenset().union(*(standstill.needs[rank].all_ranks() for rank in ranks if rank in standstill.needs))
        whom = whom.difference(ranks) if len(ranks) > 1 else whom
        text += f" for {rank_words(whom)}" if whom and len(whom) <= MAX_COLUMNS else ""
    return text


def _posting_calls_text(reasons: Sequence[Reason]) -> str:
    """Return text for the calls that posted the operations which a rank waits for: the first with its call site, then
    how many others there are."""
    asked = list(
        dict.fromkeys(f"{describe.call_words(reason.event)} at {_call_site_text(reason.event)}" for reason in reasons)
    )
    return asked[0] + (f" and {len(asked) - 1} more" if len(asked) > 1 else "")


# Races


def _draw_race(trace: Trace, finding: Finding, match: Match) -> _Diagram | None:
    """Return the diagram of a message race: the message that a receive took, and those that it could have taken."""
    race = finding.evidence
    if not isinstance(race, Race) or not race.others:
        return None
    receive = finding.events[0]
    ranks = _first_ranks([receive[0], race.took.rank, *(other.rank for other in race.others)], len(trace.ranks))
    column = {rank: place for place, rank in enumerate(ranks)}
    call = trace.event(*receive)
    first = _race_row(trace, race.took, "taken", column, receive[0])
    first.note += f"  taken by {describe.call_words(call)} at {_call_site_text(call)}"
    rows = [first]
    for other in race.others:
        if other.rank in column:
            row = _race_row(trace, other, "lost" if other.taken_by is None else "taken", column, receive[0])
            row.note += "  could have come first" + (", never received" if other.taken_by is None else "")
            rows.append(row)
    return _Diagram(ranks, rows)


def _race_row(trace: Trace, message: Place | Other, kind: str, column: dict[int, int], receiver: int) -> StrokeRow:
    """Return the diagram's row for one message of a race: an arrow from the sender's column to the receiver's, with the
    call site as note. A message of a rank to itself has no arrow.
    """
    event = trace.event(message.rank, message.event)
    start, end = column[message.rank], column[receiver]
    strokes = [Stroke(start, end, "taken" if kind == "taken" else "lost", f"tag {event.tag}")] if start != end else []
    return StrokeRow(strokes, note=_call_site_text(event))


__all__ = ["KINDS", "Message", "draw_finding", "draw_findings"]
