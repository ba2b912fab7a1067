"""OTF2's definitions, which say what the numbers in its events mean. They are written last, when all are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import _otf2
import numpy as np
from numpy.typing import NDArray

from weft.mpi.meaning import Form, Leaves, Share, find_meaning
from weft.picture.classes import CLASSES, class_number_of
from weft.trace import Communicator, Rank, Run, Trace

SITE_ATTRIBUTE: Final = 0
NOTHING: Final = 0xFFFFFFFF
"""OTF2_UNDEFINED_UINT32."""

_EVERYBODY: Final = 0
"""The group of all processes."""

_ROLES: Final = {
    "send": "POINT2POINT", "receive": "POINT2POINT", "probe": "POINT2POINT", "wait": "POINT2POINT",
    "collective": "COLL_OTHER", "one-sided": "RMA", "io": "FILE_IO", "other": "FUNCTION",
}  # fmt: skip


class Definitions:
    """Number the things that events name, when they are first asked for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = 0
        self._strings: dict[str, int] = {"": 0}
        self._regions: dict[int, int] = {}
        self._sites: dict[tuple[str, int], int] = {}
        self._windows: dict[tuple[int, int], int] = {}
        self._counts: dict[int, int] = defaultdict(int)
        # A rank without a record has a location all the same: others send to it.
        slots = [max(1, len(rank.threads)) for rank in trace.ranks]
        self._first = [sum(slots[:index]) for index in range(len(slots))]
        self._slots = slots

    # Numbers

    def location_number(self, rank: Rank, thread: int) -> int:
        """Return OTF2's number of a thread (a location). `thread`: its index in rank.threads."""
        return self._first[rank.index] + thread

    def rank_locations(self, rank: Rank) -> range:
        """Return OTF2's numbers of a rank's threads (locations)."""
        return range(self._first[rank.index], self._first[rank.index] + self._slots[rank.index])

    def all_locations(self) -> range:
        """Return OTF2's numbers of all threads (locations). Processes without a rank have none."""
        return range(sum(self._slots))

    def count_events(self, rank: Rank, thread: int, events: int) -> None:
        """Add a number of events to the count of a thread and of the run."""
        self._counts[self.location_number(rank, thread)] += events
        self.events += events

    def string_number(self, text: str) -> int:
        """Return the archive's number of a text, which is added if it is new."""
        clean = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return self._strings.setdefault(clean, len(self._strings))

    def region_number(self, function: int) -> int:
        """Return the archive's number of a function (a region), which is added if it is new."""
        return self._regions.setdefault(function, len(self._regions))

    def site_number(self, rank: Rank, site: int) -> int:
        """Return the archive's number for the source line of a call site, which is added if it is new. NOTHING if the
        line is unknown.
        """
        found = rank.site(site) if site else None
        if found is None or found.file is None:
            return NOTHING
        return self._sites.setdefault((found.file, found.line), len(self._sites))

    def window_number(self, rank: Rank, window: int) -> int:
        """Return the archive's number for an MPI window, which is the same on all its ranks. NOTHING if the window has
        no definition.
        """
        made = rank.definitions.window(window)
        comm = rank.comm(made.comm) if made else None
        if made is None or comm is None:
            return NOTHING
        # Its members make the windows of a communicator in one order (MPI-4.1, 12.2.1).
        return self._windows.setdefault((comm.index, made.ordinal), len(self._windows))

    # Writing

    def write_all(self, writer: Any) -> None:
        """Write all definitions with OTF2's GlobalDefWriter. A definition is written after the definitions to which it
        refers.
        """
        later: list[tuple[Any, tuple[object, ...]]] = []
        for name, arguments in self._all_definitions():
            later.append((getattr(_otf2, f"GlobalDefWriter_Write{name}"), arguments))
        for text, number in self._strings.items():
            _otf2.GlobalDefWriter_WriteString(writer, number, text)
        for write, arguments in later:
            write(writer, *arguments)

    def _all_definitions(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield all definitions of the archive as (kind, arguments): the kind as in GlobalDefWriter_Write<kind>, and
        the arguments of this function.
        """
        text = self.string_number
        yield "Paradigm", (_otf2.PARADIGM_MPI, text("MPI"), _otf2.PARADIGM_CLASS_PROCESS)
        yield from self._system_definitions()
        yield from self._region_definitions()
        for (file, line), number in self._sites.items():
            yield "SourceCodeLocation", (number, text(file), line)
        about = text("the line of the program that made the call")
        yield "Attribute", (SITE_ATTRIBUTE, text("call site"), about, _otf2.TYPE_SOURCE_CODE_LOCATION)
        yield from self._comm_definitions()
        for (comm, ordinal), number in self._windows.items():
            name = f"{self.trace.communicators[comm].name}.window#{ordinal}"
            yield "RmaWin", (number, text(name), comm, _otf2.RMA_WIN_FLAG_CREATE_DESTROY_EVENTS)

    def _system_definitions(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield (kind, arguments) for the hosts, the ranks on them, and their threads."""
        text, node, group, place = self.string_number, NOTHING, NOTHING, len(self.trace.ranks)
        yield "SystemTreeNode", (0, text("machine"), text("machine"), node)
        hosts: dict[str, int] = {}
        for rank in self.trace.ranks:
            host = rank.header.host if rank.header else "unknown"
            if host not in hosts:
                hosts[host] = len(hosts) + 1
                yield "SystemTreeNode", (hosts[host], text(host), text("node"), 0)
            process = _otf2.LOCATION_GROUP_TYPE_PROCESS
            name = f"rank {rank.index}" + (" (left no record)" if rank.missing else "")
            yield "LocationGroup", (rank.index, text(name), process, hosts[host], group)
            for slot, location in enumerate(self.rank_locations(rank)):
                name = f"thread {rank.threads[slot].slot}" if rank.threads else "no record"
                yield "Location", self._location_arguments(location, name, rank.index)
        if any(-1 in (*comm.members, *comm.remote_members) for comm in self.trace.communicators):
            process = _otf2.LOCATION_GROUP_TYPE_PROCESS
            yield "LocationGroup", (place, text("processes without a place"), process, 0, group)
            yield "Location", self._location_arguments(len(self.all_locations()), "no record", place)

    def _location_arguments(self, location: int, name: str, group: int) -> tuple[Any, ...]:
        return location, self.string_number(name), _otf2.LOCATION_TYPE_CPU_THREAD, self._counts[location], group

    def _region_definitions(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield (kind, arguments) for each MPI function of the run, which OTF2 calls a region."""
        for function, number in self._regions.items():
            name = self.trace.functions[function].name
            role = getattr(_otf2, f"REGION_ROLE_{_find_region_role(name)}")
            where = (self.string_number(""), 0, 0)
            named = (self.string_number(name), self.string_number(name), self.string_number(""))
            yield "Region", (number, *named, role, _otf2.PARADIGM_MPI, _otf2.REGION_FLAG_NONE, *where)

    def _comm_definitions(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        """Yield (kind, arguments) for the communicators and their groups."""
        everybody = [self._first[rank.index] for rank in self.trace.ranks]
        lost = len(everybody)
        if any(-1 in (*comm.members, *comm.remote_members) for comm in self.trace.communicators):
            everybody.append(len(self.all_locations()))
        yield "Group", self._group_arguments(_EVERYBODY, "", _otf2.GROUP_TYPE_COMM_LOCATIONS, everybody)
        groups: dict[tuple[int, ...], int] = {}
        for comm in self.trace.communicators:
            members = find_comm_members(comm)
            if members not in groups:
                groups[members] = len(groups) + 1
                places = [lost if member < 0 else member for member in members]
                yield "Group", self._group_arguments(groups[members], "", _otf2.GROUP_TYPE_COMM_GROUP, places)
        for comm in self.trace.communicators:
            parent = comm.parent.index if comm.parent else NOTHING
            yield "Comm", (
                comm.index, self.string_number(comm.name), groups[find_comm_members(comm)], parent, _otf2.COMM_FLAG_NONE
            )  # fmt: skip

    def _group_arguments(self, number: int, name: str, kind: Any, members: Iterable[int]) -> tuple[object, ...]:
        return number, self.string_number(name), kind, _otf2.PARADIGM_MPI, _otf2.GROUP_FLAG_NONE, list(members)


def find_comm_members(comm: Communicator) -> tuple[int, ...]:
    """Return the members of a communicator for OTF2; for an intercommunicator, the members of both groups.

    OTF2 has a definition for intercommunicators, but the package otf2 cannot open an archive with one, nor could any
    reader before OTF2 3.
    """
    return (*comm.members, *comm.remote_members)


def make_member_table(trace: Run, comm: int) -> NDArray[np.uint32]:
    """Return an array to look up, by rank index of the run, the rank's number in a communicator; NOTHING if it is no
    member.
    """
    group = np.array(find_comm_members(trace.communicators[comm]), np.int64)
    table = np.full(len(trace.ranks), NOTHING, np.uint32)
    known = group >= 0
    table[group[known]] = np.flatnonzero(known)
    return table


_BY_STRENGTH: Final = {
    Leaves.AFTER_ALL: "COLL_ALL2ALL", Leaves.AFTER_ROOT: "COLL_ONE2ALL", Leaves.ROOT_AFTER_ALL: "COLL_ALL2ONE",
}  # fmt: skip


def _find_region_role(function_name: str) -> str:
    """Return OTF2's role (point-to-point, collective …) for an MPI function."""
    found = find_meaning(function_name)
    if found is not None and found.moves and found.form is not Form.PERSISTENT:
        if found.sends is Share.NOTHING:
            return "BARRIER"
        if found.leaves in _BY_STRENGTH:
            return _BY_STRENGTH[found.leaves]
    return _ROLES[CLASSES[class_number_of(function_name)].word]
