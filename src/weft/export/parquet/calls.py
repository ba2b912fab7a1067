"""The table of calls as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from weft.export.blocks import Block, read_blocks
from weft.export.call_columns import NAMES, TextColumn, call_columns
from weft.export.parquet.columns import NAME, dictionary_column, masked_column
from weft.terms.run_extent import Extent
from weft.trace import Trace

_INT32: Final = ("rank", "thread", "peer", "peer_rank", "tag", "line")
_BOOL: Final = ("open", "any_source", "any_tag", "flag", "cancelled", "buffer_changed")
_TEXT: Final = ("function", "comm", "datatype", "object_class", "file", "caller", "module")
_TYPES: Final = (
    dict.fromkeys(_INT32, pa.int32()) | dict.fromkeys(_BOOL, pa.bool_()) | dict.fromkeys(_TEXT, NAME)
    | {"error": pa.uint8(), "buffer": pa.uint64()}
)  # fmt: skip
SCHEMA: Final = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in NAMES])


def read_call_columns(trace: Trace, run: Extent) -> Iterator[dict[str, Any]]:
    """Yield the columns of the Parquet table of calls, one dict for each block of calls, rank by rank."""
    for rank in trace.ranks:
        for block in read_blocks(rank, run):
            yield arrow_call_columns(block)


def arrow_call_columns(block: Block) -> dict[str, Any]:
    """Return the columns of a block of calls as Arrow arrays, by the names in SCHEMA."""
    return {
        name: dictionary_column(column.codes, column.texts)
        if isinstance(column, TextColumn)
        else masked_column(column.values, column.there)
        for name, column in call_columns(block).items()
    }
