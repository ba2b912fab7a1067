"""What a frame stands in, by the source of its line: the lock that it asks for there, and those that it is inside of.

A lock of Python's does not know who has it, and a call into C leaves no frame. No code of the program is run: names and
attributes are looked up as they lie in the frame and in the objects' dictionaries.
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
_ELSEWHERE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
"""What stands in a line and runs in a frame of its own."""
_CALLS = {"CALL", "BEFORE_WITH"}
UNKNOWN = object()


def position(frame: FrameType) -> Position | None:
    """Where its instruction stands in the source."""
    found = next(islice(frame.f_code.co_positions(), max(frame.f_lasti, 0) // 2, None), None)
    if found is None or None in found:
        return None
    first, last, begin, end = found
    return first, last, begin, end  # type: ignore[return-value]


def asked(frame: FrameType) -> tuple[str, ast.expr] | None:
    """What a frame calls without arguments, and of what: `acquire` of `self.lock`, also by `with`. None elsewhere."""
    at = position(frame) if opname[frame.f_code.co_code[frame.f_lasti]] in _CALLS else None
    tree = _parsed(_text(frame.f_code.co_filename, at)) if at is not None else None
    if isinstance(tree, ast.With):  # up to Python 3.12 an instruction of `with` stands for the whole of it
        return ("with", tree.items[0].context_expr) if len(tree.items) == 1 else None
    value = tree.value if isinstance(tree, ast.Expr) else None
    if isinstance(value, ast.Call):
        plain = isinstance(value.func, ast.Attribute) and not value.args and not value.keywords
        return (value.func.attr, value.func.value) if plain else None  # type: ignore[attr-defined]
    return ("with", value) if isinstance(value, ast.Name | ast.Attribute) else None


def _text(file: str, at: Position) -> str:
    first, last, begin, end = at
    lines = [line.encode() for line in linecache.getlines(file)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace")


def _parsed(text: str) -> ast.stmt | None:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    return body[0] if len(body) == 1 else None


def value_of(expression: ast.expr, frame: FrameType) -> Any:
    """What a name or an attribute means in a frame; UNKNOWN where that takes more than a look."""
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id, UNKNOWN))
    if not isinstance(expression, ast.Attribute):
        return UNKNOWN
    of = value_of(expression.value, frame)
    try:
        return object.__getattribute__(of, "__dict__").get(expression.attr, UNKNOWN)
    except AttributeError:
        return UNKNOWN


def inside_of(frame: FrameType) -> Iterator[Any]:
    """What the frame has entered by `with`, as far as it is sure that it is still inside."""
    at = position(frame)
    if at is None:
        return
    for block in _around(frame.f_code.co_filename, at[0], at[2]):
        for item in block.items:
            if _stays(item.context_expr, block.body):
                yield value_of(item.context_expr, frame)


def _around(file: str, line: int, column: int) -> list[ast.With]:
    """The `with` blocks in whose bodies a place is, of the function that it is in."""
    at: ast.AST | None = _tree(file)
    found: list[ast.With] = []
    while at is not None:
        children = list(ast.iter_child_nodes(at))
        inner = next((child for child in children if _covers(child, line, column)), None)
        if isinstance(at, ast.With) and inner in at.body:
            found.append(at)
        if isinstance(inner, _ELSEWHERE):
            found = []
        at = inner
    return found


def _covers(node: ast.AST, line: int, column: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if first is None or last is None:
        return False
    return (first, node.col_offset) <= (line, column) < (last, node.end_col_offset)  # type: ignore[attr-defined]


def _stays(expression: ast.expr, body: list[ast.stmt]) -> bool:
    """Whether nothing in a body gives the expression another meaning, or releases what it means."""
    parts = {ast.unparse(part) for part in ast.walk(expression) if isinstance(part, ast.expr)}
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if ast.unparse(node) in parts:
                return False
        elif isinstance(node, ast.Attribute) and node.attr == "release" and ast.unparse(node.value) in parts:
            return False
    return True


@lru_cache(maxsize=32)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
