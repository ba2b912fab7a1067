"""Distributions by tables in C-DVMH: `indirect` and `derived` owners, named shadow edges, `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from weft.dvm import syntax
from weft.dvm.c_calls import base, call
from weft.dvm.c_tree import Variable
from weft.dvm.c_unit import Unit
from weft.dvm.syntax import Axis, Derived, NamedEdges, Reference, Section, Width

INT: Final = "__INT64_TYPE__"


def owners(unit: Unit, number: int, variable: Variable, axes: Sequence[Axis], at: int) -> str:
    """The calls that tell who owns the elements of dimensions that tables distribute."""
    found: list[str] = []
    for d, axis in enumerate(axes):
        where = f"{number}, {base(variable)}, {d}"
        if axis.kind == "indirect" and axis.argument is not None:
            owner = call("owner", where, "weft_k", f"({axis.argument.text})[weft_k]")
            found.append(f"for ({INT} weft_k = 0; weft_k < weft_check_extent({where}); weft_k++) {owner}")
        elif axis.derived is not None:
            target, place, dummy = meant(unit, axis.derived, unit.source.position(at), at)
            one = call("owner_derived", where, "weft_e", *target, place, dummy)
            found.append(over(axis.derived, target, place, dummy, one))
    return quietly(found)


def quietly(calls: Sequence[str]) -> str:
    """Calls that read the program's tables, as the system does: from whoever has them."""
    return f"{{ {call('io_begin')} {' '.join(calls)} {call('io_end')} }}" if calls else ""


def meant(unit: Unit, derived: Derived, place: syntax.Position, at: int) -> tuple[tuple[int, str], int, str]:
    """(data, base) of the target of `derived`, its dimension that has the dummy, and the dummy."""
    target = unit.spread(whole(derived, place), at, "derived")
    dummies = [(d, one) for d, one in enumerate(derived.subscripts) if isinstance(one, str)]
    if len(dummies) != 1:
        unit.fail(place, f"`derived` takes one dummy of `{derived.target}`: {derived.target}[@i]")
    return (unit.data_id(target), base(target)), *dummies[0]


def whole(derived: Derived, place: syntax.Position) -> Reference:
    """All of the target of `derived`."""
    return Reference(derived.target, (syntax.Whole(),) * len(derived.subscripts), place)


def over(derived: Derived, target: tuple[int, str], axis: int, dummy: str, one: str) -> str:
    """A loop over the target's indices that makes a call for each element `weft_e` that they name."""
    where = f"{target[0]}, {target[1]}, {axis}"
    items = "".join(ranged(item, one) for item in derived.expressions)
    return (
        f"{{ const {INT} weft_low = weft_check_lower({where}), weft_end = weft_low + weft_check_extent({where}); "
        f"for ({INT} {dummy} = weft_low; {dummy} < weft_end; {dummy}++) {{ {items}}} }}"
    )


def ranged(item: syntax.Expression | Section, one: str) -> str:
    """The elements of one expression or range."""
    if isinstance(item, Section):
        assert item.low is not None and item.high is not None
        return f"for ({INT} weft_e = {item.low.text}; weft_e <= {item.high.text}; weft_e++) {one} "
    return f"{{ const {INT} weft_e = {item.text}; {one} }} "


def edge_id(unit: Unit, name: str, place: syntax.Position) -> int:
    """The number of a named edge."""
    held = unit.shared.edges
    if name not in held:
        held[name] = unit.shared.texts.add_variable(name, place.file, place.line)
    return held[name]


def shadow_add(unit: Unit, directive: syntax.ShadowAdd, at: int, text: str) -> str:
    """The calls that make a named edge."""
    variable = unit.variable(directive.array, at)
    target, axis, dummy = meant(unit, directive.derived, directive.place, at)
    beside = directive.derived.edges
    calls = [
        call(
            "edge_begin",
            unit.texted("shadow_add", directive, text),
            edge_id(unit, directive.edge, directive.place),
            unit.data_id(variable),
            base(variable),
            directive.axis,
            *target,
            axis,
            edge_id(unit, beside[0], directive.place) if beside else 0,
        ),
        over(directive.derived, target, axis, dummy, call("edge_element", dummy, "weft_e")),
    ]
    for name in directive.include:
        array = unit.variable(Reference(name, None, directive.place), at)
        calls.append(call("edge_include", unit.data_id(array), base(array)))
    return quietly([*calls, call("edge_end")])


def renewed(
    unit: Unit,
    number: str | int,
    variable: Variable,
    widths: Sequence[Width | NamedEdges] | None,
    place: syntax.Position,
) -> Iterator[str]:
    """The calls that renew the named edges among widths."""
    for width in widths or ():
        if isinstance(width, NamedEdges):
            for name in width.names:
                yield call("edge_renew", number, edge_id(unit, name, place), unit.data_id(variable), base(variable))


def localize(unit: Unit, directive: syntax.Localize, at: int, text: str) -> str:
    """The call that turns numbers into indices of an array."""
    numbers = unit.variable(Reference(directive.array, None, directive.place), at)
    target = unit.variable(Reference(directive.target, None, directive.place), at)
    return call(
        "localize",
        unit.texted("localize", directive, text),
        unit.data_id(numbers),
        base(numbers),
        unit.data_id(target),
        base(target),
        directive.axis or 0,
    )
