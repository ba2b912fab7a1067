"""Find the groups of the old form of C-DVM (shadow edges, reductions, remote accesses) whose arrays are known.

A group is a variable of the program, so that one group may be made in one source and started in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.dvm import syntax
from weft.dvm.c_unit import SourceUnit
from weft.dvm.syntax import Directive, Reference


def is_followed(unit: SourceUnit, array: Reference, at: int) -> bool:
    """Return whether the runtime knows an array of the old form of C-DVM: directives must stand at its declaration."""
    variable = unit.tree.resolve(array.name, at)
    return variable is not None and bool(variable.declare)


def are_arrays_followed(unit: SourceUnit, directive: Directive, offset: int) -> bool:
    """Return whether the runtime knows all arrays that a parallel loop or a redistribution names. Always True for other
    directives.
    """
    arrays: list[Reference] = []
    if isinstance(directive, syntax.Parallel) and directive.on is not None:
        arrays = [directive.on]
    elif isinstance(directive, syntax.Redistribute | syntax.Realign):
        arrays = list(directive.arrays)
    return all(is_followed(unit, array, offset) for array in arrays)


class DirectiveGroups:
    """The groups of a program, and whether the arrays of each are known."""

    def __init__(self, units: Sequence[SourceUnit]) -> None:
        self.known: dict[int, bool] = {}
        for unit in units:
            if unit.source.old:
                for at, group, directive in find_group_uses(unit):
                    number = self.find_group_id(unit, group, at)
                    if isinstance(directive, syntax.DefineGroup):
                        any_array = any(is_followed(unit, one.array, at) for one in directive.renewals)
                        self.known[number] = self.known.get(number, False) or any_array
                    else:
                        self.known[number] = self.known.get(number, True) and are_arrays_followed(unit, directive, at)

    @staticmethod
    def find_group_id(unit: SourceUnit, group: Reference, at: int) -> int:
        """Return the id of a group in the source map. Raises DirectiveError if the group is not declared."""
        return unit.data_id(unit.resolve_variable(group, at))

    def find_followed_group_id(self, unit: SourceUnit, group: Reference | None, offset: int) -> int:
        """Return the id of a directive's group (of shadow edges, reductions or remote accesses). 0 if there is no
        group, or if the runtime does not know all of its arrays.
        """
        if group is None:
            return 0
        number = self.find_group_id(unit, group, offset)
        return number if self.known.get(number, True) else 0


def find_group_uses(unit: SourceUnit) -> Iterator[tuple[int, Reference, Directive]]:
    """Yield (offset, group, directive) for each directive that adds something to a group."""
    for at, _, directive, _ in unit.source.directives:
        if isinstance(directive, syntax.DefineGroup):
            yield at, Reference(directive.group, None, directive.place), directive
        elif isinstance(directive, syntax.Parallel):
            for clause in directive.clauses:
                if isinstance(clause, syntax.Reductions | syntax.Remote) and clause.group:
                    yield at, Reference(clause.group, None, directive.place), directive
