"""The table of calls, one row for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.export.blocks import Block, encode_ids, read_blocks, slot_tables
from weft.export.parquet.columns import NAME, dictionary_column, masked_column
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
        ("calls", pa.int64()),
        ("cancelled", pa.bool_()), ("buffer_changed", pa.bool_()), ("object_class", NAME), ("object", pa.int64()),
        ("buffer", pa.uint64()), ("file", NAME), ("line", pa.int32()), ("caller", NAME), ("module", NAME),
    ]
)  # fmt: skip


def read_call_columns(trace: Trace, run: Extent) -> Iterator[dict[str, Any]]:
    """Yield the columns of the Parquet table of calls, one dict for each block of calls, rank by rank."""
    for rank in trace.ranks:
        for block in read_blocks(rank, run):
            yield call_columns(block)


def call_columns(block: Block) -> dict[str, Any]:
    """Return the columns of a block of calls, by the names in SCHEMA."""
    return {**_identity_columns(block), **_argument_columns(block), **_outcome_columns(block), **_site_columns(block)}


def _identity_columns(block: Block) -> dict[str, Any]:
    """Return the columns that say which call each row is: rank, event, thread, function and times."""
    functions, rank = block.rank.trace.functions, block.rank
    slots = np.array([thread.slot for thread in rank.threads], np.int32)
    ids, codes = block.encode_column("function")
    return {
        "rank": pa.array(np.full(len(block), rank.index, np.int32)),
        "event": pa.array(block.index),
        "thread": pa.array(slots[block.thread]),
        "function": dictionary_column(codes, [functions[i].name for i in ids]),
        "enter_ns": pa.array(block.enter),
        "exit_ns": masked_column(block.leave, ~block.open),
        "open": pa.array(block.open),
        "error": pa.array(block.events["error"].copy()),
    }


def _name_column(block: Block, column: str, there: NDArray[np.bool_], text: Callable[[int], str]) -> pa.DictionaryArray:
    """Return the names of a column of ids; empty if a call has none (`there` false)."""
    ids, codes = block.encode_column(column)
    return dictionary_column(np.where(there, codes, -1), [text(i) for i in ids])


def _comm_column(block: Block) -> pa.DictionaryArray:
    ids, codes = encode_ids(block.comm)
    return dictionary_column(codes, [block.rank.object_name("COMM", i) if i else None for i in ids])


def _argument_columns(block: Block) -> dict[str, Any]:
    """Return the columns with the arguments of the calls in a block. If a call returned a status, its source and tag
    stand in place of the arguments.
    """
    events, function, rank, has = block.events, block.function, block.rank, slot_tables(block.rank.trace.functions)
    # What a status in the slot says stands in the places of the arguments.
    told = has.status[function] & ~block.open
    has_count = has.count[function] & ~block.failed_polls & (block.count >= 0)
    ids, codes = block.encode_column("function")
    slots = [rank.trace.functions[i].slot.get("object") for i in ids]
    return {
        "comm": _comm_column(block),
        "peer": masked_column(block.peer, has.peer[function] | told),
        "peer_rank": masked_column(block.peer_rank, (block.peer_rank >= 0) & (has.peer[function] | told)),
        "tag": masked_column(events["tag"].copy(), has.tag[function] | told),
        "any_source": pa.array((events["flags"] & Flag.ANY_SOURCE) != 0),
        "any_tag": pa.array((events["flags"] & Flag.ANY_TAG) != 0),
        "count": masked_column(block.count, has_count),
        "datatype": _name_column(block, "datatype", has.datatype[function], lambda i: rank.object_name("DATATYPE", i)),
        "bytes": masked_column(block.bytes, has_count & has.datatype[function] & (block.bytes >= 0)),
        "object_class": dictionary_column(codes, [slot.handle if slot else None for slot in slots]),
        "object": masked_column(events["object"].astype(np.int64), has.object[function]),
        "buffer": pa.array(events["buffer"].copy()),
    }


def _outcome_columns(block: Block) -> dict[str, Any]:
    """Return the columns with the results of the calls in a block: received bytes, flags, number of polls."""
    flags, has = block.events["flags"], slot_tables(block.rank.trace.functions)
    return {
        "received_bytes": _find_received_bytes(block),
        "flag": masked_column((flags & Flag.TRUE) != 0, has.flag[block.function] & ~block.open),
        "polls": masked_column(block.count, block.failed_polls),
        "calls": pa.array(block.calls),
        "cancelled": pa.array((flags & Flag.CANCELLED) != 0),
        "buffer_changed": pa.array((flags & Flag.BUFFER_CHANGED) != 0),
    }


def _find_received_bytes(block: Block) -> pa.Array:
    """Return the bytes that each call of a block received, according to its status. The cell is empty if the call has
    no status.
    """
    events, has = block.events, slot_tables(block.rank.trace.functions)
    told = has.status[block.function] & ~block.open
    told &= ~has.flag[block.function] | ((events["flags"] & Flag.TRUE) != 0)
    received = events["result"].astype(np.int64)
    for place in np.flatnonzero(told & ((events["flags"] & Flag.HAS_TAIL) != 0)).tolist():
        found = Event(block.rank, int(block.index[place])).received
        received[place], told[place] = min(found or 0, 2**62), found is not None
    told &= (block.peer != ANY_SOURCE) | (received > 0)  # a transfer of a file has a count and no source
    return masked_column(received, told)


def _site_columns(block: Block) -> dict[str, Any]:
    """Return the columns of call sites: file, line, function and module."""
    ids, codes = block.encode_column("site")
    sites = [block.rank.site(i) for i in ids]
    lines = np.array([site.line for site in sites], np.int32)[codes]
    return {
        "file": dictionary_column(codes, [site.file for site in sites]),
        "line": masked_column(lines, lines > 0),
        "caller": dictionary_column(codes, [site.function for site in sites]),
        "module": dictionary_column(codes, [site.module for site in sites]),
    }
