"""Arrays of which each iteration of a parallel loop has elements of its own, as the loop's text shows.

`a[i, 0] = b[i + 1]` in a loop over i: all uses of `a` have `i` as their first index, so no two iterations meet there.
Such a loop need not be run one iteration at a time, if no other array shares the memory and the indices lie within.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from numba.core import ir, types
from numba.parfors.parfor import Parfor

MAX_STEPS: Final = 32
MOST: Final = 2**31 - 1
HARMLESS: Final = ("shape", "size", "ndim", "dtype")
"""Attributes that show nothing of an array's elements."""


@dataclass(frozen=True, slots=True)
class Index:
    """What stands in one dimension: an index of the loop (its number) with something added, or (-1) a number."""

    nest: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Own:
    """The indices of all uses of an array."""

    places: tuple[Index, ...]
    read: bool


@dataclass(slots=True)
class Uses:
    """What the statements of a loop do with one variable."""

    indices: list[Any] = field(default_factory=list)
    read: bool = False
    otherwise: bool = False
    """It is passed on, or a part of it is made that other statements use."""


def own(parfor: Any, kinds: Mapping[str, object]) -> dict[str, Own]:
    """By name: the arrays of which each iteration has its own elements. `kinds`: the types of variables."""
    body = Body(parfor)
    found = {}
    for name, uses in body.uses.items():
        kind = kinds.get(name)
        if uses.otherwise or not isinstance(kind, types.Array) or body.made.get(name) is not None:
            continue
        if places := body.places(uses.indices, kind.ndim):
            found[name] = Own(places, uses.read)
    return found


class Body:
    """The statements of a parallel loop, with those of the loops within."""

    def __init__(self, parfor: Any) -> None:
        self.nests = {nest.index_variable.name: number for number, nest in enumerate(parfor.loop_nests)}
        self.made: dict[str, Any] = dict.fromkeys(parfor.params or ())
        """What each variable is assigned; None where it is more than one thing, or comes from outside."""
        self.uses: dict[str, Uses] = {}
        statements = list(_statements(parfor.loop_body.values()))
        for one in statements:
            if isinstance(one, ir.Assign):
                name = one.target.name
                self.made[name] = None if name in self.made else one.value
        for one in statements:
            self._note(one)

    def _note(self, one: Any) -> None:
        if isinstance(one, ir.SetItem | ir.StaticSetItem):
            self._indexed(one.target, one.index, read=False)
            self._other([one.value])
        elif isinstance(one, Parfor):
            for nest in one.loop_nests:
                self._other(bound for bound in (nest.start, nest.stop, nest.step) if isinstance(bound, ir.Var))
        elif isinstance(one, ir.Assign) and isinstance(one.value, ir.Expr):
            expression = one.value
            if expression.op in {"getitem", "static_getitem"}:
                self._indexed(expression.value, expression.index, read=True)
            elif expression.op != "getattr" or expression.attr not in HARMLESS:
                self._other(expression.list_vars())
        elif isinstance(one, ir.Assign):
            if isinstance(one.value, ir.Var) and self._name(one.value) not in self.nests:
                self._other([one.value])
        elif not isinstance(one, ir.Del):
            self._other(one.list_vars())

    def _indexed(self, array: Any, index: object, *, read: bool) -> None:
        uses = self.uses.setdefault(array.name, Uses())
        uses.indices.append(index)
        uses.read |= read

    def _other(self, variables: Iterable[Any]) -> None:
        for one in variables:
            self.uses.setdefault(one.name, Uses()).otherwise = True

    def _name(self, variable: Any) -> str:
        """The variable that it is a copy of."""
        name = str(variable.name)
        for _ in range(MAX_STEPS):
            held = self.made.get(name)
            if not isinstance(held, ir.Var):
                break
            name = str(held.name)
        return name

    def places(self, indices: Iterable[Any], rank: int) -> tuple[Index, ...]:
        """What stands in each dimension in all of these; () where iterations may meet."""
        merged: list[Index] = []
        for index in indices:
            items = [self._place(one) for one in self._items(index)]
            if len(items) != rank or None in items:
                return ()
            one = [item for item in items if item is not None]
            if not merged:
                merged = one
            for d, (before, now) in enumerate(zip(merged, one, strict=True)):
                if before.nest != now.nest or (now.nest >= 0 and before != now):
                    return ()
                merged[d] = Index(now.nest, min(before.low, now.low), max(before.high, now.high))
        held = {place.nest for place in merged}
        return tuple(merged) if merged and held >= set(self.nests.values()) else ()

    def _items(self, index: object) -> list[object]:
        if isinstance(index, tuple | list):
            return list(index)
        if isinstance(index, ir.Var):
            held = self.made.get(self._name(index))
            if isinstance(held, ir.Expr) and held.op == "build_tuple":
                return list(held.items)
        return [index]

    def _place(self, item: object, steps: int = 0) -> Index | None:
        if isinstance(item, ir.Var):
            name = self._name(item)
            if name in self.nests:
                return Index(self.nests[name], 0, 0)
            return self._sum(self.made.get(name), steps + 1) if steps < MAX_STEPS else None
        return Index(-1, item, item) if type(item) is int and 0 <= item <= MOST else None

    def _sum(self, made: object, steps: int) -> Index | None:
        """A number, or an index of the loop and a number."""
        if isinstance(made, ir.Const):
            return self._place(made.value) if type(made.value) is int else None
        if not isinstance(made, ir.Expr) or made.op != "binop" or made.fn not in {operator.add, operator.sub}:
            return None
        left, right = self._place(made.lhs, steps), self._place(made.rhs, steps)
        if left is None or right is None or left.nest < 0 or right.nest >= 0:
            return None
        added = right.low if made.fn is operator.add else -right.low
        return Index(left.nest, left.low + added, left.low + added)


def _statements(blocks: Iterable[Any]) -> Iterator[object]:
    for block in blocks:
        for one in block.body:
            yield one
            if isinstance(one, Parfor):
                yield from _statements([one.init_block, *one.loop_body.values()])
