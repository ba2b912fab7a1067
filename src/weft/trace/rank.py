"""One rank of a run: its threads, their events (each an MPI call, decoded on demand), and what the ids in them mean."""

# ruff: noqa: A002 - the domain's word id
from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.errors import RunError
from weft.systems import System
from weft.trace import clock, layout
from weft.trace.communicators import Communicator, Communicators
from weft.trace.cut import cut_events
from weft.trace.datatypes import Datatype, Datatypes
from weft.trace.definitions import CommDefinition, Definitions
from weft.trace.endings import Ending, resolve_endings
from weft.trace.errors import Arguments
from weft.trace.functions import Function, FunctionTable
from weft.trace.hashes import Hashes, read_hashes
from weft.trace.layout import (
    ACCESS,
    COUNT_IN_TAIL,
    EVENT,
    TAIL_ALIGN,
    TOUCH,
    Def,
    Events,
    Flag,
    ObjectClass,
    StreamKind,
)
from weft.trace.outcome_log import decode_outcomes
from weft.trace.rankfile import Header, RankFile
from weft.trace.rings.suffix import Suffix
from weft.trace.sites import CallSite, HasSites, Sites
from weft.trace.slot import Slot
from weft.trace.tails import Status, Tail, count_time_bytes, decode_tail
from weft.trace.tasks import LogicalTask, TaskFile, Tasks
from weft.trace.varint import Cursor
from weft.trace.worlds import World


class Run(Protocol):
    """What a rank, and the code that reads one, needs to know of the run: a Trace (weft.trace.run) has it all."""

    path: Path
    run: dict[str, Any]
    functions: FunctionTable
    ranks: list[Rank]
    worlds: list[World]
    until: int | None
    goes_on: bool

    @property
    def origin(self) -> Run:
        """Return the whole run, if this is a part of it."""
        ...

    @property
    def system(self) -> System:
        """Return the message-passing system."""
        ...

    @property
    def communicators(self) -> list[Communicator]:
        """Return all communicators of the run."""
        ...

    @property
    def has_tasks(self) -> bool:
        """Return whether some rank recorded which task made each call."""
        ...

    @property
    def may_lack_its_beginning(self) -> bool:
        """Return whether the run was recorded with --keep."""
        ...

    @property
    def sites(self) -> Sites:
        """Return the places of the program by their ids in the records."""
        ...

    @property
    def suffix(self) -> Suffix | None:
        """Return the calls that count, if earlier ones were dropped (`weft run --keep`); None for a whole run."""
        ...

    @property
    def _axes(self) -> list[clock.Axis]: ...
    @property
    def _known_worlds(self) -> dict[int, dict[int, tuple[int, ...]]]: ...
    @property
    def _unified(self) -> Communicators: ...
    @property
    def _task_files(self) -> dict[tuple[str, int, str], TaskFile]: ...

    def site(self, rank: HasSites, id: int) -> CallSite:
        """Return the call site that a rank, or its tasks, know by `id`."""
        ...

    def add_problem(self, *texts: str) -> None:
        """Note sentences about parts of the run that could not be read."""
        ...

    def add_damage(self, *texts: str) -> None:
        """Note sentences about damaged parts of the run."""
        ...


