"""Tabulates where the time went and who sent how much to whom, as text, JSON and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.report.context import AnalysisContext
from weft.report.text import printable
from weft.trace import Level, Trace
from weft.waits import (
    KEYS,
    CallTimes,
    Key,
    Ledger,
    Times,
    all_profiles,
    ledger_of,
    ledger_of_times,
    merge_blocks,
    message_matrix,
    sum_times,
    waits_of_run,
)
from weft.waits.ledger import empty, seconds

MAX_ROWS: Final = 1000
"""The most rows of a table of times in JSON."""

TEXT_ROWS: Final = 20
MAX_BLOCKS: Final = 64
"""Rows and columns of the matrix in JSON and HTML; more ranks are merged into blocks."""

_CELL: Final = 8
_HEADS: Final[Mapping[Key, str]] = {"function": "function", "rank": "rank", "site": "call site"}
_UNITS: Final = ("", "K", "M", "G", "T", "P", "E")


@dataclass(frozen=True)
class Tables:
    """The time by cause, the times by each key, and messages and bytes from rank (row) to rank (column)."""

    times: Mapping[Key, Sequence[CallTimes]]
    messages: NDArray[np.int64]
    bytes: NDArray[np.int64]
    ledger: Ledger


def make_tables(trace: Trace, match: Any) -> Tables:
    """Return the tables of times and messages of a run. They are empty for a run of level `outcomes`, which has no
    calls.
    """
    if trace.level == Level.OUTCOMES:
        nothing = np.zeros((0, 0), np.int64)
        return Tables({key: [] for key in KEYS}, nothing, nothing, empty())
    return Tables(all_profiles(trace, match), *message_matrix(trace, match), ledger_of(trace, match))


def make_tables_of_context(context: AnalysisContext) -> Tables:
    """Return the tables of times and messages of a run that was analysed, also if it was analysed in segments."""
    if context.parts is None:
        return make_tables(context.trace, context.match if context.trace.level != Level.OUTCOMES else None)
    rows: dict[Key, dict[str, list[int]]] = {key: {} for key in KEYS}
    total: Times | None = None
    ranks = len(context.trace.ranks)
    messages, sizes = np.zeros((ranks, ranks), np.int64), np.zeros((ranks, ranks), np.int64)
    for part in context.parts.iterate():
        for key, found in all_profiles(part.trace, part.match).items():
            for row in found:
                sums = rows[key].setdefault(row.name, [0, 0, 0])
                sums[:] = (old + new for old, new in zip(sums, row[1:], strict=True))
        more = message_matrix(part.trace, part.match)
        messages += more[0]
        sizes += more[1]
        own = sum_times(waits_of_run(part.trace, part.match))
        total = own if total is None else total + own
    assert total is not None
    ordered = {key: sorted((CallTimes(name, *row) for name, row in of.items()), key=lambda row: -row.ns)
               for key, of in rows.items()}  # fmt: skip
    return Tables(ordered, messages, sizes, ledger_of_times(context.trace, total))


def to_json(of: Tables) -> dict[str, Any]:
    """Return the tables as JSON under the keys `waiting`, `times` and `matrix`. Long tables are cut off, and ranks are
    merged into blocks if there are many.
    """
    messages, each = merge_blocks(of.messages, MAX_BLOCKS)
    rows = {
        key: [{"name": r.name, "calls": r.calls, "ns": r.ns, "waiting_ns": r.waiting} for r in found[:MAX_ROWS]]
        for key, found in of.times.items()
    }
    sizes, _ = merge_blocks(of.bytes, MAX_BLOCKS)
    return {
        "waiting": of.ledger.to_json(MAX_ROWS),
        "times": rows,
        "matrix": {"ranks_per_block": each, "messages": messages.tolist(), "bytes": sizes.tolist()},
    }


def times_lines(of: Tables) -> Iterator[str]:
    """Yield the tables of times as lines of text, longest times first. All shares are of one total, which the first
    line names.
    """
    yield ""
    yield from of.ledger.lines()
    yield ""
    yield from of.ledger.rank_lines(TEXT_ROWS)
    share = of.ledger.base.share
    for key, rows in of.times.items():
        yield ""
        width = max([len(_HEADS[key]), *(len(printable(row.name)) for row in rows[:TEXT_ROWS])])
        yield f"{_HEADS[key]:<{width}}  {'calls':>12}  {'time':>9}  {'of all':>6}  {'waiting':>9}"
        for row in rows[:TEXT_ROWS]:
            yield (
                f"{printable(row.name):<{width}}  {row.calls:>12,}  {seconds(row.ns):>9}  {share(row.ns):>6.1%}"
                f"  {seconds(row.waiting) if row.waiting else '-':>9}"
            )
        if len(rows) > TEXT_ROWS:
            yield f"and {plural(len(rows) - TEXT_ROWS, 'more row')}"


def matrix_lines(of: Tables, width: int) -> Iterator[str]:
    """Yield messages and bytes from rank (row) to rank (column) as lines of text of `width` characters. Ranks are
    merged into blocks if they do not fit.
    """
    label = 2 * len(str(max(0, len(of.messages) - 1))) + 2
    most = max(1, (width - label) // _CELL)
    for name, values in (("messages", of.messages), ("bytes", of.bytes)):
        merged, each = merge_blocks(values, most)
        of_blocks = f", {each} ranks a row and column" if each > 1 else ""
        yield ""
        yield f"{name} from rank (row) to rank (column){of_blocks}"
        yield " " * label + "".join(f"{_block_label(i, each, len(values)):>{_CELL}}" for i in range(len(merged)))
        for i, row in enumerate(merged.tolist()):
            cells = "".join(f"{_short_number(v) if v else '.':>{_CELL}}" for v in row)
            yield f"{_block_label(i, each, len(values)):<{label}}{cells}"


def _block_label(i: int, each: int, ranks: int) -> str:
    first, last = i * each, min((i + 1) * each, ranks) - 1
    return str(first) if first == last else f"{first}-{last}"


def _short_number(value: int) -> str:
    """Return a number in at most six characters, `1.5K` for 1,536."""
    size, unit = float(value), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{value}" if not unit else f"{size:.3g}{_UNITS[unit]}" if size < 999.5 else f"1{_UNITS[unit + 1]}"


def to_html(of: Tables) -> str:
    """Return the tables as HTML; the matrix of messages is a picture, the darker, the more bytes."""
    parts = ["<h2>Where the time went</h2>", _render_causes(of.ledger)]
    for key, rows in of.times.items():
        lines = "".join(
            f'<tr><td class="place">{escape(printable(r.name))}</td><td>{r.calls:,}</td><td>{seconds(r.ns)}</td>'
            f"<td>{of.ledger.base.share(r.ns):.1%}</td><td>{seconds(r.waiting) if r.waiting else '-'}</td></tr>"
            for r in rows[:MAX_ROWS]
        )
        head = f"<tr><th>{_HEADS[key]}</th><th>calls</th><th>time</th><th>of all</th><th>waiting</th></tr>"
        parts.append(f"<details{' open' if key == 'function' else ''}><summary>by {_HEADS[key]}</summary>")
        parts.append(f'<table class="times">{head}{lines}</table></details>')
    parts.append("<h2>Who sent to whom</h2>")
    parts.append(_render_matrix(of))
    return "\n".join(parts)


def _render_causes(ledger: Ledger) -> str:
    """Return as HTML the time in MPI by cause, in all and for each rank."""
    causes, share = ledger.present(), ledger.base.share
    total = "".join(
        f'<tr><td class="place">{cause.label}</td><td>{seconds(ledger.total(cause))}</td>'
        f"<td>{share(ledger.total(cause)):.1%}</td></tr>"
        for cause in causes
    )
    total += (
        f'<tr><td class="place">in MPI</td><td>{seconds(ledger.in_mpi)}</td><td>{share(ledger.in_mpi):.1%}</td></tr>'
    )
    heads = "".join(f"<th>{cause.label}</th>" for cause in causes)
    lines = "".join(
        f'<tr><td class="place">rank {rank}</td><td>{seconds(row.sum())}</td>'
        + "".join(f"<td>{seconds(row[cause]) if row[cause] else '-'}</td>" for cause in causes) + "</tr>"
        for rank, row in enumerate(ledger.by_rank[:MAX_ROWS])
    )  # fmt: skip
    return (
        "".join(f"<p>{escape(note[0].upper() + note[1:])}.</p>" for note in ledger.notes())
        + "<details open><summary>by cause</summary>"
        f'<table class="times"><tr><th>cause</th><th>time</th><th>of all</th></tr>{total}</table></details>'
        "<details><summary>by cause and rank</summary>"
        f'<table class="times"><tr><th>rank</th><th>in MPI</th>{heads}</tr>{lines}</table></details>'
    )


def _render_matrix(of: Tables) -> str:
    """Return the bytes from rank to rank as an SVG picture in HTML. It shows the number of messages if no size is
    known.
    """
    sizes, each = merge_blocks(of.bytes, MAX_BLOCKS)
    messages, _ = merge_blocks(of.messages, MAX_BLOCKS)
    if not messages.any():
        return "<p>No messages from rank to rank.</p>"
    # Where no size is known the picture shows the messages.
    shown = sizes if sizes.any() else messages
    most = np.log1p(float(shown.max()))
    n, ranks = len(shown), len(of.bytes)
    cells = []
    for i, j in np.argwhere(messages > 0).tolist():
        shade = 0.1 + 0.9 * float(np.log1p(float(shown[i, j]))) / most
        sent = f"{messages[i, j]:,} messages, {sizes[i, j]:,} bytes"
        told = f"<title>rank {_block_label(i, each, ranks)} to {_block_label(j, each, ranks)}: {sent}</title>"
        cells.append(f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="{shade:.2f}">{told}</rect>')
    many = f" Each row and column stands for {each} ranks." if each > 1 else ""
    return (
        f'<svg class="matrix" viewBox="0 0 {n} {n}" role="img" aria-label="bytes from rank to rank">'
        f'<rect class="frame" width="{n}" height="{n}"/>{"".join(cells)}</svg>'
        f"<p>From rank (row, rank 0 on top) to rank (column); the darker, the more bytes.{many}</p>"
    )
