"""Ask the compiler to unroll small loops of a C source, so that copies of the enclosing loop may hold them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from tree_sitter import Node

from weft.dvm import c_tree, c_uses
from weft.dvm.c_unit import SourceUnit

MOST_ITERATIONS: Final = 8
MOST_ELEMENTS: Final = 128
"""Elements of arrays that a loop names, all its iterations together."""

LOOPS: Final = ("for_statement", "while_statement", "do_statement")
NUMBER: Final = re.compile(r"\d+$")
DEFINE: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)\)?[ \t]*(?:/[/*].*)?$", re.MULTILINE)


class LoopUnroller:
    """Marks the innermost loops within one source's parallel loops that have few iterations."""

    def __init__(self, unit: SourceUnit) -> None:
        self.tree, self.marks, self.parallels = unit.tree, unit.marks, unit.parallels
        self.text = unit.source.text

    def insert_unroll_pragmas(self) -> None:
        """Insert a pragma that asks the compiler to unroll small inner loops of parallel loops. The program's results
        do not change.
        """
        asked: set[int] = set()
        for _, _, directive, statement in self.parallels:
            body = c_uses.loop_nest(statement, directive.rank)[-1].child_by_field_name("body")
            for node in c_tree.walk_nodes(body) if body is not None else ():
                at = self.tree.begin(node)
                if node.type == "for_statement" and at not in asked and self.is_small(node):
                    asked.add(at)
                    self.marks.before(at, f'_Pragma("GCC unroll {MOST_ITERATIONS}")')

    def is_small(self, loop: Node) -> bool:
        """Return whether a loop contains no other loop, and has few iterations and few array elements."""
        below = [node.type for part in loop.children for node in c_tree.walk_nodes(part)]
        if any(kind in LOOPS or kind.startswith("preproc") for kind in below):
            return False
        count = self.count_iterations(loop)
        return (
            count is not None
            and count <= MOST_ITERATIONS
            and count * below.count("subscript_expression") <= MOST_ELEMENTS
        )

    def count_iterations(self, loop: Node) -> int | None:
        """Return how many iterations a loop with constant bounds has; None for another loop."""
        condition, initial = (loop.child_by_field_name(name) for name in ("condition", "initializer"))
        if condition is None or initial is None or condition.type != "binary_expression":
            return None
        operator = condition.child_by_field_name("operator")
        first = initial.child_by_field_name("right") or initial.child_by_field_name("declarator")
        if first is not None and first.type == "init_declarator":
            first = first.child_by_field_name("value")
        low, high = self.value(first), self.value(condition.child_by_field_name("right"))
        if low is None or high is None or operator is None:
            return None
        return abs(high - low) + ("=" in self.tree.source(operator))

    def value(self, node: Node | None) -> int | None:
        """Return the value of a number, or of a name that stands for one; None for another node."""
        text = self.tree.source(node) if node is not None else ""
        return int(text) if NUMBER.match(text) else self.named_numbers.get(text)

    @cached_property
    def named_numbers(self) -> dict[str, int]:
        """Return the values of macros and enumeration constants that are plain numbers, by name. The last definition of
        a name counts.
        """
        found = {name: int(number) for name, number in DEFINE.findall(self.text)}
        for node in c_tree.walk_nodes(self.tree.root):
            if node.type == "enumerator" and (value := node.child_by_field_name("value")) is not None:
                name, number = node.child_by_field_name("name"), self.tree.source(value)
                if name is not None and NUMBER.match(number):
                    found[self.tree.source(name)] = int(number)
        return found
