"""Check collectives: every member makes the same calls in the same order, with arguments that fit (MPI-4.1, 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import listed, rank_words
from weft.evidence import Absent, Evidence
from weft.findings import Finding
from weft.match import NONE, Instances, Match, Post
from weft.match.grouping import group_rows
from weft.mpi.meaning import Share, base_name, find_meaning
from weft.native.bridge import array_addresses
from weft.native.headers.scan import Gathered, kernel
from weft.terms import calls, describe
from weft.terms.argument_columns import Ints, decode_columns, sorted_distinct
from weft.terms.calls import masks_of
from weft.terms.datatype_sizes import machine_type, size_in_bytes
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, make_finding
from weft.terms.rank_progress import has_ended
from weft.trace import Datatype, Event, Rank, Trace
from weft.trace.layout import COUNT_IN_TAIL, EVENT, IN_PLACE, PROC_NULL, ROOT
from weft.usage.topologies import Edge, find_unequal_edge_counts, topology_edges

MAX_INSTANCES = 2000
"""Instances of one function whose per-member counts are compared."""

UNKNOWN = -1
_ROOTED = calls.FROM_ROOT | calls.TO_ROOT
_SAME_COUNT = calls.BROADCASTS | calls.data_collectives(lambda m: m.is_reduction and m.counted)
_EXCHANGES = calls.data_collectives(
    lambda m: Share.EACH in (m.sends, m.receives) and not m.is_reduction and not m.is_neighbourhood
)
_BY_MEMBER = calls.data_collectives(
    lambda m: Share.LISTED in (m.sends, m.receives) and not m.is_reduction and not m.is_neighbourhood
)
"""Collectives in which the counts of each pair of members are to agree."""
_GRAPHS: Final = frozenset(("Dist_graph_create_adjacent",))
_ALIKE: Final = {
    "Cart_create": ("dims", "periods"), "Reduce_scatter": ("recvcounts",), "File_open": ("amode",),
    "File_set_size": ("size",), "File_preallocate": ("size",), "File_seek_shared": ("offset", "whence"),
    "File_set_atomicity": ("flag",), "Win_fence": ("assert",),
}  # fmt: skip
"""Arguments beside those of the slot that are the same at all members (MPI-4.1, 6.10, 8.5.1, 14.2 and 14.4)."""
_LOOKED_AT: Final = _EXCHANGES | _BY_MEMBER | calls.NEIGHBOURS | _GRAPHS | _ALIKE.keys()
"""What is looked at even where the slots of all members agree."""
_LOGICAL: Final = frozenset(("periods", "flag"))
_OF_ALL: Final = {8: "MPI_MODE_NOPRECEDE", 16: "MPI_MODE_NOSUCCEED"}
"""What a fence asserts for all or for none (12.5.5), as the record has it (recorder/wrap.h)."""
MOST_SHOWN: Final = 60
"""Letters of an array that a message shows."""
_ALONE = frozenset(("MPI_Comm_free", "MPI_Finalize"))
"""What a member may leave out here: how it ended tells of a missing MPI_Finalize."""


class Instance(Evidence):
    """Which call it is on its communicator, counted from 0."""

    call: int
    communicator: str


class Argument(Evidence):
    """The argument in which the ranks differ."""

    argument: str


def find(trace: Trace, match: Match) -> list[Finding]:
    """Find collectives in which members made different calls, were absent, or gave arguments that do not fit."""
    uneven = _find_suspect_instances(trace, match)
    uneven = uneven[~match.collectives_before_segment()[uneven]]
    if not len(uneven):
        return []
    table = _CollectiveTable(trace, match, _select_instances(match.instances, uneven))
    wrong = table.instances_with_unequal(table.function)
    told = list(_check_same_function(table, wrong))
    told += _check_absent_members(table, wrong)
    return told + list(_first_per_cause(_check_arguments(table, ~wrong)))


def _find_suspect_instances(trace: Trace, match: Match) -> Ints:
    """Return the indices of the collectives whose members may have made different calls or given different arguments
    (quickly sorted out in native/kernel/scan.c); only these are checked further.
    """
    of, parts = match.instances, match.collectives
    if not len(of):
        return np.zeros(0, np.int64)
    number = {name: i for i, name in enumerate(sorted({base_name(f.name) for f in trace.functions}))}
    name, anyway = np.zeros(65536, np.uint16), np.zeros(65536, np.uint8)
    for function in trace.functions:
        name[function.id] = number[base_name(function.name)]
        anyway[function.id] = _blocking_name(function.name) in _LOOKED_AT
    events = [np.ascontiguousarray(r.events) for r in trace.ranks]
    given = Gathered(
        instances=len(of), first=of.first, rows=of.rows, rank=parts.ranks(), event=parts.event,
        function=parts.function, name=name, anyway=anyway, comm=of.comm, members=_communicator_sizes(trace),
        events=array_addresses(events, EVENT, "events"),
    )  # fmt: skip
    found = np.empty(len(of), np.int64)
    return found[: kernel().weft_find_uneven_collectives(given, found)]


def _blocking_name(name: str) -> str:
    """The blocking function of which a function is a form."""
    row = find_meaning(name)
    return row.kin if row else ""


def _communicator_sizes(trace: Trace) -> Ints:
    """How many processes belong to each communicator."""
    return np.array([len(set(c.members) | set(c.remote_members)) for c in trace.communicators], np.int64)


def _select_instances(instances: Instances, which: Ints) -> Instances:
    """Return a table of those collectives whose indices are in `which`."""
    if len(which) == len(instances):
        return instances
    first = instances.first.astype(np.int64)
    lengths = (first[1:] - first[:-1])[which]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(first[:-1][which] - starts[:-1], lengths) + np.arange(starts[-1])
    return Instances(
        instances.comm[which],
        instances.ordinal[which],
        instances.parent[which],
        starts.astype(np.uint64),
        instances.rows[rows],
    )


def _sort_by_rank(ranks: Ints, count: int) -> tuple[Ints, Ints]:
    """Places sorted by rank, and where those of each rank begin."""
    first, places = group_rows(ranks.astype(np.uint32), count)
    return places.astype(np.int64), first.astype(np.int64)


Groups = list[tuple[object, list[int]]]
"""The places of parts by what they give, the rarest first."""


class _CollectiveTable:
    """The calls of the members of some collectives, ordered by instance, with their arguments as columns."""

    def __init__(self, trace: Trace, match: Match, of: Instances) -> None:
        self.trace = trace
        self.match = match
        self.of = of
        parts = match.collectives
        self.rows = of.rows.astype(np.int64)
        self.first = of.first.astype(np.int64)
        self.instance = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        """Of each part the collective that it is of."""
        self.rank = parts.ranks()[self.rows].astype(np.int64)
        self.by_rank, self.rank_first = _sort_by_rank(self.rank, len(trace.ranks))
        self.event = parts.event[self.rows].astype(np.int64)
        self.flags = parts.flags[self.rows]
        ids = parts.function[self.rows]
        self.names, self.function = self._number_base_names(ids)
        # Of a started persistent collective only its init has arguments, and that is a part of its own.
        started = ((self.flags & Post.PERSISTENT) != 0) & ((self.flags & Post.INIT) == 0)
        self.whole = ~started
        self.plain = (parts.parent[self.rows] == NONE) & ~started
        inter = np.array([c.inter for c in trace.communicators], np.bool_)
        self.inter = np.repeat(inter[of.comm], np.diff(self.first))

    def _number_base_names(self, ids: NDArray[np.generic]) -> tuple[list[str], Ints]:
        """Return the names of the functions with these ids, sorted and without the suffix `_c`, and for each id the
        index of its name.
        """
        unique, inverse = np.unique(ids, return_inverse=True)
        bases = [masks_of(self.trace.functions).name(int(i)) for i in unique]
        names = sorted(set(bases))
        index = np.array([names.index(base) for base in bases], np.int64)
        return names, index[inverse.reshape(-1)] if len(unique) else np.zeros(0, np.int64)

    def event_column(self, name: str) -> Ints:
        """Return for each row (the call of one member) the value of the field `name` of its event, such as "peer"."""
        values = np.zeros(len(self.rows), np.int64)
        for rank, mine in self.rows_by_rank():
            values[mine] = rank.events[name][self.event[mine]].astype(np.int64)
        return values

    def rows_by_rank(self) -> Iterator[tuple[Rank, Ints]]:
        """Yield (rank, rows of its calls) for each rank that takes part in one of the collectives."""
        for rank in self.trace.ranks:
            mine = self.by_rank[self.rank_first[rank.index] : self.rank_first[rank.index + 1]]
            if len(mine):
                yield rank, mine

    def rows_calling(self, names: frozenset[str], *, on_objects: bool = False) -> NDArray[np.bool_]:
        """Return a mask of the rows that call one of `names`, blocking or not. `on_objects`: also collectives on
        windows and files, which are left out otherwise.
        """
        wanted = [_blocking_name(name) in names for name in self.names]
        hit: NDArray[np.bool_] = np.array(wanted, np.bool_)[self.function] & (self.whole if on_objects else self.plain)
        return hit

    def instances_with_unequal(self, values: Ints, use: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return a mask of the collectives whose rows do not all have the same value. `values`: by row. `use`: a mask
        of the rows to compare, else all.
        """
        low = values if use is None else np.where(use, values, np.iinfo(np.int64).max)
        high = values if use is None else np.where(use, values, np.iinfo(np.int64).min)
        least, most = np.minimum.reduceat(low, self.first[:-1]), np.maximum.reduceat(high, self.first[:-1])
        result: NDArray[np.bool_] = least < most
        return result

    def parts(self, instance: int) -> range:
        """Return the rows of one instance."""
        return range(int(self.first[instance]), int(self.first[instance + 1]))

    def at(self, place: int) -> Event:
        """Return the event of a row."""
        return self.trace.ranks[int(self.rank[place])].event(int(self.event[place]))

    def comm(self, instance: int) -> Any:
        """Return the communicator of an instance."""
        return self.trace.communicators[int(self.of.comm[instance])]

    def first_instances_by_communicator(self, instances: NDArray[np.bool_]) -> Iterator[int]:
        """Yield for each communicator the index of its first collective among those of the mask `instances`. Later ones
        are only consequences of the first.
        """
        seen: set[tuple[int, int]] = set()
        of = self.of
        for instance in np.flatnonzero(instances).tolist():
            key = int(of.comm[instance]), int(of.parent[instance])
            if key not in seen:
                seen.add(key)
                yield instance

    def group_rows_by_value(self, rows: Sequence[int], values: Sequence[Any]) -> Groups:
        """Group rows that have equal values. Return pairs (value, rows with it), the rarest value first."""
        found: dict[Any, list[int]] = {}
        for place, value in zip(rows, values, strict=True):
            found.setdefault(value, []).append(place)
        return sorted(found.items(), key=lambda item: (len(item[1]), item[1][0]))


