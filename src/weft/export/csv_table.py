"""Write calls as CSV (RFC 4180), with the columns of an export to Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import IO

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import BLOCK, Block
from weft.export.call_columns import NAMES, Column, NumberColumn, TextColumn, call_columns
from weft.export.time_order import CallRows
from weft.terms.run_extent import run_extent
from weft.trace import Trace


def write_csv(trace: Trace, calls: Iterable[CallRows], stream: IO[bytes]) -> None:
    """Write calls as CSV after a line of column names. A cell is empty if the call does not have the argument."""
    run = run_extent(trace)
    stream.write(_join_rows([[_quote(name)] for name in NAMES]))
    for rows in calls:
        blocks = [call_columns(Block(part.rank, part.index, run)) for part in rows.parts]
        columns = [_concatenate([block[name] for block in blocks]) for name in NAMES]
        for begin in range(0, len(rows), BLOCK):  # as text a row takes far more memory
            some = rows.order[begin : begin + BLOCK]
            stream.write(_join_rows([_render_cells(column, some) for column in columns]))


def _concatenate(columns: Sequence[Column]) -> Column:
    """Return one column with the rows of all given ones, which have the same name in different blocks."""
    if isinstance(columns[0], TextColumn):
        texts = [column for column in columns if isinstance(column, TextColumn)]
        starts = accumulate((len(column.texts) for column in texts), initial=0)
        codes = [np.where(c.codes < 0, -1, c.codes + start) for c, start in zip(texts, starts, strict=False)]
        return TextColumn(np.concatenate(codes), [text for column in texts for text in column.texts])
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    there = [np.ones(len(c.values), np.bool_) if c.there is None else c.there for c in numbers]
    return NumberColumn(np.concatenate([c.values for c in numbers]), np.concatenate(there))


def _join_rows(columns: list[list[str]]) -> bytes:
    """Return the lines of a table that is given column by column."""
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True)).encode("utf-8", "backslashreplace")


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _render_cells(column: Column, rows: NDArray[np.int64]) -> list[str]:
    """Return the cells of some rows of a column: texts are quoted, booleans are `true` and `false`."""
    if isinstance(column, TextColumn):
        cells = ["" if text is None else _quote(text) for text in column.texts]
        return ["" if code < 0 else cells[code] for code in column.codes[rows].tolist()]
    values = column.values[rows]
    if values.dtype == np.bool_:
        found = ["true" if value else "false" for value in values.tolist()]
    else:
        found = list(map(str, values.tolist()))
    if column.there is None:
        return found
    return [cell if is_there else "" for cell, is_there in zip(found, column.there[rows].tolist(), strict=True)]
