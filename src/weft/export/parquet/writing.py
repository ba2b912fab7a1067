"""Export to Parquet: a folder of tables for dataframes. Calls and messages have all names decoded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.export.output import ExportCount, pair_operations
from weft.export.parquet import calls, definitions, messages
from weft.terms.run_extent import run_extent, start_realtime_ns
from weft.trace import Trace

ROWS: Final = 1 << 16
"""Rows that a group has at least."""


def write(trace: Trace, folder: Path) -> list[ExportCount]:
    """Write the run's tables into a new folder, and return how many rows each has."""
    folder.mkdir()
    run = run_extent(trace)
    of = pair_operations(trace, folder)
    tables: list[tuple[str, str, pa.Schema, Iterable[dict[str, Any]]]] = [
        ("calls", "call", calls.SCHEMA, calls.read_call_columns(trace, run)),
        ("messages", "message", messages.SCHEMA, messages.read_message_columns(trace, of, run)),
        ("ranks", "rank", definitions.RANKS, [definitions.rank_table(trace)]),
        ("communicators", "communicator", definitions.COMMUNICATORS, [definitions.communicator_table(trace)]),
        ("datatypes", "derived datatype", definitions.DATATYPES, definitions.datatype_tables(trace)),
    ]
    # The wall-clock time of time 0, so that runs can be laid side by side.
    facts = {"weft.run": trace.path.resolve().name, "weft.start_unix_ns": str(start_realtime_ns(trace) + run.first)}
    told = []
    for name, noun, schema, parts in tables:
        rows = _write_table(folder / f"{name}.parquet", schema.with_metadata(facts), parts)
        if noun == "message":
            told += [ExportCount(len(of.sends), noun), ExportCount(rows - len(of.sends), "unmatched receive")]
        else:
            told.append(ExportCount(rows, noun))
    return told


def _write_table(path: Path, schema: pa.Schema, parts: Iterable[dict[str, object]]) -> int:
    """Write the parts of one table to a Parquet file in groups of rows, and return the number of its rows."""
    rows = held = 0
    group: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for columns in parts:
            group.append(pa.record_batch([columns[name] for name in schema.names], schema=schema))
            # Of a thousand ranks with a few calls each, a group a rank would be all overhead.
            held += group[-1].num_rows
            if held >= ROWS:
                rows += _write_row_group(writer, group)
                group, held = [], 0
        rows += _write_row_group(writer, group)
    return rows


def _write_row_group(writer: pq.ParquetWriter, group: list[pa.RecordBatch]) -> int:
    """Write record batches as one group of rows, and return the number of rows."""
    table = pa.Table.from_batches(group, writer.schema).unify_dictionaries().combine_chunks()
    if table.num_rows:
        writer.write_table(table)
    return int(table.num_rows)
