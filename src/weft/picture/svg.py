"""Draw a run as SVG, for notebooks and documents: ranks in rows, calls as boxes, messages as arrows.

Calls narrower than a pixel are shown by their exact share of the pixel's time. Text of the record is never markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.words import plural
from weft.deadlock.blocked_ranks import Standstill
from weft.match import NONE, Match
from weft.match import match_operations as match_of
from weft.picture.classes import CLASSES, class_number_of
from weft.picture.pixel_columns import Ints, ThreadColumns, class_totals, column_edges, rank_columns
from weft.picture.svg_base import Picture, escape_text, svg_head
from weft.picture.text import format_seconds
from weft.picture.window import Window, parse_window, select_ranks
from weft.terms import calls
from weft.terms.describe import call_words, site_suffix
from weft.terms.run_extent import Extent, run_extent
from weft.trace import Event, Level, Rank, Trace

MAX_ROWS: Final = 96
"""Rows of one thread each; more are drawn as bands of several, with the mean of their shares."""

MAX_MESSAGES: Final = 300
MAX_TITLES: Final = 3000
_LABEL: Final = 108
_MARGIN: Final = 64
_TOP: Final = 34
_BOTTOM: Final = 56
_TORN: Final = 7

_PALE: Final = frozenset(number for number, c in enumerate(CLASSES) if c.word in ("wait", "probe", "one-sided"))
"""Classes whose colour needs dark letters on a light ground too."""


def draw_svg(
    trace: Trace, *, window: Window = None, ranks: str | Iterable[int] | None = None, width: int = 960,
    messages: bool = True,
) -> Picture:  # fmt: skip
    """Return a picture of a part of a run: some ranks in a window of time, `width` pixels wide.

    Raises UsageError for an invalid window or ranks that the run does not have.
    """
    if trace.level == Level.OUTCOMES or not trace.event_count:
        return _draw_empty(trace, width)
    chosen = select_ranks(trace, ranks)
    run = run_extent(trace)
    return _SvgDrawing(trace, chosen, run, parse_window(trace, window, run), max(width, 320)).render(messages)


def _draw_empty(trace: Trace, width: int) -> Picture:
    """Return a picture that says that no calls were recorded."""
    text = escape_text(f"{trace.path.name}: no calls were recorded")
    return Picture(f'{svg_head(width, 48)}<text x="12" y="28">{text}</text></svg>')


class _SvgDrawing:
    def __init__(
        self, trace: Trace, ranks: list[Rank], run: Extent, window: tuple[int, int], width: int
    ) -> None:  # fmt: skip
        self.trace, self.run = trace, run
        self.start, self.end = window
        self.width, self.plot = width, width - _LABEL - _MARGIN
        self.borders = column_edges(self.start, self.end, self.plot)
        self.start, self.end = int(self.borders[0]), int(self.borders[-1])
        self.rows = rank_columns(ranks, self.borders, run.last)
        self.each = max(1, -(-len(self.rows) // MAX_ROWS))
        self.bands = [self.rows[i : i + self.each] for i in range(0, len(self.rows), self.each)]
        self.step = 26 if len(self.bands) <= 24 else max(7, 620 // len(self.bands))
        self.gap = 4 if self.step >= 14 else 1
        self.height = _TOP + self.step * len(self.bands) + _BOTTOM
        self.row_of = {(r.thread.rank.index, r.thread.slot): i // self.each for i, r in enumerate(self.rows)}

    def render(self, messages: bool) -> Picture:
        """Return the whole SVG picture."""
        parts = [svg_head(self.width, self.height), self._draw_title()]
        parts += [self._draw_background(number, band) for number, band in enumerate(self.bands)]
        parts.append(self._draw_axis())
        parts += [self._draw_band(number, band) for number, band in enumerate(self.bands)]
        hidden = 0
        if messages and self.each == 1:
            drawn, hidden = self._draw_messages(match_of(self.trace))
            parts += drawn
        if self.each == 1:
            parts += self._draw_waits()
        parts.append(self._draw_legend(hidden))
        return Picture("".join(parts) + "</svg>")

    def x_position(self, ns: float) -> float:
        """Return the x coordinate of a time in ns."""
        return _LABEL + (ns - self.start) * self.plot / (self.end - self.start)

    def row_top(self, row: int) -> float:
        """Return the y coordinate of the top of a row."""
        return _TOP + row * self.step

    def _draw_title(self) -> str:
        """Return the title as SVG: the run's name, its ranks and calls, and how many calls never returned."""
        trace = self.trace
        open_ = sum(int(r.boxes.open.sum()) for r in self.rows)
        said = f"{trace.path.resolve().name}: {plural(len(trace.ranks), 'rank')}, {plural(trace.event_count, 'call')}"
        alarm = f'<tspan class="alarm">  {plural(open_, "call")} never returned</tspan>' if open_ else ""
        return f'<title>{escape_text(said)}</title><text x="12" y="20" class="title">{escape_text(said)}{alarm}</text>'

    # Rows

    def _draw_background(self, number: int, band: list[ThreadColumns]) -> str:
        ground = f'<rect class="band" x="{_LABEL}" y="{self.row_top(number) + self.gap / 2:g}" width="{self.plot}" '
        return f'{ground}height="{self.step - self.gap:g}"/>{self._draw_label(number, band)}'

    def _draw_band(self, number: int, band: list[ThreadColumns]) -> str:
        """Return SVG for the calls of one row. If several threads share the row, it shows the mean of their times."""
        top = self.row_top(number)
        if self.each == 1:
            return self._draw_shares(band[0].short, top) + self._draw_boxes(band[0], top)
        mean = np.mean([class_totals(r, self.borders) for r in band], axis=0)
        return self._draw_shares(mean, top)

    def _draw_label(self, number: int, band: list[ThreadColumns]) -> str:
        """Return SVG for the name of a row's rank or ranks at its left; empty for some rows if rows are narrow."""
        every = max(1, -(-14 // self.step))
        if number % every:
            return ""
        first, last = band[0].thread, band[-1].thread
        name = f"rank {first.rank.index}" if len(first.rank.threads) == 1 else f"rank {first.rank.index}.{first.slot}"
        if self.each > 1:
            name = f"ranks {first.rank.index}-{last.rank.index}"
        return (
            f'<text x="{_LABEL - 8}" y="{self.row_top(number) + self.step / 2 + 4:g}" text-anchor="end">{name}</text>'
        )

    def _draw_shares(self, ns: NDArray[np.float64] | Ints, top: float) -> str:
        """Return SVG for the short calls of a row: each column has the time of every class, stacked from below. `ns`:
        (columns, classes)."""
        inner = self.step - self.gap
        share = np.round(ns / np.diff(self.borders)[:, None] * inner, 2)
        under = top + self.gap / 2 + inner - np.cumsum(share, axis=1)
        paths = []
        for kind in range(len(CLASSES)):
            # Neighbours that look the same are one rectangle.
            looks = np.stack([share[:, kind], under[:, kind]], axis=1)
            starts = np.flatnonzero(np.append(True, (looks[1:] != looks[:-1]).any(axis=1)))
            bits = [
                f"M{_LABEL + start} {looks[start, 1]:.2f}h{end - start}v{looks[start, 0]:.2f}h{start - end}z"
                for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(looks)], strict=True)
                if looks[start, 0] > 0
            ]
            if bits:
                paths.append(f'<path class="c{kind}" d="{"".join(bits)}"/>')
        return "".join(paths)

    def _draw_boxes(self, found: ThreadColumns, top: float) -> str:
        """Return SVG for the calls that are at least a pixel wide, with their names and tooltips."""
        boxes, parts = found.boxes, []
        titled = sum(len(r.boxes.enter) for r in self.rows) <= MAX_TITLES
        for k in range(len(boxes.enter)):
            enter, leave = max(int(boxes.enter[k]), self.start), min(int(boxes.leave[k]), self.end)
            left, right = self.x_position(enter), self.x_position(leave)
            torn = bool(boxes.open[k]) and int(boxes.leave[k]) >= min(self.end, self.run.last)
            shape = self._torn_box_path(left, right, top) if torn else self._box_path(left, right, top)
            kind = f"c{boxes.call_class[k]}" + (" torn" if torn else "")
            event = self._event_at(found, int(boxes.position[k])) if titled or right - left > 40 or torn else None
            tip = f"<title>{escape_text(self._tooltip(event))}</title>" if event and titled else ""
            parts.append(f'<path class="{kind}" d="{shape}">{tip}</path>')
            if event and right - left > 40 and self.step >= 14:
                parts.append(self._draw_call_name(event, left, right, top))
        return "".join(parts)

    def _event_at(self, found: ThreadColumns, position: int) -> Event:
        """Return the call at a position in the events of a thread, as an event of its rank."""
        rank = found.thread.rank
        if len(rank.threads) == 1:
            return rank.event(position)
        mine = np.flatnonzero(rank.event_threads == rank.threads.index(found.thread))
        return rank.event(int(mine[position]))

    def _box_path(self, left: float, right: float, top: float) -> str:
        return f"M{left:.2f} {top + self.gap / 2:g}H{right:.2f}v{self.step - self.gap}H{left:.2f}z"

    def _torn_box_path(self, left: float, right: float, top: float) -> str:
        """Return the SVG path of a box whose right edge is torn, as it is drawn for a call that never returned."""
        high = self.step - self.gap
        teeth = max(2, high // 5)
        each = high / teeth
        edge = "".join(f"l{_TORN if n % 2 == 0 else -_TORN} {each:.2f}" for n in range(teeth))
        y = top + self.gap / 2
        return f"M{left:.2f} {y:g}H{right:.2f}{edge}L{left:.2f} {y + high:g}z"

    def _tooltip(self, event: Event) -> str:
        """Return the words that a viewer shows over a call: rank, call, line, start and duration."""
        took = "never returned" if event.exit_ns is None else f"took {format_seconds(event.exit_ns - event.enter_ns)}"
        return (
            f"rank {event.rank.index}: {call_words(event)}{site_suffix(event)}, at "
            f"{format_seconds(event.enter_ns)}, {took}"
        )

    def _draw_call_name(self, event: Event, left: float, right: float, top: float) -> str:
        """Return SVG for the name of a call in its box, with its arguments if they fit; empty if not even the name
        fits."""
        room = int((right - left - 8) / 6)
        name = calls.message_name(event.function.name)
        text = (
            call_words(event)
            if len(call_words(event)) <= room
            else name
            if len(name) <= room
            else name[: room - 1] + "…"
        )
        kind = "in pale" if class_number_of(event.function.name) in _PALE else "in"
        return f'<text class="{kind}" x="{left + 4:.2f}" y="{top + self.step / 2 + 3.5:g}">{escape_text(text)}</text>'

    # Messages

    def _draw_messages(self, match: Match) -> tuple[list[str], int]:
        """Return the arrows, and the number of messages that are not drawn because there are too many."""
        found = list(self._draw_sends(match))
        if len(found) > MAX_MESSAGES:
            return [], len(found)
        head = '<defs><marker id="weft-head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" '
        head += 'orient="auto"><path class="head" d="M0 0L6 3L0 6z"/></marker></defs>'
        return [head, *found], 0

    def _draw_sends(self, match: Match) -> Iterable[str]:
        """Yield an arrow for each message sent in the window, or a cross for one that nobody received."""
        shown = {r.thread.rank.index for r in self.rows}
        for rank in (r for r in self.trace.ranks if r.index in shown):
            part = match.sends.of_rank(rank.index)
            posted = rank.enter_ns()[match.sends.event[part]]
            inside = np.flatnonzero((posted >= self.start) & (posted < self.end))
            if len(inside) > 20 * MAX_MESSAGES:
                yield from [""] * len(inside)
                continue
            for row in inside.tolist():
                send = rank.event(int(match.sends.event[part.start + row]))
                partner = int(match.sends.partner[part.start + row])
                receiver = match.recvs.rank_of(partner) if partner != NONE else -1
                if partner == NONE:
                    yield self._draw_lost_message(send)
                elif receiver in shown:
                    yield self._draw_arrow(send, self._receiving_event(match, receiver, partner))

    def _receiving_event(self, match: Match, receiver: int, row: int) -> Event:
        done = int(match.recvs.completion[row])
        return self.trace.ranks[receiver].event(int(match.recvs.event[row]) if done == NONE else done)

    def _row_middle(self, event: Event) -> float:
        return self.row_top(self.row_of[event.rank.index, event.thread.slot]) + self.step / 2

    def _draw_arrow(self, send: Event, received: Event) -> str:
        """Return SVG for the arrow of a message. If it ends after the window, it leads to the edge and has no head."""
        there = received.exit_ns if received.exit_ns is not None else received.enter_ns
        x1, x2, y1, y2 = (
            self.x_position(send.enter_ns),
            self.x_position(there),
            self._row_middle(send),
            self._row_middle(received),
        )
        right = _LABEL + self.plot
        head = ' marker-end="url(#weft-head)"'
        if x2 > right:
            # It arrives beyond the window: the arrow leads out of it.
            head, x2, y2 = "", right, y1 + (y2 - y1) * (right - x1) / (x2 - x1)
        return f'<line class="message"{head} x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:.1f}"/>'

    def _draw_lost_message(self, send: Event) -> str:
        """Return SVG for a message that nobody received: a cross."""
        x, y = self.x_position(send.enter_ns), self._row_middle(send)
        tip = escape_text(f"nobody received {call_words(send)}{site_suffix(send)}")
        return f'<path class="trouble" d="M{x:.1f} {y:g}l10 -9m-3 -3l6 6m0 -6l-6 6"><title>{tip}</title></path>'

    def _draw_waits(self) -> Iterable[str]:
        """Yield SVG for the right margin that shows which rank waits for which. Only ranks that wait for a single rank
        are shown."""
        standstill = Standstill(self.trace)
        if not standstill.open_calls:
            return
        right = _LABEL + self.plot + _TORN + 3
        lanes = 0
        for rank in sorted(standstill.stuck):
            whom = standstill.needs[rank].all_ranks() - {rank}
            event = standstill.open_calls[rank][0]
            here = (rank, event.thread.slot)
            if len(whom) != 1 or here not in self.row_of or lanes >= 12:
                continue
            other = min(whom)
            row = next((number for (index, _), number in self.row_of.items() if index == other), None)
            if row is None:
                continue
            y1, y2 = self._row_middle(event) - 3, self.row_top(row) + self.step / 2 + 3
            bend = right + 12 + 3 * (lanes % 12)
            lanes += 1
            tip = f"<title>rank {rank} waits for rank {other}</title>"
            curve = f"M{right} {y1:g}C{bend} {y1:g} {bend} {y2:g} {right + 2} {y2:g}"
            yield f'<path class="trouble" d="{curve}">{tip}</path>'
            yield f'<path class="alarm" d="M{right - 2} {y2:g}l6 -3v6z"/>'

    # Around

    def _draw_axis(self) -> str:
        """Return SVG for the axis of time with its labels."""
        bottom = self.row_top(len(self.bands))
        parts = []
        for ns in _tick_times(self.start, self.end, max(2, self.plot // 110)):
            x = self.x_position(ns)
            parts.append(f'<path class="line" d="M{x:.1f} {_TOP}V{bottom + 4:g}"/>')
            parts.append(
                f'<text class="faint" x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{format_seconds(ns)}</text>'
            )
        return "".join(parts)

    def _draw_legend(self, hidden: int) -> str:
        """Return SVG for the legend: the classes of calls that occur, and `hidden`, the number of messages that are
        not drawn."""
        y, x, parts = self.height - 14, float(_LABEL), []
        present = {int(kind) for r in self.rows for kind in np.unique(r.boxes.call_class)}
        present |= {int(kind) for r in self.rows for kind in np.flatnonzero(r.short.sum(axis=0))}
        for kind in sorted(present):
            title = CLASSES[kind].title
            parts.append(f'<rect class="c{kind}" x="{x:g}" y="{y - 9}" width="10" height="10" rx="2"/>')
            parts.append(f'<text x="{x + 15:g}" y="{y}">{title}</text>')
            x += 15 + 5.7 * len(title) + 18
        if hidden:
            parts.append(f'<text class="faint" x="{x:g}" y="{y}">{plural(hidden, "message")} not drawn</text>')
        return "".join(parts)


def _tick_times(start: int, end: int, most: int) -> Sequence[int]:
    """Return at most `most` round times (ns) between `start` and `end`, for the labels of the axis."""
    step = 1.0
    while (end - start) / step > most:
        step *= 2.5 if str(step)[0] == "2" else 2
    first = int(-(-start // step))
    return [int(k * step) for k in range(first, int(end // step) + 1)]
