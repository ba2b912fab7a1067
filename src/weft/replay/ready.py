"""Find which other request a call could have completed that completes one or some of several.

MPI lets MPI_Waitany, MPI_Waitsome, MPI_Testany and MPI_Testsome take any request that is complete (MPI-4.1, 3.7.5). A
receive can be complete at the end of such a call if its message is not sent because of that end; a send, if its receive
is not posted because of it. The order of messages does not tell about other requests (a collective, a file). Of the
sets that MPI_Waitsome and MPI_Testsome can complete at once, only those of one request are considered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.match import NONE, Match, Post, Posts
from weft.mpi.meaning import Act, Form, Many, base_name, functions_with
from weft.order import Order
from weft.terms.argument_columns import Ragged, decode_columns
from weft.trace import Rank, Trace
from weft.trace.layout import ID_DYNAMIC, Flag

_ONE: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.ANY)
SOME: Final = functions_with(Act.COMPLETE, where=lambda m: m.many is Many.SOME)
_STARTS: Final = {f"MPI_{name}" for name in functions_with(Act.START)}
Row = tuple[Posts, int]
"""A send or receive of a Match."""


@dataclass(frozen=True, slots=True)
class CompletingCall:
    """A call that completed requests of an array: the event, the given request ids, the completed indices."""

    event: int
    requests: tuple[int, ...]
    taken: tuple[int, ...]


def completed_indices(rank: Rank, rows: NDArray[np.int64]) -> Iterator[tuple[int, list[int] | None]]:
    """Yield (event, indices) for some calls of a rank: the indices of the requests that the call completed, or None if
    no request was active.
    """
    for events, tail in decode_columns(rank, rows, frozenset(["index", "outcount", "array_of_indices"])):
        if "index" in tail:
            index = np.asarray(tail["index"]).tolist()
            yield from ((event, [i] if i >= 0 else None) for event, i in zip(events.tolist(), index, strict=True))
        elif "outcount" in tail and isinstance(some := tail.get("array_of_indices"), Ragged):
            counts = np.asarray(tail["outcount"]).tolist()
            for k, (event, count) in enumerate(zip(events.tolist(), counts, strict=True)):
                yield event, some[k].tolist() if count >= 0 else None


def find_completing_calls(rank: Rank, only: int | None = None) -> Iterator[CompletingCall]:
    """Return the calls of a rank that completed one or some of several requests, in order; polls that completed nothing
    are left out. `only`: look at this event alone.
    """
    events, functions = rank.events, rank.trace.functions
    of_several = functions.mask(f"MPI_{name}" for name in _ONE | SOME)[events["function"]]
    good = (events["flags"] & Flag.CLOSED != 0) & (events["error"] == 0)
    rows = np.flatnonzero(of_several & good)
    rows = rows if only is None else rows[rows == only]
    chosen = {event: indices for event, indices in completed_indices(rank, rows) if indices} if len(rows) else {}
    found = []
    for some, tail in decode_columns(rank, np.array(sorted(chosen), np.int64), frozenset(["array_of_requests"])):
        if isinstance(requests := tail.get("array_of_requests"), Ragged):
            for k, event in enumerate(some.tolist()):
                given = requests[k].tolist()
                if all(i < len(given) for i in chosen[event]):
                    found.append(CompletingCall(event, tuple(given), tuple(chosen[event])))
    return iter(sorted(found, key=lambda one: one.event))


class RequestOperations:
    """The sends and receives of the requests of a run's ranks."""

    def __init__(self, trace: Trace, match: Match, order: Order) -> None:
        self.trace, self.match, self.order = trace, match, order
        self._made: dict[int, dict[int, list[tuple[int, Row]]]] = {}

    def iterate_other_requests(self, rank: Rank) -> Iterator[tuple[EventId, list[int], int]]:
        """Yield (event, indices, number) for each call of a rank that completed one or some of several requests: the
        indices of those that it could have completed instead, and the number of those for which this is unknown.
        """
        for call in find_completing_calls(rank):
            yield EventId(rank.index, call.event), *self._find_other_requests(rank.index, call)

    def _find_other_requests(self, rank: int, call: CompletingCall) -> tuple[list[int], int]:
        """Return (indices, number): the indices of the requests that a call could have completed instead, and the
        number of requests for which this is unknown.
        """
        found, unknown = [], 0
        for index, request in enumerate(call.requests):
            if call.taken == (index,) or request < ID_DYNAMIC:
                continue
            if index in call.taken:  # it was complete, and could have been so alone
                found.append(index)
                continue
            ready = self.can_be_complete(rank, call.event, request)
            if ready:
                found.append(index)
            unknown += ready is None
        return found, unknown

    def can_be_complete(self, rank: int, event: int, request: int) -> bool | None:
        """Return whether a request can be complete at the end of an event; None if its operation is unknown."""
        if request < ID_DYNAMIC:
            return False  # null, or none
        row = self.find_operation(rank, event, request)
        if row is None:
            return None
        posts, k = row
        if posts.completion[k] != NONE and posts.completion[k] < event:
            return False  # a persistent one that is not active
        partner = int(posts.partner[k])
        if posts is self.match.recvs:
            return partner != NONE and not self._comes_after(rank, event, self.match.sends.id(partner))
        if posts.flags[k] & Post.BUFFERED:
            return True
        return partner != NONE and not self._comes_after(rank, event, self.match.recvs.id(partner))

    def _comes_after(self, rank: int, event: int, other: EventId) -> bool:
        """Return whether another event can only begin after an event has ended."""
        return self.order.reaches(EventId(rank, event), other, a_end=True, b_end=False)

    def find_operation(self, rank: int, event: int, request: int) -> Row | None:
        """Return the last send or receive that was started with a request before an event, as (columns, row); None if
        there is none.
        """
        if rank not in self._made:
            self._made[rank] = self._operations_by_request(rank)
        begun = [row for at, row in self._made[rank].get(request, ()) if at < event]
        return begun[-1] if begun else None

    def _operations_by_request(self, rank: int) -> dict[int, list[tuple[int, Row]]]:
        """Return request id -> [(event that started it, send or receive), ...] for a rank, in order of these events."""
        events = self.trace.ranks[rank].events
        found: dict[int, list[tuple[int, Row]]] = {}
        functions = self.trace.functions
        started = functions.mask(_STARTS)[events["function"]]
        several: dict[int, list[Row]] = {}
        for posts in (self.match.recvs, self.match.sends):
            part = posts.of_rank(rank)
            for row in range(part.start, part.stop):
                event = int(posts.event[row])
                if started[event] and base_name(functions[int(events["function"][event])].name) == "Startall":
                    several.setdefault(event, []).append((posts, row))
                elif posts.flags[row] & Post.NONBLOCKING or started[event]:
                    found.setdefault(int(events["object"][event]), []).append((event, (posts, row)))
        for event, rows in several.items():
            for request, one in self._pair_startall_requests(rank, event, rows):
                found.setdefault(request, []).append((event, one))
        for begun in found.values():
            begun.sort(key=lambda one: one[0])
        return found

    def _pair_startall_requests(self, rank: int, event: int, rows: list[Row]) -> Iterator[tuple[int, Row]]:
        """Yield (request id, operation) for the requests of an MPI_Startall, in the order of the array. Receives are
        left out if there are not as many as requests for receives; sends likewise.
        """
        given = [int(r) for r in self.trace.event(rank, event).args.get("array_of_requests") or []]
        receives = self._find_persistent_requests(rank)
        for posts, wanted in ((self.match.recvs, True), (self.match.sends, False)):
            mine = [one for one in rows if one[0] is posts]
            theirs = [request for request in given if receives.get(request) is wanted]
            if len(mine) == len(theirs):
                yield from zip(theirs, mine, strict=True)

    def _find_persistent_requests(self, rank: int) -> dict[int, bool]:
        """Return request id -> whether it is a receive (else a send) for the persistent requests of a rank."""
        events, functions = self.trace.ranks[rank].events, self.trace.functions
        found: dict[int, bool] = {}
        for act, receives in ((Act.RECEIVE, True), (Act.SEND, False)):
            names = functions_with(act, where=lambda m: m.form is Form.PERSISTENT)
            rows = np.flatnonzero(functions.mask(f"MPI_{n}" for n in names)[events["function"]])
            found |= dict.fromkeys(events["object"][rows].tolist(), receives)
        return found
