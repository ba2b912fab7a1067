"""Make the plans of a replay from a record: each rank's calls that communicate, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import RunError, WeftError
from weft.match import Match, Op, Post, classify
from weft.mpi.meaning import Act, Many, base_name, full_name, functions_with
from weft.replay.layout import (
    ENTRY,
    POSTED_FREE,
    POSTED_NEVER,
    Check,
    EntryFlag,
    Outcome,
    PlanFlag,
)
from weft.replay.plan import ANSWERED, POLLS, RankPlan, ThreadPlan, checks_by_function, encode_times
from weft.replay.ready import completed_indices
from weft.replay.turns import Turns, find_turns
from weft.terms.argument_columns import decode_columns, integer_column
from weft.terms.rank_progress import open_calls
from weft.trace import Level, Rank, Trace
from weft.trace.births import NOT_RECORDED, list_spawns
from weft.trace.functions import FunctionTable
from weft.trace.layout import ANY_SOURCE, GUESSED, Flag, LogKind

_PROBES: Final = functions_with(Act.PROBE, Act.MATCHED_PROBE)
_POSTS: Final = functions_with(Act.SEND, Act.RECEIVE, Act.SEND_RECEIVE, Act.START, where=lambda m: m.posts)
"""Calls whose order among the threads of a process decides what they match."""
MOST_PENDING: Final = 1 << 22
"""Wildcard receives of one thread that are under way at once."""
_OVER: Final = ("finalized", "exited", "aborted")


def make_plans(trace: Trace, match: Match | None) -> list[RankPlan]:
    """Return what each rank will do in a replay (its plan), for all ranks that know their rank. `match`: which messages
    the receives took, needed for a record of level `trace`.
    """
    trace.require_beginning("a replay")
    ranks = [rank for rank in trace.ranks if rank.rank >= 0]
    try:
        if trace.level is Level.OUTCOMES:
            plans = [_plan_from_outcomes(rank) for rank in ranks]
        else:
            assert match is not None
            plans = [_TracePlanner(rank, match).plan_rank() for rank in ranks]
    except OverflowError as error:
        raise RunError(f"{trace.path} cannot be replayed, as its record is damaged: {error}") from error
    _add_window_turns(plans, find_turns(ranks))
    _add_spawned_worlds(trace, plans)
    return plans


def narrow_column(values: Iterable[int], kind: type[np.integer[Any]]) -> NDArray[Any]:
    """Return numbers as a column of a smaller type. Raises OverflowError if a number does not fit: NumPy 1 would cut it
    off silently.
    """
    wide, limits = np.array(list(values), np.int64), np.iinfo(kind)
    if len(wide) and not limits.min <= wide.min() <= wide.max() <= limits.max:
        raise OverflowError(f"{wide[np.abs(wide).argmax()]} does not fit {np.dtype(kind)}")
    return wide.astype(kind)


def _add_spawned_worlds(trace: Trace, plans: Sequence[RankPlan]) -> None:
    """Add to each rank's plan the worlds that it spawned, and the calls that spawned it."""
    if trace.system.grows:
        _add_spawned_tasks(trace, plans)
        return
    for rank, event, children in list_spawns(trace):
        known = bool(children) and children == tuple(range(children[0], children[0] + len(children)))
        if rank < len(plans):
            plans[rank].worlds.append(children[0] if known else -1)
        for child in children if known else ():
            plans[child].parents += find_entry(trace.ranks[rank], plans[rank], event)
    for plan in plans:
        plan.spawned = trace.ranks[plan.rank].world > 0


def _add_spawned_tasks(trace: Trace, plans: Sequence[RankPlan]) -> None:
    """Add to each rank's plan the tasks that it spawned one by one, for systems whose world grows (PVM)."""
    for plan in plans:
        plan.serves = trace.ranks[plan.rank].serves
    for rank, event, children in list_spawns(trace):
        plans[rank].worlds += children
        for child in children:
            plans[child].spawned = True
            plans[child].parents += find_entry(trace.ranks[rank], plans[rank], event)


def _add_window_turns(plans: Sequence[RankPlan], found: Turns) -> None:
    """Add to each thread's plan the order of its accesses to windows among those of other threads (its turns)."""
    for plan in plans:
        for thread in plan.threads:
            thread.turns = found.rows.get((plan.rank, thread.made), thread.turns)
    if any(thread.turns["kind"].any() for plan in plans for thread in plan.threads):
        for plan in plans:
            plan.flags |= PlanFlag.TURNS


