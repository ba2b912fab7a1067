"""A comparison of values as a notebook shows it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from weft.compare.values.error_svg import draw, html
from weft.compare.values.model import ValueComparison


class DrawnComparison(ValueComparison):
    """A comparison that a notebook shows by itself, and that draws the error over an array."""

    @classmethod
    def of(cls, made: ValueComparison) -> DrawnComparison:
        """The same comparison, for a notebook."""
        return cls(**{field.name: getattr(made, field.name) for field in fields(made)})

    def plot(self, **options: Any) -> str:
        """The error over an array as an SVG picture that a notebook shows: see weft.compare.values.error_svg.draw.

        weft.differences("reference", "run").plot(probe="A", last=True, unit="ulps")
        """
        return draw(self, **options)

    def _repr_html_(self) -> str:
        """How a notebook shows it: what differs, above the error over the array."""
        return html(self)
