"""Find who has come to a collective call and who has not: on communicators, windows, files, and at MPI_Finalize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final, NamedTuple

import numpy as np

from weft.base.lazy import dataclass
from weft.match.rings import DroppedOperations
from weft.mpi.meaning import Form, Meaning, Over, base_name
from weft.terms import calls
from weft.terms.argument_columns import Ints, decode_columns, integer_column
from weft.terms.calls import Masks, masks_of
from weft.terms.windows import SHARED, group_members, window_of
from weft.trace import Communicator, Event, Flag, Rank, Trace
from weft.trace.layout import Def, raw_rank

_ROOTED: Final = calls.forms_of(calls.FROM_ROOT | calls.TO_ROOT)
_OF_FORM: Final = {
    Form.BLOCKING: calls.COMM_COLLECTIVES, Form.NONBLOCKING: calls.ICOLLECTIVES,
    Form.PERSISTENT: calls.COLLECTIVE_INITS,
}  # fmt: skip
"""Collectives over communicators, which are counted apart by their form."""


class MemberCall(NamedTuple):
    """What must be equal for calls of two members to meet: the function, and its root where it has one."""

    name: str
    root: int | None


@dataclass(frozen=True)
class Absence:
    """Who is missing from the k-th collective call (counted from 0) of a place.

    `fewer` have made no k-th call yet; `other` made a different one, by the index of that event. `starts`: it is not
    the call that is missing but the start of what it made.
    """

    place: str
    k: int
    call: MemberCall
    fewer: frozenset[int] = frozenset()
    other: dict[int, int] = field(default_factory=dict)
    starts: bool = False

    @property
    def missing(self) -> frozenset[int]:
        """Return all who did not come."""
        return self.fewer.union(self.other)


class _GroupMeeting(NamedTuple):
    """What tells which calls over a group meet: its members, the tag or string they agree on, the communicator."""

    members: frozenset[int]
    agreed: object
    comm: int


def _make_group_key(event: Event) -> _GroupMeeting | None:
    """Return the key by which calls over a group find each other: its members, and the tag or string they agree on.
    None for calls without these."""
    args, of = event.args, event.rank
    groups = [args[name] for name in ("group", "local_group", "remote_group") if name in args]
    agreed = args.get("stringtag", args.get("tag"))
    if not groups or agreed is None:
        return None
    members = frozenset(member for group in groups for member in group_members(of, group))
    return _GroupMeeting(members, agreed, event.comm.index if event.comm else -1)


class CollectiveCalls:
    """The collective calls of a run, by member. Only the communicators that are asked for are looked at."""

    def __init__(self, trace: Trace, dropped: DroppedOperations | None = None) -> None:
        self.trace = trace
        self._dropped = dropped
        self.masks: Masks = masks_of(trace.functions)
        self._lists: dict[tuple[str, int, int, int], Ints] = {}
        self._absences: dict[tuple[object, ...], Absence] = {}
        self._windows: dict[int, dict[tuple[int, int], int]] = {}
        self._files: dict[int, dict[tuple[int, int], int]] = {}

    def known_members(self, comm: Communicator) -> frozenset[int] | None:
        """Return every process of a communicator, None where one of them has no record."""
        everyone = frozenset((*comm.members, *comm.remote_members))
        return None if -1 in everyone else everyone

    # Lists of calls

    def calls_on_comm(self, rank: Rank, comm: Communicator, names: frozenset[str]) -> Ints:
        """Return the indices of the events in which `rank` calls one of the functions `names` on a communicator, in
        order."""
        key = ("comm", id(names), comm.index, rank.index)
        if key not in self._lists:
            local = comm.local_ids.get(rank.index)
            events = rank.events
            if local is None or not len(events):
                self._lists[key] = np.zeros(0, np.int64)
            else:
                hit = self.masks.table(names)[events["function"]] & (events["comm"] == local)
                self._lists[key] = np.flatnonzero(hit & (events["error"] == 0))
        return self._lists[key]

    def window(self, rank: Rank, local: int) -> tuple[int, int] | None:
        """Return a window as all its ranks know it: (communicator index, ordinal on it)."""
        return window_of(rank, local)

    def window_ids(self, rank: Rank) -> dict[tuple[int, int], int]:
        """Return {(communicator index, ordinal): id}: the ids by which a rank's calls name its windows. The ordinal
        counts the windows on the communicator, and is the same on all members."""
        if rank.index not in self._windows:
            ids = rank.definitions.ids(Def.WINDOW)
            keys = {key: id for id in ids if (key := self.window(rank, id)) is not None}
            self._windows[rank.index] = keys
        return self._windows[rank.index]

    def file_ids(self, rank: Rank) -> dict[tuple[int, int], int]:
        """Return {(communicator index, ordinal): id}: the ids by which a rank's calls name its files. The ordinal
        counts the files opened on the communicator, and is the same on all members."""
        if rank.index not in self._files:
            found: dict[tuple[int, int], int] = {}
            counts: dict[int, int] = {}
            for definition in rank.definitions.all(Def.FILE):
                comm = rank.comm(definition.comm)
                if comm is not None:
                    n = counts[comm.index] = counts.get(comm.index, -1) + 1
                    found[comm.index, n] = definition.id
            self._files[rank.index] = found
        return self._files[rank.index]

    def _calls_on_object(self, rank: Rank, local: int | None, names: frozenset[str]) -> Ints:
        """Return the indices of the events of a rank that call one of `names` on a window or file, in order. `local`:
        the rank's id of the object, None for no such object."""
        if local is None:
            return np.zeros(0, np.int64)
        key = ("object", hash(names), local, rank.index)
        if key not in self._lists:
            events = rank.events
            hit = self.masks.table(names)[events["function"]] & (events["object"] == local)
            self._lists[key] = np.flatnonzero(hit)
        return self._lists[key]

    # Absences

    def member_call(self, rank: Rank, event: int, inter: bool = False) -> MemberCall:
        """Return the function that an event calls and its root, which must be equal at all members. No root for an
        intercommunicator: there the members give different roots by design."""
        slot = rank.events[event]
        name = self.masks.name(slot["function"])
        root = raw_rank(int(slot["peer"])) if name in _ROOTED and not inter else None
        return MemberCall(name, root)

    def absence_from(self, event: Event, row: Meaning) -> Absence | None:
        """Return who is missing from the collective call that `event` is or began: on a communicator, window, file or
        group. None if that is not known.

        In a run with dropped calls, only collectives on communicators are known: these calls were counted as they were
        dropped.
        """
        if self._dropped is not None and row.over not in (Over.COMMUNICATOR, Over.WORLD):
            return None
        if row.over is Over.COMMUNICATOR:
            return self.absence_on_comm(event, _OF_FORM[row.form])
        if row.over is Over.WINDOW:
            return self.absence_on_window(event)
        if row.over is Over.FILE:
            return (
                self.absence_on_file(event) if row.form is not Form.NONBLOCKING else self.absence_on_file_request(event)
            )
        if row.over is Over.GROUP:
            return self.absence_in_group(event)
        return self.absence_at_end(event, calls.FINALIZE if row.over is Over.WORLD else calls.SESSION_ENDS)

    def absence_on_comm(self, event: Event, names: frozenset[str]) -> Absence | None:
        """Return who is missing from the collective on a communicator that `event` is in; None if that is not known."""
        comm = event.comm
        everyone = self.known_members(comm) if comm else None
        if comm is None or everyone is None:
            return None
        return self._find_absence(
            ("comm", id(names), comm.index),
            event,
            everyone,
            lambda r: self.calls_on_comm(r, comm, names),
            name=comm.name,
            inter=comm.inter,
            dropped=self._dropped_counter(comm, names),
        )

    def _dropped_counter(self, comm: Communicator, names: frozenset[str]) -> Callable[[Rank], int | None] | None:
        """Return what counts the dropped calls of functions with `names` on a communicator, None of a whole run."""
        dropped = self._dropped
        return None if dropped is None else lambda rank: dropped.count_calls(rank, comm, self.masks.table(names))

    def absence_on_window(self, event: Event) -> Absence | None:
        """Return who is missing from a fence or free of a window; None if that is not known."""
        key = self.window(event.rank, event.object)
        everyone = self.known_members(self.trace.communicators[key[0]]) if key else None
        if key is None or everyone is None:
            return None
        names = calls.WINDOW_COLLECTIVES
        return self._find_absence(
            ("window", *key), event, everyone,
            lambda r: self._calls_on_object(r, self.window_ids(r).get(key), names), name="the window",
        )  # fmt: skip

    def absence_on_file(self, event: Event) -> Absence | None:
        """Return who is missing from a collective call on a file; None if that is not known."""
        key = next((k for k, id in self.file_ids(event.rank).items() if id == event.object), None)
        everyone = self.known_members(self.trace.communicators[key[0]]) if key else None
        if key is None or everyone is None:
            return None
        names = calls.FILE_COLLECTIVES
        return self._find_absence(
            ("file", *key), event, everyone,
            lambda r: self._calls_on_object(r, self.file_ids(r).get(key), names), name="the file",
        )  # fmt: skip

    def absence_on_file_request(self, event: Event) -> Absence | None:
        """Return who is missing from a nonblocking collective on a file, whose event names the request; None if that
        is not known."""
        local = event.args.get("fh")
        key = next((k for k, id in self.file_ids(event.rank).items() if id == local), None)
        everyone = self.known_members(self.trace.communicators[key[0]]) if key else None
        if key is None or everyone is None:
            return None
        return self._find_absence(
            ("requests of a file", *key), event, everyone,
            lambda r: self._nonblocking_calls_on_file(r, self.file_ids(r).get(key)),
            name="the file",
        )  # fmt: skip

    def _nonblocking_calls_on_file(self, rank: Rank, file: int | None) -> Ints:
        """Return the events of a rank that began nonblocking collectives on a file."""
        which = self.masks.where(rank, calls.FILE_ICOLLECTIVES) if file is not None else np.zeros(0, np.int64)
        found = [
            events[integer_column(values, "fh") == file]
            for events, values in decode_columns(rank, which, frozenset(("fh",)))
        ]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))

    def absence_in_group(self, event: Event) -> Absence | None:
        """Return who is missing from a call that only the members of a group make, as MPI_Comm_create_group: they find
        each other by a tag or a string. None if the members are not known, or the caller is not among them."""
        key = _make_group_key(event)
        if key is None or event.rank.index not in key.members:
            return None
        name = self.masks.name(event.function.id)
        return self._find_absence(
            ("group", key), event, key.members,
            lambda r: np.array([i for i in self.masks.where(r, frozenset((name,))).tolist()
                                if _make_group_key(r.event(i)) == key], np.int64), name="the group",
        )  # fmt: skip

    def absence_at_end(self, event: Event, names: frozenset[str]) -> Absence | None:
        """Return which ranks of the world have not made as many calls of `names` (MPI_Finalize, or the end of a
        session) as this one. None if a rank of the world is unknown."""
        everyone = frozenset(self.trace.worlds[event.rank.world].ranks)
        if -1 in everyone:
            return None
        return self._find_absence(
            ("end", id(names), event.rank.world), event, everyone, lambda r: self.masks.where(r, names), name="MPI"
        )

    def absence_from_start(self, init: Event, nth: int, starts: Callable[[int, int], int]) -> Absence | None:
        """Return who has not started a persistent collective for the `nth` time (from 1). None if that is not known.

        `init`: the call of this rank that made the collective. `starts(rank, event)` returns how often a rank started
        the collective that its call with this event index made.
        """
        made = self.absence_on_comm(init, calls.COLLECTIVE_INITS) if self._dropped is None else None
        comm = init.comm
        everyone = self.known_members(comm) if comm else None
        if made is None or comm is None or everyone is None:
            return None
        late = []
        for member in sorted(everyone - made.missing):
            theirs = self.calls_on_comm(self.trace.ranks[member], comm, calls.COLLECTIVE_INITS)
            if starts(member, int(theirs[made.k])) < nth:
                late.append(member)
        return Absence(made.place, made.k, made.call, made.fewer.union(late), made.other, starts=True)

    def _find_absence(
        self, place: tuple[object, ...], event: Event, everyone: frozenset[int], list_of: Callable[[Rank], Ints],
        *, name: str, inter: bool = False, dropped: Callable[[Rank], int | None] | None = None,
    ) -> Absence | None:  # fmt: skip
        """Return who is missing from the call of `event`, None if that is not known.

        `place`, `name`: key and words for what the call is on. `everyone`: the ranks that must make it.
        `list_of(rank)` returns the rank's calls in order that can meet it. `inter`: on an intercommunicator.
        `dropped(rank)` returns how many calls the rank made before those in its list, None if that is not known.
        """
        first: dict[int, int] = {}
        if dropped is not None:
            ahead = {member: dropped(self.trace.ranks[member]) for member in everyone | {event.rank.index}}
            first = {member: n for member, n in ahead.items() if n is not None}
            if len(first) < len(ahead):
                return None
        k = int(np.searchsorted(list_of(event.rank), event.index)) + first.get(event.rank.index, 0)
        call = self.member_call(event.rank, event.index, inter)
        key = (*place, k, call)
        if key not in self._absences:
            fewer: list[int] = []
            other: dict[int, int] = {}
            for member in sorted(everyone):
                rank = self.trace.ranks[member]
                theirs, at = list_of(rank), k - first.get(member, 0)
                if len(theirs) <= at:
                    fewer.append(member)
                elif at >= 0 and self.member_call(rank, int(theirs[at]), inter) != call:
                    other[member] = int(theirs[at])
            self._absences[key] = Absence(name, k, call, frozenset(fewer), other)
        return self._absences[key]

    # Locks

    def find_lock_holders(self, window: tuple[int, int], target: int, asking: Rank) -> dict[int, int]:
        """Return {rank index: event index of its lock} for the ranks whose lock of a target keeps `asking` from its
        own. Ranks that share the lock with it are left out."""
        comm = self.trace.communicators[window[0]]
        mine = self._find_lock(asking, window, target, asked=True)
        found: dict[int, int] = {}
        for member in comm.members:
            if member in (-1, asking.index):
                continue
            rank = self.trace.ranks[member]
            held = self._find_lock(rank, window, target)
            if held is not None and not (
                mine is not None and self._is_shared_lock(asking, mine) and self._is_shared_lock(rank, held)
            ):
                found[member] = held
        return found

    def _find_lock(self, rank: Rank, window: tuple[int, int], target: int, *, asked: bool = False) -> int | None:
        """Return the event index of the call by which a rank holds the lock of a target, None if it does not hold it.
        With `asked`, a call that still waits for the lock counts, too."""
        held = None
        mine = self._calls_on_object(rank, self.window_ids(rank).get(window), calls.LOCKS | calls.UNLOCKS)
        for index in mine.tolist():
            slot = rank.events[index]
            name = self.masks.name(slot["function"])
            closed = bool(slot["flags"] & Flag.CLOSED)
            if name.endswith("_all") or int(slot["peer"]) == target:
                locks = name in calls.LOCKS and (closed or asked)
                held = index if locks else held if not closed else None
        return held

    def _is_shared_lock(self, rank: Rank, lock: int) -> bool:
        """Return whether a lock lets others have theirs."""
        event = rank.event(lock)
        return base_name(event.function.name).endswith("_all") or event.args.get("lock_type") == SHARED
