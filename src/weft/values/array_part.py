"""A part of a global array, as a program names it. Programs import this module: it imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ArrayPart:
    """Elements of a global array, as `weft.part` describes them."""

    __slots__ = ("lower", "of", "values", "whole")

    def __init__(self, values: object, of: str, lower: Sequence[int] | int, whole: Sequence[int] | int | None) -> None:
        self.values, self.of, self.lower, self.whole = values, of, lower, whole
