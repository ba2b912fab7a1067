"""Locations in a recorded run that a person names.

RANK:EVENT             an event by its index (`weft dump` shows it) [RANK:]FILE:LINE[#N]   the N-th call (the first)
that the record has from this line [RANK:]NAME[#N]        likewise by the name of an MPI function, or of the program's
function that makes the call RANK:from=N[,tag=N][#N]  the N-th receive (the first) of a rank that takes a message of
rank N, with this tag t=SECONDS              every rank's last call that began before this time of the record finding:N
the events of the N-th finding of `weft report`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.words import plural
from weft.errors import UsageError
from weft.findings import Finding
from weft.match import NONE, match_operations
from weft.trace import Trace
from weft.trace.sites import CallSite

INSTRUCTION: Final = r"\*[^\s#]+\+(?:0x[0-9a-fA-F]+|\d+)"
"""An instruction, by the file that it is of and its place there: the same in every replay, as addresses are not."""

FUNCTION: Final = r"[A-Za-z_]\w*(?:\.\w+|\.?<[^#]*>|::~?\w+|::operator[^\s#(]+)*(?:\([^#]*\))?"
"""A function as a stack shows it: of C++ also with classes, template arguments and parameters."""


@dataclass(frozen=True, slots=True)
class SourcePoint:
    """A place in the source, as a person wrote it. `name`: a function, or an INSTRUCTION."""

    text: str
    rank: int | None
    file: str | None
    line: int | None
    name: str | None
    visit: int


def require_event(trace: Trace, event: EventId, text: str) -> EventId:
    """Return an event that a person named. Raises UsageError, which cites `text`, if the run has no such event."""
    rank, index = event
    if rank >= len(trace.ranks):
        raise UsageError(f"{text}: the run has no rank {rank}, only 0 to {len(trace.ranks) - 1}")
    count = len(trace.ranks[rank])
    if not 0 <= index < count:
        what = f"events 0 to {count - 1}" if count else "no events"
        raise UsageError(f"{text}: rank {rank} has no event {index}; its record has {what}")
    return event


def parse_place(text: str) -> SourcePoint:
    """Return the place in the source that a person named: `[RANK:]FILE:LINE[#N]`, `[RANK:]NAME[#N]`, or
    `[RANK:]*MODULE+OFFSET[#N]`. UsageError for any other text.
    """
    found = re.fullmatch(rf"(?:(\d+):)?(?:(.+):(\d+)|({FUNCTION}|{INSTRUCTION}))(?:#(\d+))?", text)
    if found is None or (found[5] is not None and int(found[5]) < 1):
        raise UsageError(f"{text!r} is not a place: write RANK:EVENT, FILE:LINE, FUNCTION, RANK:from=RANK, t=SECONDS "
                         "or finding:N")  # fmt: skip
    rank = int(found[1]) if found[1] else None
    return SourcePoint(text, rank, found[2], int(found[3]) if found[3] else None, found[4], int(found[5] or 1))


def find_visit_on_each_rank(trace: Trace, place: SourcePoint) -> list[EventId]:
    """Return each rank's N-th call from a place in the source (N is `place.visit`), the earliest first. UsageError if
    no rank has so many.
    """
    if place.rank is not None and place.rank >= len(trace.ranks):
        raise UsageError(f"{place.text}: the run has no rank {place.rank}, only 0 to {len(trace.ranks) - 1}")
    found: list[tuple[int, EventId]] = []
    most = 0
    for rank in trace.ranks:
        if place.rank not in (None, rank.index) or not len(rank):
            continue
        rows = np.flatnonzero(_calls_from_place(rank, place))
        most = max(most, len(rows))
        if len(rows) >= place.visit:
            row = int(rows[place.visit - 1])
            found.append((int(rank.enter_ns(slice(row, row + 1))[0]), EventId(rank.index, row)))
    if not found:
        where = f"rank {place.rank}" if place.rank is not None else "any rank"
        times = f"only {most} call{'s' * (most > 1)}" if most else f"no {trace.system.name} call"
        raise UsageError(
            f"{place.text}: the record has {times} at this place on {where}{_suggest_nearby_places(trace, place)}"
        )
    return [event for _, event in sorted(found)]


def _suggest_nearby_places(trace: Trace, place: SourcePoint) -> str:
    """Return the end of a message that says at which lines near a place the record does have calls."""
    sites = {rank.site(int(s)) for rank in trace.ranks if len(rank) for s in np.unique(rank.events["site"])}
    lines = sorted({s.line for s in sites if s.line and s.file and place.file and _is_file(s.file, place.file)})
    if lines and place.line is not None:
        nearest = sorted(sorted(lines, key=lambda line: abs(line - int(place.line or 0)))[:3])
        return f"; the nearest lines with one are {', '.join(map(str, nearest))}"
    return f"; `weft dump {trace.path}` shows which calls it has"


def _is_file(file: str, wanted: str) -> bool:
    return file == wanted or file.endswith("/" + wanted)


def find_all_visits(trace: Trace, place: SourcePoint) -> list[EventId]:
    """Return all calls of the record from a place, rank by rank in order; if the place has #N, only each rank's
    N-th.
    """
    found: list[EventId] = []
    for rank in trace.ranks:
        if place.rank in (None, rank.index) and len(rank):
            rows = np.flatnonzero(_calls_from_place(rank, place)).tolist()
            rows = rows[place.visit - 1 : place.visit] if "#" in place.text else rows
            found += [EventId(rank.index, row) for row in rows]
    return found


def _calls_from_place(rank: Any, place: SourcePoint) -> NDArray[np.bool_]:
    """Return a mask of a rank's events that are calls from a place in the source. If no call has its own line there,
    calls whose callers have a line there are taken.
    """
    events = rank.events
    sites, inverse = np.unique(events["site"], return_inverse=True)
    if place.name is not None:
        mask: NDArray[np.bool_] = rank.trace.functions.mask([place.name])[events["function"]]
        if mask.any():
            return mask
    known = [rank.site(int(s)) for s in sites]
    here = np.array([_site_is_at(site, place) for site in known], bool)
    if not here.any():  # a line that calls what calls MPI
        here = np.array([any(_site_is_at(caller, place) for caller in site.callers) for site in known], bool)
    return here[inverse]


def _site_is_at(site: CallSite, place: SourcePoint) -> bool:
    """Return whether a call site is in the function, or at the file and line, that a place names."""
    if place.name is not None:
        return site.function == place.name
    return site.line == place.line and site.file is not None and _is_file(site.file, str(place.file))


def resolve_location(trace: Trace, text: str, findings: Callable[[], Sequence[Finding]]) -> list[EventId]:
    """Return the events that a location names, such as RANK:EVENT, FILE:LINE or finding:N. UsageError if it names
    none."""
    if (event := EventId.parse(text)) is not None:
        return [require_event(trace, event, text)]
    if found := re.fullmatch(r"finding:(\d+)", text):
        all_findings = findings()
        number = int(found[1])
        if not 1 <= number <= len(all_findings):
            have = "1 finding" if len(all_findings) == 1 else f"{len(all_findings)} findings"
            raise UsageError(f"{text}: the report has {have}, counted from 1 (`weft report {trace.path}`)")
        events = list(all_findings[number - 1].events)
        if not events:
            raise UsageError(f"{text}: this finding names no event of the record")
        return events
    if found := re.fullmatch(r"t=(\d+(?:\.\d*)?|\.\d+)s?", text):
        return _last_calls_before(trace, float(found[1]), text)
    if found := re.fullmatch(r"(\d+):from=(\d+)(?:,tag=(\d+))?(?:#([1-9]\d*))?", text):
        return [_find_receive(trace, found)]
    return find_visit_on_each_rank(trace, parse_place(text))[:1]


def events_to_stop_before(trace: Trace, text: str, findings: Callable[[], Sequence[Finding]]) -> list[EventId]:
    """Return the events before which a replay has to stop for a location. For a finding, these are only each rank's
    first event: a later one may be out of reach while other ranks stand before theirs.
    """
    events = resolve_location(trace, text, findings)
    if not text.startswith("finding:"):
        return events
    first: dict[int, int] = {}
    for rank, event in events:
        first[rank] = min(event, first.get(rank, event))
    return [EventId(rank, event) for rank, event in first.items()]


def _find_receive(trace: Trace, named: re.Match[str]) -> EventId:
    """Return the event that posts a rank's N-th receive of a message from a source, and with a tag if one is named
    (demand points of dbxR-II). `named`: the match of the location's text. UsageError if the record has fewer.
    """
    text, rank, source, tag, visit = named[0], int(named[1]), int(named[2]), named[3], int(named[4] or 1)
    for one in (rank, source):
        if one >= len(trace.ranks):
            raise UsageError(f"{text}: the run has no rank {one}, only 0 to {len(trace.ranks) - 1}")
    recvs = match_operations(trace).recvs
    part = recvs.of_rank(rank)
    taken = (recvs.partner[part] != NONE) & (recvs.peer[part] == source)
    if tag is not None:
        taken &= recvs.tag[part] == int(tag)
    rows = part.start + np.flatnonzero(taken)
    if len(rows) < visit:
        what = f"rank {source}" + (f" with tag {tag}" if tag is not None else "")
        raise UsageError(f"{text}: rank {rank} takes {plural(len(rows), 'message')} of {what} in the record")
    return recvs.id(int(rows[visit - 1]))


def _last_calls_before(trace: Trace, seconds: float, text: str) -> list[EventId]:
    """Return each rank's last call that began before a time (seconds since the first call of any rank). UsageError if
    there is none.
    """
    starts = [int(r.enter_ns(slice(0, 1))[0]) for r in trace.ranks if len(r)]
    limit = min(starts, default=0) + int(seconds * 1e9)
    found = []
    for rank in trace.ranks:
        before = int(np.searchsorted(rank.enter_ns(), limit)) if len(rank) else 0
        if before:
            found.append(EventId(rank.index, before - 1))
    if not found:
        raise UsageError(f"{text}: no call had begun by then")
    return found
