"""Calls as tables of Arrow: for dataframes, Parquet and CSV, with the columns of an export to Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

from weft.errors import UsageError
from weft.export.blocks import Block
from weft.export.in_time import CallRows, in_time
from weft.terms.run_extent import extent
from weft.trace import Trace
from weft.trace.filter import Filter


def _arrow() -> Any:
    try:
        # It may not be there.
        import pyarrow
    except ImportError as error:
        raise UsageError(f"tables need the package pyarrow ({error}): pip install 'weft-debugger[export]'") from None
    return pyarrow


def tables(trace: Trace, found: Iterable[CallRows]) -> Iterator[Any]:
    """The calls as pyarrow.Table, some hundred thousand rows each, in their order."""
    pa = _arrow()
    # It imports pyarrow.
    from weft.export.parquet.calls import SCHEMA, columns

    run = extent(trace)
    for rows in found:
        blocks = (columns(Block(part.rank, part.index, run)) for part in rows.parts)
        batches = [pa.record_batch([block[name] for name in SCHEMA.names], schema=SCHEMA) for block in blocks]
        yield pa.Table.from_batches(batches, SCHEMA).unify_dictionaries().combine_chunks().take(rows.order)


def to_arrow(trace: Trace, query: str = "") -> Any:
    """The calls that fit a filter as one pyarrow.Table, in the order of time.

    UsageError where pyarrow is missing, or for a filter that is none.
    """
    pa = _arrow()
    # It imports pyarrow.
    from weft.export.parquet.calls import SCHEMA

    made = list(tables(trace, in_time(trace, Filter(query))))
    return pa.concat_tables([SCHEMA.empty_table(), *made]).unify_dictionaries().combine_chunks()


def to_pandas(trace: Trace, query: str = "") -> Any:
    """The calls that fit a filter as a pandas.DataFrame; numbers that may be missing are of pandas' nullable types.

    UsageError where pandas or pyarrow is missing, or for a filter that is none.
    """
    pa = _arrow()
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


class _Sink:
    """A stream that cannot tell where it is (a pipe), for writers that ask."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to, self._at, self.closed = to, 0, False

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        self._to.write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """How many bytes went through."""
        return self._at

    def flush(self) -> None:
        """Pass on what is held back."""
        self._to.flush()


def write_parquet(trace: Trace, found: Iterable[CallRows], to: IO[bytes]) -> None:
    """Write calls as a Parquet file."""
    pa = _arrow()
    # Only now it is known to be there.
    import pyarrow.parquet as pq

    from weft.export.parquet.calls import SCHEMA

    with pq.ParquetWriter(pa.PythonFile(_Sink(to), mode="w"), SCHEMA, compression="zstd") as writer:
        for table in tables(trace, found):
            writer.write_table(table)


def write_csv(trace: Trace, found: Iterable[CallRows], to: IO[bytes]) -> None:
    """Write calls as CSV with a line of names; what a call does not have is empty."""
    _arrow()
    # Only now it is known to be there.
    import pyarrow.csv as arrow_csv

    from weft.export.parquet.calls import SCHEMA

    to.write((",".join(f'"{name}"' for name in SCHEMA.names) + "\n").encode())
    options = arrow_csv.WriteOptions(include_header=False)
    for table in tables(trace, found):
        plain = table.cast(_plain(SCHEMA))
        arrow_csv.write_csv(plain, _Sink(to), write_options=options)


def _plain(schema: Any) -> Any:
    """The schema with texts in place of dictionaries, which CSV does not know."""
    # Who calls has asked for it.
    import pyarrow as pa

    return pa.schema(
        [(field.name, pa.string() if pa.types.is_dictionary(field.type) else field.type) for field in schema]
    )
