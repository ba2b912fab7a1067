"""The tables of ranks, communicators and datatypes, which the tables of calls and messages name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from weft.export.parquet.columns import valid_utf8
from weft.trace import Trace
from weft.trace.layout import Def

RANKS: Final = pa.schema(
    [
        ("rank", pa.int32()), ("world", pa.int32()), ("world_rank", pa.int32()), ("host", pa.string()),
        ("pid", pa.int64()), ("state", pa.string()), ("threads", pa.int32()), ("calls", pa.int64()),
    ]
)  # fmt: skip
COMMUNICATORS: Final = pa.schema(
    [
        ("name", pa.string()), ("label", pa.string()), ("parent", pa.string()), ("made_by", pa.string()),
        ("members", pa.list_(pa.int32())), ("remote_members", pa.list_(pa.int32())),
    ]
)  # fmt: skip
DATATYPES: Final = pa.schema(
    [
        ("rank", pa.int32()), ("name", pa.string()), ("combiner", pa.string()), ("size", pa.int64()),
        ("lower_bound", pa.int64()), ("extent", pa.int64()),
    ]
)  # fmt: skip


def _to_columns(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    return {
        field.name: pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)
    }  # fmt: skip


def _text(value: str | None) -> str | None:
    return None if value is None else valid_utf8(value)


def _fit_int64(value: int | None) -> int | None:
    """Return a number, or None if it does not fit into int64."""
    return value if value is not None and abs(value) < 2**63 else None


def rank_table(trace: Trace) -> dict[str, Any]:
    """Return the columns of the table of ranks: host, process id and so on."""
    rows = []
    for rank in trace.ranks:
        header = rank.header
        host, pid = (_text(header.host), header.pid) if header else (None, None)
        rows.append((rank.index, rank.world, rank.rank, host, pid, rank.state, len(rank.threads), len(rank.events)))
    return _to_columns(RANKS, rows)


def communicator_table(trace: Trace) -> dict[str, Any]:
    """Return the columns of the table of communicators. Members are rank indices; -1 for a member that left no
    record.
    """
    return _to_columns(
        COMMUNICATORS,
        [
            (
                _text(comm.name), _text(comm.label), _text(comm.parent.name) if comm.parent else None,
                _text(comm.function) or None, comm.members, comm.remote_members if comm.inter else None,
            )
            for comm in trace.communicators
        ],
    )  # fmt: skip


def datatype_tables(trace: Trace) -> Iterator[dict[str, object]]:
    """Yield the columns of the table of derived datatypes, rank by rank."""
    for rank in trace.ranks:
        made = [rank.datatype(id) for id in rank.definitions.ids(Def.DATATYPE)]
        yield _to_columns(
            DATATYPES,
            [
                (rank.index, _text(d.name), d.combiner, _fit_int64(d.size), _fit_int64(d.lb), _fit_int64(d.extent))
                for d in made
                if d is not None
            ],
        )
