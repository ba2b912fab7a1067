"""Find bytes of a file that two ranks access, at least one writing, without anything that orders them (MPI-4.1,
14.6.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.deadlock.collective_calls import CollectiveCalls
from weft.deadlock.traffic import Traffic
from weft.evidence import Evidence
from weft.findings import Finding
from weft.match import Match
from weft.mpi.meaning import base_name
from weft.order import Order
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.byte_layouts import Block, Blocks
from weft.terms.calls import catalogue_of, masks_of, word_set
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.event_findings import call_at, cause_key, make_finding, make_left_out_note
from weft.trace import Datatype, Event, Rank, Trace
from weft.usage.pending_buffers import RequestEnds, ends_of_requests, find_request_ends

MOST: Final = 50_000
"""Calls on files of a rank that are followed."""
MOST_PARTS: Final = 4096
"""Parts of a file that one call may touch; of one with more nothing is known."""
MOST_IN_ALL: Final = 1 << 18
"""Parts of files that the calls of one rank may touch."""
MOST_COMPARED: Final = 200
"""Accesses that meet of two lines of two ranks whose order is asked for."""
_APPEND: Final = 128
_SET, _CURRENT = 600, 602
"""MPI_MODE_APPEND, MPI_SEEK_SET and MPI_SEEK_CUR of MPICH, its kin and Open MPI."""
_TRANSFERS: Final = calls.FILE_READS | calls.FILE_WRITES | calls.FILE_IREADS | calls.FILE_IWRITES | calls.FILE_BEGINS
_STEPS: Final = _TRANSFERS | word_set("File_set_view File_seek File_set_atomicity")
_WHERE_IT_STANDS: Final = word_set("File_seek") | {
    name for name in _TRANSFERS if not any(word in name for word in ("_at", "shared", "ordered"))
}
"""What moves a rank's own pointer."""
_SYNC: Final = word_set("File_sync")
_CLOSE: Final = word_set("File_close")
_ON_FILES: Final = _STEPS | word_set("File_open")
LOOKED: Final = "files"
"""Under this name a match keeps what a look found for who asks next."""
File = tuple[int, int]


class Bytes(Evidence):
    """The bytes of a file that both access."""

    file: str
    from_: int
    to: int


class _FileAccess(NamedTuple):
    """Bytes of a file that a call reads or writes, from its event until event `end`; the number of events if it never
    ends.
    """

    rank: int
    event: int
    end: int
    low: int
    high: int
    writes: bool


@dataclass
class FileAccesses:
    """What the ranks did to their files.

    `accesses`: by file. `left`: by rank and file whether the rank moved its pointer by reading or writing, and its last
    write, -1 without one. `too_much`: for each rank and file the first call with more parts than are followed.
    """

    accesses: dict[File, list[_FileAccess]]
    left: dict[tuple[int, File], tuple[bool, int]]
    too_much: list[Event]


def collect_file_accesses(trace: Trace, gatherings: CollectiveCalls) -> FileAccesses:
    """Return what all ranks read and wrote in their files."""
    looked = FileAccesses(defaultdict(list), {}, [])
    for rank in trace.ranks:
        if len(rank) and len(masks_of(trace.functions).where(rank, word_set("File_open"))):
            for file, view, found in _follow_files_of_rank(rank, gatherings):
                looked.accesses[file] += found
                last = max((access.end for access in found if access.writes), default=-1)
                looked.left[rank.index, file] = view.moved, last
                looked.too_much += [view.too_much] if view.too_much is not None else []
    return looked


def find(trace: Trace, order: Order) -> list[Finding]:
    """Find accesses of files that race, and reads that may not see an earlier write."""
    gatherings = CollectiveCalls(trace)
    kept = order.match.made.pop(LOOKED, None)
    looked = kept if isinstance(kept, FileAccesses) else collect_file_accesses(trace, gatherings)
    whether = "it touches bytes of the file that another rank does"
    told = [make_left_out_note("file-race", event, whether) for event in looked.too_much[:1]]
    for file, found in looked.accesses.items():
        told += _SharedFile(trace, order, gatherings, file).find_races(found)
    return told


def are_files_quiescent(trace: Trace, match: Match) -> bool:
    """Return whether later parts of the run can be analysed without knowing what this part of it did to files.

    For that no transfer may be pending at the end. For each file that several ranks opened, each rank has closed it, or
    else has not moved its file pointer and has called MPI_File_sync after its last write. The accesses are kept with
    the match, for `find`.
    """
    table = masks_of(trace.functions).table(_ON_FILES)
    if not any(catalogue_of(rank).count(table) for rank in trace.ranks):
        return True
    gatherings = CollectiveCalls(trace)
    looked = match.made[LOOKED] = collect_file_accesses(trace, gatherings)
    return not any(_has_pending_transfer(rank) for rank in trace.ranks) and all(
        len(trace.communicators[file[0]].members) == 1
        or _has_called_on_file(trace.ranks[rank], _CLOSE, file, gatherings)
        or (not moved and (last < 0 or _has_called_on_file(trace.ranks[rank], _SYNC, file, gatherings, behind=last)))
        for (rank, file), (moved, last) in looked.left.items()
    )


def _has_pending_transfer(rank: Rank) -> bool:
    """Return whether the rank has a file transfer pending, or makes too many calls on files to tell."""
    of, events = masks_of(rank.trace.functions), rank.events
    begun = of.where(rank, calls.FILE_IREADS | calls.FILE_IWRITES)
    if len(begun) and (ends_of_requests(rank, begun, find_request_ends(Traffic(rank))) == len(rank)).any():
        return True
    if of.table(_WHERE_IT_STANDS)[events["function"][of.where(rank, _STEPS)[MOST:]]].any():
        return True
    halves = of.where(rank, calls.FILE_BEGINS | calls.FILE_ENDS)
    last = dict(zip(events["object"][halves].tolist(), halves.tolist(), strict=True))
    begins = of.table(calls.FILE_BEGINS)
    return bool(begins[events["function"][list(last.values())]].any()) if last else False


def _has_called_on_file(
    rank: Rank, names: frozenset[str], file: File, gatherings: CollectiveCalls, behind: int = -1
) -> bool:
    """Return whether a rank called one of the functions `names` on a file, without error, after the event `behind`."""
    rows, events = masks_of(rank.trace.functions).where(rank, names), rank.events
    rows = rows[(rows > behind) & (events["error"][rows] == 0)]
    return bool((events["object"][rows] == gatherings.file_ids(rank)[file]).any())


# What is accessed


def _follow_files_of_rank(
    rank: Rank, gatherings: CollectiveCalls
) -> Iterator[tuple[File, _FileView, list[_FileAccess]]]:
    """Yield for each file of a rank: the file, the rank's view of it at the end, and the rank's accesses to it."""
    steps = masks_of(rank.trace.functions).where(rank, _STEPS)[:MOST]
    by_file: dict[int, list[Event]] = defaultdict(list)
    for event in (rank.event(int(index)) for index in steps):
        if not event.error:
            by_file[event.args.get("fh", 0)].append(event)
    done, left = find_request_ends(Traffic(rank)), MOST_IN_ALL
    for file, local in gatherings.file_ids(rank).items():
        opened = rank.definitions.file(local) if local in by_file else None
        if opened is not None:
            view, found = _follow_file(_FileView(appends=bool(opened.amode & _APPEND)), by_file[local], done, left)
            left -= len(found)
            yield file, view, found


def _follow_file(
    view: _FileView, events: list[Event], done: RequestEnds, most_parts: int
) -> tuple[_FileView, list[_FileAccess]]:
    """Follow a rank's calls on one file, and return its view at the end and its accesses. Once there are `most_parts`
    ranges of bytes, further calls are only noted as too much.
    """
    atomic = False
    found: list[_FileAccess] = []
    for event in events:
        name, args = base_name(event.function.name), event.args
        if name == "File_set_view":
            view = _FileView.from_call(event, view.too_much)
        elif name == "File_set_atomicity":
            atomic = bool(args.get("flag"))
        elif name == "File_seek":
            view.seek(args["offset"], args["whence"])
        else:
            size = (size_in_bytes(event.datatype) or 0) * max(int(args.get("count", 0)), 0)
            touched = view.resolve_access(name, args.get("offset"), size) if not atomic else []
            if touched is None or len(found) + len(touched) > most_parts:
                view.too_much = view.too_much or event
                continue
            end = _completing_event(event, done) if touched else 0
            found += (_FileAccess(event.rank.index, event.index, end, *part, "write" in name) for part in touched)
    return view, found


def _completing_event(event: Event, done: RequestEnds) -> int:
    """Return the index of the event that completes a file access; the number of events if none does."""
    name = base_name(event.function.name)
    if name in calls.FILE_READS | calls.FILE_WRITES:
        return event.index
    if name in calls.FILE_BEGINS:  # until its second half
        ends = masks_of(event.rank.trace.functions).where(event.rank, calls.FILE_ENDS)
        ends = ends[(ends > event.index) & (event.rank.events["object"][ends] == event.object)]
        return int(ends[0]) if len(ends) else len(event.rank)
    return int(ends_of_requests(event.rank, np.array([event.index]), done)[0])


