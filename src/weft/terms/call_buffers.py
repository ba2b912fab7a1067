"""List the buffers that a call names, with the bytes of each that the call may touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from weft.mpi.meaning import Access, Act, Meaning, Mode, Share, base_name, find_meaning, functions_with
from weft.terms.byte_layouts import Layout, merge_layouts
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.significant_arguments import is_significant
from weft.trace import Datatype, Event
from weft.trace.layout import IN_PLACE

_WRITTEN: Final = frozenset(("recvbuf", "result_addr"))
_RECEIVES: Final = functions_with(Act.RECEIVE, Act.MATCHED_RECEIVE, Act.SEND_RECEIVE) | functions_with(
    Act.ACCESS, where=lambda m: m.access is Access.READ
)  # fmt: skip
_BUFFERS: Final = ("buf", "buffer", "sendbuf", "recvbuf", "origin_addr", "compare_addr", "result_addr")
_AMOUNTS: Final = {
    "buf": ("count",), "buffer": ("count",), "sendbuf": ("sendcount", "count", "recvcount"),
    "recvbuf": ("recvcount", "count"), "origin_addr": ("origin_count",), "result_addr": ("result_count",),
}  # fmt: skip
_TYPES: Final = {
    "buf": ("datatype", "sendtype", "recvtype"), "buffer": ("datatype",),
    "sendbuf": ("sendtype", "datatype"), "recvbuf": ("recvtype", "datatype"),
    "origin_addr": ("origin_datatype", "datatype"), "result_addr": ("result_datatype", "datatype"),
    "compare_addr": ("datatype",),
}  # fmt: skip


class BufferRegion(NamedTuple):
    """A buffer of a call: `low` to `high` are the bytes that the call may touch relative to `address`."""

    parameter: str
    address: int
    low: int
    high: int
    datatype: Datatype | None
    elements: int
    written: bool


def list_buffer_regions(event: Event) -> Iterator[BufferRegion]:
    """Yield the memory of each buffer that a call uses, if its bytes are known. For MPI_Win_create it is the window's
    memory.
    """
    name, args = base_name(event.function.name), event.args
    if name == "Win_create" and args.get("base") and args.get("size", 0) > 0:
        yield BufferRegion("base", args["base"], 0, int(args["size"]), None, 0, written=True)
    for parameter in _BUFFERS:
        address = args.get(parameter, 0)
        if isinstance(address, int) and address not in (0, IN_PLACE) and _is_significant(event, parameter):
            yield from _make_region(event, name, parameter, address)


def buffer_layout(event: Event, parameter: str) -> Layout | None:
    """Return which bytes of memory a buffer of a call covers, by address. None if MPI ignores the buffer in this call,
    or if the record does not tell. `parameter`: the buffer's name in the standard.
    """
    name, args = base_name(event.function.name), event.args
    address = args.get(parameter, 0)
    if not isinstance(address, int) or address in (0, IN_PLACE) or not _is_significant(event, parameter):
        return None
    datatype = _datatype_of_buffer(event, parameter)
    amounts = [(at, count) for at, count in _list_element_blocks(event, name, parameter, datatype) if count > 0]
    inner = {count: layout_of_elements(datatype, count) for count in {count for _, count in amounts}}
    found = [(address + at, layout) for at, count in amounts if (layout := inner[count]) is not None]
    return merge_layouts(found) if len(found) == len(amounts) else None


def _datatype_of_buffer(event: Event, parameter: str) -> Datatype | None:
    types = [event.args[t] for t in _TYPES[parameter] if t in event.args]
    return event.rank.datatype(types[0]) if types and isinstance(types[0], int) else None


def _is_significant(event: Event, parameter: str) -> bool:
    return bool(is_significant(event.rank, np.array([event.index]), parameter)[0])


def _make_region(event: Event, name: str, parameter: str, address: int) -> Iterator[BufferRegion]:
    """Yield the memory that one buffer of a call covers; nothing if its bytes are unknown."""
    written = parameter in _WRITTEN or (parameter in ("buf", "origin_addr") and name in _RECEIVES)
    datatype = _datatype_of_buffer(event, parameter)
    amounts = _list_element_blocks(event, name, parameter, datatype)
    found = [
        (at, layout, count)
        for at, count in amounts
        if count > 0 and (layout := layout_of_elements(datatype, count)) and layout.is_known
    ]
    if found:
        low, high = min(at + of.low for at, of, _ in found), max(at + of.high for at, of, _ in found)
        yield BufferRegion(parameter, address, low, high, datatype, sum(count for *_, count in found), written)


def _list_element_blocks(
    event: Event, name: str, parameter: str, datatype: Datatype | None
) -> Sequence[tuple[int, int]]:
    """Return the blocks of elements in a buffer of a call, as (displacement in bytes, number of elements). `name`: the
    function; `parameter`: the buffer.
    """
    args, row = event.args, find_meaning(name)
    kin = row.kin if row else name
    if kin == "Reduce_scatter":
        return _reduce_scatter_blocks(event, parameter)
    several = "sendcounts" if parameter == "sendbuf" else "recvcounts" if parameter == "recvbuf" else ""
    if several in args:
        return _vector_blocks(args, several, datatype)
    if parameter == "compare_addr" or (row is not None and Access.ONE_ELEMENT in row.access):
        return [(0, 1)]
    count = next((args[a] for a in _AMOUNTS[parameter] if isinstance(args.get(a), int)), 0)
    if row is not None and row.mode is Mode.PARTITIONED:
        count *= args.get("partitions", 0)
    elif row is not None and Share.EACH is {"sendbuf": row.sends, "recvbuf": row.receives}.get(parameter):
        count *= _count_peers(event, row)
    return [(0, count)]


def _count_peers(event: Event, row: Meaning) -> int:
    """Return how many processes take part in a collective; 0 for a neighbourhood collective. `row`: the function's
    meaning.
    """
    comm = event.comm
    return 0 if comm is None or row.is_neighbourhood else len(comm.peers(event.rank.index))


def _vector_blocks(args: Mapping[str, object], counts: str, datatype: Datatype | None) -> list[tuple[int, int]]:
    """Return the blocks of a buffer with a count and a displacement for each member, as (displacement in bytes, number
    of elements). `counts`: the parameter with the counts. [] if the arguments are not known.
    """
    displacements = args.get("sdispls" if counts == "sendcounts" else "rdispls", args.get("displs"))
    extent = (datatype.extent if datatype and datatype.extent is not None else datatype.size if datatype else 0) or 0
    many = args[counts]
    if not isinstance(displacements, list) or not isinstance(many, list) or len(displacements) != len(many):
        return []
    return [(at * extent, n) for at, n in zip(displacements, many, strict=True) if n > 0]


def _reduce_scatter_blocks(event: Event, parameter: str) -> list[tuple[int, int]]:
    """Return the single block of a buffer of MPI_Reduce_scatter, as (0, number of elements). The send buffer has all
    elements, the receive buffer only the caller's own. [] if the arguments are not known.
    """
    counts, comm = event.args.get("recvcounts"), event.comm
    if not isinstance(counts, list) or comm is None or comm.inter:
        return []
    mine = comm.rank_of(event.rank.index)
    return [(0, sum(counts) if parameter == "sendbuf" else counts[mine] if 0 <= mine < len(counts) else 0)]