def find_entry(rank: Rank, plan: RankPlan, event: int) -> list[tuple[int, int, int]]:
    """Return [(rank, thread of the plan, entries before the call)] for a call in a rank's plan; [] if the call was not
    recorded as an event.
    """
    if event == NOT_RECORDED:
        return []
    slot, index = int(rank.event_threads[event]), int(rank.event_positions[event])
    found = [
        (plan.rank, i, thread.entries_before(index)) for i, thread in enumerate(plan.threads) if thread.slot == slot
    ]
    return found[-1:]


def is_record_complete(rank: Rank) -> bool:
    """Return whether the record goes to the rank's end: the rank did not crash, was not killed, and no part of the file
    is lost.
    """
    killed = not rank.trace.system.ends_callers and rank.state == "exited" and open_calls(rank)
    return rank.state in _OVER and not killed and not rank.serves


# From level outcomes


def _plan_from_outcomes(rank: Rank) -> RankPlan:
    """Return the plan of one rank from the outcomes of its calls, for a record of level `outcomes`. Raises WeftError if
    several of its threads call MPI.
    """
    made = {d.slot: d.made for d in rank.definitions.threads}
    if len(rank.threads) > 1:
        raise WeftError(
            f"rank {rank.rank} has {len(rank.threads)} threads that call MPI, and level `outcomes` does not record "
            "their order: record the run at level `trace` to replay it"
        )
    threads = [plan_thread_from_outcomes(t.outcome_log, made.get(t.slot, 0)) for t in rank.threads] or [ThreadPlan()]
    return RankPlan(rank.index, threads, PlanFlag(0) if is_record_complete(rank) else PlanFlag.OPEN)


def plan_thread_from_outcomes(log: Iterable[tuple[int, int]], made: int) -> ThreadPlan:
    """Return the plan of one thread from its log of outcomes: what its wildcard receives, polls and completions came
    to, as (kind, value) in recorded order. `made`: number of the thread's creation.
    """
    rows: list[tuple[Outcome, int, list[int]]] = []
    posts: dict[int, int] = {}
    pending: list[int] = []  # ordinals of posted wildcards that are not complete, oldest first, as far as known
    known = late = polls = 0
    taken: int | None = None
    times: list[float] = []
    for kind, value in log:
        if kind == LogKind.LATE:
            if value > MOST_PENDING:
                raise OverflowError(f"{value} receives were pending at once")
            late = value
        elif kind in (LogKind.SOURCE, LogKind.CANCELLED):
            while len(pending) <= late:
                pending.append(known)
                known += 1
            posts[pending.pop(late)] = value if kind == LogKind.SOURCE else POSTED_NEVER
            late = 0
        elif kind == LogKind.POLLS:
            polls += value
        elif kind == LogKind.TIME:
            times.append((times[-1] if times else 0.0) + value * 1e-9)
        elif kind == LogKind.TAKEN and taken is None:
            taken = value
        elif kind == LogKind.TAKEN:
            rows.append((Outcome.SOURCE, polls + (taken or 0), [value]))
            taken, polls = None, 0
        elif kind == LogKind.INDEX and rows and rows[-1][0] is Outcome.COUNT and _has_more_indices(rows[-1][2]):
            rows[-1][2].append(value - 1)
        elif kind in _KINDS:
            outcome = _KINDS[LogKind(kind)]
            values = [] if outcome is Outcome.DONE else [value - (outcome is not Outcome.SOURCE)]
            rows.append((outcome, polls + (value if outcome is Outcome.DONE else 0), values))
            polls = 0
    entries = np.zeros(len(rows), ENTRY)
    entries["outcome"] = [row[0] for row in rows]
    entries["polls"] = narrow_column((row[1] for row in rows), np.uint32)
    entries["value"] = np.concatenate([[0], np.cumsum([len(row[2]) for row in rows])])[: len(rows)]
    sources = np.full(1 + max(posts, default=-1), POSTED_FREE, np.int32)
    sources[list(posts)] = narrow_column(posts.values(), np.int32)
    flat = narrow_column((value for row in rows for value in row[2]), np.int32)
    return ThreadPlan(made, 0, entries, sources, flat, encode_times(np.array(times, np.float64), {}))


