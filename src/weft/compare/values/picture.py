"""The error over an array as a picture of letters: where it is, and how large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.compare.values.comparison import Unlike
from weft.compare.values.pieces import within

ROWS: Final = 16
COLUMNS: Final = 60
SHADES: Final = ".:-=+*#%@"
"""From the least error to the largest, each a power of ten or so."""


def picture(some: Sequence[Unlike], title: str) -> Iterator[str]:
    """The largest error in each cell of an array in one or two dimensions; blank where nothing differs."""
    parts = [one for one in some if one.sort == "value" and 1 <= len(one.box) <= 2]
    if not parts:
        return
    sides = list(zip(*(one.box for one in parts), strict=True))
    whole = [(min(a for a, _ in side), max(b for _, b in side)) for side in sides]
    whole = [(0, 1), *whole] if len(whole) == 1 else whole
    shape = tuple(min(end - first, most) for (first, end), most in zip(whole, (ROWS, COLUMNS), strict=True))
    cells = np.zeros(shape)
    for one in parts:
        _add(cells, one, whole)
    yield f"the error of {title}, rows {whole[0][0]}-{whole[0][1] - 1}, columns {whole[1][0]}-{whole[1][1] - 1}:"
    yield from (f"    |{''.join(_shade(cell, cells.max()) for cell in row)}|" for row in cells.tolist())


def _add(cells: NDArray[np.float64], one: Unlike, whole: list[tuple[int, int]]) -> None:
    a, b = one.before.values(), one.after.values()
    if a is None or b is None:
        return
    if one.before.array:
        a, b = a[within(one.box, one.before.box)], b[within(one.box, one.after.box)]
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a.astype(np.complex128) - b.astype(np.complex128)).reshape((-1, b.shape[-1]))
    error[~np.isfinite(error)] = np.finfo(np.float64).max
    box = one.box if len(one.box) == 2 else ((0, 1), *one.box)
    rows, columns = (
        (np.arange(first, end) - low) * n // (high - low)
        for (first, end), (low, high), n in zip(box, whole, cells.shape, strict=True)
    )
    np.maximum.at(cells, (rows[:, None], columns[None, :]), error)


def _shade(value: float, most: float) -> str:
    if value <= 0:
        return " "
    steps = int(max(0.0, len(SHADES) - 1 + np.log10(value / most))) if most else 0
    return SHADES[min(steps, len(SHADES) - 1)]