class Thread:
    """Reads what one thread slot of a rank recorded."""

    def __init__(self, rank: Rank, slot: int) -> None:
        self.rank = rank
        self.slot = slot

    def __repr__(self) -> str:
        return f"<Thread {self.slot} of rank {self.rank.index}>"

    @cached_property
    def events(self) -> Events:
        """Return the events in the order of their calls (dtype layout.EVENT), as a read-only view of the file.

        In a damaged file they end before the first event whose stored arguments (its tail) are lost.
        """
        file = self.rank.file
        if (suffix := self.rank.trace.suffix) is not None:
            return suffix.events(self)
        data = file.stream(StreamKind.EVENTS, self.slot) if file else np.empty(0, np.uint8)
        whole = len(data) // EVENT.itemsize * EVENT.itemsize
        events: Events = data[:whole].view(EVENT)
        if self.rank.trace.until is not None:
            events = cut_events(events, self.rank.trace.until)
        if file is None or not file.problems:
            return events
        tailed = np.flatnonzero(events["flags"] & Flag.HAS_TAIL)
        starts = events["result"][tailed].astype(np.int64) * TAIL_ALIGN
        whole_tails = int(np.count_nonzero(starts < len(self.tails)))
        if whole_tails == len(tailed):
            return events
        # The last tail that begins may be cut off itself.
        return events[: int(tailed[max(whole_tails - 1, 0)])]

    @cached_property
    def tails(self) -> NDArray[np.uint8]:
        """Return the thread's stream of further arguments (TAILS), as a read-only view of the file."""
        file = self.rank.file
        return file.stream(StreamKind.TAILS, self.slot) if file else np.empty(0, np.uint8)

    @cached_property
    def accesses(self) -> NDArray[Any]:
        """Return the locks and atomic accesses of MPI windows that ended in this thread (dtype layout.ACCESS), as a
        view of the file.
        """
        file = self.rank.file
        data = file.stream(StreamKind.WINDOWS, self.slot) if file else np.empty(0, np.uint8)
        return data[: len(data) // ACCESS.itemsize * ACCESS.itemsize].view(ACCESS)

    @cached_property
    def outcome_log(self) -> list[tuple[int, int]]:
        """Return the outcomes of the thread's nondeterministic calls (such as the source of a wildcard receive), in
        order, as (kind, value). The kinds are those of layout.LogKind. Empty unless the run was recorded at level
        `outcomes`.
        """
        file = self.rank.file
        if file is None:
            return []
        data = file.stream(StreamKind.OUTCOMES, self.slot)
        return decode_outcomes(data, file.nibbles(self.slot))


class Rank:
    """One process of the run. `missing` is true for one that left no record: it has no events."""

    def __init__(self, trace: Run, index: int, world: int, rank: int, file: RankFile | None) -> None:
        self.trace = trace
        self.index = index
        self.world = world
        self.rank = rank
        self.file = file
        self.ahead = 0
        """How many of the events are of before a part of a run (weft.trace.segment), and count in another one."""
        self.fenced: Mapping[int, int] = {}
        """By window how many fences of it came before the events of such a part."""

    def __repr__(self) -> str:
        return f"<Rank {self.index}>"

    @property
    def missing(self) -> bool:
        """Return whether the process left no readable record."""
        return self.file is None

    @property
    def header(self) -> Header | None:
        """Return the file's header, None for a missing rank."""
        return self.file.header if self.file else None

    @property
    def state(self) -> str:
        """Return how far the process came: starting, running, finalized, exited, aborted or stopped. "damaged" if a
        part of its record cannot be read, "missing" if there is no record.
        """
        if self.file is None:
            return "missing"
        return "damaged" if self.file.problems else self.file.header.state.name.lower()

    @cached_property
    def threads(self) -> list[Thread]:
        """Return the thread slots that recorded something."""
        return [Thread(self, slot) for slot in self.file.threads()] if self.file else []

    @cached_property
    def definitions(self) -> Definitions:
        """Return the definitions of the ids in the events: communicators, datatypes, call sites and so on."""
        definitions = Definitions(self._read_definitions())
        self.trace.add_damage(*(f"rank {self.index}: {p}" for p in definitions.problems))
        self.trace.add_problem(*(f"rank {self.index}: {p}" for p in definitions.notes[:10]))
        return definitions

    def _read_definitions(self) -> bytes:
        """Return the stream of definitions. It is empty if it is damaged, which shows only here if it is compressed; a
        problem is noted then.
        """
        if self.file is None:
            return b""
        try:
            return self.file.stream(StreamKind.DEFINITIONS).tobytes()
        except RunError as error:
            self.file.problems.append(str(error))
            self.trace.add_damage(str(error))
            return b""

    @property
    def serves(self) -> bool:
        """Return whether the rank runs a program of the system itself, such as PVM's group server, and none of the
        user.
        """
        servers = self.trace.system.servers
        return bool(servers) and PurePath(next(iter(self.definitions.argv), "")).name in servers

    @cached_property
    def tasks(self) -> Tasks | None:
        """Return the object that knows which task made each call. None if the run was not recorded with
        `weft run --tasks`, or the rank had no tasks.
        """
        if self.file is None:
            return None
        header = self.file.header
        file = self.trace._task_files.get((header.host, header.pid, header.job))
        return Tasks(self, file, self.trace.add_problem, self.trace.sites.site) if file else None

    @cached_property
    def accesses_to_pending_buffers(self) -> NDArray[Any]:
        """Return the program's accesses to buffers of pending MPI operations, and the spans in which MPI had each
        buffer, thread by thread (dtype layout.TOUCH).

        Empty for a program that was not built with `weft cc`.
        """
        numbers = self.file.numbers(StreamKind.ACCESSES) if self.file else []
        parts = [self.file.stream(StreamKind.ACCESSES, n) for n in numbers if self.file]
        whole = [part[: len(part) // TOUCH.itemsize * TOUCH.itemsize].view(TOUCH) for part in parts]
        return np.concatenate(whole) if whole else np.empty(0, TOUCH)

    @cached_property
    def message_hashes(self) -> Hashes:
        """Return the hashes of the rank's messages, with recorded contents. Empty for a run without
        `--hash-messages`.
        """
        return read_hashes(self.file, [thread.slot for thread in self.threads], self.event_threads)

    @property
    def hashes(self) -> NDArray[Any]:
        """Return the hashes of the rank's messages in order of events (dtype layout.HASHED). Their column `event` is an
        index in `events`.
        """
        return self.message_hashes.rows

    # Events

    @cached_property
    def _merged_events(self) -> tuple[Events, NDArray[np.int32], NDArray[np.int64]]:
        """Return three parallel arrays over all threads, in order of entry: the events, the index of each event's
        thread, and the event's index in that thread.
        """
        columns = [t.events for t in self.threads]
        events = np.concatenate(columns)
        order = np.argsort(events["enter"], kind="stable")
        thread = np.repeat(np.arange(len(columns), dtype=np.int32), [len(c) for c in columns])
        index = np.concatenate([np.arange(len(c)) for c in columns])
        merged = events[order]
        merged.flags.writeable = False
        return merged, thread[order], index[order]

    @property
    def _has_threads(self) -> bool:
        return len(self.threads) > 1

    @property
    def events(self) -> Events:
        """Return all events in order of their entry; zero copy for one thread, a merged copy for several."""
        if self._has_threads:
            return self._merged_events[0]
        return self.threads[0].events if self.threads else np.empty(0, EVENT)

    @property
    def event_threads(self) -> NDArray[np.int32]:
        """Return, for each event, the index in `threads` of the thread that made the call."""
        return self._merged_events[1] if self._has_threads else np.zeros(len(self.events), np.int32)

    @property
    def event_positions(self) -> NDArray[np.int64]:
        """Return, for each event, its index among the events of its thread."""
        return self._merged_events[2] if self._has_threads else np.arange(len(self.events))

    def locate(self, index: int) -> tuple[Thread, int]:
        """Return the thread that made an event, and the event's index in the thread. `index`: the event's index in
        `events` of the rank.
        """
        if not 0 <= index < len(self.events):
            raise IndexError(f"rank {self.index} has {len(self.events)} events, no event {index}")
        if self._has_threads:
            return self.threads[int(self._merged_events[1][index])], int(self._merged_events[2][index])
        return self.threads[0], index

    def event(self, index: int) -> Event:
        """Return one event. IndexError if there is none."""
        return Event(self, index)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return (Event(self, i) for i in range(len(self.events)))

    @property
    def axis(self) -> clock.Axis:
        """Return the rank's clock on the common time axis."""
        return self.trace._axes[self.index]

    def enter_ns(self, which: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.int64]:
        """Return the entry times of `events`, or of some of them, in ns since the run's first event."""
        return self.axis.ns_array(self.events["enter"][which])

    def exit_ns(self, which: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.int64]:
        """Return the times at which calls returned, in ns since the run's first event; -1 for a call that did not
        return.
        """
        events = self.events[which]
        exits = self.axis.ns_array(layout.compute_return_ticks(events))
        exits[(events["flags"] & layout.Flag.CLOSED) == 0] = -1
        return exits

    # Definitions

    def comm(self, id: int) -> Communicator | None:
        """Return the communicator that this rank knows by `id`."""
        return self.trace._unified.of(self.index, id)

    def comm_ids(self) -> set[int]:
        """Return the ids by which this rank knows communicators."""
        return set(self.trace._unified.ids(self.index))

    def comm_indices(self, ids: NDArray[np.uint32] | None = None) -> NDArray[np.int32]:
        """Return the index in trace.communicators for each communicator id of a column; -1 if it is unknown. By default
        the column is that of `events`.
        """
        column = self.events["comm"] if ids is None else ids
        unique, inverse = np.unique(column, return_inverse=True)
        table = np.array([c.index if (c := self.comm(int(i))) else -1 for i in unique], np.int32)
        return table[inverse.reshape(-1)] if len(unique) else np.empty(0, np.int32)

    @cached_property
    def _datatypes(self) -> Datatypes:
        return Datatypes(self.trace.functions, self.definitions)

    def datatype(self, id: int) -> Datatype | None:
        """Return the datatype that this rank knows by `id`."""
        return self._datatypes.get(id)

    def site(self, id: int) -> CallSite:
        """Return the call site with an id; one without a place for an unknown id."""
        return self.trace.site(self, id)

    @cached_property
    def endings(self) -> list[Ending]:
        """Return what the process recorded about its own end (a crash, an exit and the like), in order of time."""
        return resolve_endings(
            self.definitions.endings,
            self._called_after,
            lambda ticks: self.axis.ns(ticks),  # noqa: PLW0108 - the axis is made of all ranks: only where it is needed
            lambda module, offset: self.trace.sites.native(self, module, offset),
        )

    def _called_after(self, slot: int, ticks: int) -> set[str]:
        """Return the functions that a thread entered after a tick."""
        later = (t.events["function"][t.events["enter"] > ticks] for t in self.threads if t.slot == slot)
        return {self.trace.functions[int(f)].name for functions in later for f in set(functions.tolist())}

    def object_name(self, cls: str, id: int) -> str:
        """Return a readable name of an MPI object: the name that the program gave it, MPI's own, or its class and
        number.
        """
        if cls == "COMM":
            comm = self.comm(id)
            if comm is not None:
                return comm.name
        predefined = self.trace.functions.object_name(cls, id)
        if predefined is not None:
            return predefined
        if id == 0:
            return "none"
        own = self.definitions.names.get((int(ObjectClass[cls]), id)) if cls in ObjectClass.__members__ else None
        return own or f"{cls.lower()} {id - layout.ID_DYNAMIC if id >= layout.ID_DYNAMIC else id}"

    # For weft.trace.communicators

    def communicator_definitions(self) -> list[CommDefinition]:
        """Return the communicators that this process made, in order."""
        return list(self.definitions.all(Def.COMM))

    def other_worlds(self) -> dict[int, tuple[int, ...]]:
        """Return the rank indices of the processes of other worlds, by this process's own numbers for the worlds."""
        return self.trace._known_worlds.get(self.index, {})

    def given_name(self, cls: int, id: int) -> str | None:
        """Return the name that the program gave an object; None if it gave none. `cls`: the number of the object's
        class.
        """
        return self.definitions.names.get((cls, id))


class Event(Slot):
    """One MPI call of one rank: `index` in rank.events. Everything else is read from the record on demand."""

    def __init__(self, rank: Rank, index: int) -> None:
        self.rank = rank
        self.index = index
        self.thread, self.position = rank.locate(index)
        super().__init__(self.thread.events[self.position])

    def __repr__(self) -> str:
        return f"<Event {self.rank.index}:{self.index} {self.function.name}{' (open)' if self.open else ''}>"

    def __str__(self) -> str:
        """`rank 0, event 3: MPI_Recv(source 1, ...) -> from 1, tag 7, 4 bytes, at step.py:9`; without words: repr."""
        describe = getattr(type(self.rank.trace.origin), "describer", None)
        return describe(self) if describe is not None else repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id and self.rank.trace is other.rank.trace

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> EventId:
        """Return (rank index, event index), as findings name it."""
        return EventId(self.rank.index, self.index)

    @property
    def function(self) -> Function:
        """Return the function that was called."""
        return self.rank.trace.functions[int(self._slot["function"])]

    @property
    def enter_ns(self) -> int:
        """Return the time of entry, ns since the run's first event."""
        return self.rank.axis.ns(int(self._slot["enter"]))

    @property
    def exit_ns(self) -> int | None:
        """Return the time of return, ns since the run's first event; None while open."""
        if self.open:
            return None
        return self.rank.axis.ns(int(self._slot["enter"]) + layout.decode_duration(int(self._slot["duration"])))

    @property
    def comm(self) -> Communicator | None:
        """Return the communicator of the call, or of its window or file. None if the call has none."""
        id = self.comm_id
        parameter = self.function.slot.get("object")
        if id == 0 and parameter is not None and parameter.handle in ("WINDOW", "FILE"):
            definitions = self.rank.definitions
            made = definitions.window(self.object) if parameter.handle == "WINDOW" else definitions.file(self.object)
            id = made.comm if made else 0
        return self.rank.comm(id)

    @property
    def peer_index(self) -> int:
        """Return the rank index of the peer; -1 if there is none."""
        comm = self.comm
        return comm.peer(self.rank.index, self.peer) if comm else -1

    @property
    def datatype(self) -> Datatype | None:
        """Return the datatype, None if the call has none."""
        return self.rank.datatype(self.datatype_id)

    @property
    def count(self) -> int:
        """Return the count argument. If the event stands for several calls, return their number: equal polls that
        failed in a row, or a local call repeated at the same place with no other call between.
        """
        count = int(self._slot["count"])
        if count == COUNT_IN_TAIL and self.tail is not None and self.tail.count is not None:
            return self.tail.count
        return count

    @property
    def polls(self) -> int:
        """Return how many failed polls in a row this event counts, 0 for any other call."""
        function = self.function
        if self.flag or self.open or not function.is_poll:
            return 0
        return max(int(self._slot["count"]), 0)

    @property
    def calls(self) -> int:
        """Return how many calls this event stands for: failed polls, or equal local calls in a row. For all others it
        is 1.
        """
        folds = self.polls or (int(self._slot["count"]) if self.function.is_folded else 1)
        return max(folds, 1)

    @property
    def further_times(self) -> bytes:
        """Return the results of MPI_Wtime after the first, if the event stands for several calls of it. They are
        encoded as the recorder wrote them (recorder/times.h). Empty for other events.
        """
        tails, count = self.thread.tails, self.calls - 1
        if count < 1 or self.tail is None or self.function.name != "MPI_Wtime":
            return b""
        return bytes(tails.data[self.tail.end : self.tail.end + count_time_bytes(tails.data, self.tail.end, count)])

    @property
    def received(self) -> int | None:
        """Return the number of bytes received, as the call's status reports. None if the call has no such status or has
        not returned.
        """
        if self.open or "status" not in self.function.slot:
            return None
        if self.flags & Flag.HAS_TAIL:
            return self.tail.received if self.tail else None
        return int(self._slot["result"])

    @property
    def is_finalize_at_exit(self) -> bool:
        """Return whether this is an MPI_Finalize that the exit of the process called (exit(), atexit, Python's end)."""
        return self.buffer == layout.LEAVING and self.function.name == "MPI_Finalize"

    @property
    def site(self) -> CallSite:
        """Return the place in the program that made the call."""
        return self.rank.site(self.site_id)

    @property
    def task(self) -> LogicalTask | None:
        """Return the task that made the call. None if it is unknown, if there is none, or without `weft run --tasks`.

        Failed polls in a row are one event, which belongs to the task that made the first.
        """
        tasks = self.rank.tasks
        return tasks.of(self.index) if tasks is not None else None

    @property
    def status(self) -> Status | None:
        """Return the call's MPI_Status. None if it has none in the fixed part of its record, has not returned, or
        received nothing.

        For a file transfer only the count is known; source and tag are layout.ANY_SOURCE and ANY_TAG.
        """
        if "status" not in self.function.slot or self.open:
            return None
        if ("flag" in self.function.slot and not self.flag) or (self.peer == layout.ANY_SOURCE and not self.received):
            return None  # nothing was received: a poll failed, a send was completed, or the call went wrong
        return Status(self.peer, self.tag, self.received or 0, bool(self.flags & Flag.CANCELLED), 0)

    @cached_property
    def tail(self) -> Tail | None:
        """Return the call's further arguments, decoded. They are those without room in the fixed part of its record
        (its tail). None if there are none.
        """
        if not self.flags & Flag.HAS_TAIL:
            return None
        tails = self.thread.tails
        start = int(self._slot["result"]) * layout.TAIL_ALIGN
        if start > len(tails):
            tail = Tail(damage=f"they begin at byte {start} of {len(tails)}")
        else:
            cursor = Cursor(tails.data, start)
            tail = decode_tail(self.function, int(self.flags), int(self._slot["count"]), self.buffer, cursor)
        if tail.damage:
            self.rank.trace.add_problem(
                f"rank {self.rank.index}: arguments of event {self.index} are damaged: {tail.damage}"
            )
        return tail

    @property
    def ticket(self) -> int | None:
        """Return the place of this call in the order of all threads' calls of the process, if it was recorded."""
        return self.tail.ticket if self.tail else None

    @property
    def damage(self) -> str | None:
        """Return why some arguments are missing; None if none is."""
        return self.tail.damage if self.tail else None

    @cached_property
    def args(self) -> dict[str, Any]:
        """Return the call's arguments by their names in the standard, as the program gave them. Results are included
        once the call has returned.

        Handles are object ids, wildcards are layout.ANY_SOURCE and ANY_TAG, an inout integer's result has the key
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

    def _slot_argument(self, field: str, handle: str | None) -> Any:
        """Return an argument that the fixed part of the call's record holds in `field`. Wildcards are returned as the
        program gave them. `handle`: the class of handle, None for a number.
        """
        if field == "peer":
            return layout.ANY_SOURCE if self.flags & Flag.ANY_SOURCE else self.peer
        if field == "tag" and handle is None:
            return layout.ANY_TAG if self.flags & Flag.ANY_TAG else self.tag
        if field in ("comm", "datatype"):
            return self.comm_id if field == "comm" else self.datatype_id
        return getattr(self, field)
