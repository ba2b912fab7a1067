"""Which variables a piece of a C source writes, which it uses, and whether a write surely comes first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from tree_sitter import Node

from weft.dvm.c_tree import Tree, Variable, find_ancestor, walk_nodes

ALWAYS: Final = {
    "if_statement": ("condition",),
    "else_clause": (),
    "while_statement": ("condition",),
    "do_statement": ("body",),
    "for_statement": ("initializer",),
    "switch_statement": ("condition",),
    "case_statement": (),
    "conditional_expression": ("condition",),
    "binary_expression": ("left",),
    "labeled_statement": (),
    "preproc_ifdef": (),
    "preproc_if": (),
    "preproc_elif": (),
    "preproc_else": (),
}
"""The parts of a statement that run whenever it does; a kind that is not here runs all of its parts."""


def iterate_uses(tree: Tree, node: Node) -> Iterator[tuple[Node, Variable]]:
    """Yield (identifier, variable) for every use of a variable at or below a node."""
    low = bisect_left(tree.used, node.start_byte, key=itemgetter(0))
    high = bisect_left(tree.used, node.end_byte, key=itemgetter(0))
    for _, one, variable in tree.used[low:high]:
        yield one, variable


def find_base_identifier(lvalue: Node | None) -> Node | None:
    """Return the identifier at the root of an lvalue, such as `a` of `a[i].b` or `*a`; None if it has none."""
    while lvalue is not None and lvalue.type != "identifier":
        if lvalue.type in ("subscript_expression", "field_expression"):
            lvalue = lvalue.child_by_field_name("argument")
        elif lvalue.type == "parenthesized_expression":
            lvalue = lvalue.named_children[0] if lvalue.named_children else None
        elif lvalue.type == "pointer_expression":
            lvalue = lvalue.child_by_field_name("argument")
        else:
            return None
    return lvalue


def find_written_variables(tree: Tree, node: Node) -> set[Variable]:
    """Return the variables that are assigned, or whose address is taken, at or below a node."""
    if tree.stores is None:  # a large source asks thousands of times
        tree.stores = list(iterate_stores(tree))
    low = bisect_left(tree.stores, node.start_byte, key=itemgetter(0))
    high = bisect_left(tree.stores, node.end_byte, key=itemgetter(0))
    return {variable for _, end, variable in tree.stores[low:high] if end <= node.end_byte}


def iterate_stores(tree: Tree) -> Iterator[tuple[int, int, Variable]]:
    """Yield the expressions that assign to a variable or take an address with `&`, in the order of the text. Each is
    (its first byte, the byte after its last, the variable).
    """
    for one in walk_nodes(tree.root):
        place: Node | None = None
        if one.type == "assignment_expression":
            place = find_base_identifier(one.child_by_field_name("left"))
        elif one.type == "update_expression" or (one.type == "pointer_expression" and one.children[0].type == "&"):
            place = find_base_identifier(one.child_by_field_name("argument"))
        if place is not None:
            variable = tree.resolve(tree.source(place), tree.begin(place))
            if variable is not None:
                yield one.start_byte, one.end_byte, variable


def get_addressed_variables(tree: Tree, node: Node) -> frozenset[Variable]:
    """Return the variables whose address is taken at or below a node: by `&`, or by the bare name of an array. The
    result is kept in the tree for the next call.
    """
    key = (node.start_byte, node.end_byte)
    if key not in tree.addressed:
        tree.addressed[key] = find_addressed_variables(tree, node)
    return tree.addressed[key]


def find_addressed_variables(tree: Tree, node: Node) -> frozenset[Variable]:
    """Compute anew the variables whose address is taken at or below a node."""
    found: set[Variable] = set()
    for one, variable in iterate_uses(tree, node):
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
    return frozenset(found)


def is_written_first(tree: Tree, variable: Variable, body: Node) -> bool:
    """Return whether code always assigns a scalar before any other use of it. `body`: the code, as a node of
    the tree.
    """
    left = [node for node, found in iterate_uses(tree, body) if found is variable]
    while left:
        block = find_assigned_block(tree, variable, left[0], body)
        if block is None:
            return False
        end = block.end_byte
        left = [node for node in left if node.start_byte >= end]
    return True


def find_assigned_block(tree: Tree, variable: Variable, use: Node, body: Node) -> Node | None:
    """Return the largest node within `body` that cannot run without this assignment to a scalar. `use`: where the
    scalar's name stands. None if it is not the target of a plain assignment, or if the assigned value reads the scalar.
    """
    above = use.parent
    if above is None or above.type not in ("assignment_expression", "init_declarator"):
        return None
    written, value = ("left", "right") if above.type == "assignment_expression" else ("declarator", "value")
    operator = above.child_by_field_name("operator")
    if above.child_by_field_name(written) != use or (operator is not None and tree.source(operator) != "="):
        return None
    right = above.child_by_field_name(value)
    if right is not None and mentions(tree, variable, right):
        return None
    node: Node = above
    while node != body and (outer := node.parent) is not None and not is_conditional(node, outer):
        node = outer
    return node


def is_conditional(part: Node, statement: Node) -> bool:
    """Return whether a part of a statement may be skipped when the statement runs."""
    always = ALWAYS.get(statement.type)
    if always is None:
        return False
    return all(statement.child_by_field_name(name) != part for name in always)


def find_loop_over(tree: Tree, variable: Variable, use: Node) -> Node | None:
    """Return the outermost `for` loop around a use of a variable that has the variable as its index (its initialisation
    assigns it). None if there is none.
    """
    found: Node | None = None
    above = find_ancestor(use, {"for_statement"})
    while above is not None:
        initial = above.child_by_field_name("initializer")
        if initial is not None and is_written_first(tree, variable, initial) and mentions(tree, variable, initial):
            found = above
        above = find_ancestor(above, {"for_statement"})
    return found


def mentions(tree: Tree, variable: Variable, node: Node) -> bool:
    """Return whether a variable is used below a node."""
    return any(found is variable for _, found in iterate_uses(tree, node))


def loop_variable_node(tree: Tree, loop: Node) -> Node | None:
    """Return the identifier that the initialisation of a `for` loop assigns or declares; None if there is none."""
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


def loop_nest(loop: Node, depth: int) -> list[Node]:
    """Return up to `depth` nested `for` loops, the outermost first. A loop belongs to the nest if it is the only
    statement in the body of the loop around it.
    """
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