class _FileView:
    """A rank's view of a file (MPI-4.1, 14.3) and its file pointer; None for what is unknown."""

    def __init__(self, *, appends: bool = False) -> None:
        self.start: int | None = 0
        self.unit = 1
        self.step = 1
        self.parts: Blocks | None = _ONE_BYTE
        """The bytes from one filetype to the next, and which of them belong to the view; None: too many."""
        self.too_much: Event | None = None
        """The first call with more parts than are looked at."""
        self.at: int | None = None if appends else 0
        self.moved = False
        """Whether it stands there by calls that read or write there, or go on from where it stood."""

    @classmethod
    def from_call(cls, event: Event, too_much: Event | None) -> _FileView:
        """Return the view that a call of MPI_File_set_view gives. `too_much`: an earlier call whose bytes were too many
        parts to list, None if there is none.
        """
        args, view = event.args, cls()
        view.too_much = too_much
        unit, kind = size_in_bytes(event.datatype), event.rank.datatype(args["filetype"])
        layout = layout_of_elements(kind, 1)
        if not unit or not layout or kind is None or args["disp"] < 0 or args.get("datarep") != "native":
            view.start = None
            return view
        view.start, view.unit, view.parts = int(args["disp"]), unit, layout.blocks()
        view.step = _filetype_extent(kind)
        return view

    def seek(self, offset: int, whence: int) -> None:
        """Move the file pointer as MPI_File_seek does."""
        self.moved = whence == _CURRENT
        if whence == _SET:
            self.at = offset
        elif whence != _CURRENT or self.at is None:
            self.at = None
        else:
            self.at += offset

    def resolve_access(self, name: str, offset: int | None, size: int) -> list[tuple[int, int]] | None:
        """Return the ranges (first byte, end) of the file that a call of `size` bytes reads or writes. Also advances
        the file pointer. Empty for shared file pointers and where the position is unknown; None if the ranges are too
        many.

        `name`: the function. `offset`: an explicit offset in the view, None to use the pointer.
        """
        if "shared" in name or "ordered" in name:
            return []
        begin = self.at if offset is None else offset
        if offset is None and self.at is not None:
            self.at += size // self.unit
            self.moved = self.moved or size >= self.unit
        if begin is None or begin < 0 or self.start is None or not size:
            return []
        return self._locate_in_file(self.start, begin * self.unit, size)

    def _locate_in_file(self, start: int, first: int, size: int) -> list[tuple[int, int]] | None:
        """Return the ranges (first byte, end) of the file after the bytes `first` to `first + size` of the view; None
        if they are too many. `start`: the byte of the file at which the view begins.
        """
        if self.parts is None:
            return None
        offset, length = self.parts
        ends = np.cumsum(length)
        width, many = int(ends[-1]), len(ends)
        if (many, int(offset[0]), width) == (1, 0, self.step):
            return [(start + first, start + first + size)]
        (tile, skip), (last, rest) = divmod(first, width), divmod(first + size, width)
        place = int(np.searchsorted(ends, skip, "right"))
        if (last - tile) * many + int(np.searchsorted(ends, rest)) - place >= MOST_PARTS:
            return None
        found: list[Block] = []
        skip -= int(ends[place] - length[place])
        while size > 0:
            low = start + tile * self.step + int(offset[place]) + skip
            taken = min(int(length[place]) - skip, size)
            found.append((low, low + taken))
            size, skip, place = size - taken, 0, place + 1
            if place == many:
                tile, place = tile + 1, 0
        return found


_ONE_BYTE: Final = Blocks(np.zeros(1, np.int64), np.ones(1, np.int64))


def _filetype_extent(kind: Datatype) -> int:
    return (kind.extent if kind.extent is not None else size_in_bytes(kind)) or 1


# What orders them


