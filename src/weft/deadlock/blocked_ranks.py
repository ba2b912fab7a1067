"""Find what each rank of a run that stands still waits for, call by call, and hence which ranks can never go on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Literal

import numpy as np

from weft.base.lazy import dataclass
from weft.deadlock.collective_calls import Absence, CollectiveCalls
from weft.deadlock.message_balance import Channel, Ledger, make_ledgers
from weft.deadlock.partitions import find_missing_partitions, has_unready_send
from weft.deadlock.traffic import Traffic
from weft.deadlock.wait_for_graph import NEVER, NOW, Need, find_stuck, need_all, need_any, need_rank
from weft.match.rings import dropped_operations
from weft.mpi import meaning
from weft.mpi.meaning import Act, Form, Leaves, Meaning, Over, Share, Waits, base_name
from weft.mpi.meaning.pvm import KILL
from weft.terms import calls
from weft.terms.windows import group_members
from weft.trace import Communicator, Event, Flag, Rank, Trace
from weft.trace.layout import ANY_SOURCE, ANY_TAG, PROC_NULL, Level
from weft.trace.sites import CallSite

_ANY_OF_REQUESTS = calls.OF_ANY | calls.OF_SOME
_OF_A_TASK = 1
"""PvmTaskExit: a notice of a task of the run. Others are of hosts, which anybody may add and take away."""


@dataclass(frozen=True)
class Reason:
    """One thing that a blocked call waits for.

    `what`: "message" (a receive or probe waits for one), "receive" (a send waits for one), "members" (a collective),
    "lock", "post" or "complete" (one-sided), "partitions" (those of its own send that are not ready). `event` is the
    call that asked for it (of the same rank). `peer` and `tag` are what it asked for, in trace indices, or wildcards.
    """

    what: Literal["message", "receive", "members", "lock", "post", "complete", "partitions"]
    event: Event
    need: Need
    comm: Communicator | None = None
    peer: int = ANY_SOURCE
    tag: int = ANY_TAG
    absence: Absence | None = None
    partitions: tuple[int, ...] = ()
    sure: bool = True
    """False for a standard nonblocking send, which may have been buffered."""


@dataclass(frozen=True)
class Blocked:
    """A call that has not returned: what it needs, and which parts of that are missing."""

    event: Event
    need: Need
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """A part of a blocked call, before the ledgers are known."""

    what: Literal["message", "receive", "probe"]
    event: Event
    request: int
    comm: Communicator
    peer: int
    tag: int
    sure: bool = True


@dataclass(frozen=True)
class Polling:
    """A rank that only polled: the different polls of its loops, the last of each, with their number and time."""

    polls: tuple[Event, ...]
    count: int
    span_ns: float
    beside: CallSite | None = None
    """Where another thread of the rank, which is in no call of MPI, slept meanwhile."""


class Standstill:
    """A run in which no rank moves: who is blocked in which call, and who can never continue.

    `gone` names ranks (by index) whose process is known to have ended, though their record does not say so. With
    `buffering` no standard send is believed to wait: a run that was killed may have been inside one that would
    return. `is_seen`: no thread outside MPI can go on by itself.
    """

    def __init__(
        self, trace: Trace, gone: Collection[int] = (), *, buffering: bool = False, is_seen: bool = False
    ) -> None:
        self.trace = trace
        self._buffering = buffering
        self.gone = frozenset(gone) | {r.index for r in trace.ranks if _has_left_mpi(r)} | _find_killed_tasks(trace)
        self.dropped = dropped_operations(trace)
        """What the calls came to that the run no longer has; None of a run that is whole."""
        self.gatherings = CollectiveCalls(trace, self.dropped)
        self.traffic = [Traffic(r) for r in trace.ranks]
        self._shared: dict[tuple[frozenset[int], bool], Need] = {}
        self._proven = is_seen or trace.run.get("ended") == "deadlock"

    @cached_property
    def polling(self) -> Mapping[int, Polling]:
        """Return by rank index the ranks that count as waiting because they only poll. None do here: a rank that polls
        may go on."""
        return {}

    # Ranks

    @cached_property
    def open_calls(self) -> dict[int, list[Event]]:
        """Return by rank index the calls that have not returned. A rank is in it if the last call of each of its
        threads is open (in a run that was proven to be deadlocked: of one thread), and nothing from outside of the run
        can free it."""
        ranks = (r for r in self.trace.ranks if r.index not in self.gone and self.may_be_blocked(r))
        return {r.index: found for r in ranks if (found := self.find_open_calls(r))}

    def may_be_blocked(self, rank: Rank) -> bool:
        """Return whether the record says enough of a rank that has not ended, and nobody outside of the run can free
        it."""
        unknown = rank.state in ("missing", "stopped", "aborted", "damaged")
        return self.trace.level != Level.OUTCOMES and not unknown and not _may_hear_from_outside(rank)

    def find_open_calls(self, rank: Rank) -> list[Event]:
        """Return the calls of a rank that have not returned; [] if one of its threads may compute on, as its last call
        returned. Where the run was already proven to be deadlocked, such a thread has ended."""
        calls_ = _find_last_calls(rank)
        open_ = [event for event in calls_ if event.open]
        return open_ if len(open_) == len(calls_) or self._proven else []

    def waiting_function(self, event: Event) -> str:
        """Return the name of the function that a call waits in, without `MPI_`."""
        return base_name(event.function.name)

    @property
    def ranks_with_other_threads(self) -> frozenset[int]:
        """Return the ranks with a thread that has not called MPI, but may: with MPI_THREAD_MULTIPLE, where nobody saw
        that it sleeps."""
        return frozenset(
            r.index
            for r in self.trace.ranks
            if not self._proven and r.header is not None and r.header.thread_level > 2 and r.header.other_threads
        )

    @cached_property
    def blocked(self) -> dict[int, list[Blocked]]:
        """Return by rank index the open calls of the rank, each with what must happen before it can return."""
        asks = {event: list(self._wanted_messages(event)) for events in self.open_calls.values() for event in events}
        books = self._books([ask for found in asks.values() for ask in found])
        return {
            index: [self._analyse_call(event, asks[event], books) for event in events]
            for index, events in self.open_calls.items()
        }

    @cached_property
    def needs(self) -> dict[int, Need]:
        """Return what each rank that cannot simply go on needs; one that is gone never helps."""
        found = {index: need_any(b.need for b in blocked) for index, blocked in self.blocked.items()}
        return {**found, **dict.fromkeys(self.gone, NEVER)}

    @cached_property
    def stuck(self) -> frozenset[int]:
        """Return the ranks that are blocked for ever."""
        return find_stuck(self.needs) - self.gone

    def stuck_despite(self, helpers: Collection[int]) -> frozenset[int]:
        """Return the ranks that were blocked for ever even if `helpers` could continue."""
        return find_stuck({index: NOW if index in helpers else need for index, need in self.needs.items()})

    def _need_of_ranks(self, ranks: frozenset[int], each: bool) -> Need:
        if not ranks:
            return NOW
        return self._shared.setdefault((ranks, each), Need(ranks, every=each))

    # What a call asks for

    def _wanted_messages(self, event: Event) -> Iterator[_Wanted]:
        """Yield the messages and receives that must come before an open call can return."""
        name = self.waiting_function(event)
        if name in calls.RECVS or name in calls.PROBES:
            yield from self._want_message("probe" if name in calls.PROBES else "message", event)
        elif name in calls.SENDS:
            if name not in calls.BUFFERED:
                yield from self._want_message("receive", event)
        elif name in calls.SENDRECVS:
            yield from self._want_both_sides(event, 0)
        elif name in calls.WAITS:
            for request in self._requests(event):
                yield from self._want_for_request(event, request)

    def _want_message(
        self, what: Literal["message", "receive", "probe"], event: Event, request: int = 0, *, sure: bool = True,
        posted: Event | None = None, peer: int | None = None, tag: int | None = None,
    ) -> Iterator[_Wanted]:  # fmt: skip
        """Yield the message or receive that a call needs, from its arguments; nothing for MPI_PROC_NULL.

        `posted`: the start of the persistent request that the call made. `peer`, `tag`: values to use instead of the
        call's own arguments. `sure`: False for a standard nonblocking send, which may have been buffered.
        """
        comm = event.comm
        peer = _given_argument(event, "peer") if peer is None else peer
        tag = _given_argument(event, "tag") if tag is None else tag
        if comm is None or peer == PROC_NULL:
            return
        place = comm.peer(event.rank.index, peer) if peer >= 0 else peer
        yield _Wanted(what, posted or event, request, comm, place, tag, sure)

    def _want_both_sides(self, event: Event, request: int) -> Iterator[_Wanted]:
        """Yield the receive that takes the message of a send-receive, and the message that it receives."""
        args = event.args
        yield from self._want_message("receive", event, request, sure=False)
        if "source" in args:
            yield from self._want_message("message", event, request, peer=args["source"], tag=args["recvtag"])

    def _requests(self, event: Event) -> list[int]:
        if base_name(event.function.name) in calls.OF_ONE:
            return [event.object] if event.object > 1 else []
        return [id for id in event.args.get("array_of_requests", []) if id > 1]

    def find_request_maker(self, event: Event, request: int) -> Event | None:
        """Return the call of the same rank that made a request, None if the record does not show it."""
        events = event.rank.events
        made = self.gatherings.masks.table(calls.REQUEST_MAKERS)[events["function"]]
        found = np.flatnonzero((events["object"] == request) & made)
        return event.rank.event(int(found[-1])) if len(found) else None

    def _want_for_request(self, wait: Event, request: int) -> Iterator[_Wanted]:
        """Yield the message or receive that a request needs before a wait for the request can return. Nothing if the
        call that made the request is unknown, or if its persistent request is not active."""
        maker = self.find_request_maker(wait, request)
        if maker is None:
            return
        name = base_name(maker.function.name)
        posted = self._active_start(wait, request) if name in calls.PERSISTENT else None
        if name in calls.PERSISTENT and posted is None:
            return
        if name in calls.IRECVS or name in calls.RECV_INITS:
            yield from self._want_message("message", maker, request, posted=posted)
        elif name in calls.ISENDRECVS:
            yield from self._want_both_sides(maker, request)
        elif (name in calls.ISENDS or name in calls.SEND_INITS) and name not in calls.BUFFERED:
            yield from self._want_message("receive", maker, request, sure=name in calls.SYNCHRONOUS, posted=posted)

    def _active_start(self, wait: Event, request: int) -> Event | None:
        """Return the last start of a persistent request if it has not completed since, else None."""
        of = self.traffic[wait.rank.index]
        event, started, _ = of.starts
        mine = event[started == request]
        finished = np.count_nonzero(of.completions.request == request)
        return wait.rank.event(int(mine[-1])) if len(mine) > finished else None

    # Needs

    def _books(self, asks: list[_Wanted]) -> dict[int, Ledger]:
        receivers = {a.peer if a.what == "receive" else a.event.rank.index for a in asks}
        receivers = {index for index in receivers if index >= 0}
        return make_ledgers(self.traffic, receivers, self.dropped) if receivers else {}

    def _analyse_call(self, event: Event, asks: list[_Wanted], ledgers: dict[int, Ledger]) -> Blocked:
        """Return what an open call needs before it can return, and the reasons for which it still waits. `asks`: the
        messages and receives that it needs."""
        name = self.waiting_function(event)
        reasons = [self._reason_for(ask, ledgers) for ask in asks]
        if name in calls.WAITS:
            reasons += self._reasons_of_collective_requests(event)
            reasons += self._reasons_of_partitioned(event)
            return _combine_reasons(event, reasons, name in _ANY_OF_REQUESTS, len(self._requests(event)))
        if reasons:
            return _combine_reasons(event, reasons, False, len(reasons))
        reason = self._reason_of_collective(event) or self._reason_of_one_sided(event, name)
        if reason is None or reason.need is NOW:
            return Blocked(event, NOW)
        return Blocked(event, reason.need, (reason,))

    def _reason_for(self, ask: _Wanted, ledgers: dict[int, Ledger]) -> Reason:
        """Return the reason for which a call waits for a message or receive."""
        me = ask.event.rank.index
        if ask.what == "receive":
            need = self._need_of_send(ask, ledgers)
        else:
            wanted = Channel(ask.comm.index, ask.peer, ask.tag)
            served = (
                ledgers[me].has_message_for(wanted)
                if ask.what == "probe"
                else ledgers[me].is_served(ask.event.index, ask.request, wanted)
            )
            need = NOW if served else self._need_of_receive(ask)
        what: Literal["message", "receive"] = "receive" if ask.what == "receive" else "message"
        return Reason(what, ask.event, need, ask.comm, ask.peer, ask.tag, sure=ask.sure)

    def _need_of_send(self, ask: _Wanted, ledgers: dict[int, Ledger]) -> Need:
        """Return what must happen before a send can return: the receiver goes on. If the message may have been taken
        or buffered, return NOW: nothing has to happen."""
        name = base_name(ask.event.function.name)
        standard = name not in calls.SYNCHRONOUS and name not in calls.STARTS
        if ask.peer < 0 or (self._buffering and standard):
            return NOW
        mine = self.traffic[ask.event.rank.index].sends
        later = (mine.comm == ask.comm.index) & (mine.peer == ask.peer) & (mine.tag == ask.tag)
        later &= (mine.event > ask.event.index) | ((mine.event == ask.event.index) & (mine.request > ask.request))
        channel = Channel(ask.comm.index, ask.event.rank.index, ask.tag)
        left = ledgers[ask.peer].leaves_untaken(channel, int(np.count_nonzero(later)))
        return need_rank(ask.peer) if left else NOW

    def _need_of_receive(self, ask: _Wanted) -> Need:
        """Return what must happen before a receive or probe can return: its sender goes on, or for a wildcard any
        member of the communicator. NOW (nothing has to happen) if the sender is invalid or unknown."""
        if ask.peer >= 0:
            return need_rank(ask.peer)
        members = frozenset(ask.comm.peers(ask.event.rank.index))
        # Invalid or unknown ranks prove nothing.
        return NOW if ask.peer != ANY_SOURCE or -1 in members else self._need_of_ranks(members, False)

    def _reason_of_collective(self, event: Event) -> Reason | None:
        """Return which members have not come to the collective that a call is in, as the reason for which it waits.
        None if all have come, or if the call is no blocking collective."""
        row = meaning.find_meaning(event.function.name)
        if row is None or row.over is Over.NOBODY or row.form is Form.NONBLOCKING:
            return None
        if row.name == "Intercomm_create":
            return self._reason_of_intercomm_create(event) if self.dropped is None else None
        absence = self.gatherings.absence_from(event, row)
        if absence is None or not absence.missing:
            return None
        making = row.form is Form.PERSISTENT  # which may wait, but need not
        need = self._need_of_ranks(absence.missing, False) if making else self._need_of_members(event, row, absence)
        return Reason("members", event, need, event.comm, absence=absence)

    def _need_of_members(self, event: Event, row: Meaning, absence: Absence) -> Need:
        """Return which absent members must go on before a collective can return: all of them if the call needs them
        all, else any of them, as at least one keeps the call from returning."""
        missing, comm, me = absence.missing, event.comm, event.rank.index
        if comm is not None and not comm.inter and row.is_rooted:
            root, from_root = comm.peer(me, event.peer), row.leaves is Leaves.AFTER_ROOT
            if root == me:  # a member that owes nothing by its count need not come first
                return self._need_of_ranks(missing, not from_root and row.receives is not Share.LISTED)
            return need_rank(root) if from_root and root in missing else self._need_of_ranks(missing, False)
        if comm is not None and row.leaves in (Leaves.AFTER_LOWER, Leaves.AFTER_LOWER_ALONE):
            below = frozenset(m for m in missing if comm.rank_of(m) < comm.rank_of(me))
            return self._need_of_ranks(below or missing, bool(below))
        some = row.waits is Waits.SOME or row.has_pairwise_amounts or (comm is not None and comm.inter)
        if row.leaves is Leaves.FENCE and event.args.get("assert", 0):
            some = True
        return self._need_of_ranks(missing, not some)

    def _reasons_of_collective_requests(self, wait: Event) -> Iterator[Reason]:
        """Yield the reasons for which a wait for nonblocking or persistent collectives cannot return."""
        for request in self._requests(wait):
            maker = self.find_request_maker(wait, request)
            row = meaning.find_meaning(maker.function.name) if maker else None
            if maker is None or row is None or row.act is not Act.COLLECTIVE:
                continue
            if row.form is Form.PERSISTENT:
                nth = self._count_starts(wait.rank.index, maker.index)
                if self._active_start(wait, request) is None:
                    continue
                absence = self.gatherings.absence_from_start(maker, nth, self._count_starts)
            else:
                absence = self.gatherings.absence_from(maker, row)
            missing = absence is not None and bool(absence.missing)
            need = self._need_of_members(maker, row, absence) if absence is not None and missing else NOW
            yield Reason("members", maker, need, maker.comm, absence=absence)

    def _count_starts(self, of: int, init: int) -> int:
        """Return how often a rank started the persistent operation that its event `init` made."""
        _, _, inits = self.traffic[of].starts
        return int(np.count_nonzero(inits == init))

    def _reasons_of_partitioned(self, wait: Event) -> Iterator[Reason]:
        """Yield the reasons for which a wait for partitioned operations cannot return: a send has partitions that only
        this rank could mark as ready, or a receive waits for such a send."""
        for request in self._requests(wait) if self.dropped is None else ():
            maker = self.find_request_maker(wait, request)
            name = base_name(maker.function.name) if maker else ""
            start = self._active_start(wait, request) if maker and name in calls.PARTITIONED else None
            if maker is None or start is None or maker.comm is None or maker.peer < 0:
                continue
            peer = maker.comm.peer(wait.rank.index, maker.peer)
            if name == "Psend_init" and not _shares_mpi(wait.rank):
                left = tuple(find_missing_partitions(wait.rank, maker, start.index))
                if left:
                    yield Reason("partitions", maker, NEVER, maker.comm, peer, maker.tag, partitions=left)
            elif name == "Precv_init" and peer >= 0 and has_unready_send(self.trace.ranks[peer], maker):
                yield Reason("message", maker, need_rank(peer), maker.comm, peer, maker.tag)

    def _reason_of_intercomm_create(self, event: Event) -> Reason | None:
        """Return who is missing from the creation of an intercommunicator: members of the local communicator, then
        the other side's leader, whom the local leader names."""
        absence = self.gatherings.absence_on_comm(event, calls.COMM_COLLECTIVES)
        if absence is None:
            return None
        comm, args = event.comm, event.args
        if absence.missing or comm is None:
            return Reason("members", event, self._need_of_ranks(absence.missing, True), comm, absence=absence)
        leader = comm.peer(event.rank.index, args.get("local_leader", -1))
        if leader != event.rank.index:
            in_it = any(e.function.name == event.function.name for e in self.open_calls.get(leader, []))
            need = need_rank(leader) if in_it else NOW
            return Reason(
                "members", event, need, comm, absence=Absence(comm.name, absence.k, absence.call, frozenset({leader}))
            )
        bridge = event.rank.comm(args.get("peer_comm", 0))
        other = bridge.peer(event.rank.index, args.get("remote_leader", -1)) if bridge else -1
        if other < 0 or self._count_intercomm_creates(other, event.rank, bridge, args) >= self._count_intercomm_creates(
            event.rank.index, self.trace.ranks[other], bridge, args
        ):
            return None
        return Reason(
            "members", event, need_rank(other), bridge, absence=Absence(comm.name, 0, absence.call, frozenset({other}))
        )

    def _count_intercomm_creates(
        self, leader: int, other_leader: Rank, bridge: Communicator | None, args: Mapping[str, object]
    ) -> int:
        """Return how often the rank `leader` called MPI_Intercomm_create with `other_leader` as the other side's
        leader. `bridge`: the communicator in which they name each other; the tag must be that of `args`."""
        of = self.trace.ranks[leader]
        count = 0
        for index in self.gatherings.masks.where(of, frozenset(("Intercomm_create",))).tolist():
            given = of.event(index).args
            if (
                of.comm(given.get("peer_comm", 0)) is not bridge
                or bridge is None
                or given.get("tag") != args.get("tag")
            ):
                continue
            count += bridge.peer(leader, given.get("remote_leader", -1)) == other_leader.index
        return count

    # One-sided

    def _reason_of_one_sided(self, event: Event, name: str) -> Reason | None:
        """Return the reason for which a call on a window waits: for a lock that another rank holds, or for a post or
        complete that has not been made. None if it waits for neither, or if calls of the run were dropped."""
        if self.dropped is not None:
            return None  # a lock that is held, or a post, may be among what was dropped
        row = meaning.find_meaning(name)
        if row is not None and row.waits is Waits.HOLDER and row.form is Form.BLOCKING:
            return self._reason_of_lock(event, name)
        return (
            self._reason_of_epoch(event, row)
            if row is not None and row.waits in (Waits.POSTS, Waits.COMPLETES)
            else None
        )

    def _reason_of_lock(self, event: Event, name: str) -> Reason | None:
        """Return the reason for which a call waits for the lock of a target: a rank that holds the lock, or the target
        itself, must go on. None if no other rank holds it.

        The lock need not be that of this call: MPI may take a lock only when the first access needs it.
        """
        window = self.gatherings.window(event.rank, event.object)
        if window is None or name.endswith("_all"):
            return None
        holders = self.gatherings.find_lock_holders(window, event.peer, event.rank)
        if not holders:
            return None
        comm = self.trace.communicators[window[0]]
        target = comm.peer(event.rank.index, event.peer)
        # Without asynchronous progress the target's own calls may be what is missing.
        helpers = frozenset(holders) | ({target} - {event.rank.index, -1})
        return Reason("lock", event, self._need_of_ranks(helpers, False), comm, peer=target)

    def _reason_of_epoch(self, event: Event, row: Meaning) -> Reason | None:
        """Return which posts or completes of other ranks a call on a window waits for, as a reason; None if all are
        there.

        Win_start and Win_complete need the post of every target, Win_wait the complete of every origin.
        """
        window = self.gatherings.window(event.rank, event.object)
        if window is None:
            return None
        me = event.rank.index
        completes = row.waits is Waits.COMPLETES
        mine, theirs = ("Win_post", "Win_complete") if completes else ("Win_start", "Win_post")
        wanted = self._count_named_ranks(event.rank, window, mine)
        comm = self.trace.communicators[window[0]]
        missing = frozenset(
            other
            for other, times in wanted.items()
            if self._count_named_ranks(self.trace.ranks[other], window, theirs).get(me, 0) < times
        )
        what: Literal["post", "complete"] = "complete" if completes else "post"
        return Reason(what, event, self._need_of_ranks(missing, True), comm) if missing else None

    def _count_named_ranks(self, rank: Rank, window: tuple[int, int], name: str) -> dict[int, int]:
        """Return by rank index how often `rank` named another rank in the group of its calls of the function `name` on
        a window. MPI_Win_complete has no group: the group of the MPI_Win_start before it counts."""
        id = self.gatherings.window_ids(rank).get(window)
        events = rank.events
        counts: dict[int, int] = {}
        group: tuple[int, ...] = ()
        table = self.gatherings.masks.table(frozenset((name, "Win_start")))
        for index in np.flatnonzero(table[events["function"]] & (events["object"] == id)).tolist() if id else []:
            event = rank.event(index)
            made = base_name(event.function.name)
            if "group" in event.args:
                group = group_members(rank, event.args["group"])
            if made == name and (name != "Win_complete" or not event.open):
                for member in group:
                    counts[member] = counts.get(member, 0) + 1
        return counts


