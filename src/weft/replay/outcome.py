"""What another outcome changed: where its run parts from the record, which messages are taken, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.match import NONE, Match, Post
from weft.replay.plan import POLLS
from weft.replay.points import EventId
from weft.terms.cited import said
from weft.terms.words import plural, rank_words
from weft.trace import Flag, Rank, Trace

_HELD = ("function", "peer", "tag", "count", "comm")
NAMED = 3
"""Findings that are named, of those that appear and of those that vanish."""


def parts(record: Trace, other: Trace) -> tuple[EventId, EventId] | None:
    """The first call that differs, in the record and in the other run; None where every call is the same."""
    found = []
    for one, two in zip(record.ranks, other.ranks, strict=False):
        for slot in range(min(len(one.threads), len(two.threads))):
            before, after = _calls(one, slot), _calls(two, slot)
            size = min(len(before), len(after))
            same = np.ones(size, np.bool_)
            for name in _HELD:
                same &= one.events[name][before[:size]] == two.events[name][after[:size]]
            if not same.all():
                k = int(np.argmin(same))
                at = int(two.enter_ns(slice(int(after[k]), int(after[k]) + 1))[0])
                found.append((at, (one.index, int(before[k])), (two.index, int(after[k]))))
    return min(found)[1:] if found else None


def _calls(rank: Rank, slot: int) -> NDArray[np.int64]:
    """The events of a thread, without polls that failed: how many there are is chance."""
    flags = rank.events["flags"]
    failed = (flags & (Flag.CLOSED | Flag.TRUE) == Flag.CLOSED) & rank.trace.functions.mask(_POLLS)[
        rank.events["function"]
    ]
    return np.flatnonzero((rank.event_threads == slot) & ~failed)


_POLLS = [f"MPI_{name}" for name in POLLS]


def changed_matches(before: Match, after: Match) -> list[tuple[int, int, int]]:
    """Ranks whose receives take messages of other ranks, or none: rank, how many, of how many."""
    found = []
    for rank in range(len(before.trace.ranks)):
        one, two = (_taken(match, rank) for match in (before, after))
        size = max(len(one), len(two))
        differing = size - int((one[: len(two)] == two[: len(one)]).sum())
        if differing:
            found.append((rank, differing, size))
    return found


def _taken(match: Match, rank: int) -> NDArray[np.generic]:
    """Who sent the message of each receive of a rank, and with which tag, in posting order; -1: it took none."""
    if rank >= len(match.trace.ranks):
        return np.zeros(0, np.int64)
    part = match.recvs.of_rank(rank)
    taken = match.recvs.partner[part] != NONE
    return np.where(
        taken, match.recvs.peer[part].astype(np.int64) << 32 | match.recvs.tag[part].astype(np.int64) & 0xFFFFFFFF, -1
    )


def told(
    record: Match, other: Match, forced: EventId, findings: tuple[Sequence[Finding], Sequence[Finding]]
) -> list[str]:
    """What the outcome changed, a line each."""
    lines = _parting(record, other, forced)
    changed = [
        f"{rank_words([rank])} {n} of {plural(size, 'receive')}" for rank, n, size in changed_matches(record, other)
    ]
    lines.append(
        f"other messages are taken by {'; '.join(changed)}" if changed else "every receive takes the same message"
    )
    before, after = (f"{t.run.get('ended')} with status {t.run.get('exit_code')}" for t in (record.trace, other.trace))
    lines.append(f"it {after}" + (", as in the record" if before == after else f"; the record {before}"))
    known, new = ({_key(finding): finding for finding in some} for some in findings)
    for verb, some in (
        ("appears", [new[k] for k in new if k not in known]),
        ("vanishes", [known[k] for k in known if k not in new]),
    ):
        lines += [f"{verb}: {finding.message} [{finding.kind}]" for finding in some[:NAMED]]
        lines += [f"{verb}: {plural(len(some) - NAMED, 'more finding')}"] if len(some) > NAMED else []
    return lines


def _parting(record: Match, other: Match, forced: EventId) -> list[str]:
    differing = parts(record.trace, other.trace)
    if differing is None:
        return [f"after event {forced[1]} of rank {forced[0]} every rank makes the calls of the record"]
    before, now = differing
    return [
        f"the runs differ from here on: event {now[1]} of rank {now[0]}, {_with_message(other, now)}",
        f"  in the record it is {_with_message(record, before)}",
    ]


def _with_message(match: Match, event: EventId) -> str:
    """A call, and for a receive of any source whose message it took."""
    call, rows = said(match.trace.event(*event)), match.receives_of(event)
    if not rows or not match.recvs.flags[rows[0]] & Post.ANY_SOURCE or match.recvs.partner[rows[0]] == NONE:
        return call
    return f"{call}, which takes the message of rank {int(match.recvs.peer[rows[0]])}"


def _key(finding: Finding) -> tuple[object, ...]:
    """What makes two findings of two runs the same: kind, ranks and places, whichever came first."""
    return finding.kind, frozenset(finding.ranks), frozenset((s.call, s.file, s.line) for s in finding.sites)


def worth_telling(findings: Iterable[Finding]) -> list[Finding]:
    """Errors and warnings; notes on waiting times differ from run to run."""
    return [finding for finding in findings if finding.severity != "note"]
