"""A recorded run as one object: ranks, their events, and what the ids in them mean."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from weft.findings import Finding
from weft.levels import level_named
from weft.trace import clock, layout
from weft.trace.communicators import Communicator, Communicators, members_text
from weft.trace.cut import cut
from weft.trace.datatypes import Datatype, Datatypes
from weft.trace.definitions import CommDefinition, Definitions
from weft.trace.errors import RunError
from weft.trace.event import Event
from weft.trace.functions import FunctionTable
from weft.trace.json_file import read_json
from weft.trace.layout import (
    ACCESS,
    EVENT,
    TAIL_ALIGN,
    TOUCH,
    Def,
    Events,
    Flag,
    Level,
    ObjectClass,
    State,
    StopReason,
    StreamKind,
)  # fmt: skip
from weft.trace.rankfile import Header, RankFile
from weft.trace.sites import CallSite, Placed, Sites
from weft.trace.tasks import TaskFile, Tasks, task_files
from weft.trace.worlds import World, kin

if TYPE_CHECKING:
    from weft.trace.endings import Ending

MAX_PROBLEMS: Final = 200

_STOPS: Final = {
    StopReason.DISK_FULL: "because the disk was full (give the run another place with --out)",
    StopReason.NO_ADDRESS_SPACE: "because no address space was left (raise ulimit -v)",
    StopReason.IO_ERROR: "after an error of the file system",
    StopReason.OVERFLOW: "because a part of the record had grown beyond what the format can count",
}


_ENDED: Final = {
    "finished": "finished", "crashed": "crashed", "deadlock": "stopped in a deadlock", "killed": "killed",
}  # fmt: skip


class Thread:
    """What one thread slot of a rank recorded."""

    def __init__(self, rank: Rank, slot: int) -> None:
        self.rank = rank
        self.slot = slot

    def __repr__(self) -> str:
        return f"<Thread {self.slot} of rank {self.rank.index}>"

    @cached_property
    def events(self) -> Events:
        """The events in the order of their calls (dtype layout.EVENT), zero copy, read-only.

        In a damaged file they end before the first one whose tail is lost: its arguments would read as zeros.
        """
        file = self.rank.file
        data = file.stream(StreamKind.EVENTS, self.slot) if file else np.empty(0, np.uint8)
        whole = len(data) // EVENT.itemsize * EVENT.itemsize
        events: Events = data[:whole].view(EVENT)
        if self.rank.trace.until is not None:
            events = cut(events, self.rank.trace.until)
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
        """The thread's TAILS stream, zero copy, read-only."""
        file = self.rank.file
        return file.stream(StreamKind.TAILS, self.slot) if file else np.empty(0, np.uint8)

    @cached_property
    def accesses(self) -> NDArray[Any]:
        """Locks and atomic accesses of windows that ended in this thread (dtype layout.ACCESS), zero copy."""
        file = self.rank.file
        data = file.stream(StreamKind.WINDOWS, self.slot) if file else np.empty(0, np.uint8)
        return data[: len(data) // ACCESS.itemsize * ACCESS.itemsize].view(ACCESS)

    @cached_property
    def outcomes(self) -> list[tuple[int, int]]:
        """The outcomes of a run of level `outcomes` as (kind, value), see layout.LogKind."""
        from weft.trace.outcome_log import decode_outcomes

        file = self.rank.file
        if file is None:
            return []
        data = file.stream(StreamKind.OUTCOMES, self.slot)
        return decode_outcomes(data, file.nibbles(self.slot))


class Rank:
    """One process of the run. `missing` is true for one that left no record: it has no events."""

    def __init__(self, trace: Trace, index: int, world: int, rank: int, file: RankFile | None) -> None:
        self.trace = trace
        self.index = index
        self.world = world
        self.rank = rank
        self.file = file

    def __repr__(self) -> str:
        return f"<Rank {self.index}>"

    @property
    def missing(self) -> bool:
        """Whether the process left no readable record."""
        return self.file is None

    @property
    def header(self) -> Header | None:
        """The file's header, None for a missing rank."""
        return self.file.header if self.file else None

    @property
    def state(self) -> str:
        """starting, running, finalized, exited, aborted, stopped, damaged (a part cannot be read), or missing."""
        if self.file is None:
            return "missing"
        return "damaged" if self.file.problems else self.file.header.state.name.lower()

    @cached_property
    def threads(self) -> list[Thread]:
        """The thread slots that recorded something."""
        return [Thread(self, slot) for slot in self.file.threads()] if self.file else []

    @cached_property
    def definitions(self) -> Definitions:
        """What the ids in the events mean."""
        data = self.file.stream(StreamKind.DEFINITIONS).tobytes() if self.file else b""
        definitions = Definitions(data)
        self.trace._say(*(f"rank {self.index}: {p}" for p in definitions.problems + definitions.notes[:10]))
        return definitions

    @cached_property
    def tasks(self) -> Tasks | None:
        """Which task made each call; None where that was not recorded (`weft run --tasks`) or the rank had no tasks."""
        if self.file is None:
            return None
        header = self.file.header
        file = self.trace._task_files.get((header.host, header.pid, header.job))
        return Tasks(self, file) if file else None

    @cached_property
    def touches(self) -> NDArray[Any]:
        """What the program did to memory that MPI had, and when MPI had it (dtype layout.TOUCH), thread by thread.

        Empty for a program that was not built with `weft cc`.
        """
        numbers = self.file.numbers(StreamKind.ACCESSES) if self.file else []
        parts = [self.file.stream(StreamKind.ACCESSES, n) for n in numbers if self.file]
        whole = [part[: len(part) // TOUCH.itemsize * TOUCH.itemsize].view(TOUCH) for part in parts]
        return np.concatenate(whole) if whole else np.empty(0, TOUCH)

    # Events

    @cached_property
    def _merged(self) -> tuple[Events, NDArray[np.int32], NDArray[np.int64]]:
        columns = [t.events for t in self.threads]
        events = np.concatenate(columns)
        order = np.argsort(events["enter"], kind="stable")
        thread = np.repeat(np.arange(len(columns), dtype=np.int32), [len(c) for c in columns])
        index = np.concatenate([np.arange(len(c)) for c in columns])
        merged = events[order]
        merged.flags.writeable = False
        return merged, thread[order], index[order]

    @property
    def _threaded(self) -> bool:
        return len(self.threads) > 1

    @property
    def events(self) -> Events:
        """All events in order of their entry; zero copy for one thread, a merged copy for several."""
        if self._threaded:
            return self._merged[0]
        return self.threads[0].events if self.threads else np.empty(0, EVENT)

    @property
    def event_threads(self) -> NDArray[np.int32]:
        """For each event, which of `threads` made the call."""
        return self._merged[1] if self._threaded else np.zeros(len(self.events), np.int32)

    @property
    def event_positions(self) -> NDArray[np.int64]:
        """For each event, its index in its thread's events."""
        return self._merged[2] if self._threaded else np.arange(len(self.events))

    def locate(self, index: int) -> tuple[Thread, int]:
        """The thread, and the index in it, of the event `index` of `events`."""
        if not 0 <= index < len(self.events):
            raise IndexError(f"rank {self.index} has {len(self.events)} events, no event {index}")
        if self._threaded:
            return self.threads[int(self._merged[1][index])], int(self._merged[2][index])
        return self.threads[0], index

    def event(self, index: int) -> Event:
        """One event. IndexError where there is none."""
        return Event(self, index)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return (Event(self, i) for i in range(len(self.events)))

    @property
    def axis(self) -> clock.Axis:
        """The rank's clock on the common time axis."""
        return self.trace._axes[self.index]

    def enter_ns(self, part: slice = slice(None)) -> NDArray[np.int64]:
        """Entry times of `events`, or of a part of them, in ns since the run's first event."""
        return self.axis.ns_array(self.events["enter"][part])

    def exit_ns(self, part: slice = slice(None)) -> NDArray[np.int64]:
        """Exit times; for open calls -1."""
        events = self.events[part]
        exits = self.axis.ns_array(events["enter"] + layout.decode_durations(events["duration"]))
        exits[(events["flags"] & layout.Flag.CLOSED) == 0] = -1
        return exits

    # Definitions

    def comm(self, id: int) -> Communicator | None:
        """The communicator that this rank knows by `id`."""
        return self.trace._unified.of(self.index, id)

    def comm_ids(self) -> set[int]:
        """The ids by which this rank knows communicators."""
        return set(self.trace._unified.ids(self.index))

    def comm_indices(self, ids: NDArray[np.uint32] | None = None) -> NDArray[np.int32]:
        """Indices in trace.communicators for a column of ids (by default that of `events`); -1 for none."""
        column = self.events["comm"] if ids is None else ids
        unique, inverse = np.unique(column, return_inverse=True)
        table = np.array([c.index if (c := self.comm(int(i))) else -1 for i in unique], np.int32)
        return table[inverse.reshape(-1)] if len(unique) else np.empty(0, np.int32)

    @cached_property
    def _datatypes(self) -> Datatypes:
        return Datatypes(self.trace.functions, self.definitions)

    def datatype(self, id: int) -> Datatype | None:
        """The datatype that this rank knows by `id`."""
        return self._datatypes.get(id)

    def site(self, id: int) -> CallSite:
        """The call site of an id; one without a place for an unknown id."""
        return self.trace._sites.site(self, id)

    @cached_property
    def endings(self) -> list[Ending]:
        """What the process told of its own end, in order of time; see weft.trace.endings."""
        from weft.trace.endings import endings

        return endings(self)

    def object_name(self, cls: str, id: int) -> str:
        """A name for people of any object: what the program called it, MPI's name, or class and number."""
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
        """The communicators that this process made, in order."""
        return list(self.definitions.all(Def.COMM))

    def other_worlds(self) -> dict[int, tuple[int, ...]]:
        """Rank indices of the processes of other worlds, by this process's own numbers for them."""
        return self.trace._kin.get(self.index, {})

    def given_name(self, cls: int, id: int) -> str | None:
        """What the program called an object."""
        return self.definitions.names.get((cls, id))


def _table(root: Path, problems: list[str]) -> FunctionTable:
    """The functions of a run; those of the run that was opened last are still there."""
    try:
        status = (root / "functions.json").stat()
    except OSError:
        status = None
    key = status and (str(root.absolute()), status.st_ino, status.st_mtime_ns, status.st_size)
    if key is None or key not in _last:
        before = len(problems)
        table = FunctionTable(read_json(root, "functions.json", "weft-functions/1", problems))
        if key is None or len(problems) > before:
            return table
        _last.clear()
        _last[key] = table
    return _last[key]


_last: dict[tuple[str, int, int, int], FunctionTable] = {}


class Trace:
    """A recorded run, opened for reading. Files are read when something in them is asked for."""

    painter: ClassVar[Callable[..., str] | None] = None
    """What draws a trace as SVG: weft.open puts it here, as pictures stand above traces."""

    framer: ClassVar[Callable[..., Any] | None] = None
    """What makes a pyarrow.Table or a pandas.DataFrame of the calls, put here in the same way."""

    def __init__(self, path: Path, run: dict[str, Any], functions: FunctionTable, files: list[RankFile]) -> None:
        self.path = path
        self.run = run
        self.functions = functions
        self._problems: list[str] = []
        self._unsaid = 0
        self.until: int | None = None
        """Where the run still goes on: the tick up to which its calls are read, see weft.trace.growing."""
        self.keep_alive: object = None
        self.worlds: list[World] = []
        self.ranks: list[Rank] = []
        for file in files:
            self._say(*file.problems)
            if file.header.state == State.STOPPED:
                reason = _STOPS.get(file.header.stop_reason, "for a reason that is not known")
                self._say(f"{file.path.name}: Weft gave up recording {reason}; later calls of this rank are missing")
        self._give_places(files)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Trace:
        """Open a run directory. RunError where there is none or nothing in it can be read."""
        root = Path(path)
        if not root.is_dir():
            why = "not a directory" if root.exists() else "there is no such directory"
            raise RunError(f"{root} is not a run: {why}")
        problems: list[str] = []
        run = read_json(root, "run.json", "weft-run/1", problems)
        if "level" in run:
            run["level"] = level_named(str(run["level"]))
        table = _table(root, problems)
        files = _rank_files(root, problems)
        if not files and not run:
            raise RunError(f"{root} is not a run of Weft: " + "; ".join(problems[:3]))
        trace = cls(root, run, table, files)
        trace._problems[:0] = [*problems, *table.problems]
        return trace

    def __repr__(self) -> str:
        return f"<Trace {self.path}: {len(self.ranks)} ranks>"

    def _say(self, *texts: str) -> None:
        for text in texts:
            if len(self._problems) < MAX_PROBLEMS:
                if text not in self._problems:
                    self._problems.append(text)
            else:
                self._unsaid += 1

    def add_problem(self, text: str) -> None:
        """Say of a part of the run that is read elsewhere that it could not be read."""
        self._say(text)

    @property
    def problems(self) -> list[str]:
        """What could not be read, in plain sentences. Grows as more of the run is looked at."""
        more = [f"and {self._unsaid} more of the kind"] if self._unsaid else []
        return self._problems + more

    # Ranks and worlds

    def _give_places(self, files: list[RankFile]) -> None:
        jobs: dict[str, list[RankFile]] = defaultdict(list)
        for file in files:
            jobs[file.header.job].append(file)
        order = sorted(jobs, key=lambda job: (min(f.header.start.realtime_ns for f in jobs[job]), job))
        nameless: list[tuple[int, RankFile]] = []
        for job in order:
            for part in _spawned(jobs[job]) if job != order[0] else [jobs[job]]:
                self._give_places_in_world(job, part, nameless)
        if not order:
            self._give_places_in_world("", [], nameless)
        for world, file in nameless:
            self._say(
                f"{file.path.name}: the process ended before its rank was known; it stands at the end of the ranks"
            )
            self.ranks.append(Rank(self, len(self.ranks), world, -1, file))

    def _give_places_in_world(self, job: str, files: list[RankFile], nameless: list[tuple[int, RankFile]]) -> None:
        index = len(self.worlds)
        by_rank: dict[int, RankFile] = {}
        for file in sorted(files, key=lambda f: (f.header.start.realtime_ns, f.path.name)):
            rank = file.header.rank
            if rank < 0:
                nameless.append((index, file))
                continue
            if rank in by_rank:
                self._say(
                    f"{file.path.name}: rank {rank} has another record, {by_rank[rank].path.name}; the later counts"
                )
            by_rank[rank] = file
        size = self._world_size(index, files, by_rank)
        first = len(self.ranks)
        if size > 16 * len(files) + 256:
            self._say(f"{size - len(by_rank)} of {size} ranks left no record; they have no place among the ranks")
            places = sorted(by_rank)
            indices = {rank: first + i for i, rank in enumerate(places)}
            members = tuple(indices.get(i, -1) for i in range(size))
        else:
            places = list(range(size))
            members = tuple(range(first, first + size))
            missing = [rank for rank in places if rank not in by_rank]
            if missing:
                self._say(_missing_sentence(missing, size, index, len(files)))
        for rank in places:
            self.ranks.append(Rank(self, len(self.ranks), index, rank, by_rank.get(rank)))
        started = min((f.header.start.realtime_ns for f in files), default=0)
        self.worlds.append(World(index, job, started, members))

    def _world_size(self, world: int, files: list[RankFile], by_rank: dict[int, RankFile]) -> int:
        """What most of the files say, no less than the ranks that are there."""
        least = 1 + max((r for r in by_rank if r < 2**20), default=-1)
        for rank in [r for r in by_rank if r >= 2**20]:
            self._say(f"{by_rank.pop(rank).path.name}: {rank} cannot be the number of a rank; the file was left out")
        said = Counter(f.header.world_size for f in files if f.header.world_size > 0)
        size = said.most_common(1)[0][0] if said else 0
        if len(said) > 1:
            self._say(f"the records of world {world} do not agree on its size: {', '.join(map(str, sorted(said)[:5]))}")
        told = self.run.get("ranks")
        if not size and world == 0 and isinstance(told, int) and 0 < told < 2**20:
            size = told
        if size >= 2**20:
            self._say(f"a world cannot have {size} ranks; {least} are assumed")
            size = least
        return max(size, least)

    @cached_property
    def _kin(self) -> dict[int, dict[int, tuple[int, ...]]]:
        return kin(self.ranks, self.worlds) if len(self.worlds) > 1 else {}

    # Communicators, sites, time

    @cached_property
    def _unified(self) -> Communicators:
        unified = Communicators(self.ranks, self.worlds, self.functions)
        self._say(*unified.problems)
        return unified

    @property
    def communicators(self) -> list[Communicator]:
        """All communicators of the run: the worlds, those that were made, and each rank's MPI_COMM_SELF."""
        return self._unified.all

    @property
    def sites(self) -> Sites:
        """Places of the program by their ids in the records."""
        return self._sites

    @cached_property
    def _sites(self) -> Sites:
        problems: list[str] = []
        sites = Sites(self.path, problems)
        self._say(*problems)
        return sites

    def site(self, rank: Placed, id: int) -> CallSite:
        """The call site that a rank, or its tasks, know by `id`."""
        return self._sites.site(rank, id)

    def forget_sites(self) -> None:
        """Read RUN/sites.json again: it was just written."""
        self.__dict__.pop("_sites", None)
        for rank in self.ranks:
            rank.__dict__.pop("endings", None)

    @cached_property
    def _task_files(self) -> dict[tuple[str, int, str], TaskFile]:
        problems: list[str] = []
        files = task_files(self.path, problems)
        self._say(*problems)
        return files

    @cached_property
    def has_tasks(self) -> bool:
        """Whether some rank recorded which task made each call."""
        return bool(self._task_files) and any(rank.tasks is not None for rank in self.ranks)

    @cached_property
    def _axes(self) -> list[clock.Axis]:
        present = [r for r in self.ranks if r.file]
        axes = clock.align([r.file.header for r in present if r.file])
        first: int | None = None
        for rank, axis in zip(present, axes, strict=True):
            for slot in rank.file.threads() if rank.file else ():
                event = rank.file.first_event(slot) if rank.file else None
                if event is not None:
                    ns = axis.ns(int(event["enter"]))
                    first = ns if first is None else min(first, ns)
        if first is None:
            first = min((a.origin for a in axes), default=0)
        placed = [clock.Axis(0, 0, 1.0)] * len(self.ranks)
        for rank, axis in zip(present, axes, strict=True):
            placed[rank.index] = axis.moved(-first)
        return placed

    @property
    def level(self) -> Level:
        """What was recorded: Level.TRACE or Level.OUTCOMES."""
        levels = [r.file.header.level for r in self.ranks if r.file]
        return max(levels, default=Level.TRACE)

    @cached_property
    def event_count(self) -> int:
        """Number of recorded calls, without reading them."""
        size = EVENT.itemsize
        return sum(
            r.file.bytes_of(StreamKind.EVENTS, t) // size for r in self.ranks if r.file for t in r.file.threads()
        )

    def event(self, rank: int, index: int) -> Event:
        """The event [rank index, event index] of a finding."""
        return self.ranks[rank].event(index)

    def plot(self, **options: Any) -> str:
        """The run as an SVG picture that a notebook shows, or a part of it: see weft.picture.svg.draw.

        trace.plot(window="1.2s-3s", ranks="0-7", width=1200)
        """
        painter = type(self).painter
        if painter is None:
            raise RunError("only a run that was opened by weft.open draws itself")
        return painter(self, **options)

    def to_arrow(self, query: str = "") -> Any:
        """The calls that fit a filter, in the order of time, as a pyarrow.Table: the columns of `weft dump`'s Parquet.

        UsageError where pyarrow is missing (`pip install 'weft-debugger[export]'`), or for a filter that is none.
        """
        return self._framed("to_arrow", query)

    def to_pandas(self, query: str = "") -> Any:
        """The same as a pandas.DataFrame, whose numbers are of pandas' nullable types."""
        return self._framed("to_pandas", query)

    def _framed(self, form: str, query: str) -> Any:
        framer = type(self).framer
        if framer is None:
            raise RunError("only a run that was opened by weft.open gives tables of its calls")
        return framer(self, form, query)

    def _repr_svg_(self) -> str | None:
        """The run's picture, for what shows pictures only."""
        return self.plot() if type(self).painter else None

    def _repr_html_(self) -> str | None:
        """How a notebook shows the run: its numbers and how it ended, above its picture."""
        return self.facts_html() + (self.plot() if type(self).painter else "")

    def facts_html(self) -> str:
        """The run's numbers and how it ended, as a paragraph of HTML."""
        from html import escape

        facts = [_count(len(self.ranks), "rank"), _count(self.event_count, "call")]
        facts += [_ENDED.get(str(self.run.get("ended")), "still running or cut off")]
        states = Counter(rank.state for rank in self.ranks if rank.state != "finalized")
        facts += [f"{count:,} of them {state}" for state, count in sorted(states.items())]
        if (unread := len(self.problems)) > 0:
            facts.append(f"{_count(unread, 'problem')} of the record, see .problems")
        return f"<p><b>{escape(self.path.resolve().name)}</b>: {escape(', '.join(facts))}</p>"

    def select(self, query: str, findings: Iterable[Finding] | None = None) -> Iterator[Event]:
        """The events that fit a filter such as `fn:Recv tag:7 rank:0-63 wait>1ms`, rank by rank in order.

        `findings` (such as weft.report.analyse gives) are what `finding:deadlock` looks at.
        """
        from weft.trace.filter import Filter

        return Filter(query, findings=findings).events(self)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _spawned(files: list[RankFile]) -> list[list[RankFile]]:
    """The worlds behind one name: MPICH's launcher gives all that one of its proxies starts the same.

    Those of one size were started one after the other: the n-th record of each rank is of the n-th world.
    """
    worlds: dict[tuple[int, int], list[RankFile]] = defaultdict(list)
    seen: Counter[tuple[int, int]] = Counter()
    for file in sorted(files, key=lambda f: (f.header.start.realtime_ns, f.path.name)):
        size, rank = file.header.world_size, file.header.rank
        worlds[size, seen[size, rank] if rank >= 0 else 0].append(file)
        seen[size, rank] += 1
    return sorted(worlds.values(), key=lambda part: part[0].header.start.realtime_ns)


def _missing_sentence(missing: list[int], size: int, world: int, files: int) -> str:
    who = members_text(missing)
    where = f" of world {world}" if world else ""
    return f"{len(missing)} of {size} ranks{where} left no readable record: {who}. Copy RUN/ranks whole, or run again"


def _rank_files(root: Path, problems: list[str]) -> list[RankFile]:
    """The readable records in RUN/ranks, in order of name."""
    folder = root / "ranks"
    if os.path.realpath(folder) != os.path.join(os.path.realpath(root), "ranks"):  # noqa: PTH118
        problems.append(f"{folder} is a link to {os.path.realpath(folder)}: not followed. Copy the run whole (cp -rL)")
        return []
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        problems.append(f"{folder} cannot be read: {error.strerror}. A run holds its ranks' records there")
        return []
    files: list[RankFile] = []
    others = [name for name in names if not name.endswith(".weft")]
    if others:
        problems.append(f"{folder} holds {len(others)} other file(s), left alone: {', '.join(others[:3])[:200]}")
    for name in names:
        if name.endswith(".weft"):
            try:
                files.append(RankFile(folder / name, root))
            except RunError as error:
                if len(problems) < MAX_PROBLEMS:
                    problems.append(str(error))
    return files
