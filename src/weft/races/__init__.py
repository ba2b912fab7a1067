"""Message races: wildcard receives that could have taken another message.

`detect` gives all of them as arrays, `served` which of them are of order only; `find` says them as findings, those that
no other race influences first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId, Forced
from weft.base.facts import changed
from weft.base.words import listed, plural, rank_words
from weft.evidence import OrderOnly, Other, Place, Race, Receive, translate_place
from weft.findings import Finding, Site
from weft.match import NONE, Match, Post, Posts
from weft.order import Order
from weft.races.outcomes import find_races_without_exchange, worst_outcome
from weft.races.search import Races, can_exchange, detect_races, select_settled
from weft.races.service import ANSWERED, SEEN, classify_benign
from weft.terms import describe
from weft.terms.argument_columns import sorted_distinct
from weft.terms.library_code import is_library_file
from weft.trace import Communicator, Trace

__all__ = [
    "Races",
    "can_exchange",
    "classify_benign",
    "detect_races",
    "find",
    "merge_notes",
    "name_earlier_races",
    "select_settled",
    "translate_to_run",
]

MAX_FINDINGS_PER_SITE: Final = 200
"""The most findings for one line of one rank; the last one counts the rest."""

MAX_NAMED_MESSAGES: Final = 3
"""The most racing messages that a sentence names."""


def find(trace: Trace, match: Match, order: Order) -> list[Finding]:
    """Return a finding for each message race, with the receive, the message that it took, and those that could have
    come first instead. Races that change only the order in which a rank serves others get one note for each line.
    """
    races = detect_races(match, order)
    if trace.until is not None:
        races = select_settled(match, races)
    service = classify_benign(match, order, races)
    harmless = service != 0
    lines = _site_keys(trace, match, races)
    # First what no other race influences, and of that what comes to another end.
    by_influence = np.lexsort((~find_races_without_exchange(match, races), races.influenced))
    by_influence = by_influence[~harmless[by_influence]]
    key = lines[by_influence]
    by_line = np.argsort(key, kind="stable")
    ordered = key[by_line]
    nth = np.arange(len(key)) - np.searchsorted(ordered, ordered)
    times = np.searchsorted(ordered, ordered, side="right") - np.searchsorted(ordered, ordered)
    chosen = np.flatnonzero(nth < MAX_FINDINGS_PER_SITE)
    chosen = chosen[np.argsort(by_line[chosen])]
    found = _find_benign_notes(trace, match, races, lines, service)
    for i in chosen.tolist():
        last = nth[i] == min(int(times[i]), MAX_FINDINGS_PER_SITE) - 1
        beyond = max(0, int(times[i]) - MAX_FINDINGS_PER_SITE) if last else 0
        found.append(_race_finding(trace, match, races, int(by_influence[by_line[i]]), beyond))
    return found


def _site_keys(trace: Trace, match: Match, races: Races) -> NDArray[np.int64]:
    """Return for each race a number that is equal for races of the same rank and call site."""
    rank, event = np.zeros(len(races), np.int64), np.zeros(len(races), np.int64)
    for posts, mask in ((match.recvs, ~races.probe), (match.probes, races.probe)):
        rows = races.row[mask]
        rank[mask] = np.searchsorted(posts.first, rows.astype(np.uint64), side="right") - 1
        event[mask] = posts.event[rows]
    site = np.zeros(len(races), np.int64)
    for one in np.flatnonzero(np.bincount(rank)).tolist() if len(races) else ():
        mine = rank == one
        site[mine] = trace.ranks[one].events["site"][event[mine]]
    return rank << 32 | site


def _find_benign_notes(
    trace: Trace, match: Match, races: Races, lines: NDArray[np.int64], benign_kinds: NDArray[np.uint8]
) -> list[Finding]:
    """Return a note for each call site with races that change nothing but an order.

    `lines`: by race its call site. `benign_kinds`: by race what makes it benign, 0 if it is not.
    """
    chosen = np.flatnonzero((benign_kinds != 0) & (benign_kinds != SEEN))
    places = sorted_distinct(lines[chosen]).tolist()
    return [_benign_note(trace, match, races, benign_kinds, chosen[lines[chosen] == place]) for place in places]


def _benign_note(
    trace: Trace, match: Match, races: Races, benign_kinds: NDArray[np.uint8], race_indices: NDArray[np.int64]
) -> Finding:
    """Return the note on the races of one call site that change nothing but an order. `race_indices`: these races."""
    mine: list[int] = race_indices.tolist()
    answered = bool((benign_kinds[race_indices] == ANSWERED).all())
    posts = _posts_of_race(match, races, mine[0])
    took = match.sends.id(int(posts.partner[races.row[mine[0]]]))
    clients = _client_ranks(match, races, posts, race_indices)
    events = [posts.id(int(races.row[mine[0]])), took]
    return _make_benign_note(trace, events, clients, len(mine), answers_each=answered)


def _make_benign_note(
    trace: Trace, events: Sequence[EventId], client_ranks: Collection[int], race_count: int, *, answers_each: bool
) -> Finding:
    """Make the note that a rank serves other ranks in the order in which their messages come.

    `events`: a racing receive and the send that it took. `client_ranks`: the ranks that are served. `race_count`: how
    often. `answers_each`: it sends each an answer, else it receives the rest from each by its rank.
    """
    rank = events[0][0]
    site = describe.finding_site(trace.event(*events[0]))
    server = trace.ranks[rank].serves
    who = f"the group server (rank {rank})" if server else f"rank {rank}"
    at = "" if server else f" at {_line_text(site)}"
    how = "answers each" if answers_each else "then receives the rest from each, naming its rank"
    return Finding(
        kind="message-race",
        severity="note",
        certainty="certain",
        message=(
            f"order only: {who} serves {rank_words(client_ranks)}{at} in the order in which their messages arrive, "
            f"and {how}. In another run they may arrive in another order ({plural(race_count, 'receive')} of this run "
            "could have taken another message). Nothing needs fixing unless the result depends on that order"
        ),
        ranks=(rank, *sorted(client_ranks)),
        sites=tuple(describe.finding_site(trace.event(*event)) for event in events),
        events=tuple(events),
        evidence=OrderOnly(order_only=True, times=race_count, answered=answers_each),
        cause=f"order only {site.call} {site.file}:{site.line}" if site.line else None,
    )


def merge_notes(trace: Trace, notes: Sequence[Finding]) -> Finding:
    """Merge notes on the same line from several parts of a run into one."""
    clients = {rank for note in notes for rank in note.ranks[1:]}
    held = [note.evidence for note in notes if isinstance(note.evidence, OrderOnly)]
    answered, times = all(one.answered for one in held), sum(one.times for one in held)
    return _make_benign_note(trace, notes[0].events, clients, times, answers_each=answered)


def translate_to_run(
    finding: Finding,
    to_run: Callable[[EventId], EventId],
    count_before: Callable[[str, int], int],
    *,
    has_race_before: bool = False,
) -> Finding:
    """Return a race that was found in a part of a run (segment) with the event numbers of the whole run.

    `to_run(event)`: returns the event in the run. `count_before(what, rank)`: how many receives or probes the rank
    posted before the part. `has_race_before`: another race is before the whole part.
    """
    race = finding.evidence
    if not isinstance(race, Race):
        return finding
    receiver, receive = finding.events[0], race.receive
    others = [
        Other(
            rank=other.rank,
            event=to_run(EventId(other.rank, other.event)).event,
            taken_by=None if other.taken_by is None else to_run(EventId(receiver.rank, other.taken_by)).event,
            force=Forced(to_run(receiver), other.force.source),
        )
        for other in race.others
    ]
    influences = has_race_before and not race.influenced
    evidence = changed(
        race,
        took=translate_place(race.took, to_run),
        others=others,
        receive=changed(receive, nth=receive.nth + count_before(receive.what, receive.rank)),
        influenced=race.influenced or influences,
    )
    return replace(finding, message=finding.message + (_INFLUENCED if influences else ""), evidence=evidence)


_INFLUENCED: Final = ". Whether it occurs depends on an earlier race: look at the first race of the report first"

MAX_NAMED_RACES: Final = 3
"""The most lines of earlier races that a sentence names."""


def name_earlier_races(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; the message of a race that can only occur after another race's outcome also names the line
    of that first race."""
    firsts = [
        one.sites[0] for one in findings
        if isinstance(one.evidence, OrderOnly) or (isinstance(one.evidence, Race) and not one.evidence.influenced)
    ]  # fmt: skip
    return [
        replace(one, message=one.message.replace(_INFLUENCED, _describe_dependence(one.sites[0], firsts)))
        if isinstance(one.evidence, Race) and one.evidence.influenced else one
        for one in findings
    ]  # fmt: skip


