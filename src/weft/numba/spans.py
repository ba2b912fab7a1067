"""Find the range of values of an integer in a parallel loop's body, from the loop's text.

`for j in range(1, a.shape[1] - 1)` in `for i in prange(n)`: i is within the loop's bounds, j between 1 and `a.shape[1]`
- 2 when the loop runs. A number that is only known then is a term of a sum.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from numba.core import ir

from weft.native.headers.numba import OF_EXTENT, OF_NEST, OF_NUMBER, OF_VALUE

MAX_STEPS: Final = 32
MOST: Final = 2**31 - 1
COPIES: Final = ("exhaust_iter", "cast")


@dataclass(frozen=True, slots=True)
class BoundSum:
    """A constant plus a term: an index of the loop (by number), a variable, an extent of an array, or nothing."""

    constant: int
    term: int = OF_NUMBER
    number: int = 0
    """Of an index: which; of an extent: its dimension."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The least and the greatest value; for an index of the loop, its own least and greatest count."""

    low: BoundSum
    high: BoundSum

    @property
    def loop_index(self) -> int | None:
        """Return the number of the loop index to which all values of this range are equal, up to a constant; None for
        any other range.
        """
        return self.low.number if self.low == self.high and self.low.term == OF_NEST else None

    def plus(self, number: int) -> ValueRange:
        """Return the range with a number added to both ends."""
        return ValueRange(_add_number(self.low, number), _add_number(self.high, number))


def _add_number(one: BoundSum, number: int) -> BoundSum:
    return replace(one, constant=one.constant + number)


class ValueRanges:
    """The ranges of the integers of one loop's body.

    `made`: what each variable is assigned, None if that is more than one thing or comes from outside. `given`:
    variables from outside that keep their values. `inner`: the bounds of parallel loops within.
    """

    def __init__(
        self, nests: Mapping[str, int], made: Mapping[str, Any], given: set[str], inner: Mapping[str, tuple[Any, Any]]
    ) -> None:
        self._nests, self._made, self._given, self._inner = nests, made, given, inner

    def find_copied_name(self, variable: Any) -> str:
        """Return the name of the variable of which a temporary is a copy; its own name if it is no copy."""
        name = str(variable.name)
        for _ in range(MAX_STEPS):
            held = self._made.get(name)
            if isinstance(held, ir.Expr) and held.op in COPIES:
                held = held.value
            if not isinstance(held, ir.Var):
                break
            name = str(held.name)
        return name

    def find_range(self, item: object, steps_taken: int = 0) -> ValueRange | None:
        """Return the range of a number or variable; None if the loop's text does not bound it. `steps_taken`: how many
        variables were followed to come here.
        """
        if isinstance(item, ir.Const):
            item = item.value
        if type(item) is int:
            return ValueRange(BoundSum(item), BoundSum(item)) if abs(item) <= MOST else None
        if not isinstance(item, ir.Var) or steps_taken >= MAX_STEPS:
            return None
        name = self.find_copied_name(item)
        if name in self._nests:
            index = BoundSum(0, OF_NEST, self._nests[name])
            return ValueRange(index, index)
        if name in self._inner:
            return self._find_loop_range(*self._inner[name], steps_taken)
        made = self._made.get(name)
        if isinstance(made, ir.Const):
            return self.find_range(made, steps_taken + 1)
        if isinstance(made, ir.Expr):
            return self._find_expression_range(made, steps_taken + 1)
        value = BoundSum(0, OF_VALUE, name=name)
        return ValueRange(value, value) if made is None and name in self._given else None

    def _find_expression_range(self, expression: Any, steps_taken: int) -> ValueRange | None:
        """Return the range of an expression's values; None if the loop's text does not bound it."""
        if expression.op == "binop" and expression.fn in {operator.add, operator.sub}:
            return self._find_sum_range(expression, steps_taken)
        if expression.op == "pair_first":
            bounds = self._find_range_bounds(expression.value)
            return self._find_loop_range(*bounds, steps_taken) if bounds else None
        if expression.op == "static_getitem" and type(expression.index) is int:
            return self._find_shape_item_range(expression.value, expression.index)
        if expression.op == "call" and self._calls(expression, len) and len(expression.args) == 1:
            return self._find_extent_range(expression.args[0], 0)
        return None

    def _find_sum_range(self, expression: Any, steps_taken: int) -> ValueRange | None:
        """Return the range of a sum or difference; None unless one side is a constant and the other has a range."""
        left, right = self.find_range(expression.lhs, steps_taken), self.find_range(expression.rhs, steps_taken)
        if left is None or right is None:
            return None
        if expression.fn is operator.add and left.low == left.high and left.low.term == OF_NUMBER:
            left, right = right, left
        if right.low != right.high or right.low.term != OF_NUMBER:
            return None
        return left.plus(right.low.constant if expression.fn is operator.add else -right.low.constant)

    def _find_loop_range(self, start: object, stop: object, steps: int) -> ValueRange | None:
        """Return the range of indices of a loop from `start` up to but not including `stop`; None if either has no
        known range.
        """
        first, end = self.find_range(start, steps + 1), self.find_range(stop, steps + 1)
        return ValueRange(first.low, _add_number(end.high, -1)) if first and end else None

    def _find_range_bounds(self, item: Any) -> tuple[object, object] | None:
        """Return (start, stop) of the `range` that yields a loop variable. Return None if the variable is from no
        `range`, or if the `range` is not known to count upwards.
        """
        step = self._find_expression(item, "iternext")
        over = self._find_expression(step.value, "getiter") if step else None
        call = self._find_expression(over.value, "call") if over else None
        if call is None or not self._calls(call, range) or call.kws:
            return None
        given = list(call.args)
        if len(given) == 3:
            by = self.find_range(given[2])
            if by is None or by.low != by.high or by.low.term != OF_NUMBER or by.low.constant <= 0:
                return None
        return (0, given[0]) if len(given) == 1 else (given[0], given[1])

    def _find_shape_item_range(self, shape: Any, dimension: int) -> ValueRange | None:
        """Return the range of an item of an array's `shape`, if `shape` is one; None otherwise."""
        made = self._find_expression(shape, "getattr")
        return (
            self._find_extent_range(made.value, dimension) if made and made.attr == "shape" and dimension >= 0 else None
        )

    def _find_extent_range(self, array: Any, dimension: int) -> ValueRange | None:
        """Return the extent of an array in one dimension, as a range with that extent at both ends. Return None if the
        loop may replace the array.
        """
        name = self.find_copied_name(array)
        if name not in self._given or self._made.get(name) is not None:
            return None
        extent = BoundSum(0, OF_EXTENT, dimension, name)
        return ValueRange(extent, extent)

    def _find_expression(self, variable: Any, operation: str) -> Any:
        """Return the expression that a variable is assigned, if it is assigned once and by this kind of operation; else
        None.
        """
        made = self._made.get(self.find_copied_name(variable)) if isinstance(variable, ir.Var) else None
        return made if isinstance(made, ir.Expr) and made.op == operation else None

    def _calls(self, call: Any, function: object) -> bool:
        made = self._made.get(self.find_copied_name(call.func)) if isinstance(call.func, ir.Var) else None
        return isinstance(made, ir.Global | ir.FreeVar) and made.value is function