def _combine_reasons(event: Event, reasons: list[Reason], any_is_enough: bool, part_count: int) -> Blocked:
    """Return a blocked call that can go on when one of its parts can (`any_is_enough`), or else when all can.
    `part_count`: the number of parts, also of those without a reason; if one counts as possible, it is enough."""
    if any_is_enough:
        unknown = part_count > len(reasons) or not reasons
        need = NOW if unknown else need_any(reason.need for reason in reasons)
        return Blocked(event, need, tuple(reasons) if need is not NOW else ())
    missing = [reason for reason in reasons if reason.need is not NOW]
    sure = [reason for reason in missing if reason.sure]
    if sure:
        return Blocked(event, need_all(reason.need for reason in sure), tuple(sure))
    # Standard sends alone: at least one of them waits for its receive, and the record does not tell which.
    return Blocked(event, need_any(reason.need for reason in missing) if missing else NOW, tuple(missing))


def _shares_mpi(of: Rank) -> bool:
    """Return whether another thread may call MPI, or may yet begin to."""
    return of.header is None or of.header.thread_level > 1 or len(of.threads) > 1


def _given_argument(event: Event, field: str) -> int:
    """Return the peer or tag that the program gave to a call: the wildcard itself, where the record has the value from
    the status in its place. `field`: "peer" or "tag"."""
    if event.flags & (Flag.ANY_SOURCE if field == "peer" else Flag.ANY_TAG):
        return ANY_SOURCE if field == "peer" else ANY_TAG
    return event.peer if field == "peer" else event.tag