def _describe_dependence(site: Site, firsts: Sequence[Site]) -> str:
    """Return the sentence that a race at `site` depends on earlier races, of which `firsts` has the sites; "" if
    there are none.
    """
    if not firsts:
        return ""
    lines = list(dict.fromkeys(_line_text(one) for one in firsts))
    here = _line_text(site)
    elsewhere = [line for line in lines if line != here]
    if not elsewhere:
        return ". Whether it occurs depends on an earlier race at the same line"
    named = [*elsewhere[: MAX_NAMED_RACES - 1], "another line"] if len(elsewhere) > MAX_NAMED_RACES else elsewhere
    own = "an earlier one at the same line or " if here in lines else ""
    return f". Whether it occurs depends on {own}the race at {listed(named, 'or')}: look at that first"


def _client_ranks(match: Match, races: Races, posts: Posts, race_indices: NDArray[np.int64]) -> set[int]:
    """Return the ranks whose messages some races are about: the messages that were taken, and those that could have
    come first.
    """
    first = races.first.astype(np.int64)
    here = np.zeros(len(races), np.bool_)
    here[race_indices] = True
    of_race = np.repeat(here, first[1:] - first[:-1])
    sends = np.concatenate([posts.partner[races.row[race_indices]], races.messages[of_race]]).astype(np.uint64)
    return set(sorted_distinct(np.searchsorted(match.sends.first, sends, side="right") - 1).tolist())


