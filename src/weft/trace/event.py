"""One MPI call, decoded on demand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft.base.event_id import EventId
from weft.trace import layout
from weft.trace.errors import Arguments
from weft.trace.functions import Function
from weft.trace.layout import COUNT_IN_TAIL, Flag
from weft.trace.tails import Status, Tail, decode_tail
from weft.trace.varint import Cursor

if TYPE_CHECKING:
    from weft.trace.communicators import Communicator
    from weft.trace.datatypes import Datatype
    from weft.trace.rank import Rank
    from weft.trace.sites import CallSite
    from weft.trace.tasks import LogicalTask


class Event:
    """One MPI call of one rank: `index` in rank.events. All else is read from the record when it is asked for."""

    def __init__(self, rank: Rank, index: int) -> None:
        self.rank = rank
        self.index = index
        self.thread, self.position = rank.locate(index)
        self._slot = self.thread.events[self.position]

    def __repr__(self) -> str:
        return f"<Event {self.rank.index}:{self.index} {self.function.name}{' (open)' if self.open else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id and self.rank.trace is other.rank.trace

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> EventId:
        """(rank index, event index), as findings name it."""
        return EventId(self.rank.index, self.index)

    @property
    def flags(self) -> Flag:
        """The slot's flags."""
        return Flag(int(self._slot["flags"]))

    @property
    def open(self) -> bool:
        """Whether the call never returned."""
        return not int(self._slot["flags"]) & Flag.CLOSED

    @property
    def function(self) -> Function:
        """What was called."""
        return self.rank.trace.functions[int(self._slot["function"])]

    @property
    def enter_ns(self) -> int:
        """Time of entry, ns since the run's first event."""
        return self.rank.axis.ns(int(self._slot["enter"]))

    @property
    def exit_ns(self) -> int | None:
        """Time of return, None while open."""
        if self.open:
            return None
        return self.rank.axis.ns(int(self._slot["enter"]) + layout.decode_duration(int(self._slot["duration"])))

    @property
    def comm_id(self) -> int:
        """The rank's own id of the communicator."""
        return int(self._slot["comm"])

    @property
    def comm(self) -> Communicator | None:
        """The communicator, that of the window or file included; None where the call has none."""
        id = self.comm_id
        parameter = self.function.slot.get("object")
        if id == 0 and parameter is not None and parameter.handle in ("WINDOW", "FILE"):
            definitions = self.rank.definitions
            made = definitions.window(self.object) if parameter.handle == "WINDOW" else definitions.file(self.object)
            id = made.comm if made else 0
        return self.rank.comm(id)

    @property
    def peer(self) -> int:
        """Dest, source, root or target in the communicator; for a closed wildcard receive the source that it got.

        Negative: layout.ANY_SOURCE (a wildcard that is still open, or nonblocking), PROC_NULL, ROOT, or the invalid
        rank that the program gave. Where a call has no peer: 0.
        """
        return layout.raw_rank(int(self._slot["peer"]))

    @property
    def peer_index(self) -> int:
        """Index of the peer in trace.ranks, -1 for none."""
        comm = self.comm
        return comm.peer(self.rank.index, self.peer) if comm else -1

    @property
    def tag(self) -> int:
        """The tag; for reductions the id of the operation; for a closed wildcard the tag that it got."""
        return int(self._slot["tag"])

    @property
    def datatype_id(self) -> int:
        """The rank's own id of the datatype."""
        return int(self._slot["datatype"])

    @property
    def datatype(self) -> Datatype | None:
        """The datatype, None where the call has none."""
        return self.rank.datatype(self.datatype_id)

    @property
    def count(self) -> int:
        """The count argument; for a poll that failed, how many equal ones failed in a row."""
        count = int(self._slot["count"])
        if count == COUNT_IN_TAIL and self.tail is not None and self.tail.count is not None:
            return self.tail.count
        return count

    @property
    def polls(self) -> int:
        """Failed polls in a row that this event stands for, 0 for any other call."""
        function = self.function
        if self.flag or self.open or not function.is_poll:
            return 0
        return max(int(self._slot["count"]), 0)

    @property
    def received(self) -> int | None:
        """Bytes received, as the status tells; None where the call sets no status in its slot or is open."""
        if self.open or "status" not in self.function.slot:
            return None
        if self.flags & Flag.HAS_TAIL:
            return self.tail.received if self.tail else None
        return int(self._slot["result"])

    @property
    def object(self) -> int:
        """Id of the request, window, file, message or created object; its class is that of the parameter."""
        return int(self._slot["object"])

    @property
    def buffer(self) -> int:
        """Address of the buffer; layout.IN_PLACE; 0 for MPI_BOTTOM and NULL."""
        return int(self._slot["buffer"])

    @property
    def leaving(self) -> bool:
        """Whether this is an MPI_Finalize that the way out of the process called (exit(), atexit, Python's end)."""
        return self.buffer == layout.LEAVING and self.function.name == "MPI_Finalize"

    @property
    def flag(self) -> bool:
        """The call's LOGICAL `flag`."""
        return bool(self.flags & Flag.TRUE)

    @property
    def error(self) -> int:
        """MPI error class of the returned code, 0 for success, 255 for a class above 254."""
        return int(self._slot["error"])

    @property
    def site_id(self) -> int:
        """The rank's own id of the call site."""
        return int(self._slot["site"])

    @property
    def site(self) -> CallSite:
        """Where in the program the call stands."""
        return self.rank.site(self.site_id)

    @property
    def task(self) -> LogicalTask | None:
        """The task that made the call; None for none, for one that is not known, and without `weft run --tasks`.

        Failed polls in a row are one event, of the task that made the first.
        """
        tasks = self.rank.tasks
        return tasks.of(self.index) if tasks is not None else None

    @property
    def status(self) -> Status | None:
        """The status in the slot; None where the call has none there, is open, or received nothing."""
        if "status" not in self.function.slot or self.open:
            return None
        if ("flag" in self.function.slot and not self.flag) or self.peer == layout.ANY_SOURCE:
            return None  # nothing was received: a poll failed, a send was completed, or the call went wrong
        return Status(self.peer, self.tag, self.received or 0, bool(self.flags & Flag.CANCELLED), 0)

    @cached_property
    def tail(self) -> Tail | None:
        """The decoded tail, None where there is none."""
        if not self.flags & Flag.HAS_TAIL:
            return None
        tails = self.thread.tails
        start = int(self._slot["result"]) * layout.TAIL_ALIGN
        if start > len(tails):
            tail = Tail(damage=f"the tail lies at byte {start} of {len(tails)}")
        else:
            cursor = Cursor(tails.data, start)
            tail = decode_tail(self.function, int(self.flags), int(self._slot["count"]), self.buffer, cursor)
        if tail.damage:
            self.rank.trace._say(f"rank {self.rank.index}: arguments of event {self.index} are damaged: {tail.damage}")
        return tail

    @property
    def ticket(self) -> int | None:
        """Order of this call among those of all threads of the process, where it was recorded."""
        return self.tail.ticket if self.tail else None

    @property
    def damage(self) -> str | None:
        """Why some arguments are missing, None where all is whole."""
        return self.tail.damage if self.tail else None

    @cached_property
    def args(self) -> dict[str, Any]:
        """Arguments by their names in the standard, as given; results too once the call returned.

        Handles are object ids, wildcards are layout.ANY_SOURCE and ANY_TAG, an inout integer's result stands under
        `name:out`. What was not recorded (or is damaged, see `damage`) is left out.
        """
        tail = self.tail or Tail()
        found = Arguments()
        for p in self.function.parameters:
            if p.place == "none" or (self.open and p.direction == "out" and p.place in ("object", "flag", "status")):
                continue
            if p.place == "tail":
                if p.name in tail.values:
                    found[p.name] = tail.values[p.name]
                    if p.name in tail.out:
                        found[f"{p.name}:out"] = tail.out[p.name]
                elif p.name in tail.out:
                    found[p.name] = tail.out[p.name]
            else:
                found[p.name] = self._slot_argument(p.place, p.handle)
        return found

    def _slot_argument(self, place: str, handle: str | None) -> Any:
        if place == "peer":
            return layout.ANY_SOURCE if self.flags & Flag.ANY_SOURCE else self.peer
        if place == "tag" and handle is None:
            return layout.ANY_TAG if self.flags & Flag.ANY_TAG else self.tag
        if place in ("comm", "datatype"):
            return self.comm_id if place == "comm" else self.datatype_id
        return getattr(self, place)
