"""Find arrays of which each iteration of a parallel loop uses elements of its own, by the loop's text.

`a[i, j] = b[i + 1]` in a loop over i: all uses of `a` have `i` as their first index, so that no two iterations meet.
Such a loop need not be run one iteration at a time if no other array shares the memory and all indices, that of j too,
are within bounds that are known when the loop begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from numba.core import ir, types
from numba.parfors.parfor import Parfor

from weft.numba.spans import ValueRange, ValueRanges

HARMLESS: Final = ("shape", "size", "ndim", "dtype")
"""Attributes that show nothing of an array's elements."""


@dataclass(frozen=True, slots=True)
class OwnElements:
    """The index ranges of an array in all its uses: (dimension, range)."""

    places: tuple[tuple[int, ValueRange], ...]
    read: bool


@dataclass(slots=True)
class VariableUses:
    """How the statements of a loop use one variable."""

    indices: list[Any] = field(default_factory=list)
    read: bool = False
    otherwise: bool = False
    """It is passed on, or a part of it is made that other statements use."""


def find_own_elements(parfor: Any, types_by_name: Mapping[str, object]) -> dict[str, OwnElements]:
    """Return the arrays of which no two iterations of a parallel loop use the same element: name -> the ranges of all
    indices by dimension. Other arrays are left out.
    """
    body = LoopBody(parfor)
    found = {}
    for name, uses in body.uses.items():
        kind = types_by_name.get(name)
        if uses.otherwise or not isinstance(kind, types.Array) or body.made.get(name) is not None:
            continue
        if places := body.find_common_ranges(uses.indices, kind.ndim):
            found[name] = OwnElements(places, uses.read)
    return found


class LoopBody:
    """The statements of a parallel loop, with those of the loops within."""

    def __init__(self, parfor: Any) -> None:
        nests = {nest.index_variable.name: number for number, nest in enumerate(parfor.loop_nests)}
        given = set(parfor.params or ())
        self.made: dict[str, Any] = dict.fromkeys(given)
        """What each variable is assigned; None where it is more than one thing, or comes from outside."""
        self.uses: dict[str, VariableUses] = {}
        inner: dict[str, tuple[Any, Any]] = {}
        statements = list(_walk_statements(parfor.loop_body.values()))
        for one in statements:
            if isinstance(one, ir.Assign):
                name = one.target.name
                self.made[name] = None if name in self.made else one.value
                given.discard(name)
            elif isinstance(one, Parfor):
                inner |= {
                    nest.index_variable.name: (nest.start, nest.stop) for nest in one.loop_nests if nest.step == 1
                }
        self.nests = nests
        self.spans = ValueRanges(nests, self.made, given, inner)
        for one in statements:
            self._note_uses(one)

    def _note_uses(self, statement: Any) -> None:
        """Note which variables a statement uses: as an array with an index, or in any other way."""
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            self._note_indexed_use(statement.target, statement.index, read=False)
            self._note_other_use([statement.value])
        elif isinstance(statement, Parfor):
            for nest in statement.loop_nests:
                self._note_other_use(bound for bound in (nest.start, nest.stop, nest.step) if isinstance(bound, ir.Var))
        elif isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
            expression = statement.value
            if expression.op in {"getitem", "static_getitem"}:
                self._note_indexed_use(expression.value, expression.index, read=True)
            elif expression.op != "getattr" or expression.attr not in HARMLESS:
                self._note_other_use(expression.list_vars())
        elif isinstance(statement, ir.Assign):
            if isinstance(statement.value, ir.Var) and self.spans.find_copied_name(statement.value) not in self.nests:
                self._note_other_use([statement.value])
        elif not isinstance(statement, ir.Del):
            self._note_other_use(statement.list_vars())

    def _note_indexed_use(self, array: Any, index: object, *, read: bool) -> None:
        """Note that a statement uses an element of an array by an index; `read`: it reads the element."""
        uses = self.uses.setdefault(array.name, VariableUses())
        uses.indices.append(index)
        uses.read |= read

    def _note_other_use(self, variables: Iterable[Any]) -> None:
        """Note that a statement uses variables in another way than by an index."""
        for one in variables:
            self.uses.setdefault(one.name, VariableUses()).otherwise = True

    def find_common_ranges(self, indices: Iterable[Any], dimensions: int) -> tuple[tuple[int, ValueRange], ...]:
        """Return (dimension, range) for each index by which a loop uses an array of so many dimensions. Return nothing
        if two iterations may use the same element.
        """
        places: dict[tuple[int, ValueRange], None] = {}
        alike: list[ValueRange | None] = []
        for index in indices:
            items = [self.spans.find_range(one) for one in self._split_index(index)]
            if len(items) != dimensions:
                return ()
            for d, item in enumerate(items):
                if item is None:
                    return ()
                places[d, item] = None
            alike = [one if one == other else None for one, other in zip(alike or items, items, strict=True)]
        held = {one.loop_index for one in alike if one is not None}
        return tuple(places) if places and held >= set(self.nests.values()) else ()

    def _split_index(self, index: object) -> list[object]:
        """Return the items of an array's index, one for each dimension. `index`: an index, a tuple of them, or a
        variable that is a tuple.
        """
        if isinstance(index, tuple | list):
            return list(index)
        if isinstance(index, ir.Var):
            held = self.made.get(self.spans.find_copied_name(index))
            if isinstance(held, ir.Expr) and held.op == "build_tuple":
                return list(held.items)
        return [index]


def _walk_statements(blocks: Iterable[Any]) -> Iterator[object]:
    """Yield the statements of some blocks, those of parallel loops inside included."""
    for block in blocks:
        for one in block.body:
            yield one
            if isinstance(one, Parfor):
                yield from _walk_statements([one.init_block, *one.loop_body.values()])