def _posts_of_race(match: Match, races: Races, race: int) -> Posts:
    return match.probes if races.probe[race] else match.recvs


def _line_text(site: Site) -> str:
    """Return `pool.py:14`; if the line is not known, the file, function or call instead."""
    if not site.file or not site.line:
        return f"{site.file or 'an unknown line'} ({site.function or site.call})"
    return f"{PurePath(site.file).name}:{site.line}"


def _tag_text(posts: Posts, row: int, tag: int) -> str:
    return f"any tag, it was {tag}" if posts.flags[row] & Post.ANY_TAG else f"tag {tag}"


def _race_finding(trace: Trace, match: Match, races: Races, race_index: int, beyond: int) -> Finding:
    """Make the finding of the race with index `race_index`. `beyond`: the number of further races at the same line and
    rank, which get no finding of their own.
    """
    posts, row = _posts_of_race(match, races, race_index), int(races.row[race_index])
    sends = match.sends
    receive = posts.id(row)
    took = sends.id(int(posts.partner[row]))
    rows = [int(s) for s in races.others(race_index)]
    others = [sends.id(s) for s in rows]
    later = [None if (r := int(sends.partner[s])) == NONE else match.recvs.id(r) for s in rows]
    events = [receive, took, *others, *dict.fromkeys(event for event in later if event is not None)]
    sites = [describe.finding_site(trace.event(*event)) for event in events]
    comm = trace.communicators[int(posts.comm[row])]
    tag = int(posts.tag[row])
    where = "" if comm.index == 0 else f" on {describe.communicator_words(comm)}"
    # A matched probe is the post of its receive; mpi4py's recv() is one, and nobody wrote a probe there.
    verb = "saw" if races.probe[race_index] else "took"
    message = (
        f"rank {receive[0]} {'probes for' if races.probe[race_index] else 'receives from'} any source "
        f"at {_line_text(sites[0])}"
        f" ({_tag_text(posts, row, tag)}{where}) and {verb} the message of rank {took[0]}"
        f" (sent at {_line_text(sites[1])}); "
        f"{_others_text(trace, sites, others, later, int(races.total[race_index]))} could have come first"
    )
    comes, what = worst_outcome(match, races, race_index)
    inside = trace.event(*receive).function.within
    tame = comes in ("same", "unknown")
    if what:
        message += f"; then {what}"
    if races.influenced[race_index]:
        message += _INFLUENCED
    return Finding(
        kind="message-race",
        severity="note" if tame and (inside or is_library_file(sites[0].file)) else "warning",
        certainty="certain",
        message=message,
        ranks=tuple(dict.fromkeys(event[0] for event in events)),
        sites=tuple(sites),
        events=tuple(events),
        evidence=Race(
            communicator=comm.name,
            tag=None if posts.flags[row] & Post.ANY_TAG else tag,
            took=Place(rank=took[0], event=took[1]),
            others=[
                Other(rank=rank, event=event, taken_by=by and by[1], force=_forced_outcome(comm, receive, rank))
                for (rank, event), by in zip(others, later, strict=True)
            ],
            alternatives=int(races.total[race_index]),
            influenced=bool(races.influenced[race_index]),
            receive=_locate_receive(match, races, race_index),
            outcome=comes,
            remedy=(
                _IN_ORDER.format(sites[0].call) if inside
                else _remedy(comm, receive[0], took[0], sites[0], probe=bool(races.probe[race_index]))
            ),
        ),
        cause=f"{sites[0].call} {sites[0].file}:{sites[0].line}" if sites[0].line else None,
        beyond=beyond,
    )  # fmt: skip


