"""The columns of a table of calls, one row for each, for Parquet, dataframes and CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.export.blocks import Block, Mask, encode_ids, slot_tables
from weft.trace import Event, Flag
from weft.trace.layout import ANY_SOURCE

NAMES: Final = (
    "rank", "event", "thread", "function", "enter_ns", "exit_ns", "open", "error", "comm", "peer", "peer_rank", "tag",
    "any_source", "any_tag", "count", "datatype", "bytes", "received_bytes", "flag", "polls", "calls", "cancelled",
    "buffer_changed", "object_class", "object", "buffer", "file", "line", "caller", "module",
)  # fmt: skip
"""The names of the columns, in the order in which they are written."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers or booleans. Rows with `there` false are empty; None: no row is."""

    values: NDArray[Any]
    there: Mask | None = None


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of texts. Each of `codes` is an index in `texts`; a text of None, or a code below 0, is an empty row."""

    codes: NDArray[Any]
    texts: Sequence[str | None]


Column = NumberColumn | TextColumn


def call_columns(block: Block) -> dict[str, Column]:
    """Return the columns of a block of calls, by the names in NAMES."""
    return {**_identity_columns(block), **_argument_columns(block), **_outcome_columns(block), **_site_columns(block)}


def _identity_columns(block: Block) -> dict[str, Column]:
    """Return the columns that say which call each row is: rank, event, thread, function and times."""
    functions, rank = block.rank.trace.functions, block.rank
    slots = np.array([thread.slot for thread in rank.threads], np.int32)
    ids, codes = block.encode_column("function")
    return {
        "rank": NumberColumn(np.full(len(block), rank.index, np.int32)),
        "event": NumberColumn(block.index),
        "thread": NumberColumn(slots[block.thread]),
        "function": TextColumn(codes, [functions[i].name for i in ids]),
        "enter_ns": NumberColumn(block.enter),
        "exit_ns": NumberColumn(block.leave, ~block.open),
        "open": NumberColumn(block.open),
        "error": NumberColumn(block.events["error"].copy()),
    }


def _name_column(block: Block, column: str, there: NDArray[np.bool_], text: Callable[[int], str]) -> TextColumn:
    """Return the names of a column of ids; empty if a call has none (`there` false)."""
    ids, codes = block.encode_column(column)
    return TextColumn(np.where(there, codes, -1), [text(i) for i in ids])


def _comm_column(block: Block) -> TextColumn:
    ids, codes = encode_ids(block.comm)
    return TextColumn(codes, [block.rank.object_name("COMM", i) if i else None for i in ids])


def _argument_columns(block: Block) -> dict[str, Column]:
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
        "peer": NumberColumn(block.peer, has.peer[function] | told),
        "peer_rank": NumberColumn(block.peer_rank, (block.peer_rank >= 0) & (has.peer[function] | told)),
        "tag": NumberColumn(events["tag"].copy(), has.tag[function] | told),
        "any_source": NumberColumn((events["flags"] & Flag.ANY_SOURCE) != 0),
        "any_tag": NumberColumn((events["flags"] & Flag.ANY_TAG) != 0),
        "count": NumberColumn(block.count, has_count),
        "datatype": _name_column(block, "datatype", has.datatype[function], lambda i: rank.object_name("DATATYPE", i)),
        "bytes": NumberColumn(block.bytes, has_count & has.datatype[function] & (block.bytes >= 0)),
        "object_class": TextColumn(codes, [slot.handle if slot else None for slot in slots]),
        "object": NumberColumn(events["object"].astype(np.int64), has.object[function]),
        "buffer": NumberColumn(events["buffer"].copy()),
    }


def _outcome_columns(block: Block) -> dict[str, Column]:
    """Return the columns with the results of the calls in a block: received bytes, flags, number of polls."""
    flags, has = block.events["flags"], slot_tables(block.rank.trace.functions)
    return {
        "received_bytes": _find_received_bytes(block),
        "flag": NumberColumn((flags & Flag.TRUE) != 0, has.flag[block.function] & ~block.open),
        "polls": NumberColumn(block.count, block.failed_polls),
        "calls": NumberColumn(block.calls),
        "cancelled": NumberColumn((flags & Flag.CANCELLED) != 0),
        "buffer_changed": NumberColumn((flags & Flag.BUFFER_CHANGED) != 0),
    }


def _find_received_bytes(block: Block) -> NumberColumn:
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
    return NumberColumn(received, told)


def _site_columns(block: Block) -> dict[str, Column]:
    """Return the columns of call sites: file, line, function and module."""
    ids, codes = block.encode_column("site")
    sites = [block.rank.site(i) for i in ids]
    lines = np.array([site.line for site in sites], np.int32)[codes]
    return {
        "file": TextColumn(codes, [site.file for site in sites]),
        "line": NumberColumn(lines, lines > 0),
        "caller": TextColumn(codes, [site.function for site in sites]),
        "module": TextColumn(codes, [site.module for site in sites]),
    }
