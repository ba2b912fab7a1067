"""The table of calls: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.export.blocks import Block, blocks, coded, places
from weft.export.parquet.columns import NAME, named, where
from weft.terms.run_extent import Extent
from weft.trace import Event, Flag, Trace
from weft.trace.layout import ANY_SOURCE

SCHEMA: Final = pa.schema(
    [
        ("rank", pa.int32()), ("event", pa.int64()), ("thread", pa.int32()), ("function", NAME),
        ("enter_ns", pa.int64()), ("exit_ns", pa.int64()), ("open", pa.bool_()), ("error", pa.uint8()),
        ("comm", NAME), ("peer", pa.int32()), ("peer_rank", pa.int32()), ("tag", pa.int32()),
        ("any_source", pa.bool_()), ("any_tag", pa.bool_()), ("count", pa.int64()), ("datatype", NAME),
        ("bytes", pa.int64()), ("received_bytes", pa.int64()), ("flag", pa.bool_()), ("polls", pa.int64()),
        ("cancelled", pa.bool_()), ("buffer_changed", pa.bool_()), ("object_class", NAME), ("object", pa.int64()),
        ("buffer", pa.uint64()), ("file", NAME), ("line", pa.int32()), ("caller", NAME), ("module", NAME),
    ]
)  # fmt: skip


def parts(trace: Trace, run: Extent) -> Iterator[dict[str, Any]]:
    """The table block by block, rank by rank."""
    for rank in trace.ranks:
        for block in blocks(rank, run):
            yield columns(block)


def columns(block: Block) -> dict[str, Any]:
    """Some calls of a rank, by the names in SCHEMA."""
    return {**_call(block), **_arguments(block), **_outcome(block), **_site(block)}


def _call(block: Block) -> dict[str, Any]:
    functions, rank = block.rank.trace.functions, block.rank
    slots = np.array([thread.slot for thread in rank.threads], np.int32)
    ids, codes = block.coded("function")
    return {
        "rank": pa.array(np.full(len(block), rank.index, np.int32)),
        "event": pa.array(block.index),
        "thread": pa.array(slots[block.thread]),
        "function": named(codes, [functions[i].name for i in ids]),
        "enter_ns": pa.array(block.enter),
        "exit_ns": where(block.leave, ~block.open),
        "open": pa.array(block.open),
        "error": pa.array(block.events["error"].copy()),
    }


def _names(block: Block, column: str, there: NDArray[np.bool_], text: Callable[[int], str]) -> pa.DictionaryArray:
    """Names of a column of ids, where there is one."""
    ids, codes = block.coded(column)
    return named(np.where(there, codes, -1), [text(i) for i in ids])


def _comm(block: Block) -> pa.DictionaryArray:
    ids, codes = coded(block.comm)
    return named(codes, [block.rank.object_name("COMM", i) if i else None for i in ids])


def _arguments(block: Block) -> dict[str, Any]:
    events, function, rank, has = block.events, block.function, block.rank, places(block.rank.trace.functions)
    # What a status in the slot says stands in the places of the arguments.
    told = has.status[function] & ~block.open
    has_count = has.count[function] & ~block.failed_polls & (block.count >= 0)
    ids, codes = block.coded("function")
    slots = [rank.trace.functions[i].slot.get("object") for i in ids]
    return {
        "comm": _comm(block),
        "peer": where(block.peer, has.peer[function] | told),
        "peer_rank": where(block.peer_rank, (block.peer_rank >= 0) & (has.peer[function] | told)),
        "tag": where(events["tag"].copy(), has.tag[function] | told),
        "any_source": pa.array((events["flags"] & Flag.ANY_SOURCE) != 0),
        "any_tag": pa.array((events["flags"] & Flag.ANY_TAG) != 0),
        "count": where(block.count, has_count),
        "datatype": _names(block, "datatype", has.datatype[function], lambda i: rank.object_name("DATATYPE", i)),
        "bytes": where(block.bytes, has_count & has.datatype[function] & (block.bytes >= 0)),
        "object_class": named(codes, [slot.handle if slot else None for slot in slots]),
        "object": where(events["object"].astype(np.int64), has.object[function]),
        "buffer": pa.array(events["buffer"].copy()),
    }


def _outcome(block: Block) -> dict[str, Any]:
    flags, has = block.events["flags"], places(block.rank.trace.functions)
    return {
        "received_bytes": _received(block),
        "flag": where((flags & Flag.TRUE) != 0, has.flag[block.function] & ~block.open),
        "polls": where(block.count, block.failed_polls),
        "cancelled": pa.array((flags & Flag.CANCELLED) != 0),
        "buffer_changed": pa.array((flags & Flag.BUFFER_CHANGED) != 0),
    }


def _received(block: Block) -> pa.Array:
    """Bytes that the status in the slot tells of."""
    events, has = block.events, places(block.rank.trace.functions)
    told = has.status[block.function] & ~block.open & (block.peer != ANY_SOURCE)
    told &= ~has.flag[block.function] | ((events["flags"] & Flag.TRUE) != 0)
    received = events["result"].astype(np.int64)
    for place in np.flatnonzero(told & ((events["flags"] & Flag.HAS_TAIL) != 0)).tolist():
        found = Event(block.rank, int(block.index[place])).received
        received[place], told[place] = min(found or 0, 2**62), found is not None
    return where(received, told)


def _site(block: Block) -> dict[str, Any]:
    ids, codes = block.coded("site")
    sites = [block.rank.site(i) for i in ids]
    lines = np.array([site.line for site in sites], np.int32)[codes]
    return {
        "file": named(codes, [site.file for site in sites]),
        "line": where(lines, lines > 0),
        "caller": named(codes, [site.function for site in sites]),
        "module": named(codes, [site.module for site in sites]),
    }
