"""Parquet: a folder of tables for dataframes. Calls and messages have all names decoded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft.export.output import Told, operations
from weft.export.parquet import calls, definitions, messages
from weft.terms.extent import extent, start_realtime_ns
from weft.trace import Trace


def write(trace: Trace, folder: Path) -> list[Told]:
    """Write the tables into a new folder."""
    folder.mkdir()
    run = extent(trace)
    of = operations(trace, folder)
    tables: list[tuple[str, str, pa.Schema, Iterable[dict[str, Any]]]] = [
        ("calls", "call", calls.SCHEMA, calls.parts(trace, run)),
        ("messages", "message", messages.SCHEMA, messages.parts(trace, of, run)),
        ("ranks", "rank", definitions.RANKS, [definitions.ranks(trace)]),
        ("communicators", "communicator", definitions.COMMUNICATORS, [definitions.communicators(trace)]),
        ("datatypes", "derived datatype", definitions.DATATYPES, definitions.datatypes(trace)),
    ]
    # The wall-clock time of time 0, so that runs can be laid side by side.
    facts = {"weft.run": trace.path.resolve().name, "weft.start_unix_ns": str(start_realtime_ns(trace) + run.first)}
    told = []
    for name, noun, schema, parts in tables:
        rows = _table(folder / f"{name}.parquet", schema.with_metadata(facts), parts)
        if noun == "message":
            told += [Told(len(of.sends), noun), Told(rows - len(of.sends), "unmatched receive")]
        else:
            told.append(Told(rows, noun))
    return told


def _table(path: Path, schema: pa.Schema, parts: Iterable[dict[str, Any]]) -> int:
    """Write one table part by part; the number of its rows."""
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for columns in parts:
            batch = pa.record_batch([columns[name] for name in schema.names], schema=schema)
            if batch.num_rows:
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows
