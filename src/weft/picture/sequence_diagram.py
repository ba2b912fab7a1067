"""Draw ranks as columns of text with strokes between them.

rank 0        rank 1
  │◀───tag 1────│    a.py:3  send
  ✗             │    a.py:4  waits in recv(source=1, tag=2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal

from weft.base.lazy import dataclass

_MARGIN: Final = 5
_WIDE, _NARROW = 14, 10
_FEW: Final = 4
"""Up to this many columns stand wide apart."""

Kind = Literal["taken", "lost", "missing", "refused", "gathering"]
"""A message that came, one that nobody received, one that never came, one that nobody receives, a collective."""

_LINES: Final[Mapping[str, str]] = {"missing": "╌", "refused": "╌", "gathering": "═"}
_HEADS: Final[Mapping[str, str]] = {"taken": "◀▶", "lost": "◁▷", "refused": "◁▷"}
WAITS: Final = "✗"
ENDED: Final = "■"
_PLAIN: Final = str.maketrans("│┆┼─╌═◀▶◁▷✗■…", "|:+-.=<>xxX#.")


@dataclass(frozen=True)
class Stroke:
    """A line from one column to another, with a label on it."""

    start: int
    end: int
    kind: Kind
    label: str = ""

    @property
    def span(self) -> range:
        """Return the gaps between columns that the stroke fills."""
        return range(min(self.start, self.end), max(self.start, self.end))


@dataclass
class StrokeRow:
    """A row of the diagram: strokes between columns, marks in columns, and a note at the right."""

    strokes: list[Stroke] = field(default_factory=list)
    marks: dict[int, str] = field(default_factory=dict)
    note: str = ""

    def has_room(self, stroke: Stroke) -> bool:
        """Return whether a line fits into the row: it crosses no other line and no mark. Marks at its ends do not
        matter, nor any for a line across a collective."""
        inside = set(stroke.span[1:])
        if stroke.kind != "gathering" and not inside.isdisjoint(self.marks):
            return False
        return all(set(stroke.span).isdisjoint(other.span) for other in self.strokes)


def draw_diagram(
    heads: Sequence[str], rows: Sequence[StrokeRow], *, plain: bool = False, width: int | None = None
) -> list[str]:
    """Return the lines of a diagram. `heads`: the columns' names; `plain`: use ASCII only; `width`: the length in
    characters at which lines are cut."""
    gap = _WIDE if len(heads) <= _FEW else _NARROW
    gap = max(gap, *(len(head) + 2 for head in heads))
    lines = [_render_heading(heads, gap), _draw_row(StrokeRow(), len(heads), gap, set())]
    stopped: set[int] = set()
    for row in rows:
        lines.append(_draw_row(row, len(heads), gap, stopped))
        stopped |= set(row.marks)
    if width is not None:
        lines = [line if len(line) <= width else line[: width - 1] + "…" for line in lines]
    return [line.translate(_PLAIN) for line in lines] if plain else lines


def _render_heading(names: Sequence[str], gap: int) -> str:
    """Return the first line of a diagram: the names above their columns, which are `gap` characters apart."""
    text = ""
    for column, name in enumerate(names):
        text = text.ljust(_MARGIN + column * gap - (len(name) - 1) // 2) + name
    return text


def _draw_row(row: StrokeRow, columns: int, gap: int, stopped: set[int]) -> str:
    """Return a row of a diagram as text. `columns`: their number; `gap`: their distance in characters; `stopped`:
    columns whose ranks have ended or wait, drawn as a broken line."""
    canvas = [" "] * (_MARGIN + (columns - 1) * gap + 1)
    for column in range(columns):
        canvas[_MARGIN + column * gap] = "┆" if column in stopped else "│"
    for stroke in row.strokes:
        _draw_stroke(canvas, stroke, gap, set(row.marks))
    for column, mark in row.marks.items():
        canvas[_MARGIN + column * gap] = mark
    return f"{''.join(canvas)}    {row.note}".rstrip()


def _draw_stroke(canvas: list[str], stroke: Stroke, gap: int, marked: set[int]) -> None:
    """Draw a stroke, the line between two columns of the diagram, with its label and arrow head, on a row of
    characters. `gap`: the distance between columns in characters. `marked`: the columns that take part in a
    collective; its line has holes at the others."""
    low, high = sorted((stroke.start, stroke.end))
    line = _LINES.get(stroke.kind, "─")
    for at in range(_MARGIN + low * gap + 1, _MARGIN + high * gap):
        column, off = divmod(at - _MARGIN, gap)
        if off:
            canvas[at] = line
        elif stroke.kind == "gathering" and column not in marked:
            # Who is not in it has a hole there.
            canvas[at - 1 : at + 2] = [" ", canvas[at], " "]
        else:
            canvas[at] = "┼"
    for at in range(_MARGIN + low * gap + 1, _MARGIN + high * gap):
        # The hole's right side was drawn over by the line that goes on.
        column, off = divmod(at - _MARGIN, gap)
        if stroke.kind == "gathering" and off == 1 and column > low and column not in marked:
            canvas[at] = " "
    _draw_label(canvas, stroke, gap)
    if stroke.kind in _HEADS:
        left, right = tuple(_HEADS[stroke.kind])
        end = _MARGIN + stroke.end * gap
        canvas[end + 1 if stroke.end < stroke.start else end - 1] = left if stroke.end < stroke.start else right


def _draw_label(canvas: list[str], stroke: Stroke, gap: int) -> None:
    """Write a line's label on a row of characters, in the gap beside the line's end. A label that does not fit loses
    the word `tag`, or is left out."""
    first = stroke.end if stroke.end < stroke.start else stroke.end - 1
    text = stroke.label if len(stroke.label) <= gap - 4 else stroke.label.removeprefix("tag ")
    if not text or len(text) > gap - 4:
        return
    at = _MARGIN + first * gap + 1 + (gap - 1 - len(text)) // 2
    canvas[at : at + len(text)] = text