def _may_hear_from_outside(of: Rank) -> bool:
    """Return whether somebody who is not in the run may yet send it something: it asked PVM for notices of hosts."""
    rows = np.flatnonzero(of.trace.functions.mask(("pvm_notify",))[of.events["function"]])
    return any(of.event(int(row)).args.get("what") != _OF_A_TASK for row in rows)


def _find_last_calls(rank: Rank) -> list[Event]:
    """Return the last call of each thread of a rank; [] if it made none."""
    if len(rank.threads) < 2:
        return [rank.event(len(rank) - 1)] if len(rank) else []
    rows = (np.flatnonzero(rank.event_threads == thread) for thread in range(len(rank.threads)))
    return [rank.event(int(indices[-1])) for indices in rows if len(indices)]


def _find_killed_tasks(trace: Trace) -> frozenset[int]:
    """Return the tasks that another task ended by pvm_kill, by rank; their last calls wait for nobody."""
    kill = next((function.id for function in trace.functions if function.name == KILL), None)
    if kill is None:
        return frozenset()
    peers = [rank.events["peer"][rank.events["function"] == kill].tolist() for rank in trace.ranks]
    return frozenset(peer for ended in peers for peer in ended if 0 <= peer < len(trace.ranks))


def _has_left_mpi(rank: Rank) -> bool:
    """Return whether a process left MPI or ended, so that no other rank can expect anything of it."""
    if rank.missing:
        return False
    last = _find_last_calls(rank)
    if any(event.is_finalize_at_exit for event in last):
        return True  # the interpreter's end, or exit(), made this MPI_Finalize: the program is over
    surely = not rank.trace.system.ends_callers or not any(event.open for event in last)
    return rank.state in ("finalized", "exited") and surely
