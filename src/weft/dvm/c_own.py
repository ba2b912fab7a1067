"""Mark own computations of a C source: an assignment to a distributed element is run by the element's owner."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from weft.dvm import c_calls, c_tree
from weft.dvm.c_calls import data_address, long_array, render_call
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import SourceUnit

LAST: Final = 65500
"""Priority of the constructor after which the rules of the sequential part hold."""


class OwnComputations:
    """Marks the assignments in the sequential parts of one source."""

    def __init__(self, unit: SourceUnit) -> None:
        self.unit = unit
        self.source, self.tree, self.marks = unit.source, unit.tree, unit.marks

    def guard_sequential_assignments(self) -> None:
        """Insert calls around assignments to distributed elements outside parallel loops. At run time the DVM system
        lets only the owner of an element make such an assignment.
        """
        spread = {v for many in self.tree.variables.values() for v in many if v.declare and not c_calls.is_template(v)}
        if not spread:
            return
        around = [(begin, end) for begin, end, _, _ in self.unit.parallels]
        for node in c_tree.walk_nodes(self.tree.root):
            if node.type != "expression_statement" or not node.named_children:
                continue
            begin = self.tree.begin(node)
            if any(low <= begin < high for low, high in around):
                continue
            self.guard_assignment(node, node.named_children[0], spread)
        at = len(self.source.text)
        self.unit.add_constructor(at, LAST, render_call("sequential", 1))

    def guard_assignment(self, statement: Node, expression: Node, distributed: set[Variable]) -> None:
        """Insert the calls around one statement outside parallel loops, if it assigns to an element of a distributed
        array. `distributed`: the variables that are distributed arrays.
        """
        if expression.type == "assignment_expression":
            left = expression.child_by_field_name("left")
        elif expression.type == "update_expression":
            left = expression.child_by_field_name("argument")
        else:
            return
        indices: list[str] = []
        while left is not None and left.type == "subscript_expression":
            index = left.child_by_field_name("index") or single_subscript(left)
            indices.insert(0, self.tree.source(index) if index is not None else "0")
            left = left.child_by_field_name("argument")
        if left is None or left.type != "identifier" or not indices:
            return
        variable = self.tree.resolve(self.tree.source(left), self.tree.begin(left))
        if variable is None or variable not in distributed or len(indices) < self.unit.array_rank(variable):
            return
        begin, end = self.tree.begin(statement), self.tree.end(statement)
        if any(sign in index for index in indices for sign in ("++", "--", "=", "(")):
            # What such an index is cannot be asked twice.
            self.marks.around(begin, end, render_call("io_begin"), render_call("io_end"))
            return
        place = self.source.position_of(begin)
        text = " ".join(self.tree.source(statement).split())
        number = self.unit.shared.texts.add_construct("own computations", place.file, place.line, place.column, text)
        rank = self.unit.array_rank(variable)
        opening = render_call(
            "own_begin", number, self.unit.data_id(variable), data_address(variable), rank, long_array(indices[:rank])
        )
        self.marks.around(begin, end, opening, render_call("own_end", number))


def single_subscript(node: Node) -> Node | None:
    """Return the only index in the brackets of a C++ subscript; None if there are several."""
    listed = node.child_by_field_name("indices")
    return listed.named_children[0] if listed is not None and len(listed.named_children) == 1 else None
