"""Render the calls for distributions by tables in Fortran-DVM(H): `indirect`, `derived`, named edges, `localize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.dvm import syntax
from weft.dvm.fortran_lines import Sentinel
from weft.dvm.fortran_marks import UnitMarks
from weft.dvm.syntax import Axis, Derived, DirectiveError, NamedEdges, Position, Section, Width


def render_owner_calls(marks: UnitMarks, name: str, axes: Sequence[Axis], place: Position) -> Iterator[str]:
    """Yield the calls that tell the runtime who owns the elements of dimensions that tables distribute."""
    number = marks.data_number(name, place)
    for d, axis in enumerate(axes):
        if axis.kind == "indirect" and axis.argument is not None:
            yield f"call weft_check_owners({number}, {d}, {axis.argument.text}{marks.base(name)})"
        elif axis.derived is not None:
            target, k, dummy = resolve_derived(marks, axis.derived, place)
            goal = marks.base(axis.derived.target, "goal")
            one = (
                f"call weft_check_owner_derived({number}, {d}, weft_e, {target}, {k}, int({dummy}, 8)"
                f"{marks.base(name)}{goal})"
            )
            yield from render_element_loop(marks, axis.derived, place, one)


def resolve_derived(marks: UnitMarks, derived: Derived, place: Position) -> tuple[int, int, str]:
    """Return the number of the target of `derived`, its dimension with the dummy, and the dummy."""
    dummies = [(d, one) for d, one in enumerate(derived.subscripts) if isinstance(one, str)]
    if len(dummies) != 1:
        raise DirectiveError(place, f"`derived` takes one dummy of `{derived.target}`: {derived.target}(@i)")
    return (marks.data_number(derived.target, place), *dummies[0])


def render_element_loop(marks: UnitMarks, derived: Derived, place: Position, one: str) -> Iterator[str]:
    """Yield a loop over the target's indices that makes the call `one` for each element `weft_e` that they name."""
    target, axis, dummy = resolve_derived(marks, derived, place)
    where = f"({target}, {axis}{marks.base(derived.target)})"
    items = "; ".join(render_element_range(item, one) for item in derived.expressions)
    yield "call weft_check_io_begin()"
    yield (
        f"block; integer(8) :: {dummy}, weft_e; do {dummy} = weft_check_lower{where}, "
        f"weft_check_lower{where} + weft_check_extent{where} - 1; {items}; end do; end block"
    )
    yield "call weft_check_io_end()"


def render_element_range(item: syntax.Expression | Section, one: str) -> str:
    """Return the elements of one expression or range."""
    if isinstance(item, Section):
        assert item.low is not None and item.high is not None
        return f"do weft_e = int({item.low.text}, 8), int({item.high.text}, 8); {one}; end do"
    return f"weft_e = int({item.text}, 8); {one}"


def edge_id(marks: UnitMarks, name: str, place: Position) -> int:
    """Return the number of a named edge, which is one in all units."""
    held = marks.numbers.edges
    if name not in held:
        held[name] = marks.texts.add_variable(name, place.file, place.line)
    return held[name]


def render_shadow_add(marks: UnitMarks, sentinel: Sentinel, directive: syntax.ShadowAdd) -> Iterator[str]:
    """Yield the calls that make a named shadow edge."""
    place, derived = directive.place, directive.derived
    target, axis, dummy = resolve_derived(marks, derived, place)
    beside = edge_id(marks, derived.edges[0], place) if derived.edges else 0
    name = directive.array.name
    construct = marks.construct("shadow_add", sentinel)
    yield (
        f"call weft_check_edge_begin({construct}, {edge_id(marks, directive.edge, place)}, "
        f"{marks.data_number(name, place)}, {directive.axis}, {target}, {axis}, {beside}{marks.base(name)}"
        f"{marks.base(derived.target, 'goal')})"
    )
    yield from render_element_loop(marks, derived, place, f"call weft_check_edge_element(int({dummy}, 8), weft_e)")
    for array in directive.include:
        yield f"call weft_check_edge_include({marks.data_number(array, place)}{marks.base(array)})"
    yield "call weft_check_edge_end()"


def render_edge_renewals(
    marks: UnitMarks, name: str, widths: Sequence[Width | NamedEdges] | None, place: Position
) -> Iterator[str]:
    """Yield the calls that renew the named edges among widths."""
    for width in widths or ():
        if isinstance(width, NamedEdges):
            for edge in width.names:
                number = marks.data_number(name, place)
                yield f"call weft_check_edge_renew(0, {edge_id(marks, edge, place)}, {number}{marks.base(name)})"


def render_localize(marks: UnitMarks, sentinel: Sentinel, directive: syntax.Localize) -> str:
    """Return the call that turns element numbers into indices of an array."""
    place = directive.place
    return (
        f"call weft_check_localize({marks.construct('localize', sentinel)}, "
        f"{marks.data_number(directive.array, place)}, {marks.data_number(directive.target, place)}, "
        f"{directive.axis or 0}{marks.base(directive.array)}"
        f"{marks.base(directive.target, 'goal')})"
    )