_KINDS: Final = {
    LogKind.INDEX: Outcome.INDEX,
    LogKind.COUNT: Outcome.COUNT,
    LogKind.PROBED: Outcome.SOURCE,
    LogKind.DONE: Outcome.DONE,
}


def _has_more_indices(values: list[int]) -> bool:
    return len(values) - 1 < values[0]


# From level trace


@lru_cache(maxsize=8)
def _functions_with_op(functions: FunctionTable, op: Op) -> tuple[str, ...]:
    """Return the names, without MPI_, of the functions that do an operation."""
    return tuple(base_name(f.name) for f in functions if classify(f.name)[0] is op)


class _TracePlanner:
    """Make the plan of one rank of level trace."""

    def __init__(self, rank: Rank, match: Match) -> None:
        self.rank = rank
        self.match = match
        self.events = rank.events
        self.checks, self.canonical = checks_by_function(rank.trace.functions)

    def plan_rank(self) -> RankPlan:
        """Return the plan of the rank with all its threads."""
        flags = PlanFlag.CHECKED | (PlanFlag(0) if is_record_complete(self.rank) else PlanFlag.OPEN)
        posts = self._sources_by_post()
        threads = []
        for slot, thread in enumerate(self.rank.threads):
            lives = sorted((d.first_event, d.made) for d in self.rank.definitions.threads if d.slot == thread.slot)
            for (first, made), (end, _) in zip(lives or [(0, 0)], [*lives[1:], (len(thread.events), 0)], strict=True):
                threads.append(self._plan_thread(slot, slice(first, end), made, posts))
        if len(threads) > 1:
            self._number_posts(threads)
        return RankPlan(self.rank.index, threads or [ThreadPlan()], flags)

    def _number_posts(self, threads: list[ThreadPlan]) -> None:
        """Number the sends, receives and probes of all threads of the rank in the order in which MPI got them. The
        record has a ticket for each, whose numbers rise in that order.
        """
        posting = self._is_call_of(_POSTS)
        probing = self._is_call_of(_PROBES) & ~self._failed_polls()
        found: list[tuple[int, int, int]] = []
        for i, thread in enumerate(threads):
            merged = np.flatnonzero(self.rank.event_threads == thread.slot)
            for row, event in enumerate(merged[thread.entries["event"]].tolist()):
                if posting[event] or probing[event]:
                    tail = self.rank.event(event).tail
                    ticket = None if tail is None else tail.ticket if posting[event] else tail.decided
                    if ticket is not None:
                        found.append((ticket, i, row))
        for turn, (_, i, row) in enumerate(sorted(found), 1):
            threads[i].entries["turn"][row] = turn

    @cached_property
    def functions(self) -> NDArray[np.uint16]:
        """Return the function ids of the rank's events; unknown ids are replaced by the last known one."""
        known: NDArray[np.uint16] = np.minimum(self.events["function"], len(self.checks) - 1).astype(np.uint16)
        return known

    def _is_call_of(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return which events are calls of some functions (names without MPI_) or of their large-count forms."""
        found: NDArray[np.bool_] = self.rank.trace.functions.mask(map(full_name, names))[self.functions]
        return found

    def _rows_of_calls(self, names: Iterable[str]) -> NDArray[np.int64]:
        return np.flatnonzero(self._is_call_of(names))

    def _failed_polls(self) -> NDArray[np.bool_]:
        """Return a mask of the events that are polls which found nothing complete."""
        flags = self.events["flags"]
        closed = flags & (Flag.CLOSED | Flag.TRUE) == Flag.CLOSED
        failed: NDArray[np.bool_] = self._is_call_of(POLLS) & closed & (self.events["count"] > 0)
        return failed

    def _guessed_completions(self) -> NDArray[np.bool_]:
        """Return a mask of the events that complete or free a request whose state in the record is only a guess."""
        completions = self._is_call_of(functions_with(Act.COMPLETE, Act.RELEASE))
        guessed: NDArray[np.bool_] = completions & (self.events["buffer"] == GUESSED)
        return guessed

    def _plan_thread(self, slot: int, own_events: slice, made: int, posts: dict[int, list[int]]) -> ThreadPlan:
        """Return the plan of one thread. `own_events`: its part of the events of a slot of the record, which threads
        that ran one after the other share. `posts`: sources of messages, by the event that posts the receives.
        """
        mine = np.flatnonzero(self.rank.event_threads == slot)[own_events]
        first = own_events.start
        events, functions = self.events[mine], self.functions[mine]
        failed = self._failed_polls()[mine]
        kept = (self.checks[functions] & Check.CALL != 0) & ~failed
        rows = np.flatnonzero(kept)
        entries = np.zeros(len(rows), ENTRY)
        entries["function"] = self.canonical[functions[rows]]
        for name in ("peer", "tag", "count", "comm", "datatype", "object"):
            entries[name] = events[name][rows]
        flags = events["flags"][rows]
        entries["flags"] = (
            np.where(flags & Flag.ANY_SOURCE, EntryFlag.ANY_SOURCE, 0)
            | np.where(flags & Flag.ANY_TAG, EntryFlag.ANY_TAG, 0)
            | np.where(flags & Flag.CLOSED, 0, EntryFlag.OPEN)
            | np.where(events["error"][rows], EntryFlag.FAILED, 0)
            | np.where(self._guessed_completions()[mine][rows], EntryFlag.GUESSED, 0)
        )
        entries["event"] = first + rows
        so_far = np.concatenate([[0], np.cumsum(np.where(failed, events["count"].astype(np.int64), 0))])
        entries["polls"] = np.diff(so_far[rows], prepend=0)
        values: list[int] = []
        for position, index in enumerate(mine[rows].tolist()):
            found = self.outcomes_by_event.get(index)
            if found is not None:
                entries["outcome"][position] = found[0]
                entries["value"][position] = len(values)
                values += found[1:]
        posting = [(k, source) for k, index in enumerate(mine.tolist()) for source in posts.get(index, ())]
        return ThreadPlan(
            made, slot, entries, narrow_column((s for _, s in posting), np.int32), narrow_column(values, np.int32),
            self._read_times(mine[self._is_call_of(["Wtime"])[mine]]),
            np.array([first + k for k, _ in posting], np.int64),
            failed=np.column_stack([first + np.flatnonzero(failed), events["count"][failed].astype(np.int64)]),
            begun=self.rank.enter_ns()[mine[rows]],
        )  # fmt: skip

    def _read_times(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the results of some events of MPI_Wtime in the form of a plan's file. `rows`: the events' indices."""
        clock = np.ascontiguousarray(self.events["buffer"][rows]).view(np.float64)
        more = {}
        for place in np.flatnonzero(self.events["count"][rows] > 1).tolist():
            event = self.rank.event(int(rows[place]))
            more[place] = (event.calls - 1, event.further_times)
        return encode_times(clock, more)

    # Outcomes: [Outcome, value...] by event

    @cached_property
    def outcomes_by_event(self) -> dict[int, list[int]]:
        """Return, for each event with a nondeterministic outcome, that outcome as the plan's file has it: its kind and
        then its values (recorder/plan.h).
        """
        found: dict[int, list[int]] = {}
        flags, failed = self.events["flags"], self._failed_polls()
        good = (flags & Flag.CLOSED != 0) & (self.events["error"] == 0) & ~failed
        for name, outcome in ANSWERED.items():
            rows = np.flatnonzero(self._is_call_of([name]) & good)
            if outcome is Outcome.DONE:
                rows = rows[flags[rows] & Flag.TRUE != 0]
            if name in _PROBES:
                for row in rows.tolist():
                    any_source = bool(flags[row] & Flag.ANY_SOURCE)
                    if any_source:
                        found[row] = [Outcome.SOURCE, int(self.events["peer"][row])]
                    elif outcome is Outcome.DONE:
                        found[row] = [Outcome.DONE]
            elif outcome is Outcome.DONE:
                found |= {row: [Outcome.DONE] for row in rows.tolist()}
            elif outcome is Outcome.CANCEL:
                cancelled = self._cancelled_requests() if len(rows) else {}
                for row in rows.tolist():
                    found[row] = [Outcome.CANCEL, cancelled.get(int(self.events["object"][row]), -1)]
            elif len(rows):
                found |= self._completed_indices(rows, outcome)
        return found

    def _completed_indices(self, rows: NDArray[np.int64], outcome: Outcome) -> dict[int, list[int]]:
        """Return which requests a call such as MPI_Waitany completed, by event, in the encoding of the replay's plan
        file.

        The encoding is [outcome, index] for a call that completes one request, [outcome, count, indices ...] for a call
        that completes several, and [outcome, -1] where the record has no indices.
        """
        found: dict[int, list[int]] = {}
        for event, indices in completed_indices(self.rank, rows):
            if indices is None:
                found[event] = [outcome, -1]
            else:
                found[event] = [outcome, *indices] if outcome is Outcome.INDEX else [outcome, len(indices), *indices]
        return found

    def _cancelled_requests(self) -> dict[int, int]:
        """Return for each completed request, by its id, 1 if the completion said that it was cancelled, else 0."""
        found: dict[int, int] = {}
        for row in self._rows_of_calls(functions_with(Act.COMPLETE, where=lambda m: m.many is Many.ONE)).tolist():
            if self.events["flags"][row] & Flag.CLOSED:
                found[int(self.events["object"][row])] = int(bool(self.events["flags"][row] & Flag.CANCELLED))
        several = functions_with(Act.COMPLETE, where=lambda m: m.many is not Many.ONE)
        for row in self._rows_of_calls(several).tolist():
            arguments = self.rank.event(row).args
            requests = arguments.get("array_of_requests") or []
            if "index" in arguments:
                index = arguments["index"]
                if 0 <= index < len(requests):
                    found[requests[index]] = int(bool(self.events["flags"][row] & Flag.CANCELLED))
                continue
            chosen = arguments.get("array_of_indices", range(len(requests)))
            for place, status in zip(chosen, arguments.get("array_of_statuses") or [], strict=False):
                if 0 <= place < len(requests):
                    found[requests[place]] = int(bool(status and status.cancelled))
        return found

    # Sources of wildcard receives: [source...] by the event that posted them

    def _sources_by_post(self) -> dict[int, list[int]]:
        """Return, for each event that posts wildcard receives, the ranks in the communicator whose messages they took.
        In place of a rank stands POSTED_NEVER if no message came, POSTED_FREE if the source is unknown.
        """
        found: dict[int, list[int]] = {}
        rows = self.match.recvs
        part = rows.of_rank(self.rank.index)
        wild = np.flatnonzero((rows.flags[part] & Post.ANY_SOURCE != 0) & (rows.flags[part] & Post.MATCHED_PROBE == 0))
        for row in (part.start + wild).tolist():
            found.setdefault(int(rows.event[row]), []).append(self._source_of_receive(row))
        for event in self._find_wildcard_posts():
            refused = 1 <= self.events["error"][event] <= 6
            found.setdefault(event, [POSTED_FREE if refused else POSTED_NEVER])
        return found

    def _source_of_receive(self, row: int) -> int:
        """Return the rank in the communicator whose message a receive took; POSTED_FREE if it is not known."""
        rows = self.match.recvs
        if rows.flags[row] & Post.UNDECIDED or rows.peer[row] < 0:
            return POSTED_FREE
        comm = self.rank.trace.communicators[int(rows.comm[row])]
        peers = comm.peers(self.rank.index)
        try:
            return peers.index(int(rows.peer[row]))
        except ValueError:
            return POSTED_FREE

    def _find_wildcard_posts(self) -> list[int]:
        """Return the events that posted a wildcard receive, cancelled ones included, in order."""
        any_source, functions = self.events["flags"] & Flag.ANY_SOURCE != 0, self.rank.trace.functions
        found = np.flatnonzero(self._is_call_of(_functions_with_op(functions, Op.RECV)) & any_source).tolist()
        both = self._rows_of_calls(_functions_with_op(functions, Op.SENDRECV))
        for events, tail in decode_columns(self.rank, both, frozenset(["source"])) if len(both) else ():
            if "source" in tail:
                found += events[integer_column(tail, "source") == ANY_SOURCE].tolist()
        made = self._rows_of_calls(_functions_with_op(functions, Op.RECV_INIT))
        wild = set(self.events["object"][made[any_source[made]]].tolist())
        if wild:
            starts = self._rows_of_calls(["Start"])
            found += [int(e) for e in starts if int(self.events["object"][e]) in wild]
        return sorted(found)
