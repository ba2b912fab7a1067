"""Draw the error over an array as SVG, for notebooks and documents: cells in one or two dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

import numpy as np

from weft.base.words import printable
from weft.compare.values.error_map import NOTHING, ArrayLayer, Floats, Measure, compute_error_cells, make_array_layers
from weft.compare.values.model import ValueComparison, ValueDifference
from weft.compare.values.report import describe_iterations, probe_text, render_values
from weft.errors import UsageError
from weft.picture.svg_base import Picture
from weft.values.process import Box

RAMP: Final = {
    "light": ((255, 221, 138), (248, 158, 74), (214, 84, 54), (140, 28, 60), (60, 4, 50)),
    "dark": ((92, 30, 74), (160, 48, 70), (221, 96, 52), (247, 168, 74), (255, 238, 178)),
}
"""How large an error is, from the least to the largest: lightness only falls (or rises, on a dark ground), so that it
can be read in every kind of colour-blindness, and in a print without colours."""
STEPS: Final = 24
"""Colours of a picture."""
CELLS: Final = (64, 96)
"""Rows and columns at most."""
TALL: Final = 240
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 44, 110, 10
_BAR: Final = 12


def compute_ramp_colour(share: float, background: str) -> str:
    """Return the CSS colour for an error as a share of the largest one, from 0 to 1. `background`: `light` or
    `dark`.
    """
    stops = np.array(RAMP[background], float)
    at = [np.interp(share * (len(stops) - 1), range(len(stops)), stops[:, k]) for k in range(3)]
    return f"rgb({', '.join(f'{value:.0f}' for value in at)})"


def _colour_styles(ground: str) -> str:
    return "".join(f".weft-error .e{n}{{fill:{compute_ramp_colour(n / (STEPS - 1), ground)}}}" for n in range(STEPS))


_STYLE: Final = (
    ".weft-error{--ground:#fff;--ink:#1d2126;--faint:#6b7280;--same:#edf0f3}" + _colour_styles("light")
    + "@media (prefers-color-scheme:dark){.weft-error{--ground:#16181c;--ink:#e6e8eb;--faint:#98a3b0;--same:#262b31}"
    + _colour_styles("dark") + "}.weft-error{background:var(--ground)}.weft-error .same{fill:var(--same)}"
    ".weft-error text{font:11px system-ui,sans-serif;fill:var(--faint)}.weft-error .title{fill:var(--ink)}"
)  # fmt: skip


def render_html(comparison: ValueComparison) -> str:
    """Return HTML for a notebook: the differences as text, then pictures of the error at its first moment and at its
    last.
    """
    said = "".join(f"<p>{escape(printable(line.strip()))}</p>" for line in render_values(comparison, drawn=False))
    try:
        first = draw_error(comparison)
    except UsageError:
        return said  # no array differs: words are all there is
    last = draw_error(comparison, last=True)
    return said + first + (last if last != first else "")


def draw_error(
    comparison: ValueComparison,
    *,
    probe: str | None = None,
    last: bool = False,
    unit: Measure = "distance",
    width: int = 720,
) -> Picture:
    """Return an SVG picture of the error over an array, at the moment at which the array first differs, or last
    (`last`). It is the array that differs first, or that of `probe`.

    `unit`: "distance", or "ulps" (units in the last place). `width`: in pixels. Of an array with more than two
    dimensions, the slice that contains the first differing element is drawn. UsageError if there is no differing array
    whose elements were kept.
    """
    unlike, layer = _choose_array(comparison, probe, last)
    first = unlike.element or tuple(low for low, _ in layer.whole)
    axes = list(range(len(layer.whole)))[-2:]
    window = tuple(side if d in axes else (first[d], first[d] + 1) for d, side in enumerate(layer.whole))
    cells = np.atleast_2d(compute_error_cells(layer.pairs, window, axes, CELLS[-len(axes) :], unit))
    sides = [window[axis] for axis in axes]
    title = f"the error of {_render_slice_name(layer, unlike, window, axes)}: {probe_text(unlike.after)}"
    return _render_svg(
        cells, sides, f"{title}{describe_iterations(unlike.after)}", unit, (unlike.after.base, max(width, 320))
    )


def _choose_array(comparison: ValueComparison, probe: str | None, last: bool) -> tuple[ValueDifference, ArrayLayer]:
    """Return (the difference to draw, the array in which it is). `probe`: only differences at this probe; `last`: the
    last one of the probe, not the first. UsageError if there is none.
    """
    found = list(zip(comparison.keys, comparison.found, strict=True))
    name = probe
    chosen: tuple[ValueDifference, ArrayLayer] | None = None
    for key, some in found:
        if comparison.aligned is None or (name is not None and some[0].after.place.name != name):
            continue
        before, after = (list(comparison.aligned.values_at(side, key)) for side in (0, 1))
        of = _find_layer(some[0], make_array_layers(before, after))
        if of is not None:
            chosen, name = (some[0], of), some[0].after.place.name
            if not last:
                break
    if chosen is None:
        raise UsageError(
            f"no array{f' at the probe {probe!r}' if probe else ''} differs among those whose elements were recorded"
        )
    return chosen


def _find_layer(difference: ValueDifference, layers: list[ArrayLayer]) -> ArrayLayer | None:
    """Return the array in which a difference is, to draw it. None if the value is a single number, or if elements were
    not kept.
    """
    for layer in layers:
        mine = any(pair.two.process is difference.after.process for pair in layer.pairs)
        if mine and layer.exact and any(end - first > 1 for first, end in layer.whole):
            return layer
    return None


def _render_slice_name(layer: ArrayLayer, difference: ValueDifference, window: Box, axes: list[int]) -> str:
    """Return the name of the drawn slice as the program would write it, such as `A[0:5, 3]`."""
    base = difference.after.base
    numbers = [f"{low + base}:{end}" if d in axes else str(low + base) for d, (low, end) in enumerate(window)]
    pair = "()" if base else "[]"
    return f"{layer.name}{pair[0]}{', '.join(numbers)}{pair[1]}"


def _render_svg(
    cells: Floats, index_ranges: list[tuple[int, int]], title: str, measure: str, base_and_width: tuple[int, int]
) -> Picture:
    """Return an SVG picture of cells, with labels and a colour scale.

    `cells`: the error in each cell. `index_ranges`: (first, end) of the rows and of the columns. `base_and_width`: (the
    first index of an array in the program's language, the width in pixels).
    """
    base, width = base_and_width
    wide = width - _LEFT - _RIGHT
    tall = TALL if len(index_ranges) > 1 else TALL // 3
    height = _TOP + tall + _BOTTOM
    known = cells[(cells > 0) & np.isfinite(cells)]
    span = (float(known.min()), float(known.max())) if len(known) else None
    text = escape(printable(title))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-error" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img"><style>{_STYLE}</style><title>{text}</title>'
        f'<text class="title" x="8" y="14">{text}</text>'
    )
    parts = [
        head,
        *_draw_cells(_compute_cell_shades(cells, span), wide, tall),
        *_draw_labels(index_ranges, base, wide, tall),
    ]
    return Picture("".join([*parts, *_draw_colour_scale(span, measure, _LEFT + wide + 14, tall)]) + "</svg>")


def _compute_cell_shades(cells: Floats, error_range: tuple[float, float] | None) -> np.ndarray:
    """Return the number of the colour of each cell: -1 if there is no error, -2 if the cell has no element.
    `error_range`: (smallest, largest) error; None if there is no finite one.
    """
    low, high = np.log10(error_range or (1.0, 1.0))
    share = np.ones(cells.shape)
    if high > low:
        sized = (cells > 0) & np.isfinite(cells)
        share[sized] = (np.log10(cells[sized]) - low) / (high - low)
    shade = np.round(share * (STEPS - 1)).astype(int)
    return np.where(cells == NOTHING, -2, np.where(cells == 0, -1, shade))


def _draw_cells(colour_numbers: np.ndarray, pixel_width: int, pixel_height: int) -> Iterator[str]:
    """Yield an SVG path for each colour. Neighbouring cells of a row that have the same colour become one rectangle."""
    rows, columns = colour_numbers.shape
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(colour_numbers):
        starts = np.flatnonzero(np.append(True, row[1:] != row[:-1])).tolist()
        for start, end in zip(starts, [*starts[1:], columns], strict=True):
            left, right = (_LEFT + column * pixel_width / columns for column in (start, end))
            top, bottom = (_TOP + k * pixel_height / rows for k in (i, i + 1))
            box = f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"
            paths.setdefault(int(row[start]), []).append(box)
    for shade, boxes in sorted(paths.items()):
        if shade >= -1:
            kind = "same" if shade < 0 else f"e{shade}"
            yield f'<path class="{kind}" shape-rendering="crispEdges" d="{"".join(boxes)}"/>'


def _draw_labels(
    index_ranges: list[tuple[int, int]], first_index: int, pixel_width: int, pixel_height: int
) -> Iterator[str]:
    """Yield the SVG texts that label rows and columns with their indices. `first_index`: the first index of an array in
    the program's language.
    """
    for at, place in _choose_tick_indices(index_ranges[-1], 8):
        yield (
            f'<text x="{_LEFT + place * pixel_width:.1f}" y="{_TOP - 7}" text-anchor="middle">{at + first_index}</text>'
        )
    for at, place in _choose_tick_indices(index_ranges[0], 8) if len(index_ranges) > 1 else ():
        yield (
            f'<text x="{_LEFT - 7}" y="{_TOP + place * pixel_height + 4:.1f}" '
            f'text-anchor="end">{at + first_index}</text>'
        )


def _choose_tick_indices(index_range: tuple[int, int], tick_limit: int) -> list[tuple[int, float]]:
    """Return (index, position from 0 to 1) for round indices of an axis, at most `tick_limit`."""
    first, end = index_range
    step = 1
    while (end - first) / step > tick_limit:
        step *= 5 if str(step)[0] == "2" else 2
        step = int(10 ** round(np.log10(step))) if str(step)[0] == "1" else step
    return [(at, (at + 0.5 - first) / (end - first)) for at in range(-(-first // step) * step, end, step)]


def _draw_colour_scale(error_range: tuple[float, float] | None, measure: str, x: int, height: int) -> Iterator[str]:
    """Yield the SVG elements of the bar that shows which colour means which error. `x`, `height`: its left edge and its
    height in pixels.
    """
    yield f'<text x="{x}" y="{_TOP - 7}">{"units in the last place" if measure == "ulps" else "apart"}</text>'
    bar = height - 24
    for n in range(STEPS if error_range and error_range[0] < error_range[1] else 1):
        shade = STEPS - 1 - n
        high = bar / (STEPS if error_range and error_range[0] < error_range[1] else 1)
        yield f'<rect class="e{shade}" x="{x}" y="{_TOP + n * high:.1f}" width="{_BAR}" height="{high + 0.3:.1f}"/>'
    told = (
        [(0, error_range[1]), (bar - 8, error_range[0])]
        if error_range and error_range[0] < error_range[1]
        else [(0, error_range[1])]
        if error_range
        else []
    )
    for y, value in told:
        yield f'<text x="{x + _BAR + 6}" y="{_TOP + y + 9:.1f}">{value:.3g}</text>'
    yield f'<rect class="same" x="{x}" y="{_TOP + height - 14}" width="{_BAR}" height="{_BAR}"/>'
    yield f'<text x="{x + _BAR + 6}" y="{_TOP + height - 4}">alike</text>'
