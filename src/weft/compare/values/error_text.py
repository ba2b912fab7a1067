"""Draw the error over an array as text: where it is, and how large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from weft.compare.values.error_map import ElementPair, compute_error_cells
from weft.compare.values.model import ValueDifference

ROWS: Final = 16
COLUMNS: Final = 60
SHADES: Final = ".:-=+*#%@"
"""From the least error to the largest, each a power of ten or so."""


def draw_error_text(differences: Sequence[ValueDifference], title: str) -> Iterator[str]:
    """Yield lines of text that draw the error over an array in one or two dimensions. Each character is a cell and
    shows its largest error; it is blank if nothing differs.
    """
    parts = [one for one in differences if one.sort == "value" and 1 <= len(one.box) <= 2]
    if not parts:
        return
    sides = list(zip(*(one.box for one in parts), strict=True))
    window = tuple((min(a for a, _ in side), max(b for _, b in side)) for side in sides)
    pairs = [ElementPair(one.before, one.after, one.box) for one in parts]
    axes = range(len(window))
    cells = np.atleast_2d(compute_error_cells(pairs, window, axes, (ROWS, COLUMNS)[-len(window) :]))
    (top, bottom), (left, right) = window if len(window) == 2 else ((0, 1), *window)
    yield f"the error of {title}, rows {top}-{bottom - 1}, columns {left}-{right - 1}:"
    most = min(float(cells.max()), float(np.finfo(np.float64).max))
    yield from (f"    |{''.join(_shade_character(cell, most) for cell in row)}|" for row in cells.tolist())


def _shade_character(value: float, largest: float) -> str:
    """Return the character that stands for an error, on a logarithmic scale. `largest`: the largest error of the
    picture.
    """
    if value <= 0:
        return " "
    steps = int(max(0.0, len(SHADES) - 1 + np.log10(min(value, largest) / largest))) if largest else 0
    return SHADES[min(steps, len(SHADES) - 1)]
