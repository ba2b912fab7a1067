"""Potential deadlocks: what would not get through if every send waited for its receive, every collective for all.

The matched record is run again with synchronous sends (native/kernel/progress.c). MPI lets a standard send wait for
its receive (MPI-4.1, 3.4) and any collective synchronise (6.14), so a program that then stands still is unsafe: it
got through because messages fitted into buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.base.words import listed, rank_words
from weft.deadlock.blocked_ranks import Standstill
from weft.evidence import Cycle
from weft.findings import Finding
from weft.match import NONE, Match, Post, Posts
from weft.match.operations import I32, U32
from weft.mpi.meaning import base_name
from weft.native import bridge
from weft.native.bridge import array_addresses
from weft.native.headers import progress
from weft.native.threads import run_in_threads, worker_count
from weft.terms import calls, describe
from weft.terms.argument_columns import Ints, sorted_distinct
from weft.terms.calls import masks_of, word_set
from weft.trace import Event, Flag, Rank, Trace
from weft.trace.segment import lookahead_of

MAX_ROUNDS = 20
AROUND_A_TEST = 2
"""Lines around a test within which the loop is looked for that waits by it."""
_GATHERING = -1
_LOCAL = word_set("Comm_free Win_free File_open File_close") | calls.FINALIZE
"""Collectives that order nothing here: local in practice, or of no use for a proof."""

_NOT_WAITING = Post.BUFFERED | Post.READY | Post.PARTITIONED | Post.CANCELLED


@dataclass
class Constraints:
    """What each process waits for, in its order: `at` its event, until process `target` has entered event `value`.

    A negative target is the gathering -1 - target, where value 0 arrives and 1 waits. `send` is the row of the send
    that waits, or -1. A process is one thread of one rank.
    """

    first: Ints
    at: U32
    target: I32
    value: U32
    send: I32
    size: Ints

    def select(self, keep: NDArray[np.bool_]) -> Constraints:
        """Return the constraints in `keep`."""
        first = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)[self.first]
        return Constraints(first, self.at[keep], self.target[keep], self.value[keep], self.send[keep], self.size)

    def run_processes(self) -> Ints:
        """Let each process come as far as its constraints permit. Return by process the index of the constraint at
        which it cannot continue; if it comes through, the index after its last constraint."""
        place = np.zeros(len(self.first) - 1, np.int64)
        rows = (self.first, self.at, self.target, self.value)
        if progress.kernel().weft_run_progress(len(place), *rows, len(self.size), self.size, place):
            raise MemoryError("not enough memory to find the sends that need a buffer")
        return place


class Processes:
    """Threads of ranks, numbered."""

    def __init__(self, trace: Trace) -> None:
        counts = [max(1, len(r.threads)) for r in trace.ranks]
        self.first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
        self.rank = np.repeat(np.arange(len(counts)), counts)
        self.events = np.array([len(r.events) for r in trace.ranks], np.uint64)
        self.threads = [np.ascontiguousarray(r.event_threads) if len(r.threads) > 1 else None for r in trace.ranks]
        self.slots = [None if t is None else _places_by_thread(t) for t in self.threads]


def _places_by_thread(threads: NDArray[np.int32]) -> U32:
    """Return each event's position in a list of the rank's events sorted by thread. `threads`: the thread of each
    event."""
    found = np.empty(len(threads), np.uint32)
    found[np.argsort(threads, kind="stable")] = np.arange(len(threads))
    return found


def find(trace: Trace, match: Match) -> list[Finding]:
    """Return a finding for each group of sends, by call site, that would hang if MPI buffered no message. [] for a run
    that did hang."""
    if Standstill(trace).stuck:
        return []
    processes = Processes(trace)
    found_complete = _sends_found_complete(match)
    constraints = _constraints_of_run(trace, match, processes, found_complete)
    findings: list[Finding] = []
    for _ in range(MAX_ROUNDS):
        place = constraints.run_processes()
        stuck = np.flatnonzero(place < constraints.first[1:])
        last_events = _first_stuck_events(processes, constraints, place)
        cycles = list(_find_cycles(constraints, place, stuck))
        own = [_is_within_segment(trace, processes, constraints, place, cycle) for cycle in cycles]
        if not any(own):
            break
        drop: set[tuple[int, int]] = set()
        early: set[tuple[int, int]] = set()
        served = np.zeros(len(constraints.at), np.bool_)
        for cycle, told in zip(cycles, own, strict=True):
            others = [
                found
                for p in cycle
                if (found := _waits_that_a_message_ends(match, processes, constraints, place, p)) is not None
            ]
            if others:
                served[np.concatenate(others)] = True
                continue
            links = _make_links(match, processes, constraints, place, cycle)
            sends = [link.row for link in links if link.row >= 0]
            proves = sends or not any(link.tested for link in links)
            if told and proves and not _is_behind_early_test(match, links, last_events, found_complete):
                findings.append(_make_finding(match, links))
            drop.update(_call_site(trace, match.sends.id(row)) for row in sends)
            if not sends:
                early.update(_call_site(trace, link.event.id) for link in links if link.gathers)
        left = (
            ~_select_sends_at(trace, match, constraints, drop)
            & ~served
            & ~_select_waits_at(processes, constraints, trace, early)
        )
        constraints = constraints.select(left)
    return findings


# Constraints


def _constraints_of_run(
    trace: Trace, match: Match, processes: Processes, found_complete: NDArray[np.bool_]
) -> Constraints:  # fmt: skip
    """Return the constraints under which every standard send waits for its receive. Every collective waits for all
    members, except those that need no other member in practice."""
    local = masks_of(trace.functions).table(_LOCAL)[match.collectives.function]
    waits = ((match.sends.flags & _NOT_WAITING) == 0) & ~found_complete
    return make_constraints(match, processes, waits, ~local)


def _sends_found_complete(match: Match) -> NDArray[np.bool_]:
    """Return a mask of the sends that a single test found complete. Had that test failed, the program might have gone
    on without the send, so that it need not wait for it.

    A send is not in the mask if the program waits for it by tests: the test before, at the same call site, failed, or
    the source shows a waiting loop around the test.
    """
    sends = match.sends
    found = np.zeros(len(sends), np.bool_)
    tests = masks_of(match.trace.functions).table(calls.TESTS)
    for rank in match.trace.ranks:
        events = rank.events
        rows = np.arange(int(sends.first[rank.index]), int(sends.first[rank.index + 1]))
        at = sends.completion[rows].astype(np.int64)
        rows, at = rows[at < len(events)], at[at < len(events)]
        tested = tests[events["function"][at]]
        rows, at = rows[tested], at[tested]
        if not len(rows):
            continue
        before = _preceding_events(rank, at)
        failed = match.trace.functions.failed_polls(events[before]) & tests[events["function"][before]]
        again = failed & (events["site"][before] == events["site"][at])
        sites = events["site"][at]
        looping = [
            site
            for site in sorted_distinct(sites.astype(np.int64)).tolist()
            if describe.has_loop_at(rank, site, AROUND_A_TEST)
        ]
        found[rows] = ~(again & (before != at)) & ~np.isin(sites, looping)
    return found


def _preceding_events(rank: Rank, events_asked: Ints) -> Ints:
    """Return for each of some event indices the index of the event before it in the same thread; for the thread's
    first event its own index."""
    if len(rank.threads) <= 1:
        return np.maximum(events_asked - 1, 0)
    before = events_asked.copy()
    threads, positions = rank.event_threads, rank.event_positions
    for thread in sorted_distinct(threads[events_asked].astype(np.int64)).tolist():
        of = threads[events_asked] == thread
        before[of] = np.flatnonzero(threads == thread)[np.maximum(positions[events_asked[of]] - 1, 0)]
    return before


def _waits(posts: Posts) -> progress.Waits:
    return progress.Waits(
        first=posts.first, event=posts.event, completion=posts.completion, partner=posts.partner, peer=posts.peer
    )


def make_constraints(
    match: Match, processes: Processes, waiting_sends: NDArray[np.bool_], waiting_members: NDArray[np.bool_],
    never_passed: tuple[Ints, ...] | None = None,
) -> Constraints:  # fmt: skip
    """Return the constraints of a matched record.

    `waiting_sends` says which sends wait for their receive, `waiting_members` which parts of collectives wait for
    the others. `never_passed` has ranks and events (of equal length) that cannot be passed. A message's receive and
    probe wait for its send at their completion; all members arrive at a collective with their call and wait for each
    other at its completion.
    """
    parts = match.collectives
    waiting_members = waiting_members & ((parts.flags & Post.INIT) == 0)
    size = np.bincount(parts.instance[waiting_members], minlength=len(match.instances)).astype(np.int64)
    rank, event = (np.zeros(0, np.int64),) * 2 if never_passed is None else never_passed
    order = np.argsort(rank, kind="stable")
    rank, event = np.ascontiguousarray(rank[order]), np.ascontiguousarray(event[order])
    given = progress.Matched(
        ranks=len(processes.events), process_first=processes.first, events=processes.events,
        threads=array_addresses(processes.threads, bridge.I32, "threads"),
        slot=array_addresses(processes.slots, bridge.U32, "slot"),
        recvs=_waits(match.recvs), probes=_waits(match.probes), sends=_waits(match.sends), waits=waiting_sends,
        coll_first=parts.first, coll_event=parts.event, coll_completion=parts.completion,
        coll_instance=parts.instance, together=waiting_members, nevers=len(rank), never_rank=rank, never_event=event,
        never_target=_GATHERING - len(size),
    )  # fmt: skip
    if len(rank):
        size = np.append(size, 1)  # a gathering of one where nobody arrives
    first = np.zeros(len(processes.rank) + 1, np.int64)
    work = sum(map(len, (match.sends, match.recvs, match.probes, parts)))
    to = progress.Constraints(first=first, at=None, target=None, value=None, send=None)
    _run_kernel(given, to, work)
    np.cumsum(first, out=first)
    at, value = (np.empty(int(first[-1]), np.uint32) for _ in range(2))
    target, send = (np.empty(int(first[-1]), np.int32) for _ in range(2))
    _run_kernel(given, to.copy_with(at=at, target=target, value=value, send=send), work)
    return Constraints(first, at, target, value, send, size)


def _run_kernel(given: progress.Matched, to: progress.Constraints, work: int) -> None:
    """Call the native function that makes the constraints, or only counts them, for all ranks, divided among the
    machine's cores. `work`: the number of events, which decides how many threads are worth it."""
    ranks = given.ranks
    count = worker_count(work, min(8, ranks))
    cuts = [ranks * k // count for k in range(count + 1)]
    make = progress.kernel().weft_make_constraints
    if any(run_in_threads(count, lambda k: make(given, cuts[k], cuts[k + 1], to), range(count))):
        raise MemoryError("not enough memory to find the sends that need a buffer")


# What stands still


def _find_cycles(constraints: Constraints, standing: Ints, stuck: Ints) -> Iterator[list[int]]:
    """Yield the cycles of stuck processes, in which each waits for the next. If a process waits in a collective, one
    of the absent members counts as the next. `standing`: by process, the constraint at which it is stuck."""
    waiting = {int(p): int(standing[p]) for p in stuck}
    absent = _find_absent_members(constraints, standing, waiting)
    seen: set[int] = set()
    for start in waiting:
        path: list[int] = []
        at = start
        while at in waiting and at not in seen:
            seen.add(at)
            path.append(at)
            target = int(constraints.target[waiting[at]])
            at = target if target >= 0 else absent.get(_GATHERING - target, -1)
        if at in path:
            cycle = path[path.index(at) :]
            if any(constraints.send[waiting[p]] >= 0 or constraints.target[waiting[p]] < 0 for p in cycle):
                yield cycle


def _is_within_segment(
    trace: Trace, processes: Processes, constraints: Constraints, standing: Ints, cycle: list[int]
) -> bool:
    """Return whether a cycle of waiting calls belongs to this segment of a long run. If not, it is among the later
    calls that the analysis only looks ahead to.

    The cycle's first call decides, since each call of a cycle waits for a call before it.
    """
    look, one = lookahead_of(trace), cycle[0]
    return look is None or bool(constraints.at[standing[one]] < look.told[processes.rank[one]])


def _find_absent_members(constraints: Constraints, standing: Ints, waiting: dict[int, int]) -> dict[int, int]:
    """Return {number of a collective: a stuck process that has yet to arrive there} for the collectives in which a
    stuck process waits. `waiting`: by stuck process, its constraint."""
    wanted = {_GATHERING - int(constraints.target[c]) for c in waiting.values() if constraints.target[c] < 0}
    found: dict[int, int] = {}
    for process in waiting if wanted else ():
        rest = slice(int(standing[process]), int(constraints.first[process + 1]))
        arrivals = (constraints.target[rest] < 0) & (constraints.value[rest] == 0)
        for gathering in sorted_distinct(_GATHERING - constraints.target[rest][arrivals].astype(np.int64)).tolist():
            if gathering in wanted:
                found.setdefault(gathering, process)
    return found


def _call_site(trace: Trace, event: tuple[int, int]) -> tuple[int, int]:
    return event[0], int(trace.ranks[event[0]].events["site"][event[1]])


def _select_sends_at(
    trace: Trace, match: Match, constraints: Constraints, sites: set[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Return a mask of the constraints of sends that were posted at one of `sites`."""
    rows = constraints.send >= 0
    hit = np.zeros(len(rows), np.bool_)
    places = np.flatnonzero(rows)
    send = constraints.send[places]
    ranks = match.sends.ranks()[send]
    for rank in {rank for rank, _ in sites}:
        mine = np.flatnonzero(ranks == rank)
        of = trace.ranks[rank].events["site"][match.sends.event[send[mine]]]
        hit[places[mine[np.isin(of, [site for r, site in sites if r == rank])]]] = True
    return hit


def _select_waits_at(
    processes: Processes, constraints: Constraints, trace: Trace, sites: set[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Return a mask of the constraints by which a process waits in a collective, at one of `sites`, for the other
    members."""
    hit = np.zeros(len(constraints.at), np.bool_)
    if not sites:
        return hit
    ranks = np.repeat(processes.rank, np.diff(constraints.first))
    waits = (constraints.target < 0) & (constraints.value == 1)
    for rank in {rank for rank, _ in sites}:
        mine = np.flatnonzero(waits & (ranks == rank))
        of = trace.ranks[rank].events["site"][constraints.at[mine]]
        hit[mine] = np.isin(of, [site for r, site in sites if r == rank])
    return hit


def _waits_that_a_message_ends(
    match: Match, processes: Processes, constraints: Constraints, standing: Ints, process: int
) -> Ints | None:
    """Return the constraints that another message could fulfil: a stuck process waits for a wildcard receive, and a
    message other than the recorded one may come. None if none may come.

    They are the constraints of all wildcard receives at that source line, and of the sends that these took.
    """
    at, rank = int(standing[process]), int(processes.rank[process])
    if constraints.send[at] >= 0 or constraints.target[at] < 0:
        return None
    recvs, sends = match.recvs, match.sends
    mine = np.arange(int(recvs.first[rank]), int(recvs.first[rank + 1]))
    mine = mine[(recvs.flags[mine] & Post.ANY_SOURCE != 0) & (recvs.partner[mine] != NONE)]
    waiting = mine[recvs.completion[mine] == constraints.at[at]].tolist()
    if not waiting:
        return None
    from_rank = sends.ranks()
    last_events = _first_stuck_events(processes, constraints, standing)
    look = lookahead_of(match.trace)
    # Who comes as far as a segment looks may send more after it.
    more = look is not None and any(last_events[one] > processes.events[one] for one in look.sends.get(rank, ()))
    for row in waiting:
        fits = (sends.peer == rank) & (sends.comm == recvs.comm[row]) & (sends.partner != NONE)
        if not recvs.flags[row] & Post.ANY_TAG:
            fits &= sends.tag == recvs.tag[row]
        rows = np.flatnonzero(fits)
        # Sent by now, and received later than this.
        rows = rows[recvs.completion[sends.partner[rows]] > recvs.completion[row]]
        if more or (sends.event[rows] <= last_events[from_rank[rows]]).any():
            site = match.trace.ranks[rank].events["site"]
            alike = mine[site[recvs.event[mine]] == site[recvs.event[row]]]
            part = slice(int(constraints.first[process]), int(constraints.first[process + 1]))
            waits = (constraints.send[part] < 0) & (constraints.target[part] >= 0)
            waits &= np.isin(constraints.at[part], recvs.completion[alike])
            sending = np.flatnonzero(constraints.send >= 0)
            taken = np.isin(sends.partner[constraints.send[sending]], alike)
            return np.concatenate([np.flatnonzero(waits) + part.start, sending[taken]])
    return None


def _first_stuck_events(processes: Processes, constraints: Constraints, standing: Ints) -> Ints:
    """Return by rank the index of the first event at which one of the rank's threads is stuck; the largest integer if
    none is."""
    found = np.full(len(processes.events), np.iinfo(np.int64).max)
    stuck = np.flatnonzero(standing < constraints.first[1:])
    np.minimum.at(found, processes.rank[stuck], constraints.at[standing[stuck]].astype(np.int64))
    return found


def _is_behind_early_test(
    match: Match, links: Sequence[_Link], last_events: Ints, found_complete: NDArray[np.bool_]
) -> bool:
    """Return whether a rank of a cycle has passed a test that found a send complete, although the receive of that send
    is not posted before the ranks get stuck.

    If sends waited, the test would have failed, and the program might have gone another way than the recorded one.
    `last_events`: how far each rank comes, as `_first_stuck_events` returns it.
    """
    sends, recvs = match.sends, match.recvs
    receivers = recvs.ranks()
    for link in links:
        rows = np.arange(int(sends.first[link.rank]), int(sends.first[link.rank + 1]))
        taken = sends.partner[rows[found_complete[rows] & (sends.completion[rows] < link.event.index)]]
        taken = taken[taken != NONE]
        if (recvs.event[taken] > last_events[receivers[taken]]).any():
            return True
    return False


# Words


def _make_finding(match: Match, links: list[_Link]) -> Finding:
    """Return the finding about a cycle of processes that hangs without buffering."""
    sends = [link for link in links if link.send is not None]
    wild = any((match.recvs.flags[match.sends.partner[link.row]] & Post.ANY_SOURCE) != 0 for link in sends)
    wild |= any(bool(link.event.flags & Flag.ANY_SOURCE) for link in links if not link.gathers)
    wild |= any(link.chosen for link in links)
    ranks = tuple(sorted({link.rank for link in links}))
    events = [link.send or link.event for link in links]
    late = [link.late for link in links if link.late]
    named = [*events, *late]
    return Finding(
        kind="potential-deadlock",
        severity="warning",
        certainty="possible" if wild else "certain",
        message=_describe_cycle(links, sends),
        ranks=ranks,
        sites=tuple(dict.fromkeys(describe.finding_site(event) for event in named))[:64],
        events=tuple(event.id for event in named),
        evidence=Cycle(cycle=[link.rank for link in links]),
        cause="; ".join(sorted({f"{e.function.name}{describe.site_suffix(e)}" for e in events})),
    )


class _Link:
    """One process of a cycle: where it stands, the send that waits there, and the call that a collective waits for."""

    def __init__(
        self, match: Match, rank: int, constraints: Constraints, place: int
    ) -> None:  # fmt: skip
        trace = match.trace
        self.rank = rank
        self.row = int(constraints.send[place])
        self.event = trace.ranks[rank].event(int(constraints.at[place]))
        self.gathers = bool(constraints.target[place] < 0)
        name = base_name(self.event.function.name)
        self.tested = name in calls.TESTS
        self.chosen = self.tested or name in calls.OF_ANY | calls.OF_SOME
        """Whether something else than this may end its wait."""
        self.early = self.gathers and name not in calls.ALL_TO_ALL
        """Whether it waits in a collective that may, and need not, wait for all members."""
        self.late: Event | None = None
        """The call by which the next process of the cycle would come to the collective that `early` waits in."""
        self.send: Event | None = None
        self.receive: Event | None = None
        if self.row >= 0:
            self.send = trace.event(*match.sends.id(self.row))
            self.receive = trace.event(*match.recvs.id(int(match.sends.partner[self.row])))


def _make_links(
    match: Match, processes: Processes, constraints: Constraints, standing: Ints, cycle: list[int]
) -> list[_Link]:  # fmt: skip
    """Return the processes of a cycle, each waiting for the next: where it stands, and which call of the next one is
    missing."""
    links = [_Link(match, int(processes.rank[p]), constraints, int(standing[p])) for p in cycle]
    for link, process, awaited in zip(links, cycle, cycle[1:] + cycle[:1], strict=True):
        if not link.early:
            continue
        rest = slice(int(standing[awaited]), int(constraints.first[awaited + 1]))
        comes = (constraints.target[rest] == constraints.target[standing[process]]) & (constraints.value[rest] == 0)
        if comes.any():
            at = int(constraints.at[rest][comes.argmax()])
            link.late = match.trace.ranks[int(processes.rank[awaited])].event(at)
    return links


def _describe_cycle(links: list[_Link], sends: list[_Link]) -> str:
    """Return the sentence about a cycle."""
    if len(links) == 1:
        send, receive = sends[0].send, sends[0].receive
        assert send is not None and receive is not None
        return (
            f"rank {links[0].rank} sends to itself in "
            f"{describe.call_words(send)}{describe.site_suffix(send)} before it posts the "
            f"receive{describe.site_suffix(receive)}: that got through only because the message was buffered"
        )
    places = {describe.site_suffix(link.send) for link in sends if link.send}
    if len(sends) == len(links) and len(links) > 3 and len(places) == 1:
        return (
            f"{rank_words(link.rank for link in links)} send to each other in a circle{places.pop()}, each before it "
            "receives: that got through only because the messages were buffered"
        )
    parts = [_describe_link(link) for link in links[:4]]
    more = f" and {len(links) - 4} more ranks" if len(links) > 4 else ""
    early = next((link for link in links if link.early), None)
    let_go = _describe_early_leave(early) if early else ""
    why = " or ".join(filter(None, ("messages were buffered" if sends else "", let_go)))
    return f"{listed(parts)}{more}: this got through only because {why}"


def _describe_early_leave(link: _Link) -> str:
    """Return words that say that a rank left a collective before all had come, and which rank comes to it late."""
    left = (
        f"rank {link.rank} left {describe.call_words(link.event)}{describe.site_suffix(link.event)} before all had come"
    )
    return f"{left} (rank {link.late.rank.index} comes to it{describe.site_suffix(link.late)})" if link.late else left


def _describe_link(link: _Link) -> str:
    """Return what one process of a cycle does: sends to another rank, or waits in a call."""
    if link.send is None or link.receive is None:
        return f"rank {link.rank} waits in {describe.call_words(link.event)}{describe.site_suffix(link.event)}"
    return (
        f"rank {link.rank} sends to rank {link.receive.rank.index}{describe.site_suffix(link.send)} "
        f"(received{describe.site_suffix(link.receive)})"
    )
