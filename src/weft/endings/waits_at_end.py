"""Say who waited for whom when a run was ended from outside: that is the story of a run that hung until Ctrl-C."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np

from weft.base.words import listed, printable, rank_words
from weft.deadlock import STOOD_NS
from weft.deadlock.blocked_ranks import Reason, Standstill
from weft.deadlock.unfinished_collectives import find_unfinished_collectives
from weft.endings.end_causes import End, How, find_user_site
from weft.terms.describe import call_words, communicator_words, site_suffix
from weft.terms.library_code import is_library_code
from weft.trace import Event, Trace
from weft.trace.sites import CallSite

MAX_LINES: Final = 4
MAX_PLACES: Final = 4
_LAST: Final = 64
"""Calls before the end among which a poll is looked for: what a rank does on its way out comes after it."""
_LEAST_POLLS: Final = 10


def describe_waits(trace: Trace, found: Sequence[End], reported: Collection[int] = ()) -> list[str]:
    """Return a line for each call in which ranks waited when the run ended: for whom, and where these ranks were. The
    lines do not claim a deadlock, since a rank outside MPI might have gone on. `reported`: ranks to leave out."""
    if trace.run.get("ended") not in ("interrupted", "killed") or not any(end.how is How.SIGNAL for end in found):
        return []
    standstill = Standstill(trace.at_end)
    outside = [end.rank.index for end in found if end.how is How.SIGNAL and not end.open_calls]
    told = standstill.stuck_despite(outside)  # the finding of the deadlock says that
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    reasons: dict[tuple[str, tuple[int, ...]], Reason] = {}
    for rank, blocked in sorted(standstill.blocked.items()):
        reason = next((r for b in blocked for r in b.reasons if r.need.all_ranks()), None)
        if reason is None or rank in told or rank in reported:
            continue
        key = (call_words(blocked[0].event) + site_suffix(blocked[0].event), tuple(sorted(reason.need.all_ranks())))
        groups.setdefault(key, []).append(rank)
        reasons[key] = reason
    ends = {end.rank.index: end for end in found}
    waiting = frozenset(standstill.blocked)
    lines = []
    for (what, missing), ranks in list(groups.items())[:MAX_LINES]:
        elsewhere = [ends[index] for index in missing if index not in waiting]
        lines.append(printable(_describe_wait(ranks, what, reasons[what, missing], list(missing), elsewhere)))
    return lines + _describe_stuck_library(standstill, ends)


def _describe_stuck_library(standstill: Standstill, ends: Mapping[int, End]) -> list[str]:
    """Return a line for each collective in which all members had been for some time. No call is missing then: the MPI
    library itself does not complete it."""
    return [
        f"all members of {communicator_words(event.comm)} are in {call_words(event)}{site_suffix(event)}: the MPI "
        f"library itself does "
        "not complete the call"
        for events in find_unfinished_collectives(standstill)[:MAX_LINES]
        if (event := events[0]).comm is not None
        and all(ends[e.rank.index].time_ns - e.enter_ns >= STOOD_NS for e in events)
    ]


def _describe_wait(ranks: list[int], what: str, reason: Reason, missing: list[int], elsewhere: list[End]) -> str:
    """Return a sentence such as `ranks 1 and 2 waited in barrier at pool.py:10 for rank 0, which had not entered it:
    rank 0 was ...`. `what`: the words for their call; `elsewhere`: the ends of the missing ranks."""
    absent = ", which had not entered it" if reason.what == "members" else ""
    said = f"{rank_words(ranks)} waited in {what} for {rank_words(missing)}{absent}"
    places = [f"rank {end.rank.index} {_describe_place(end)}" for end in elsewhere[:MAX_PLACES]]
    return f"{said}: {listed(places)}" if places else said


def _describe_place(end: End) -> str:
    """Return words for what a rank did when it was ended: `polled iprobe(source=1, tag=5) at a.py:7 in vain for 5.7
    s`, at which line it was outside MPI, or both."""
    polls = [
        f"polled {call_words(poll)}{site_suffix(poll)} in vain for {_seconds(poll)}" for poll in _find_last_polls(end)
    ]
    site = find_user_site(end.ending) if end.ending is not None else None
    at = [f"was outside MPI{_at(site)}"] if site is not None and not (polls and is_library_code(site)) else []
    return " and ".join([*at, *polls]) or "made no further MPI call"


def _at(site: CallSite) -> str:
    return f" at {PurePath(site.file).name}:{site.line}" if site.file else ""


def _find_last_polls(end: End) -> list[Event]:
    """Return the polls (probes or tests) that the threads of a rank repeated without success when it was ended, at
    most one a thread."""
    rank = end.rank
    first = max(0, len(rank.events) - _LAST)
    rows = first + np.flatnonzero(rank.trace.functions.failed_polls(rank.events[first:]))
    polls = [event for row in rows if (event := rank.event(int(row))).enter_ns < end.time_ns]
    last = {poll.thread.slot: poll for poll in polls}
    return [poll for poll in last.values() if poll.polls >= _LEAST_POLLS]


def _seconds(event: Event) -> str:
    return f"{((event.exit_ns or event.enter_ns) - event.enter_ns) / 1e9:.3g} s"
