"""List the parts of values in a native rank: run by gdb, imports nothing of Weft. Answers are lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import gdb

MARK = "weft-parts:"
MANY = 100
"""Parts of a value that are listed at once if no number is given."""
Row = tuple[str, Any, str]
"""Name, value, and the expression that means it (empty where none does)."""


def weft_about(text: str) -> None:
    """The value of an expression, and how many parts it has."""
    print_answer(lambda: [describe_part(text, gdb.parse_and_eval(text), text)])


def weft_parts(text: str, start: int, count: int) -> None:
    """Print as JSON the variables of the selected frame, or the parts of a value. `text`: the expression of the value,
    empty for the frame; `start`, `count`: which parts, from 0 on.
    """

    def make_parts() -> list[dict[str, Any]]:
        """Return the variables of the frame, or the chosen parts of the value, as dictionaries."""
        if not text:
            return [describe_part(*row) for row in frame_variables(gdb.selected_frame())]
        rows = parts_of_value(gdb.parse_and_eval(text), text)
        chosen = rows[start : start + (count or MANY)]
        return [describe_part(*row) for row in chosen]

    print_answer(make_parts)


def print_answer(make_parts: Callable[[], list[dict[str, Any]]]) -> None:
    """Print as JSON the parts that `make_parts` returns, or the error that it raises."""
    try:
        told: dict[str, Any] = {"parts": make_parts()}
    except (gdb.error, RuntimeError, ValueError, TypeError) as error:
        told = {"error": str(error)}
    print(MARK + json.dumps(told))


def frame_variables(frame: Any) -> Iterator[Row]:
    """Yield (name, value, expression) for the arguments and local variables of a frame. Of two variables with one name,
    only the inner one is yielded.
    """
    try:
        block = frame.block()
    except RuntimeError:  # no debugging information
        return
    seen: set[str] = set()
    while block is not None and not (block.is_global or block.is_static):
        for symbol in block:
            if (symbol.is_argument or symbol.is_variable) and symbol.name not in seen:
                seen.add(symbol.name)
                yield symbol.name, symbol.value(frame), symbol.name
        if block.function is not None:
            return
        block = block.superblock


def describe_part(name: str, value: Any, expression: str) -> dict[str, Any]:
    """Return a variable or part as a dictionary: its name, value as text, type, expression, and how many parts it has
    itself.
    """
    kind, optimised = str(value.type), value.is_optimized_out
    try:
        rows = Parts() if optimised else parts_of_value(value, expression or "x")
        text = "<optimized out>" if optimised else render_value(value)
    except gdb.error as error:  # it points to nowhere
        rows, text = Parts(), f"<{error}>"
    return {"name": name, "value": text, "type": kind, "expression": expression, "parts": len(rows),
            "indexed": rows.indexed}  # fmt: skip


def render_value(value: Any) -> str:
    """Return a value as gdb prints it, a reference with what it refers to."""
    return str(value.format_string(max_elements=40, repeat_threshold=12))


class Parts(list[Row]):
    """The parts of a value. `indexed`: they are numbered elements."""

    indexed = False


def parts_of_value(value: Any, expression: str) -> Parts:
    """Return the parts of a value: members, elements, or what it points to. Empty if it has none. `expression`: of the
    value itself; the expressions of the parts are made from it.
    """
    printer = gdb.default_visualizer(value)
    if printer is not None:
        return parts_by_printer(printer)
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", -1)):
        return parts_of_value(value.referenced_value(), expression)
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return Parts(structure_members(value, kind, expression, "%" if is_fortran_frame() else "."))
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return array_elements(value, kind, expression)
    return Parts(pointer_target(value, kind, expression)) if kind.code == gdb.TYPE_CODE_PTR else Parts()


def is_fortran_frame() -> bool:
    """Return whether the chosen frame is of Fortran."""
    language = gdb.parameter("language")
    return "fortran" in (language if language != "auto" else gdb.execute("show language", to_string=True))


def parts_by_printer(printer: Any) -> Parts:
    """Return the parts that one of gdb's pretty printers shows, for example of a C++ container. The expression of each
    part is made of its address, empty if it has none.
    """
    rows = Parts()
    if not hasattr(printer, "children"):
        return rows
    for number, (name, value) in enumerate(printer.children()):
        if number >= 10 * MANY:
            break
        meant = isinstance(value, gdb.Value) and value.address is not None
        text = f"*({value.type} *) {int(value.address):#x}" if meant else ""
        rows.append((str(name), value if isinstance(value, gdb.Value) else gdb.Value(value), text))
    rows.indexed = all(name.startswith("[") for name, _, _ in rows)
    return rows


def structure_members(value: Any, value_type: Any, expression: str, separator: str) -> Iterator[Row]:
    """Yield (name, value, expression) for the members of a structure. Members of its base classes and of unnamed
    members count as its own. `expression`: of the structure; `separator`: what stands between it and a member, `.` or
    Fortran's `%`.
    """
    for field in value_type.fields():
        if field.is_base_class or not field.name:
            yield from structure_members(value[field], field.type.strip_typedefs(), expression, separator)
        elif not field.artificial:
            yield (
                field.name,
                value[field],
                f"{expression}{separator}{field.name}" if separator != "." else f"({expression}).{field.name}",
            )


def array_elements(value: Any, value_type: Any, expression: str) -> Parts:
    """Return the elements of an array as parts. For a Fortran array of several dimensions, these are the sections along
    the last dimension. `expression`: of the array.
    """
    rows, of_fortran = Parts(), is_fortran_frame()
    rows.indexed = True
    first, last = value_type.range()
    inner = 0
    element = value_type.target().strip_typedefs()
    while of_fortran and element.code == gdb.TYPE_CODE_ARRAY:
        inner, element = inner + 1, element.target().strip_typedefs()
    for i in range(first, min(last, first + 10 * MANY) + 1):
        name = f"({':,' * inner}{i})" if of_fortran else f"[{i}]"
        rows.append((name, value[i], f"{expression}{name}" if of_fortran else f"({expression}){name}"))
    return rows


def pointer_target(value: Any, value_type: Any, expression: str) -> Iterator[Row]:
    """Yield (name, value, expression) for what a pointer points to; for a C structure, for each of its members. Nothing
    for a null pointer, and for text and functions, which gdb shows with the pointer.
    """
    to = value_type.target().strip_typedefs()
    if to.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC) or to.sizeof == 1 or int(value) == 0:
        return
    there = value.dereference()
    if to.code == gdb.TYPE_CODE_STRUCT and not is_fortran_frame():
        yield from structure_members(there, to, f"*({expression})", ".")
    else:
        yield f"*{expression}", there, f"*({expression})" if not is_fortran_frame() else f"*{expression}"
