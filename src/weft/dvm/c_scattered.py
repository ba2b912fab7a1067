"""Render the calls for distributions by tables in C-DVMH: `indirect` and `derived`, named shadow edges, `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft.dvm import syntax
from weft.dvm.c_calls import data_address, render_call
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import SourceUnit
from weft.dvm.syntax import Axis, Derived, NamedEdges, Reference, Section, Width

INT: Final = "__INT64_TYPE__"


def render_owner_calls(unit: SourceUnit, data_id: int, variable: Variable, axes: Sequence[Axis], offset: int) -> str:
    """Return C code that reports to the runtime which processor owns each index. It covers the dimensions that are
    distributed by `indirect` or `derived`.
    """
    found: list[str] = []
    for d, axis in enumerate(axes):
        where = f"{data_id}, {data_address(variable)}, {d}"
        if axis.kind == "indirect" and axis.argument is not None:
            owner = render_call("owner", where, "weft_k", f"({axis.argument.text})[weft_k]")
            found.append(f"for ({INT} weft_k = 0; weft_k < weft_check_extent({where}); weft_k++) {owner}")
        elif axis.derived is not None:
            target, place, dummy = resolve_derived(unit, axis.derived, unit.source.position_of(offset), offset)
            one = render_call("owner_derived", where, "weft_e", *target, place, dummy)
            found.append(render_element_loop(axis.derived, target, place, dummy, one))
    return wrap_in_io_calls(found)


def wrap_in_io_calls(calls: Sequence[str]) -> str:
    """Return C calls that read tables of the program, within two calls that switch the checks off for them. "" without
    calls.
    """
    return f"{{ {render_call('io_begin')} {' '.join(calls)} {render_call('io_end')} }}" if calls else ""


def resolve_derived(
    unit: SourceUnit, derived: Derived, position: syntax.Position, offset: int
) -> tuple[tuple[int, str], int, str]:
    """Return three things about a `derived` distribution: its target array, as (data id, C text of the address); the
    number of the target's dimension that has the dummy index, from 0; the dummy's name.
    """
    target = unit.resolve_distributed(whole_target(derived, position), offset, "derived")
    dummies = [(d, one) for d, one in enumerate(derived.subscripts) if isinstance(one, str)]
    if len(dummies) != 1:
        unit.fail(position, f"`derived` takes one dummy of `{derived.target}`: {derived.target}[@i]")
    return (unit.data_id(target), data_address(target)), *dummies[0]


def whole_target(derived: Derived, place: syntax.Position) -> Reference:
    """Return a reference to the whole target of `derived`."""
    return Reference(derived.target, (syntax.Whole(),) * len(derived.subscripts), place)


def render_element_loop(derived: Derived, target: tuple[int, str], axis: int, dummy: str, element_call: str) -> str:
    """Return C code that makes `element_call` for each element that a `derived` distribution names. The code loops over
    dimension `axis` of `target` (data id, C text of its address) with `dummy` as index; in `element_call` the element
    is the variable `weft_e`.
    """
    where = f"{target[0]}, {target[1]}, {axis}"
    items = "".join(render_element_range(item, element_call) for item in derived.expressions)
    return (
        f"{{ const {INT} weft_low = weft_check_lower({where}), weft_end = weft_low + weft_check_extent({where}); "
        f"for ({INT} {dummy} = weft_low; {dummy} < weft_end; {dummy}++) {{ {items}}} }}"
    )


def render_element_range(item: syntax.Expression | Section, element_call: str) -> str:
    """Return C code that sets `weft_e` to the value of an expression, or to each value of a range, and makes
    `element_call` each time.
    """
    if isinstance(item, Section):
        assert item.low is not None and item.high is not None
        return f"for ({INT} weft_e = {item.low.text}; weft_e <= {item.high.text}; weft_e++) {element_call} "
    return f"{{ const {INT} weft_e = {item.text}; {element_call} }} "


def find_or_add_edge_id(unit: SourceUnit, name: str, position: syntax.Position) -> int:
    """Return the id of a named shadow edge. A name that is new is added to the source map, with its position in the
    source.
    """
    held = unit.shared.edges
    if name not in held:
        held[name] = unit.shared.texts.add_variable(name, position.file, position.line)
    return held[name]


def render_shadow_add(unit: SourceUnit, directive: syntax.ShadowAdd, offset: int, directive_text: str) -> str:
    """Return C code that builds a named shadow edge from the elements that `shadow_add` gives, and adds the edge to the
    arrays that the directive lists.
    """
    variable = unit.resolve_variable(directive.array, offset)
    target, axis, dummy = resolve_derived(unit, directive.derived, directive.place, offset)
    beside = directive.derived.edges
    calls = [
        render_call(
            "edge_begin",
            unit.find_or_add_construct_id("shadow_add", directive, directive_text),
            find_or_add_edge_id(unit, directive.edge, directive.place),
            unit.data_id(variable),
            data_address(variable),
            directive.axis,
            *target,
            axis,
            find_or_add_edge_id(unit, beside[0], directive.place) if beside else 0,
        ),
        render_element_loop(directive.derived, target, axis, dummy, render_call("edge_element", dummy, "weft_e")),
    ]
    for name in directive.include:
        array = unit.resolve_variable(Reference(name, None, directive.place), offset)
        calls.append(render_call("edge_include", unit.data_id(array), data_address(array)))
    return wrap_in_io_calls([*calls, render_call("edge_end")])


def render_edge_renewals(
    unit: SourceUnit,
    construct_id: str | int,
    variable: Variable,
    widths: Sequence[Width | NamedEdges] | None,
    position: syntax.Position,
) -> Iterator[str]:
    """Yield C calls that renew shadow edges of an array. Only the edges that `widths` gives by name are renewed; widths
    in numbers are left out.
    """
    for width in widths or ():
        if isinstance(width, NamedEdges):
            for name in width.names:
                yield render_call(
                    "edge_renew",
                    construct_id,
                    find_or_add_edge_id(unit, name, position),
                    unit.data_id(variable),
                    data_address(variable),
                )


def render_localize(unit: SourceUnit, directive: syntax.Localize, offset: int, directive_text: str) -> str:
    """Return the C call for `localize`, which replaces the global indices in an array by the local indices of a target
    array.
    """
    numbers = unit.resolve_variable(Reference(directive.array, None, directive.place), offset)
    target = unit.resolve_variable(Reference(directive.target, None, directive.place), offset)
    return render_call(
        "localize",
        unit.find_or_add_construct_id("localize", directive, directive_text),
        unit.data_id(numbers),
        data_address(numbers),
        unit.data_id(target),
        data_address(target),
        directive.axis or 0,
    )
