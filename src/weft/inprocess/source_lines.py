"""Reads from the source of a frame's line which lock the frame asks for, and which `with` blocks it has entered.

Python's locks do not know their owners, and a call of C leaves no frame. No code of the program is executed: names and
attributes are read from the frame and the objects' dictionaries.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dis import opname
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any

Position = tuple[int, int, int, int]
"""First and last line, first and last column, in bytes."""
_OWN_FRAME_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
"""What stands in a line and runs in a frame of its own."""
_CALL_OPCODES = {"CALL", "BEFORE_WITH"}
UNKNOWN = object()


def source_position(frame: FrameType) -> Position | None:
    """Return the position in the source (lines and columns) of the instruction that a frame executes. None if it is
    unknown.
    """
    found = next(islice(frame.f_code.co_positions(), max(frame.f_lasti, 0) // 2, None), None)
    if found is None or None in found:
        return None
    first, last, begin, end = found
    return first, last, begin, end  # type: ignore[return-value]


def find_method_call(frame: FrameType) -> tuple[str, ast.expr] | None:
    """Return (method, expression of its object) for the method that a frame is calling without arguments. None if it
    does something else.

    `self.lock.acquire()` gives ("acquire", `self.lock`); `with self.lock` gives ("with", `self.lock`).
    """
    at = source_position(frame) if opname[frame.f_code.co_code[frame.f_lasti]] in _CALL_OPCODES else None
    tree = _parse_statement(_source_text(frame.f_code.co_filename, at)) if at is not None else None
    if isinstance(tree, ast.With):  # up to Python 3.12 an instruction of `with` stands for the whole of it
        return ("with", tree.items[0].context_expr) if len(tree.items) == 1 else None
    value = tree.value if isinstance(tree, ast.Expr) else None
    if isinstance(value, ast.Call):
        plain = isinstance(value.func, ast.Attribute) and not value.args and not value.keywords
        return (value.func.attr, value.func.value) if plain else None  # type: ignore[attr-defined]
    return ("with", value) if isinstance(value, ast.Name | ast.Attribute) else None


def _source_text(file: str, position: Position) -> str:
    """Return the text of a file between two positions; empty if the file cannot be read."""
    first, last, begin, end = position
    lines = [line.encode() for line in linecache.getlines(file)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace")


def _parse_statement(source: str) -> ast.stmt | None:
    """Return the syntax tree of a text that consists of one statement. None if it does not."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    return body[0] if len(body) == 1 else None


def look_up_value(expression: ast.expr, frame: FrameType) -> Any:
    """Return the value of a variable or attribute in a frame. UNKNOWN if it has no value, is another kind of
    expression, or looking it up could execute code of the program.
    """
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id, UNKNOWN))
    if not isinstance(expression, ast.Attribute):
        return UNKNOWN
    of = look_up_value(expression.value, frame)
    try:
        return object.__getattribute__(of, "__dict__").get(expression.attr, UNKNOWN)
    except AttributeError:
        return UNKNOWN


def find_with_objects(frame: FrameType) -> Iterator[Any]:
    """Yield the objects that a frame has entered by a `with` statement and has certainly not left."""
    at = source_position(frame)
    if at is None:
        return
    for block in _enclosing_with_blocks(frame.f_code.co_filename, at[0], at[2]):
        for item in block.items:
            if _is_unchanged_in_body(item.context_expr, block.body):
                yield look_up_value(item.context_expr, frame)


def _enclosing_with_blocks(file: str, line: int, column: int) -> list[ast.With]:
    """Return the `with` statements of one function that have a position inside their bodies, outermost first."""
    at: ast.AST | None = parse_file(file)
    found: list[ast.With] = []
    while at is not None:
        children = list(ast.iter_child_nodes(at))
        inner = next((child for child in children if _is_position_in_node(child, line, column)), None)
        if isinstance(at, ast.With) and inner in at.body:
            found.append(at)
        if isinstance(inner, _OWN_FRAME_NODES):
            found = []
        at = inner
    return found


def _is_position_in_node(node: ast.AST, line: int, column: int) -> bool:
    """Return whether a syntax node contains a position."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if first is None or last is None:
        return False
    return (first, node.col_offset) <= (line, column) < (last, node.end_col_offset)  # type: ignore[attr-defined]


def _is_unchanged_in_body(expression: ast.expr, body: list[ast.stmt]) -> bool:
    """Return whether an expression still means the same object at the end of a `with`: no statement of `body` assigns
    to a part of the expression, or calls its `release`.
    """
    parts = {ast.unparse(part) for part in ast.walk(expression) if isinstance(part, ast.expr)}
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if ast.unparse(node) in parts:
                return False
        elif isinstance(node, ast.Attribute) and node.attr == "release" and ast.unparse(node.value) in parts:
            return False
    return True


@lru_cache(maxsize=32)
def parse_file(file: str) -> ast.Module | None:
    """Return the syntax tree of a source file; None if it cannot be parsed."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
