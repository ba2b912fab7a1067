"""Find calls whose buffers share bytes that the call writes: the receive buffer with the send buffer, or with itself.

MPI-4.1, 2.3 (arguments), 5.1.11 (datatypes) and 6.5 to 6.8 (what a collective receives from each member).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from weft.mpi import meaning
from weft.mpi.meaning import Access, Act, Share, base_name, functions_with
from weft.terms.argument_columns import Ints, Ragged, decode_argument, decode_columns, sorted_distinct
from weft.terms.byte_layouts import share_bytes
from weft.terms.call_buffers import buffer_layout
from weft.terms.calls import catalogue_of
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.datatype_sizes import gapless_size, gapless_sizes
from weft.terms.significant_arguments import is_significant
from weft.trace import Datatype, Function, FunctionTable, Rank
from weft.trace.layout import COUNT_IN_TAIL, IN_PLACE, Def


class WrongBuffer(NamedTuple):
    """A call with wrong buffers: its event, the wrong parameter, and what is wrong, worded as an object of `gives
    MPI_Sendrecv`.

    `is_known` is False if the datatypes have too many blocks to decide.
    """

    event: int
    parameter: str
    why: str
    is_known: bool = True


MOST: Final = 200
"""Calls of one function, of different lines and distances of their buffers, whose bytes are compared one by one."""
_RECEIVING: Final = functions_with(Act.RECEIVE, Act.MATCHED_RECEIVE) | {"Sendrecv_replace", "Isendrecv_replace"}
_GETS: Final = functions_with(Act.ACCESS, where=lambda m: m.access is Access.READ)
_NO_BUFFER: Final = np.array([0, IN_PLACE], np.uint64).view(np.int64)
_SHARED: Final = "a recvbuf that shares bytes with what it sends"
_TWICE: Final = "blocks of recvbuf that share bytes, which would be written more than once,"


def find_aliased_buffers(rank: Rank) -> Iterator[WrongBuffer]:
    """Yield the calls of a rank that write into bytes which they also send, or that write a byte twice."""
    present = [rank.trace.functions[id] for id in catalogue_of(rank).present]
    for function, which in _successful_calls(rank, present, _functions_with_two_buffers(rank.trace.functions)):
        yield from _find_send_receive_overlaps(rank, function, which)
    for function, which in _successful_calls(rank, present, _functions_with_displacements(rank.trace.functions)):
        places = "displs" if "displs" in function.parameters_by_name else "rdispls"
        yield from (WrongBuffer(row, places, _TWICE) for row in _find_overlapping_blocks(rank, which, places))
    yield from _find_overlapping_datatypes(rank, present)


def _successful_calls(
    rank: Rank, present: list[Function], functions: Collection[Function]
) -> Iterator[tuple[Function, Ints]]:
    """Yield (function, event indices) for each of `functions` that the rank calls; calls that failed are left out.

    `present`: all functions that the rank calls.
    """
    events, wanted = rank.events, {function.id for function in functions}
    for function in present:
        if function.id in wanted:
            which = catalogue_of(rank).of(function)
            which = which[events["error"][which] == 0]
            if len(which):
                yield function, which


@cache
def _functions_with_two_buffers(functions: FunctionTable) -> tuple[Function, ...]:
    """Return the functions with a send buffer and a receive buffer."""
    return tuple(f for f in functions if {"sendbuf", "recvbuf"} <= f.parameters_by_name.keys())


@cache
def _functions_with_displacements(functions: FunctionTable) -> tuple[Function, ...]:
    """Return the functions whose receive buffer has a block for each member, with a length and a displacement for each,
    such as MPI_Gatherv. Neighbourhood collectives are left out.
    """
    rows = {f: meaning.find_meaning(f.name) for f in functions}
    lists = (Share.LISTED, Share.TYPED)
    return tuple(f for f, row in rows.items() if row and row.receives in lists and not row.is_neighbourhood)


# What is sent and what is received


def _find_send_receive_overlaps(rank: Rank, function: Function, which: Ints) -> Iterator[WrongBuffer]:
    """Yield the calls `which` of one function whose receive buffer shares bytes with the send buffer."""
    sent, got = (decode_argument(rank, which, name) for name in ("sendbuf", "recvbuf"))
    near = ~np.isin(sent, _NO_BUFFER) & ~np.isin(got, _NO_BUFFER)
    near &= _greatest_buffer_lengths(rank, function, which, "send") > got - sent
    near &= _greatest_buffer_lengths(rank, function, which, "recv") > sent - got
    which, apart = which[near], (got - sent)[near]
    sites = rank.events["site"][which].astype(np.int64)
    first = np.unique(sites << 40 ^ apart, return_index=True)[1]
    for row in which[np.sort(first)][:MOST].tolist():
        event = rank.event(row)
        one, other = buffer_layout(event, "sendbuf"), buffer_layout(event, "recvbuf")
        if one is not None and other is not None and (met := share_bytes(one, other)) is not False:
            yield WrongBuffer(row, "recvbuf", _SHARED, is_known=met is True)


def _greatest_buffer_lengths(rank: Rank, function: Function, which: Ints, side: str) -> Ints:
    """Return for each of the calls `which` how many bytes its send or receive buffer has at most; 2**40 if no bound is
    known. `side`: "send" or "recv".
    """
    names = function.parameters_by_name
    count, kind = (next((n for n in (side + of, of) if n in names), None) for of in ("count", "type"))
    kind = kind or ("datatype" if "datatype" in names else None)
    row = meaning.find_meaning(function.name)
    far = np.full(len(which), 1 << 40, np.int64)
    if count is None or kind is None or row is None or Share.EACH in (row.sends, row.receives):
        return far
    counts, kinds = decode_argument(rank, which, count), decode_argument(rank, which, kind)
    size = gapless_sizes(rank, kinds)
    reach: Ints = np.where((size == 0) | (counts == COUNT_IN_TAIL), far, counts * size)
    return reach


# Blocks with a displacement for each member


def _find_overlapping_blocks(rank: Rank, which: Ints, displacements: str) -> Iterator[int]:
    """Yield the event indices of the calls that receive the blocks of two members into the same bytes.

    `displacements`: the name of the parameter with the displacements of the blocks.
    """
    which = which[is_significant(rank, which, "recvcounts") & (rank.events["buffer"][which] != np.uint64(IN_PLACE))]
    for events, found in decode_columns(rank, which, frozenset(("recvcounts", displacements, "recvtypes"))):
        counts, places, types = (found.get(name) for name in ("recvcounts", displacements, "recvtypes"))
        if not isinstance(counts, Ragged) or not isinstance(places, Ragged):
            continue
        if not np.array_equal(counts.starts, places.starts):
            continue
        size = _element_sizes(rank, events, counts, types)
        step = size if types is None else np.ones(len(size), np.int64)
        yield from events[
            _find_owners_of_overlapping_ranges(counts.owners, places.values * step, counts.values * size)
        ].tolist()


def _element_sizes(rank: Rank, events: Ints, counts: Ragged, types: Any) -> Ints:
    """Return for each block of each call how many bytes one element of it has; 0 for a datatype with gaps, which is not
    checked.

    `counts`: the counts of all blocks. `types`: their datatypes, or None if a call has one type for all.
    """
    if types is None:
        kinds = decode_argument(rank, events, "recvtype")[counts.owners]
    elif np.array_equal(types.starts, counts.starts):
        kinds = types.values
    else:
        return np.zeros(len(counts.values), np.int64)
    return gapless_sizes(rank, kinds)


def _find_owners_of_overlapping_ranges(owners: Ints, low: Ints, length: Ints) -> Ints:
    """Return the owners (such as event indices) that have two overlapping ranges of bytes.

    `owners`: the owner of each range; `low`, `length`: the first byte and the length of each range.
    """
    some = length > 0
    owners, low, high = owners[some], low[some], (low + length)[some]
    order = np.lexsort((low, owners))
    owners, low, high = owners[order], low[order], high[order]
    # What begins before the end of the one before it: the first that meets any does so with its neighbour.
    hit = (owners[1:] == owners[:-1]) & (low[1:] < high[:-1])
    return sorted_distinct(owners[1:][hit]).astype(np.int64)


# Datatypes with entries that overlap


def _find_overlapping_datatypes(rank: Rank, present: list[Function]) -> Iterator[WrongBuffer]:
    """Yield the calls that receive with a datatype that has a byte twice: in two of its entries, or in two consecutive
    elements. `present`: all functions that the rank calls.
    """
    known = {id: rank.datatype(id) for id in rank.definitions.ids(Def.DATATYPE) if id > 1}
    spread = {id: of for id, of in known.items() if of is not None and not of.is_predefined and not gapless_size(of)}
    if not spread:
        return
    for function, which in _successful_calls(
        rank, present, [f for f in present if _written_type_and_count_parameters(f)]
    ):
        for kind, count in _written_type_and_count_parameters(function):
            yield from _check_datatype_argument(rank, which, kind, count, spread)


@cache
def _written_type_and_count_parameters(function: Function) -> tuple[tuple[str, str], ...]:
    """Return for each buffer that a function receives data into a pair of parameter names: the datatype, and its count
    ("" if there is none). For MPI_Put that is the target's buffer.
    """
    name, names = base_name(function.name), function.parameters_by_name
    pairs = [("recvtype", "recvcount"), ("result_datatype", "result_count")]
    if name in _GETS:
        pairs.append(("origin_datatype", "origin_count"))
    else:
        pairs.append(("target_datatype", "target_count"))
    if name in _RECEIVING:
        pairs.append(("datatype", "count"))
    return tuple((kind, count if count in names else "") for kind, count in pairs if kind in names)


def _check_datatype_argument(
    rank: Rank, which: Ints, type_parameter: str, count_parameter: str, noncontiguous: Mapping[int, Datatype]
) -> Iterator[WrongBuffer]:
    """Yield the calls whose datatype has entries that overlap, or elements that overlap each other.

    `type_parameter`, `count_parameter`: the names of the parameters with the datatype and its count. `noncontiguous`:
    the rank's datatypes that have gaps or overlaps, by id.
    """
    kinds = decode_argument(rank, which, type_parameter)
    use = np.isin(kinds, list(noncontiguous))
    if not use.any():
        return
    counts = decode_argument(rank, which, count_parameter) if count_parameter else np.ones(len(which), np.int64)
    use &= (counts > 0) & (counts != COUNT_IN_TAIL) & is_significant(rank, which, type_parameter)
    for id in sorted_distinct(kinds[use]).tolist():
        datatype = noncontiguous[id]
        mine = np.flatnonzero(use & (kinds == id))
        most = int(counts[mine].max())
        overlap = _do_elements_overlap(datatype, most)
        if overlap is False:  # nor do fewer
            continue
        if overlap is None:
            yield WrongBuffer(
                int(which[mine[0]]), type_parameter, f"{datatype.name}, of which entries overlap,", is_known=False
            )
            continue
        if _do_elements_overlap(datatype, 1):
            yield from (
                WrongBuffer(row, type_parameter, f"{datatype.name}, of which entries overlap,")
                for row in which[mine].tolist()
            )
            continue
        for n in sorted_distinct(counts[mine]).tolist()[-MOST:]:
            if n > 1 and _do_elements_overlap(datatype, n):
                why = f"{n:,} elements of {datatype.name}, which overlap each other,"
                yield from (WrongBuffer(row, type_parameter, why) for row in which[mine[counts[mine] == n]].tolist())


def _do_elements_overlap(datatype: Datatype, count: int) -> bool | None:
    """Return whether `count` elements of a datatype contain a byte more than once; None if there are too many blocks to
    decide.
    """
    found = layout_of_elements(datatype, count)
    return False if found is None else found.has_repeated_bytes()