def _rank_text(table: _CollectiveTable, places: Sequence[int]) -> str:
    return rank_words(int(table.rank[p]) for p in places)


def _check_same_function(table: _CollectiveTable, wrong: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report collectives whose members call different functions, the first of each communicator. `wrong`: a mask of
    such collectives.
    """
    for instance in table.first_instances_by_communicator(wrong):
        places = table.parts(instance)
        groups = table.group_rows_by_value(places, [int(table.function[p]) for p in places])
        told = [f"{_rank_text(table, found)} {_calls(found)} {call_at(table.at(found[0]))}" for _, found in groups[:4]]
        events = [table.at(found[0]) for _, found in groups]
        nth = int(table.of.ordinal[instance]) + 1
        yield make_finding(
            "collective-mismatch",
            f"collective call number {nth} on {describe.communicator_words(table.comm(instance))} differs: "
            f"{listed(told, 'but')}",
            [*events, *(table.at(p) for p in list(places)[:64])],
            evidence=Instance(call=nth, communicator=table.comm(instance).name),
            cause=cause_key(*events),
        )


def _calls(places: Sequence[int]) -> str:
    return "calls" if len(places) == 1 else "call"


def _check_absent_members(table: _CollectiveTable, wrong: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report members that ended without making a collective call that others made. `wrong`: a mask of such
    collectives.
    """
    trace, of = table.trace, table.of
    short = (np.diff(table.first) < _communicator_sizes(trace)[of.comm]) & ~wrong
    for instance in table.first_instances_by_communicator(short):
        comm, places = table.comm(instance), table.parts(instance)
        there = {int(table.rank[p]) for p in places}
        missing = (set(comm.members) | set(comm.remote_members)) - there
        event = table.at(places[0])
        if -1 in missing or not all(has_ended(trace.ranks[i]) for i in missing) or event.function.name in _ALONE:
            continue
        yield make_finding(
            "collective-mismatch",
            f"{rank_words(there)} {_calls(list(there))} {call_at(event)} and {rank_words(missing)} never "
            f"{'does' if len(missing) == 1 else 'do'}",
            [table.at(p) for p in list(places)[:64]],
            evidence=Absent(absent=sorted(missing)[:64], communicator=comm.name),
            cause=cause_key(event),
        )


# Arguments


def _check_arguments(table: _CollectiveTable, right: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report collectives whose members disagree on the root, the operation, a count, a type or another argument.
    `right`: a mask of the collectives to check, those in which all members call the same function.
    """
    peer = table.event_column("peer")
    rooted = table.rows_calling(_ROOTED) & ~table.inter
    yield from _report_unequal_values(
        table, right & table.instances_with_unequal(peer, rooted), peer, "root", lambda e, v: f"root={v}"
    )
    yield from _check_intercommunicator_roots(table, right, peer)
    op = table.event_column("tag")
    op[op >= 256] = UNKNOWN  # user-made: equal ones have other ids on other ranks
    kinds = _BasicTypes()
    size, kind = _datatype_sizes_and_kinds(table, kinds)
    count = table.event_column("count")
    total = np.where((count == COUNT_IN_TAIL) | (size < 0), UNKNOWN, count * size)
    same = table.rows_calling(_SAME_COUNT) & ~table.inter & (total != UNKNOWN)
    moved = ~(same & (total == 0))  # of nothing neither the operation nor the type matters
    reducing = table.rows_calling(calls.REDUCTIONS) & (op != UNKNOWN) & moved
    yield from _report_unequal_values(
        table, right & table.instances_with_unequal(op, reducing), np.where(reducing, op, UNKNOWN), "op", _op_name
    )
    differing = right & table.instances_with_unequal(total, same)
    yield from _report_unequal_values(table, differing, total, "count", lambda e, v: f"count={e.count} ({v:,} bytes)")
    typed = same & moved & (kind != UNKNOWN)
    yield from _report_unequal_values(
        table, right & ~differing & table.instances_with_unequal(kind, typed), kind, "type", _type_name
    )
    yield from _check_exchanged_bytes(table, right, (total, kind), peer, kinds)
    yield from _check_counts_by_member(table, right)
    yield from _check_neighbour_exchange(table, right)
    yield from _check_graph_edges(table, right)
    yield from _check_equal_arguments(table, right)


def _check_equal_arguments(table: _CollectiveTable, right: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report collectives whose members give different dimensions, counts or modes. `right`: a mask of the collectives
    to check.
    """
    of = table.instance
    alike = table.rows_calling(frozenset(_ALIKE), on_objects=True) & ~table.inter
    some, site = FindingLimiter(), table.event_column("site") if alike.any() else of
    for instance in sorted_distinct(of[alike])[:MAX_INSTANCES].tolist():
        places = list(table.parts(instance)) if right[instance] else []
        if not places or not some.more(site[places].tobytes()):
            continue
        args = [table.at(place).args for place in places]
        for name in _ALIKE[_blocking_name(table.names[table.function[places[0]]])]:
            values = [_argument_text(given.get(name), name) for given in args]
            if len(set(values)) > 1 and "" not in values:
                yield _unequal_value_finding(
                    table, instance, table.group_rows_by_value(places, values), name, lambda e, v: v
                )
                break


def _argument_text(value: Any, name: str) -> str:
    """Return an argument with its name, as `dims=[2, 2]`; "" if the value is unknown."""
    if value is None:
        return ""
    if name == "assert":
        return "assert=" + "|".join(word for bit, word in _OF_ALL.items() if value & bit).ljust(1, "0")
    if name in _LOGICAL:
        value = [bool(one) for one in value] if isinstance(value, list) else bool(value)
    return f"{name}={value}"


def _op_name(event: Event, value: Any) -> str:
    return str(event.rank.object_name("OP", int(value))).removeprefix("MPI_")


def _type_name(event: Event, value: object) -> str:
    datatype = event.datatype
    return datatype.name if datatype else "an unknown type"


class _BasicTypes:
    """Numbers for basic types; types that are the same to the machine share a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []

    def number_basic_type(self, datatype: Datatype) -> int:
        """Return the number of a datatype's basic type, a new one if it was not seen before; UNKNOWN if it has several
        basic types or only bytes.
        """
        name = _single_basic_type(datatype)
        if name is None:
            return UNKNOWN
        number = self._numbers.setdefault(machine_type(name), len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def _datatype_sizes_and_kinds(table: _CollectiveTable, kinds: _BasicTypes) -> tuple[Ints, Ints]:
    """Return two columns by row: the size of the row's datatype in bytes, and the number that `kinds` gives its basic
    type; each UNKNOWN where it is not known.
    """
    ids = table.event_column("datatype")
    size = np.full(len(ids), UNKNOWN, np.int64)
    kind = np.full(len(ids), UNKNOWN, np.int64)
    for rank, mine in table.rows_by_rank():
        for id in sorted_distinct(ids[mine]).tolist():
            datatype = rank.datatype(id) if id > 1 else None
            known = size_in_bytes(datatype)
            if datatype is None or known is None:
                continue
            rows = mine[ids[mine] == id]
            size[rows] = known
            kind[rows] = kinds.number_basic_type(datatype)
    return size, kind


def _report_unequal_values(
    table: _CollectiveTable, instances: NDArray[np.bool_], values: Ints, argument: str, show: Any
) -> Iterator[Finding]:  # fmt: skip
    """Yield a finding for each collective of the mask `instances` in which members give different values of an
    argument.

    `values`: the value by row, UNKNOWN to leave the row out. `argument`: its name. `show(event, value)`: returns it in
    words.
    """
    for instance in np.flatnonzero(instances).tolist():
        places = [p for p in table.parts(instance) if values[p] != UNKNOWN]
        groups = table.group_rows_by_value(places, [int(values[p]) for p in places])
        if len(groups) > 1:
            yield _unequal_value_finding(table, instance, groups, argument, show)


def _unequal_value_finding(
    table: _CollectiveTable, instance: int, groups: Groups, argument: str, show: Callable[[Event, Any], str]
) -> Finding:  # fmt: skip
    """Make the finding for one collective whose members give different values of an argument.

    `groups`: pairs of a value and the rows with it, the rarest first. `show(event, value)`: returns the value in words.
    """
    events = [table.at(found[0]) for _, found in groups]
    told = []
    for (value, found), event in list(zip(groups, events, strict=True))[:4]:
        shown = show(event, value)
        shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}..."
        told.append(
            f"{_rank_text(table, found)} {'gives' if len(found) == 1 else 'give'} {shown}{describe.site_suffix(event)}"
        )
    return make_finding(
        "argument-mismatch",
        f"in {calls.message_name(events[0].function.name)} on {table.comm(instance).name}, {listed(told, 'but')}",
        events,
        evidence=Argument(argument=argument),
        cause=argument + cause_key(*events),
    )


def _check_intercommunicator_roots(table: _CollectiveTable, right: NDArray[np.bool_], peer: Ints) -> Iterator[Finding]:
    """Report collectives of intercommunicators in which a member gives a wrong root: in the root's group one member
    gives MPI_ROOT and all others MPI_PROC_NULL, in the other group all give the rank of the root (MPI-4.1, 6.2.3).

    `right`: a mask of the collectives to check. `peer`: the root by row.
    """
    rooted = table.rows_calling(_ROOTED) & table.inter & right[table.instance]
    for instance in sorted_distinct(table.instance[rooted & (peer == ROOT)])[:MAX_INSTANCES].tolist():
        comm, places = table.comm(instance), list(table.parts(instance))
        root = next(p for p in places if peer[p] == ROOT)
        if set(comm.members) & set(comm.remote_members):
            continue
        group = comm.members if int(table.rank[root]) in comm.members else comm.remote_members
        number = group.index(int(table.rank[root]))
        wrong = [
            p for p in places if p != root
            and peer[p] != (PROC_NULL if int(table.rank[p]) in group else number)
        ]  # fmt: skip
        if wrong:
            yield _wrong_root_finding(table, root, wrong, inside=int(table.rank[wrong[0]]) in group)


def _wrong_root_finding(table: _CollectiveTable, root: int, wrong: Sequence[int], *, inside: bool) -> Finding:
    """Make the finding on members of an intercommunicator that give another root than they must. `root`: the row that
    gives MPI_ROOT. `inside`: whether the first of the wrong ones is in the root's group.
    """
    first, right_one = table.at(wrong[0]), table.at(root)
    who = f"rank {right_one.rank.index} of {'its' if inside else 'the other'} group"
    must = "MPI_PROC_NULL" if inside else "the number of that rank in its group"
    return make_finding(
        "argument-mismatch",
        f"rank {first.rank.index} gives {call_at(first)} a wrong root: {who} gives MPI_ROOT"
        f"{describe.site_suffix(right_one)}, so that rank {first.rank.index} must give {must}",
        [first, right_one],
        evidence=Argument(argument="root"),
        cause="root" + cause_key(first, right_one),
    )


def _first_per_cause(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield only the first of the findings with the same call sites (the same `cause`)."""
    seen: set[str | None] = set()
    for one in findings:
        if one.cause not in seen:
            seen.add(one.cause)
            yield one


def _check_exchanged_bytes(
    table: _CollectiveTable, right: NDArray[np.bool_], sent: tuple[Ints, Ints], root: Ints, kinds: _BasicTypes
) -> Iterator[Finding]:
    """Report gathers, scatters, allgathers and alltoalls in which a member sends another number of bytes or another
    type than its receiver expects.

    `right`: a mask of the collectives to check. `sent`: two columns by row, bytes and basic type of the send arguments.
    `root`: the root by row.
    """
    use = table.rows_calling(_EXCHANGES) & ~table.inter
    if not use.any():
        return
    received = _received_sizes_and_kinds(table, np.flatnonzero(use), kinds)
    in_place = table.event_column("buffer") == np.int64(np.uint64(IN_PLACE).astype(np.int64))
    is_root = _ranks_in_communicator(table) == root
    gather, scatter = table.rows_calling(calls.TO_ROOT), table.rows_calling(calls.FROM_ROOT)
    # One number of bytes runs through the whole collective; each member gives it as what it sends or receives.
    takes = in_place | (gather & is_root) | (scatter & ~is_root)
    value, kind = (np.where(use, np.where(takes, *pair), UNKNOWN) for pair in zip(received, sent, strict=True))
    uneven = right & table.instances_with_unequal(value, value != UNKNOWN)
    yield from _report_unequal_values(table, uneven, value, "count", lambda e, v: f"{v:,} bytes a member")
    typed = (kind != UNKNOWN) & (value > 0)
    mixed = right & ~uneven & table.instances_with_unequal(kind, typed)
    yield from _report_unequal_values(table, mixed, np.where(typed, kind, UNKNOWN), "type", lambda e, v: kinds.names[v])


def _ranks_in_communicator(table: _CollectiveTable) -> Ints:
    """Return for each row the rank of its process in the communicator of the collective."""
    trace = table.trace
    key = np.repeat(table.of.comm.astype(np.int64), np.diff(table.first)) * len(trace.ranks) + table.rank
    known, inverse = np.unique(key, return_inverse=True)
    pairs = [divmod(k, len(trace.ranks)) for k in known.tolist()]
    own = np.array([trace.communicators[comm].rank_of(rank) for comm, rank in pairs], np.int64)
    found: Ints = own[inverse.reshape(-1)]
    return found


def _received_sizes_and_kinds(
    table: _CollectiveTable, rows_asked: NDArray[Any], kinds: _BasicTypes
) -> tuple[Ints, Ints]:
    """Return two columns by row: recvcount times the size of recvtype in bytes, and the number that `kinds` gives the
    basic type. Both are UNKNOWN for rows that are not in `rows_asked`.
    """
    found, kind = (np.full(len(table.rows), UNKNOWN, np.int64) for _ in range(2))
    wanted = np.zeros(len(table.rows), np.bool_)
    wanted[rows_asked] = True
    for rank, all_ in table.rows_by_rank():
        mine = all_[wanted[all_]]
        order = np.argsort(table.event[mine], kind="stable")
        for events, values in decode_columns(rank, table.event[mine], frozenset(("recvcount", "recvtype"))):
            if "recvcount" not in values or "recvtype" not in values:
                continue
            at = mine[order[np.searchsorted(table.event[mine][order], events)]]
            counts, types = values["recvcount"], values["recvtype"]
            assert isinstance(counts, np.ndarray) and isinstance(types, np.ndarray)
            for id in sorted_distinct(types).tolist():
                datatype = rank.datatype(id) if id > 1 else None
                known = size_in_bytes(datatype)
                if datatype is not None and known is not None:
                    rows = types == id
                    found[at[rows]] = counts[rows] * known
                    kind[at[rows]] = kinds.number_basic_type(datatype)
    return found, kind


def _check_counts_by_member(table: _CollectiveTable, right: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report collectives with a count for each member (MPI_Alltoallv and its kin) in which member i sends to member j
    something else than j expects from i. `right`: a mask of the collectives to check.
    """
    use = table.rows_calling(_BY_MEMBER) & ~table.inter
    of = table.instance
    seen: set[str] = set()
    for instance in sorted_distinct(of[use])[:MAX_INSTANCES].tolist():
        if not right[instance]:
            continue
        places = list(table.parts(instance))
        clash = _first_clash([table.at(p) for p in places])
        if clash is not None and (key := cause_key(clash[0], clash[1])) not in seen:
            seen.add(key)
            yield _clash_finding(table, instance, clash)


def _clash_finding(table: _CollectiveTable, instance: int, clash: Clash) -> Finding:
    """Make the finding for two members of a collective: the one sends something else than the other expects."""
    sender, receiver, gives, takes, what = clash
    name = calls.message_name(sender.function.name)
    return make_finding(
        "argument-mismatch",
        f"in {name} on {table.comm(instance).name} rank {sender.rank.index} sends "
        f"{gives} to rank {receiver.rank.index}{describe.site_suffix(sender)} but rank {receiver.rank.index} "
        f"expects {takes}{describe.site_suffix(receiver)}",
        [sender, receiver],
        evidence=Argument(argument=what),
        cause=cause_key(sender, receiver),
    )


def _check_neighbour_exchange(table: _CollectiveTable, right: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report neighbourhood collectives in which a member sends something else along an edge of the topology than the
    neighbour expects. Calls from the same lines with the same counts as earlier ones are not checked again.

    `right`: a mask of the collectives to check.
    """
    of = table.instance
    wanted = sorted_distinct(of[table.rows_calling(calls.NEIGHBOURS)]).tolist()
    site, count = (table.event_column(name) for name in ("site", "count")) if wanted else (of, of)
    seen: set[bytes] = set()
    known: dict[int, list[Edge]] = {}
    for instance in wanted:
        span = table.parts(instance)
        key = site[span.start : span.stop].tobytes() + count[span.start : span.stop].tobytes()
        if not right[instance] or key in seen or len(seen) >= MOST_ALIKE:
            continue
        seen.add(key)
        comm = table.comm(instance)
        if comm.index not in known:
            known[comm.index] = topology_edges(table.trace, comm)
        by_rank = {comm.rank_of(event.rank.index): event for event in map(table.at, span)}
        clash = _first_clash_of_neighbours(by_rank, known[comm.index])
        if clash is not None:
            yield _clash_finding(table, instance, clash)


MOST_ALIKE: Final = 64
"""Calls along the edges of topologies, of different lines or counts, that are looked at."""


def _first_clash_of_neighbours(by_rank: dict[int, Event], along: list[Edge]) -> Clash | None:
    """Return the first difference between what a sender gives and what its receiver expects along the edges `along`;
    None if there is none. `by_rank`: the call of each member.
    """
    for edge in along:
        sender, receiver = by_rank.get(edge.sender), by_rank.get(edge.receiver)
        if sender is None or receiver is None:
            continue
        clash = _compare_amounts(
            sender,
            receiver,
            _neighbour_amount(sender, "send", edge.out),
            _neighbour_amount(receiver, "recv", edge.into),
        )
        if clash is not None:
            return clash
    return None


def _neighbour_amount(event: Event, side: str, index: int) -> Amount | None:
    """Return the bytes and the basic type that a member sends to, or receives from, its neighbour number `index`; None
    if unknown. `side`: "send" or "recv".
    """
    args = event.args
    kinds = args.get(side + "types")
    if index < 0 and (kinds is not None or side + "counts" in args):
        return None
    kind = kinds[index] if kinds is not None and index < len(kinds) else args.get(side + "type", 0)
    return _amount_at(event, args.get(side + "counts", args.get(side + "count")), index, kind)


def _check_graph_edges(table: _CollectiveTable, right: NDArray[np.bool_]) -> Iterator[Finding]:
    """Report two members of a distributed graph that disagree on how many edges lead from one to the other."""
    of = table.instance
    for instance in sorted_distinct(of[table.rows_calling(_GRAPHS)])[:MOST_ALIKE].tolist():
        comm = table.comm(instance)
        by_rank = {comm.rank_of(event.rank.index): event for event in map(table.at, table.parts(instance))}
        found = find_unequal_edge_counts(by_rank) if right[instance] else None
        if found is not None:
            one, two, gives, takes = found
            yield make_finding(
                "argument-mismatch",
                f"in {calls.message_name(one.function.name)} on {describe.communicator_words(comm)} rank "
                f"{one.rank.index} names "
                f"{_edge_count_text(gives)} to rank {two.rank.index}{describe.site_suffix(one)} but rank "
                f"{two.rank.index} names "
                f"{_edge_count_text(takes)} from it{describe.site_suffix(two)}",
                [one, two],
                evidence=Argument(argument="destinations"),
                cause=cause_key(one, two),
            )


def _edge_count_text(count: int) -> str:
    return f"{count or 'no'} edge{'s' * (count > 1)}"


Amount = tuple[int, str | None]
"""Bytes, and the name of the basic type where there is one."""
Clash = tuple[Event, Event, str, str, str]
"""Two members of whom one sends other than the other expects, what each says in words, and the argument."""


def _first_clash(events: list[Event]) -> Clash | None:
    """Return the first difference between what a member sends to another and what the other expects; None if there is
    none. `events`: the call of each member.
    """
    comm = events[0].comm
    if comm is None:
        return None
    by_rank = {comm.rank_of(event.rank.index): event for event in events}
    for i, sender in by_rank.items():
        for j, receiver in by_rank.items():
            clash = _compare_amounts(sender, receiver, _sent_amount(sender, i, j), _expected_amount(receiver, i, j))
            if clash is not None:
                return clash
    return None


def _compare_amounts(sender: Event, receiver: Event, gives: Amount | None, takes: Amount | None) -> Clash | None:
    """Return the difference between the bytes, or else the type, that a sender gives and its receiver takes. None if
    they agree or one of the two is unknown.
    """
    if gives is None or takes is None:
        return None
    if gives[0] != takes[0]:
        return sender, receiver, f"{gives[0]:,} bytes", f"{takes[0]:,}", "count"
    if gives[0] and gives[1] and takes[1] and machine_type(gives[1]) != machine_type(takes[1]):
        return sender, receiver, gives[1], takes[1], "type"
    return None


def _amount_at(event: Event, counts: Any, index: int, datatype: int) -> Amount | None:
    """Return the number of bytes and the basic type of one member's block, None if unknown. `counts`: one count for all
    members, or a list of which the entry `index` counts.
    """
    type = event.rank.datatype(datatype) if datatype > 1 else None
    size = size_in_bytes(type)
    if type is None or size is None or counts is None:
        return None
    if not isinstance(counts, list):
        return int(counts) * size, _single_basic_type(type)
    return (counts[index] * size, _single_basic_type(type)) if index < len(counts) else None


def _single_basic_type(datatype: Datatype) -> str | None:
    """Return the name of the only basic type that a datatype consists of; None if it has several, or is of MPI_BYTE or
    MPI_PACKED.
    """
    signature = datatype.signature()
    if not signature or len(signature) != 1 or signature[0][0] in ("MPI_BYTE", "MPI_PACKED"):
        return None
    return signature[0][0]


def _sent_amount(event: Event, sender: int, receiver: int) -> Amount | None:
    """Return the number of bytes and the basic type that a member sends to another; None if its arguments do not say.

    `sender`, `receiver`: their ranks in the communicator.
    """
    args = event.args
    if args.get("sendbuf") == IN_PLACE:
        return None
    root = args.get("root")
    name = calls.message_name(event.function.name)
    if root is not None and (("gather" in name and receiver != root) or ("scatter" in name and sender != root)):
        return None
    return _amount_at(event, args.get("sendcounts", args.get("sendcount")), receiver, args.get("sendtype", 0))


def _expected_amount(event: Event, sender: int, receiver: int) -> Amount | None:
    """Return the number of bytes and the basic type that a member expects from another; None if its arguments do not
    say.

    `sender`, `receiver`: their ranks in the communicator.
    """
    args = event.args
    root = args.get("root")
    name = calls.message_name(event.function.name)
    if args.get("recvbuf") == IN_PLACE or (root is not None and "gather" in name and receiver != root):
        return None
    if root is not None and "scatter" in name and sender != root:
        return None
    return _amount_at(event, args.get("recvcounts", args.get("recvcount")), sender, args.get("recvtype", 0))
