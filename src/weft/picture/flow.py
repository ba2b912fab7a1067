"""A finding as a picture in text: the messages that led to it, who waits where, and what never comes.

       rank 0        rank 1
         │             │
         │────tag 2───▷│    a.py:3  send, never received
         │╌╌╌tag 1╌╌╌╌╌✗    a.py:5  waits in recv(source=0, tag=1)

`lines(trace, finding)` is all that others need. It draws deadlocks and message races; of other findings it has nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from weft.base.lazy import dataclass
from weft.base.words import plural, printable, rank_words
from weft.deadlock.blocked_ranks import Blocked, Reason, Standstill
from weft.evidence import Deadlock, OrderOnly, Other, OtherMessage, Place, Race
from weft.findings import Finding
from weft.match import Match
from weft.match import match as match_of
from weft.picture.exchange import Message, between, laid_out, tag_text
from weft.picture.strokes import ENDED, WAITS, Stroke, StrokeRow, draw
from weft.terms import describe
from weft.terms.rank_progress import end_of, reached_finalize
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


def lines(
    trace: Trace, finding: Finding, match: Match | None = None, *, plain: bool = False, width: int | None = None
) -> list[str]:
    """The picture of a finding, at most MAX_LINES lines; none for a finding that has no picture.

    `match` saves making it again. `plain`: in ASCII; `width`: how long a line may be.
    """
    if finding.kind not in KINDS or isinstance(finding.evidence, OrderOnly) or not finding.events:
        return []
    match = match or match_of(trace)
    picture = _deadlock(trace, finding, match) if finding.kind == "deadlock" else _race(trace, finding, match)
    if picture is None:
        return []
    heads = [f"rank {rank}" for rank in picture.ranks]
    rows = [StrokeRow(row.strokes, row.marks, printable(row.note)) for row in picture.rows]
    made = draw(heads, rows, plain=plain, width=width)
    if others := len(set(finding.ranks).difference(picture.ranks)):
        made[0] += f"    and {plural(others, 'other')}"
    return made


def of_report(
    trace: Trace, findings: Iterable[Finding], most: int, *, plain: bool = False, width: int | None = None
) -> list[tuple[Finding, list[str]]]:
    """The pictures of the first findings that have one, `most` at most."""
    found: list[tuple[Finding, list[str]]] = []
    match: Match | None = None
    for finding in findings:
        if len(found) < most and finding.kind in KINDS:
            match = match or match_of(trace)
            made = lines(trace, finding, match, plain=plain, width=width)
            found += [(finding, made)] if made else []
    return found


@dataclass
class _Picture:
    """The ranks of the columns, and the rows."""

    ranks: list[int]
    rows: list[StrokeRow]


def _some(wanted: Iterable[int], ranks: int) -> list[int]:
    """The first ranks that are wanted, as many as have room, in their order."""
    known = [rank for rank in dict.fromkeys(wanted) if 0 <= rank < ranks]
    return sorted(known[:MAX_COLUMNS])


def _where(event: Event) -> str:
    return describe.where(event).removeprefix(" at ")


# Deadlocks


def _deadlock(trace: Trace, finding: Finding, match: Match) -> _Picture | None:
    standstill = Standstill(trace)
    groups = _grouped(standstill, finding)
    if not groups:
        return None
    ranks = _columns(trace, standstill, finding, groups)
    column = {rank: place for place, rank in enumerate(ranks)}
    waits = _waits(groups, standstill, column)
    ends = _ends(trace, standstill, column)
    open_ = {event.id for events in standstill.open_calls.values() for event in events}
    open_ |= {reason.event.id for group in groups for one in group.blocked.values() for reason in one.reasons}
    sent = [message for message in between(trace, match, ranks) if message.sent not in open_]
    room = MAX_LINES - 2 - len(ends) - len(waits)
    return _Picture(ranks, [*laid_out(trace, sent, column, room), *ends, *waits])


@dataclass
class _Group:
    """Ranks that wait in the same call of the same line."""

    blocked: dict[int, Blocked]

    @property
    def ranks(self) -> list[int]:
        """Who they are."""
        return list(self.blocked)

    @property
    def one(self) -> Blocked:
        """What the first of them waits in."""
        return next(iter(self.blocked.values()))


def _grouped(standstill: Standstill, finding: Finding) -> list[_Group]:
    """The waiting ranks of a finding, those of one line together, in the order of its sites."""
    found: dict[tuple[object, ...], _Group] = defaultdict(lambda: _Group({}))
    order = [site.rank for site in finding.sites]
    for rank in [*dict.fromkeys(order), *(rank for rank in finding.ranks if rank not in order)]:
        of = standstill.blocked.get(rank, [])
        one = next((blocked for blocked in of if blocked.event.id in finding.events), of[0] if of else None)
        if one is not None:
            key = describe.call(one.event, peers=False), _where(one.event), one.event.comm and one.event.comm.index
            found[key].blocked[rank] = one
    return list(found.values())


def _columns(trace: Trace, standstill: Standstill, finding: Finding, groups: Sequence[_Group]) -> list[int]:
    """Which ranks are drawn: a cycle first, one of each line and for whom it waits, then the others."""
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
    return _some([*wanted, *finding.ranks], len(trace.ranks))


def _ends(trace: Trace, standstill: Standstill, column: dict[int, int]) -> list[StrokeRow]:
    """A row for those who are gone, by how they ended."""
    told: dict[str, list[int]] = defaultdict(list)
    for rank in column:
        if rank in standstill.gone:
            of = trace.ranks[rank]
            told["finished" if reached_finalize(of) else end_of(of)].append(rank)
    return [
        StrokeRow(marks={column[rank]: ENDED for rank in ranks}, note=f"{rank_words(ranks)}: {how}")
        for how, ranks in told.items()
    ]


def _waits(groups: Sequence[_Group], standstill: Standstill, column: dict[int, int]) -> list[StrokeRow]:
    """The rows of those who wait, with a stroke for what does not come."""
    rows: list[StrokeRow] = []
    for group in groups:
        drawn = [rank for rank in group.ranks if rank in column]
        if not drawn:
            continue
        first = StrokeRow(marks=dict.fromkeys((column[rank] for rank in drawn), WAITS), note=_note(group, standstill))
        mine = [first]
        for found in _strokes(group, drawn, column):
            # Below the crosses a stroke needs a head to say which end it belongs to.
            stroke = found if first.has_room(found) else replace(found, kind="refused")
            row = next((row for row in mine if row.has_room(stroke)), None)
            if row is None:
                mine.append(row := StrokeRow())
            row.strokes.append(stroke)
        rows += mine
    return rows[:MAX_WAITS]


def _strokes(group: _Group, drawn: Sequence[int], column: dict[int, int]) -> list[Stroke]:
    places = sorted(column[rank] for rank in drawn)
    if group.one.reasons and group.one.reasons[0].what == "members":
        name = describe.call(group.one.event, peers=False).split("(")[0]
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


def _note(group: _Group, standstill: Standstill) -> str:
    """`a.py:5  waits in recv(source=0, tag=1)`, and for whom where no stroke shows it."""
    ranks, event = group.ranks, group.one.event
    call = describe.call(event, peers=len(ranks) == 1)
    text = f"{_where(event)}  {'waits' if len(ranks) == 1 else 'wait'} in {call}".strip()
    reasons = group.one.reasons
    if reasons and reasons[0].event != event:
        text += f" for {_asked(reasons)}"
    elif not reasons or reasons[0].what not in ("message", "receive") or reasons[0].peer == ANY_SOURCE:
        whom = frozenset().union(*(standstill.needs[rank].all_ranks() for rank in ranks if rank in standstill.needs))
        whom = whom.difference(ranks) if len(ranks) > 1 else whom
        text += f" for {rank_words(whom)}" if whom and len(whom) <= MAX_COLUMNS else ""
    return text


def _asked(reasons: Sequence[Reason]) -> str:
    """The calls that began what is waited for."""
    asked = list(dict.fromkeys(f"{describe.call(reason.event)} at {_where(reason.event)}" for reason in reasons))
    return asked[0] + (f" and {len(asked) - 1} more" if len(asked) > 1 else "")


# Races


def _race(trace: Trace, finding: Finding, match: Match) -> _Picture | None:
    race = finding.evidence
    if not isinstance(race, Race) or not race.others:
        return None
    receive = finding.events[0]
    ranks = _some([receive[0], race.took.rank, *(other.rank for other in race.others)], len(trace.ranks))
    column = {rank: place for place, rank in enumerate(ranks)}
    call = trace.event(*receive)
    first = _racing(trace, race.took, "taken", column, receive[0])
    first.note += f"  taken by {describe.call(call)} at {_where(call)}"
    rows = [first]
    for other in race.others:
        if other.rank in column:
            row = _racing(trace, other, "lost" if other.taken_by is None else "taken", column, receive[0])
            row.note += "  could have come first" + (", never received" if other.taken_by is None else "")
            rows.append(row)
    return _Picture(ranks, rows)


def _racing(trace: Trace, message: Place | Other, kind: str, column: dict[int, int], receiver: int) -> StrokeRow:
    """The row of one message of a race."""
    event = trace.event(message.rank, message.event)
    start, end = column[message.rank], column[receiver]
    strokes = [Stroke(start, end, "taken" if kind == "taken" else "lost", f"tag {event.tag}")] if start != end else []
    return StrokeRow(strokes, note=_where(event))


__all__ = ["KINDS", "Message", "lines", "of_report"]
