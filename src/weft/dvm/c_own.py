"""Own computations of a C source: an assignment to a distributed element is run by the element's owner."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from weft.dvm import c_calls, c_tree
from weft.dvm.c_calls import base, call, longs
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import Unit

LAST: Final = 65500
"""Priority of the constructor after which the rules of the sequential part hold."""


class Own:
    """Marks the assignments of one source's sequential parts."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.source, self.tree, self.marks = unit.source, unit.tree, unit.marks

    def mark(self) -> None:
        """Mark assignments to distributed elements outside parallel loops: the element's owner runs them."""
        spread = {v for many in self.tree.variables.values() for v in many if v.declare and not c_calls.is_template(v)}
        if not spread:
            return
        around = [(begin, end) for begin, end, _, _ in self.unit.parallels]
        for node in c_tree.walk(self.tree.root):
            if node.type != "expression_statement" or not node.named_children:
                continue
            begin = self.tree.begin(node)
            if any(low <= begin < high for low, high in around):
                continue
            self.own(node, node.named_children[0], spread)
        at = len(self.source.text)
        self.unit.constructor(at, LAST, call("sequential", 1))

    def own(self, statement: Node, expression: Node, spread: set[Variable]) -> None:
        """Mark one assignment, where it is one to a distributed element."""
        if expression.type == "assignment_expression":
            left = expression.child_by_field_name("left")
        elif expression.type == "update_expression":
            left = expression.child_by_field_name("argument")
        else:
            return
        indices: list[str] = []
        while left is not None and left.type == "subscript_expression":
            index = left.child_by_field_name("index") or bracketed(left)
            indices.insert(0, self.tree.source(index) if index is not None else "0")
            left = left.child_by_field_name("argument")
        if left is None or left.type != "identifier" or not indices:
            return
        variable = self.tree.resolve(self.tree.source(left), self.tree.begin(left))
        if variable is None or variable not in spread or len(indices) < self.unit.rank(variable):
            return
        begin, end = self.tree.begin(statement), self.tree.end(statement)
        if any(sign in index for index in indices for sign in ("++", "--", "=", "(")):
            # What such an index is cannot be asked twice.
            self.marks.around(begin, end, call("io_begin"), call("io_end"))
            return
        place = self.source.position(begin)
        text = " ".join(self.tree.source(statement).split())
        number = self.unit.shared.texts.add_construct("own computations", place.file, place.line, place.column, text)
        rank = self.unit.rank(variable)
        opening = call("own_begin", number, self.unit.data_id(variable), base(variable), rank, longs(indices[:rank]))
        self.marks.around(begin, end, opening, call("own_end", number))


def bracketed(node: Node) -> Node | None:
    """The one index of C++'s brackets."""
    listed = node.child_by_field_name("indices")
    return listed.named_children[0] if listed is not None and len(listed.named_children) == 1 else None
