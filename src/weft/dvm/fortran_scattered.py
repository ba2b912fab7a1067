"""Render the calls for distributions by tables in Fortran-DVM(H): `indirect`, `derived`, named edges, `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.dvm import syntax
from weft.dvm.fortran_lines import Sentinel
from weft.dvm.fortran_marks import UnitMarks
from weft.dvm.syntax import Axis, Derived, DirectiveError, NamedEdges, Position, Section, Width


def render_owner_calls(marks: UnitMarks, name: str, axes: Sequence[Axis], position: Position) -> Iterator[str]:
    """Yield Fortran code that reports to the runtime which processor owns each index. It covers the dimensions that are
    distributed by `indirect` or `derived`.
    """
    number = marks.find_data_id(name, position)
    for d, axis in enumerate(axes):
        if axis.kind == "indirect" and axis.argument is not None:
            yield f"call weft_check_owners({number}, {d}, {axis.argument.text}{marks.address_argument(name)})"
        elif axis.derived is not None:
            target, k, dummy = resolve_derived(marks, axis.derived, position)
            goal = marks.address_argument(axis.derived.target, "goal")
            one = (
                f"call weft_check_owner_derived({number}, {d}, weft_e, {target}, {k}, int({dummy}, 8)"
                f"{marks.address_argument(name)}{goal})"
            )
            yield from render_element_loop(marks, axis.derived, position, one)


def resolve_derived(marks: UnitMarks, derived: Derived, position: Position) -> tuple[int, int, str]:
    """Return three things about a `derived` distribution: the id of its target array, the number of the target's
    dimension that has the dummy index (from 0), and the dummy's name.
    """
    dummies = [(d, one) for d, one in enumerate(derived.subscripts) if isinstance(one, str)]
    if len(dummies) != 1:
        raise DirectiveError(position, f"`derived` takes one dummy of `{derived.target}`: {derived.target}(@i)")
    return (marks.find_data_id(derived.target, position), *dummies[0])


def render_element_loop(marks: UnitMarks, derived: Derived, position: Position, element_call: str) -> Iterator[str]:
    """Yield Fortran code that makes `element_call` for each element that a `derived` distribution names. The code loops
    over one dimension of the target; in `element_call` the element is the variable `weft_e`.
    """
    target, axis, dummy = resolve_derived(marks, derived, position)
    where = f"({target}, {axis}{marks.address_argument(derived.target)})"
    items = "; ".join(render_element_range(item, element_call) for item in derived.expressions)
    yield "call weft_check_io_begin()"
    yield (
        f"block; integer(8) :: {dummy}, weft_e; do {dummy} = weft_check_lower{where}, "
        f"weft_check_lower{where} + weft_check_extent{where} - 1; {items}; end do; end block"
    )
    yield "call weft_check_io_end()"


def render_element_range(item: syntax.Expression | Section, element_call: str) -> str:
    """Return Fortran code that sets `weft_e` to the value of an expression, or to each value of a range, and makes
    `element_call` each time.
    """
    if isinstance(item, Section):
        assert item.low is not None and item.high is not None
        return f"do weft_e = int({item.low.text}, 8), int({item.high.text}, 8); {element_call}; end do"
    return f"weft_e = int({item.text}, 8); {element_call}"


def find_or_add_edge_id(marks: UnitMarks, name: str, position: Position) -> int:
    """Return the id of a named shadow edge, which is the same in all units. A name that is new is added to the source
    map, with its position.
    """
    held = marks.numbers.edges
    if name not in held:
        held[name] = marks.texts.add_variable(name, position.file, position.line)
    return held[name]


def render_shadow_add(marks: UnitMarks, sentinel: Sentinel, directive: syntax.ShadowAdd) -> Iterator[str]:
    """Yield the Fortran calls that build a named shadow edge from the elements that `shadow_add` gives, and add the
    edge to the arrays that the directive lists.
    """
    place, derived = directive.place, directive.derived
    target, axis, dummy = resolve_derived(marks, derived, place)
    beside = find_or_add_edge_id(marks, derived.edges[0], place) if derived.edges else 0
    name = directive.array.name
    construct = marks.find_or_add_construct_id("shadow_add", sentinel)
    yield (
        f"call weft_check_edge_begin({construct}, {find_or_add_edge_id(marks, directive.edge, place)}, "
        f"{marks.find_data_id(name, place)}, {directive.axis}, {target}, {axis}, {beside}{marks.address_argument(name)}"
        f"{marks.address_argument(derived.target, 'goal')})"
    )
    yield from render_element_loop(marks, derived, place, f"call weft_check_edge_element(int({dummy}, 8), weft_e)")
    for array in directive.include:
        yield f"call weft_check_edge_include({marks.find_data_id(array, place)}{marks.address_argument(array)})"
    yield "call weft_check_edge_end()"


def render_edge_renewals(
    marks: UnitMarks, name: str, widths: Sequence[Width | NamedEdges] | None, position: Position
) -> Iterator[str]:
    """Yield the Fortran calls that renew shadow edges of an array. Only the edges that `widths` gives by name are
    renewed; widths in numbers are left out.
    """
    for width in widths or ():
        if isinstance(width, NamedEdges):
            for edge in width.names:
                number = marks.find_data_id(name, position)
                edge_id = find_or_add_edge_id(marks, edge, position)
                yield f"call weft_check_edge_renew(0, {edge_id}, {number}{marks.address_argument(name)})"


def render_localize(marks: UnitMarks, sentinel: Sentinel, directive: syntax.Localize) -> str:
    """Return the Fortran call for `localize`, which replaces the global indices in an array by the local indices of a
    target array.
    """
    place = directive.place
    return (
        f"call weft_check_localize({marks.find_or_add_construct_id('localize', sentinel)}, "
        f"{marks.find_data_id(directive.array, place)}, {marks.find_data_id(directive.target, place)}, "
        f"{directive.axis or 0}{marks.address_argument(directive.array)}"
        f"{marks.address_argument(directive.target, 'goal')})"
    )
