"""Groups of the old form of C-DVM (of shadow edges, reductions, remote accesses): which of a program can be followed.

A group is a variable of the program, so that one group may be made in one source and started in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.dvm import syntax
from weft.dvm.c_unit import Unit
from weft.dvm.syntax import Directive, Reference


def followed(unit: Unit, array: Reference, at: int) -> bool:
    """Whether an array of the old form can be followed: its distribution stands at its declaration."""
    variable = unit.tree.resolve(array.name, at)
    return variable is not None and bool(variable.declare)


def arrays_follow(unit: Unit, directive: Directive, at: int) -> bool:
    """Whether a loop or a redistribution is about arrays that can be followed."""
    arrays: list[Reference] = []
    if isinstance(directive, syntax.Parallel) and directive.on is not None:
        arrays = [directive.on]
    elif isinstance(directive, syntax.Redistribute | syntax.Realign):
        arrays = list(directive.arrays)
    return all(followed(unit, array, at) for array in arrays)


class Groups:
    """The groups of a program whose arrays are known."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.known: dict[int, bool] = {}
        for unit in units:
            if unit.source.old:
                for at, group, directive in uses(unit):
                    number = self.number(unit, group, at)
                    if isinstance(directive, syntax.DefineGroup):
                        any_array = any(followed(unit, one.array, at) for one in directive.renewals)
                        self.known[number] = self.known.get(number, False) or any_array
                    else:
                        self.known[number] = self.known.get(number, True) and arrays_follow(unit, directive, at)

    @staticmethod
    def number(unit: Unit, group: Reference, at: int) -> int:
        """The number of a group in the side file; complains where it is not declared."""
        return unit.data_id(unit.variable(group, at))

    def of(self, unit: Unit, group: Reference | None, at: int) -> int:
        """The number of a group that is followed; 0 where it is not, or where there is none."""
        if group is None:
            return 0
        number = self.number(unit, group, at)
        return number if self.known.get(number, True) else 0


def uses(unit: Unit) -> Iterator[tuple[int, Reference, Directive]]:
    """(offset, group, directive) of what fills the groups of a source."""
    for at, _, directive, _ in unit.source.directives:
        if isinstance(directive, syntax.DefineGroup):
            yield at, Reference(directive.group, None, directive.place), directive
        elif isinstance(directive, syntax.Parallel):
            for clause in directive.clauses:
                if isinstance(clause, syntax.Reductions | syntax.Remote) and clause.group:
                    yield at, Reference(clause.group, None, directive.place), directive
