"""Show a comparison of values in a notebook."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from weft.compare.values.error_svg import draw_error, render_html
from weft.compare.values.model import ValueComparison


class DrawnComparison(ValueComparison):
    """A comparison that a notebook shows by itself, and that draws the error over an array."""

    @classmethod
    def from_comparison(cls, made: ValueComparison) -> DrawnComparison:
        """Return the same comparison, for a notebook."""
        return cls(**{field.name: getattr(made, field.name) for field in fields(made)})

    def plot(self, **options: Any) -> str:
        """Return an SVG of the error over an array; the options are those of weft.compare.values.error_svg.draw_error.

        weft.differences("reference", "run").plot(probe="A", last=True, unit="ulps")
        """
        return draw_error(self, **options)

    def _repr_html_(self) -> str:
        """Return how a notebook shows it: what differs, above the error over the array."""
        return render_html(self)
