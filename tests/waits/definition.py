"""The waits of a run by a slow and obvious definition, to hold the fast one against."""

# ruff: noqa: A002 - the domain's word id
from __future__ import annotations

from weft.match import NONE, Match, Post
from weft.terms.datatype_sizes import size_in_bytes
from weft.trace import Event, Trace
from weft.waits.causes import Cause

Late = tuple[int, Cause, tuple[int, int]]
"""When what a call needed came, why it was late, and the event that was."""

SYNCHRONOUS = {"MPI_Ssend", "MPI_Issend"}
NXN = {"MPI_Allreduce": Cause.WAIT_AT_NXN, "MPI_Iallreduce": Cause.WAIT_AT_NXN, "MPI_Barrier": Cause.WAIT_AT_BARRIER,
       "MPI_Ibarrier": Cause.WAIT_AT_BARRIER}  # fmt: skip
WAITS = {"MPI_Send", "MPI_Ssend", "MPI_Recv", "MPI_Probe", "MPI_Mprobe", "MPI_Mrecv", "MPI_Wait", "MPI_Waitall",
         "MPI_Sendrecv", "MPI_Barrier", "MPI_Allreduce", "MPI_Bcast", "MPI_Reduce", "MPI_Scan"}  # fmt: skip
FIRST = {"MPI_Waitany", "MPI_Waitsome"}


class Definition:
    """Every wait of a run: `waits` by event as (ns, Cause, event that was late)."""

    def __init__(self, trace: Trace, match: Match) -> None:
        self.trace, self.match = trace, match
        self.needs: dict[tuple[int, int], list[Late]] = {}
        self.waits: dict[tuple[int, int], tuple[int, Cause, tuple[int, int]]] = {}
        self.completion: dict[tuple[int, int], int] = {}
        self._receives()
        self.limit = self._protocol()
        self._sends()
        self._collectives()
        for id, lates in self.needs.items():
            self._settle(id, lates)

    def event(self, rank: int, index: int) -> Event:
        return self.trace.event(rank, index)

    def _need(self, id: tuple[int, int], late: Late) -> None:
        self.needs.setdefault(id, []).append(late)

    def _receives(self) -> None:
        for posts in (self.match.recvs, self.match.probes):
            for row in range(len(posts)):
                if posts.partner[row] == NONE:
                    continue
                rank, post = posts.id(row)
                send = self.match.sends.id(int(posts.partner[row]))
                late = (self.event(*send).enter_ns, Cause.LATE_SENDER, send)
                for call in {post, int(posts.completion[row])} - {NONE}:
                    if call == posts.completion[row] or posts.flags[row] & Post.MATCHED_PROBE:
                        self._need((rank, call), late)

    def _taken(self, row: int) -> tuple[int, int]:
        """The receive that took a send: of a matched probe the Mrecv."""
        partner = int(self.match.sends.partner[row])
        rank, post = self.match.recvs.id(partner)
        if self.match.recvs.flags[partner] & Post.MATCHED_PROBE and self.match.recvs.args[partner] != NONE:
            post = int(self.match.recvs.args[partner])
        return rank, post

    def _complete(self) -> list[tuple[int, Event, Event, int]]:
        """Sends whose receive and completion are known: row, completing call, receive, bytes."""
        sends, found = self.match.sends, []
        for row in range(len(sends)):
            if sends.partner[row] == NONE or sends.completion[row] == NONE:
                continue
            rank = sends.rank_of(row)
            args = self.event(rank, int(sends.args[row]))
            size = size_in_bytes(args.datatype)
            assert size is not None
            found.append((row, self.event(rank, int(sends.completion[row])), self.event(*self._taken(row)),
                          size * args.count))  # fmt: skip
        return found

    def _protocol(self) -> float:
        standard = [
            found for found in self._complete()
            if self.match.trace.event(*self.match.sends.id(found[0])).function.name not in SYNCHRONOUS
        ]  # fmt: skip
        needed_by: dict[tuple[int, int], list[int]] = {}
        for id, lates in self.needs.items():
            needed_by[id] = [at for at, _, _ in lates]
        for _, call, receive, _ in self._complete():
            needed_by.setdefault(call.id, []).append(receive.enter_ns)
        eager, blocked = -1, []
        for _, call, receive, size in standard:
            assert call.exit_ns is not None
            if receive.enter_ns > call.exit_ns:
                eager = max(eager, size)
        for _, call, receive, size in standard:
            at, leave = receive.enter_ns, call.exit_ns
            assert leave is not None
            if not call.enter_ns < at <= leave or size <= eager or call.function.name not in WAITS:
                continue
            others = sorted(needed_by[call.id])
            others.remove(at)
            if call.function.name in ("MPI_Waitall", "MPI_Sendrecv"):
                base = max([call.enter_ns, *others])
            else:
                base = call.enter_ns
            if size >= 4096 and at > base and at - base >= 4 * (leave - at):
                blocked.append(size)
        for size in sorted(blocked):
            times = 1 if size >= 65536 else 2
            if sum(other <= size for other in blocked) >= times:
                return size
        return float("inf")

    def _sends(self) -> None:
        for row, call, receive, size in self._complete():
            synchronous = self.event(*self.match.sends.id(row)).function.name in SYNCHRONOUS
            assert call.exit_ns is not None
            if (synchronous or size >= self.limit) and call.enter_ns < receive.enter_ns < call.exit_ns:
                self._need(call.id, (receive.enter_ns, Cause.LATE_RECEIVER, receive.id))

    def _collectives(self) -> None:
        colls, of = self.match.collectives, self.match.instances
        for instance in range(len(of)):
            rows = [int(row) for row in of.parts(instance)]
            calls = [self.event(*colls.id(row)) for row in rows]
            last = max(reversed(calls), key=lambda e: e.enter_ns)
            for row, call in zip(rows, calls, strict=True):
                if colls.completion[row] == NONE:
                    continue
                who, cause = self._awaited(call, calls, last)
                done = self.event(call.rank.index, int(colls.completion[row]))
                assert done.exit_ns is not None
                if who is not None and done.exit_ns >= who.enter_ns:
                    self._need(done.id, (who.enter_ns, cause, who.id))
            names = {call.function.name for call in calls}
            if names <= {"MPI_Barrier", "MPI_Allreduce"} and not any(call.open for call in calls):
                freed = max(last.enter_ns, min(call.exit_ns or 0 for call in calls))
                for call in calls:
                    if (call.exit_ns or 0) > freed:
                        self.completion[call.id] = (call.exit_ns or 0) - freed

    def _awaited(self, call: Event, calls: list[Event], last: Event) -> tuple[Event | None, Cause]:
        name = call.function.name
        if name in NXN:
            return last, NXN[name]
        if name == "MPI_Bcast":
            return calls[call.peer], Cause.LATE_BROADCAST
        if name == "MPI_Reduce":
            return (last if call.peer == call.rank.index else None), Cause.EARLY_REDUCE
        lower = [c for c in calls if c.rank.index < call.rank.index]
        return max(lower, key=lambda e: e.enter_ns, default=None), Cause.EARLY_SCAN

    def _settle(self, id: tuple[int, int], lates: list[Late]) -> None:
        call = self.event(*id)
        name, leave = call.function.name, call.exit_ns
        if leave is None or name not in WAITS | FIRST:
            return
        waited = [(max(0, min(at, leave) - call.enter_ns), cause, who) for at, cause, who in lates]
        most = min(waited, key=lambda w: w[0]) if name in FIRST else max(waited, key=lambda w: w[0])
        if most[0] > 0:
            self.waits[id] = most
