"""Which variables a piece of a C source writes, which it uses, and whether a write surely comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tree_sitter import Node

from weft.arrays.dvm.c_tree import Tree, Variable, ancestor, walk

BRANCHES: Final = frozenset(
    {
        "if_statement",
        "while_statement",
        "switch_statement",
        "conditional_expression",
        "binary_expression",
        "case_statement",
        "else_clause",
        "do_statement",
        "labeled_statement",
    }
)


def uses(tree: Tree, node: Node) -> Iterator[tuple[Node, Variable]]:
    """Every identifier below a node that means a variable."""
    for one in walk(node):
        if one.type == "identifier":
            variable = tree.resolve(tree.source(one), tree.begin(one))
            if variable is not None:
                yield one, variable


def target(node: Node | None) -> Node | None:
    """The identifier whose data an lvalue is part of; None where a pointer is followed."""
    while node is not None and node.type != "identifier":
        if node.type in ("subscript_expression", "field_expression"):
            node = node.child_by_field_name("argument")
        elif node.type == "parenthesized_expression":
            node = node.named_children[0] if node.named_children else None
        elif node.type == "pointer_expression":
            node = node.child_by_field_name("argument")
        else:
            return None
    return node


def written(tree: Tree, node: Node) -> set[Variable]:
    """The variables that are assigned below a node, or whose address is taken."""
    found: set[Variable] = set()
    for one in walk(node):
        place: Node | None = None
        if one.type == "assignment_expression":
            place = target(one.child_by_field_name("left"))
        elif one.type == "update_expression" or (one.type == "pointer_expression" and one.children[0].type == "&"):
            place = target(one.child_by_field_name("argument"))
        if place is not None:
            variable = tree.resolve(tree.source(place), tree.begin(place))
            if variable is not None:
                found.add(variable)
    return found


def addressed(tree: Tree, node: Node) -> set[Variable]:
    """The variables whose address is taken below a node: by `&`, or an array by its name alone."""
    found: set[Variable] = set()
    for one, variable in uses(tree, node):
        above = one.parent
        if above is None:
            continue
        pointed = above.type == "pointer_expression" and above.children[0].type == "&"
        alone = above.type not in ("subscript_expression", "sizeof_expression")
        if pointed or (variable.is_array and alone):
            found.add(variable)
        else:
            top: Node = one
            while (outer := top.parent) is not None and outer.child_by_field_name("argument") == top:
                if outer.type not in ("subscript_expression", "field_expression"):
                    break
                top = outer
            # A row of an array is an address; a number out of it is not, but who can tell without types.
            if top is not one and outer is not None and outer.type in ("argument_list", "pointer_expression"):
                found.add(variable)
    return found


def writes_first(tree: Tree, variable: Variable, body: Node) -> bool:
    """Whether the first thing that a piece of source does with a scalar is surely to assign it all.

    Only a plain assignment counts that stands under no condition within `body`, as a loop's first part does.
    """
    first = next((node for node, found in uses(tree, body) if found is variable), None)
    if first is None:
        return True
    above = first.parent
    if above is not None and above.type == "init_declarator":
        return True
    if above is None or above.type != "assignment_expression" or above.child_by_field_name("left") != first:
        return False
    operator = above.child_by_field_name("operator")
    if operator is None or tree.source(operator) != "=":
        return False
    right = above.child_by_field_name("right")
    if right is not None and any(found is variable for _, found in uses(tree, right)):
        return False
    below: Node = first
    node: Node | None = above
    while node is not None and node != body:
        if node.type in BRANCHES:
            return False
        if node.type == "for_statement" and node.child_by_field_name("initializer") != below:
            return False
        below, node = node, node.parent
    return True


def loops_over(tree: Tree, variable: Variable, node: Node) -> Node | None:
    """The outermost loop around a node whose first part assigns a variable."""
    found: Node | None = None
    above = ancestor(node, {"for_statement"})
    while above is not None:
        initial = above.child_by_field_name("initializer")
        if initial is not None and writes_first(tree, variable, initial) and mentions(tree, variable, initial):
            found = above
        above = ancestor(above, {"for_statement"})
    return found


def mentions(tree: Tree, variable: Variable, node: Node) -> bool:
    """Whether a variable is used below a node."""
    return any(found is variable for _, found in uses(tree, node))


def loop_variable(tree: Tree, loop: Node) -> Node | None:
    """The identifier that a loop's first part assigns or declares."""
    initial = loop.child_by_field_name("initializer")
    if initial is None:
        return None
    if initial.type == "assignment_expression":
        left = initial.child_by_field_name("left")
        return left if left is not None and left.type == "identifier" else None
    if initial.type == "declaration":
        declared = initial.child_by_field_name("declarator")
        name = declared.child_by_field_name("declarator") if declared is not None else None
        return name if name is not None and name.type == "identifier" else None
    return None


def nest(loop: Node, depth: int) -> list[Node]:
    """The loops of a nest from the outside, at most `depth`: each the only statement of the one around it."""
    found = [loop]
    while len(found) < depth:
        body = found[-1].child_by_field_name("body")
        while body is not None and body.type == "compound_statement":
            inside = [child for child in body.named_children if child.type not in ("comment", "preproc_call")]
            body = inside[0] if len(inside) == 1 else None
        if body is None or body.type != "for_statement":
            return found
        found.append(body)
    return found