def _locate_receive(match: Match, races: Races, race_index: int) -> Receive:
    """Return which receive (or probe) of its rank races, such as the third that was posted."""
    posts, row = _posts_of_race(match, races, race_index), int(races.row[race_index])
    rank = posts.rank_of(row)
    return Receive(
        what="probe" if races.probe[race_index] else "receive",
        rank=rank,
        nth=row - int(posts.of_rank(rank).start) + 1,
        communicator=match.trace.communicators[int(posts.comm[row])].name,
        tag=None if posts.flags[row] & Post.ANY_TAG else int(posts.tag[row]),
    )


_IN_ORDER: Final = (
    "{} combines the values of the other ranks in the order in which they arrive: where the result depends on that "
    "order, as a sum of floating-point numbers may, gather the values and combine them in a fixed order"
)


def _remedy(comm: Communicator, receiver: int, took: int, site: Site, *, probe: bool) -> str:
    """Return a sentence on how to remove the race: by naming the source from which the receive got its message here,
    `took`.
    """
    place = comm.peers(receiver).index(took)
    name = "MPI_Probe" if probe else "the receive"
    return (
        f"where the order matters, name the source: {name} at {_line_text(site)} got the message of rank {place} here; "
        "else give the messages different tags, or write the code after it so that every order has the same result"
    )


def _forced_outcome(comm: Communicator, receive: EventId, other: int) -> Forced:
    """Return the other outcome, in which the receive takes the message of another rank."""
    return Forced(receive, comm.peers(receive.rank).index(other))


def _others_text(
    trace: Trace, sites: list[Site], others: list[EventId], later: list[EventId | None], total: int
) -> str:
    """Return words for the other messages that could have come first: rank and line of the first few, and how many more
    there are.

    `sites`: of the receive, of the message that it took, then of the others. `later`: for each other message its
    receive, if any.
    """
    named = [
        f"rank {rank} ({_line_text(site)}{_taken_text(trace, sites[0], by)})"
        for (rank, _), site, by in zip(others[:MAX_NAMED_MESSAGES], sites[2:], later, strict=False)
    ]
    rest = total - len(named)
    if rest:
        named.append(f"{rest} other rank{'s' if rest > 1 else ''}")
    if len(named) == 1:
        return f"the message of {named[0]}"
    return f"the messages of {', '.join(named[:-1])} and {named[-1]}"


def _taken_text(trace: Trace, receive: Site, taker: EventId | None) -> str:
    """Return `, received at pool.py:15` for the receive `taker` of another message; "" if it is at the same line as the
    racing receive.
    """
    if taker is None:
        return ", never received"
    site = describe.finding_site(trace.event(*taker))
    return f", received at {_line_text(site)}" if (site.file, site.line) != (receive.file, receive.line) else ""