class _SharedFile:
    """The accesses of all ranks to one file that they opened together."""

    def __init__(self, trace: Trace, order: Order, gatherings: CollectiveCalls, file: File) -> None:
        self.trace, self.order, self.gatherings, self.file = trace, order, gatherings, file
        self.compared: dict[tuple[int, int, int, int], int] = defaultdict(int)
        self.told: set[tuple[str, int, int]] = set()
        self._lists: dict[tuple[int, frozenset[str]], Ints] = {}

    def find_races(self, accesses: list[_FileAccess]) -> Iterator[Finding]:
        """Yield findings on accesses of different ranks to the same bytes of the file that nothing orders, or that need
        MPI_File_sync.
        """
        under_way: list[_FileAccess] = []
        for access in sorted(accesses, key=lambda a: (a.low, a.high)):
            under_way = [other for other in under_way if other.high > access.low]
            for other in under_way:
                if other.rank != access.rank and (other.writes or access.writes):
                    yield from self._check_pair(other, access)
            if len(under_way) < MOST_COMPARED:
                under_way.append(access)

    def _check_pair(self, one: _FileAccess, two: _FileAccess) -> Iterator[Finding]:
        """Report a pair of overlapping accesses if nothing orders them, or if a write is not followed by MPI_File_sync
        before the other access.
        """
        events = [self.trace.event(access.rank, access.event) for access in (one, two)]
        key = (one.rank, two.rank, events[0].site_id, events[1].site_id)
        self.compared[key] += 1
        if self.compared[key] > MOST_COMPARED:
            return
        for a, b in ((one, two), (two, one)):
            if self._is_over_before(a.rank, a.end, b) or self._is_collective_between(a.rank, a.event, b):
                if a.writes and not self._is_synced_before(a, b):
                    yield from self._report_race("unsynced", a, b)
                return
        yield from self._report_race("race", *sorted((one, two), key=lambda a: (a.rank, a.event)))

    def _is_over_before(self, rank: int, event: int, other: _FileAccess) -> bool:
        """Return whether an event of a rank returned before the access `other` began, as messages and collectives
        show.
        """
        if event >= len(self.trace.ranks[rank]):
            return False
        return self.order.reaches(EventId(rank, event), EventId(other.rank, other.event), a_end=True, b_end=False)

    def _is_collective_between(self, rank: int, event: int, other: _FileAccess) -> bool:
        """Return whether a collective on the file lies between an event and another rank's access.

        The standard does not promise that such a collective makes ranks wait for each other, but accesses on its two
        sides are not reported as a race.
        """
        mine, others = (self._calls_on_file(r, calls.FILE_COLLECTIVES) for r in (rank, other.rank))
        first = int(np.searchsorted(mine, event))
        return first < len(mine) and first < int(np.searchsorted(others, other.event))

    def _is_synced_before(self, writer: _FileAccess, other: _FileAccess) -> bool:
        """Return whether the writer calls MPI_File_sync after its own access and before the other access begins."""
        syncs = self._calls_on_file(writer.rank, _SYNC)
        behind = syncs[syncs > writer.end][:1].tolist()
        return any(
            self._is_over_before(writer.rank, at, other) or self._is_collective_between(writer.rank, at, other)
            for at in behind
        )

    def _calls_on_file(self, rank: int, names: frozenset[str]) -> Ints:
        """Return the event indices of a rank's calls of the functions `names` on this file."""
        if (rank, names) not in self._lists:
            of = self.trace.ranks[rank]
            local = self.gatherings.file_ids(of).get(self.file, -1)
            rows = masks_of(self.trace.functions).where(of, names)
            self._lists[rank, names] = rows[of.events["object"][rows] == local]
        return self._lists[rank, names]

    def _report_race(self, sort: str, one: _FileAccess, two: _FileAccess) -> Iterator[Finding]:
        """Report a race or an unsynced read, only the first of each pair of call sites. `sort`: "race" or "unsynced";
        `one` is the write before an unsynced read.
        """
        first, second = (self.trace.event(access.rank, access.event) for access in (one, two))
        key = (sort, first.site_id, second.site_id)
        if key in self.told:
            return
        self.told.add(key)
        low, high = max(one.low, two.low), min(one.high, two.high)
        local = self.gatherings.file_ids(first.rank)[self.file]
        opened = first.rank.definitions.file(local)
        where = f"{plural(high - low, 'byte')} at offset {low:,} of {Path(opened.name).name if opened else 'the file'}"
        does, also = ("writes" if access.writes else "reads" for access in (one, two))
        if sort == "race":
            message = (
                f"rank {one.rank} {does} {where} in {call_at(first)} and rank {two.rank} {also} them in "
                f"{call_at(second)}: nothing orders the two calls, and the file is not in atomic mode: separate them "
                "by MPI_File_sync, a barrier and MPI_File_sync"
            )
        else:
            also = "reads" if not two.writes else "writes over"
            message = (
                f"rank {two.rank} {also} {where} in {call_at(second)}, which rank {one.rank} wrote earlier in "
                f"{call_at(first)}: without MPI_File_sync between the two calls, the file may not have them yet"
            )
        yield make_finding(
            "file-race", message, [first, second], severity="error" if sort == "race" else "warning",
            evidence=Bytes(file=opened.name if opened else "", from_=low, to=high), cause=cause_key(first, second),
        )  # fmt: skip
