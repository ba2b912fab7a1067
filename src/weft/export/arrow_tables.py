"""Calls as Arrow tables, for dataframes and Parquet, with the columns of an export to Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

from weft.errors import UsageError
from weft.export.blocks import Block
from weft.export.time_order import CallRows, read_calls_in_time_order
from weft.terms.run_extent import run_extent
from weft.trace import Trace
from weft.trace.filter import Filter


def _import_arrow() -> Any:
    """Return the package pyarrow. Raises UsageError with the remedy if it is missing."""
    try:
        # It may not be there.
        import pyarrow
    except ImportError as error:
        raise UsageError(f"tables need the package pyarrow ({error}): pip install 'weft-debugger[export]'") from None
    return pyarrow


def iterate_tables(trace: Trace, calls: Iterable[CallRows]) -> Iterator[Any]:
    """Yield calls in the given order as pyarrow.Table objects, each of some hundred thousand rows."""
    pa = _import_arrow()
    # It imports pyarrow.
    from weft.export.parquet.calls import SCHEMA, arrow_call_columns

    run = run_extent(trace)
    for rows in calls:
        blocks = (arrow_call_columns(Block(part.rank, part.index, run)) for part in rows.parts)
        batches = [pa.record_batch([block[name] for name in SCHEMA.names], schema=SCHEMA) for block in blocks]
        yield pa.Table.from_batches(batches, SCHEMA).unify_dictionaries().combine_chunks().take(rows.order)


def to_arrow(trace: Trace, query: str = "") -> Any:
    """Return the calls that fit a filter as one pyarrow.Table, in the order of time.

    Raises UsageError if pyarrow is missing or the filter is invalid.
    """
    pa = _import_arrow()
    # It imports pyarrow.
    from weft.export.parquet.calls import SCHEMA

    made = list(iterate_tables(trace, read_calls_in_time_order(trace, Filter(query))))
    return pa.concat_tables([SCHEMA.empty_table(), *made]).unify_dictionaries().combine_chunks()


def to_pandas(trace: Trace, query: str = "") -> Any:
    """Return the calls that fit a filter as one pandas.DataFrame. Columns in which numbers may be missing have pandas'
    nullable types.

    Raises UsageError if pandas or pyarrow is missing, or if the filter is invalid.
    """
    pa = _import_arrow()
    try:
        # It may not be there.
        import pandas as pd
    except ImportError as error:
        raise UsageError(f"a DataFrame needs pandas ({error}): pip install 'weft-debugger[export]'") from None
    types = {
        pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype(),
        pa.uint8(): pd.UInt8Dtype(), pa.uint64(): pd.UInt64Dtype(),
    }  # fmt: skip
    return to_arrow(trace, query).to_pandas(types_mapper=types.get)


class _PositionedStream:
    """Count the bytes that go to a stream that does not know its position (a pipe), for writers that ask for it."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to, self._at, self.closed = to, 0, False

    def write(self, data: Any) -> int:
        """Write bytes to the stream and add their number to the position. Return the number."""
        self._to.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._at

    def flush(self) -> None:
        """Flush the stream."""
        self._to.flush()


def write_parquet(trace: Trace, calls: Iterable[CallRows], stream: IO[bytes]) -> None:
    """Write calls as a Parquet file."""
    pa = _import_arrow()
    # Only now it is known to be there.
    import pyarrow.parquet as pq

    from weft.export.parquet.calls import SCHEMA

    with pq.ParquetWriter(pa.PythonFile(_PositionedStream(stream), mode="w"), SCHEMA, compression="zstd") as writer:
        for table in iterate_tables(trace, calls):
            writer.write_table(table)
