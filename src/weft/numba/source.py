"""Find variables that the iterations of a parallel loop cannot share, from the function's own text.

Numba gives each worker its own copy of a scalar. Only what it takes for a reduction is combined; any other value that
one iteration leaves for a later one, or for what follows the loop, is lost. No access to memory shows that: a
difference of results proves that something is wrong, and these rules name the variable.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Final

PRANGE: Final = frozenset(("prange", "pndindex"))


@dataclass(frozen=True, slots=True)
class Suspect:
    """A variable that a loop's iterations cannot share as they do, and where."""

    kind: str
    name: str
    line: int
    loop: int
    """Line of the loop."""
    reason: str


@dataclass(frozen=True, slots=True)
class Use:
    """A variable's name in the text: whether it is stored to, and the statement that it stands in."""

    name: str
    line: int
    column: int
    stored: bool
    statement: ast.stmt


def calls_prange(function: Any) -> bool:
    """Return whether a function uses `prange`, imported under any name, itself or in a function within it."""
    return _names_prange(function.__code__, function.__globals__)


def _names_prange(code: CodeType, global_names: Mapping[str, object]) -> bool:
    """Return whether code, or a function within it, uses prange under some name. `global_names`: name -> value."""
    names = (*code.co_names, *code.co_freevars)
    found = (getattr(global_names.get(name), "__name__", name) for name in names)
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return not PRANGE.isdisjoint(found) or any(_names_prange(one, global_names) for one in inner)


@cache
def parse_function(function: FunctionType) -> ast.FunctionDef | None:
    """Return the function's syntax tree with the line numbers of its file; None if its text is not available."""
    try:
        lines, first = inspect.getsourcelines(function)
        found = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    ast.increment_lineno(found, first - 1)
    return next((node for node in ast.walk(found) if isinstance(node, ast.FunctionDef)), None)


def find_parallel_loops(function: FunctionType) -> list[ast.For]:
    """Return the outermost `prange` loops of a function: Numba runs those inside them sequentially. Empty if the
    function's source is not available.
    """
    found = parse_function(function)
    if found is None:
        return []
    parallel = [node for node in ast.walk(found) if isinstance(node, ast.For) and _is_parallel(node, function)]
    inner = {id(one) for loop in parallel for one in ast.walk(loop) if one is not loop}
    return [loop for loop in parallel if id(loop) not in inner]


def _is_parallel(loop: ast.For, function: FunctionType) -> bool:
    """Return whether a loop of a function runs over prange, under whatever name."""
    call = loop.iter
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return getattr(function.__globals__.get(name), "__name__", name) in PRANGE


def find_enclosing_loop_line(function: FunctionType, line: int, lines: Collection[int]) -> int:
    """Return the line of the parallel loop that encloses at least one of `lines`. Return `line` itself if a loop begins
    there, or if no loop encloses any of them.
    """
    known = find_parallel_loops(function)
    if any(loop.lineno == line for loop in known):
        return line
    around = (loop.lineno for loop in known if any(loop.lineno <= one <= (loop.end_lineno or 0) for one in lines))
    return next(around, line)


def find_loop_variables(function: FunctionType, line: int) -> list[str]:
    """Return a list with the name of the variable of the parallel loop at a line; empty if no such loop
    begins there.
    """
    targets = (loop.target for loop in find_parallel_loops(function) if loop.lineno == line)
    return [target.id for target in targets if isinstance(target, ast.Name)][:1]


def find_suspect_variables(function: FunctionType, reductions: Mapping[int, Collection[str]]) -> list[Suspect]:
    """Return the variables that may explain a wrong result of a function. `reductions`: the variables that Numba takes
    for reductions, by the line of their loop.
    """
    found = parse_function(function)
    if found is None:
        return []
    known = {name for names in reductions.values() for name in names}
    result: list[Suspect] = []
    for loop in find_parallel_loops(function):
        result += _find_loop_suspects(found, loop, reductions.get(loop.lineno, known))
    return result


def _find_loop_suspects(function: ast.FunctionDef, loop: ast.For, reductions: Collection[str]) -> Iterator[Suspect]:
    """Yield the variables that the iterations of a loop write but cannot share. `reductions`: the variables that Numba
    takes for reductions.
    """
    uses = list(find_variable_uses(loop.body))
    own = {use.name for use in _find_uses_in_node(loop.target, loop)}
    for name in dict.fromkeys(use.name for use in uses if use.stored):
        if name in own:
            continue
        stores = [use for use in uses if use.stored and use.name == name]
        after = _find_line_reading_after(function, loop, name)
        if name in reductions:
            for use in uses:
                if use.name == name and not use.stored and not is_accumulation(use.statement, name):
                    yield Suspect(
                        "early-reduction-use",
                        name,
                        use.line,
                        loop.lineno,
                        "the loop reduces it, and an iteration reads it before the loop ends, when each worker has "
                        "only its own part",
                    )
                    break
            continue
        early = find_line_reading_unwritten(loop.body, name)
        if early is not None and _is_assigned_before(function, loop, name):
            last = after or stores[0].line
            if after:
                yield Suspect(
                    "wrong-reduction",
                    name,
                    stores[0].line,
                    loop.lineno,
                    f"line {last} reads it after the loop, but Numba does not recognise a reduction in this form: "
                    "each worker "
                    f"changes its own copy, which is lost (write {name} += ..., {name} *= ..., "
                    f"{name} = max({name}, ...) or {name} = min({name}, ...))",
                )
            else:
                yield Suspect(
                    "loop-dependence",
                    name,
                    early,
                    loop.lineno,
                    f"an iteration reads at line {early} what an earlier iteration stored at line {stores[0].line}",
                )
        elif early is not None:
            yield Suspect(
                "uninitialised-read",
                name,
                early,
                loop.lineno,
                f"an iteration that skips line {stores[0].line} reads it at line {early} before it has a value",
            )
        elif after:
            yield Suspect(
                "shared-write",
                name,
                stores[0].line,
                loop.lineno,
                f"every iteration writes it, and line {after} reads it after the loop: which value that is depends on "
                "the order",
            )


def find_variable_uses(body: Iterable[ast.stmt]) -> Iterator[Use]:
    """Yield the uses of names in statements, nested ones included, each with its innermost statement."""
    for statement in body:
        for field in ast.iter_child_nodes(statement):
            if isinstance(field, ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            yield from _find_uses_in_node(field, statement)
        yield from find_variable_uses(_nested_statements(statement))


def _nested_statements(statement: ast.AST) -> list[ast.stmt]:
    """Return the statements directly inside a statement."""
    found: list[ast.stmt] = []
    for field in ast.iter_child_nodes(statement):
        if isinstance(field, ast.stmt):
            found.append(field)
        elif isinstance(field, ast.ExceptHandler | ast.match_case):
            found += _nested_statements(field)
    return found


def _find_uses_in_node(node: ast.AST, statement: ast.stmt) -> Iterator[Use]:
    """Yield the uses of names in a part of a statement; the target of `+=` counts as read, then written."""
    augmented = isinstance(statement, ast.AugAssign) and node is statement.target
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            stored = isinstance(one.ctx, ast.Store)
            if augmented and stored:
                yield Use(one.id, one.lineno, one.col_offset, False, statement)
            yield Use(one.id, one.lineno, one.col_offset, stored, statement)


def is_accumulation(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement is `name += x`, `name = name + x` or `name = max(name, x)`, with name nowhere in x."""
    if isinstance(statement, ast.AugAssign):
        return (
            isinstance(statement.target, ast.Name)
            and statement.target.id == name
            and not _uses_name(statement.value, name)
        )
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return False
    target, value = statement.targets[0], statement.value
    if not (isinstance(target, ast.Name) and target.id == name):
        return False
    if isinstance(value, ast.BinOp):
        return sum(is_name(side, name) for side in (value.left, value.right)) == 1 and _count_name(value, name) == 1
    return (
        isinstance(value, ast.Call) and _count_name(value, name) == 1 and any(is_name(one, name) for one in value.args)
    )


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _count_name(node: ast.AST, name: str) -> int:
    return sum(is_name(one, name) for one in ast.walk(node))


def _uses_name(node: ast.AST, name: str) -> bool:
    return _count_name(node, name) > 0


def is_assigned_before(function: FunctionType, loop: ast.For, name: str) -> bool:
    """Return whether a variable is an argument of a function, or assigned in a line before a loop."""
    text = parse_function(function)
    return text is not None and _is_assigned_before(text, loop, name)


def _is_assigned_before(function: ast.FunctionDef, loop: ast.For, name: str) -> bool:
    """Return whether a variable is an argument of the function, or assigned in a line before the loop."""
    given = function.args
    if any(one.arg == name for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)):
        return True
    return any(use.stored and use.name == name and use.line < loop.lineno for use in find_variable_uses(function.body))


def _find_line_reading_after(function: ast.FunctionDef, loop: ast.For, name: str) -> int:
    """Return the line that reads a variable after a loop, before the variable is written again; 0 if no line does.
    Within an enclosing loop, lines before the loop run after it, too.
    """
    end = loop.end_lineno or loop.lineno
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While) and node.lineno < loop.lineno and (node.end_lineno or 0) >= end
    ]
    begin = min((node.lineno for node in around), default=end + 1)
    uses = sorted(find_variable_uses(function.body), key=lambda use: (use.line <= end, use.line, use.stored))
    for use in uses:
        if use.name != name or not (use.line > end or begin <= use.line < loop.lineno):
            continue
        return 0 if use.stored else use.line
    return 0


def find_line_reading_unwritten(body: Iterable[ast.stmt], name: str) -> int | None:
    """Return the line that reads a variable before an iteration has surely written it; None if there is none."""
    found, _ = _find_early_read(body, name, False)
    return found


def _find_early_read(body: Iterable[ast.stmt], name: str, is_written: bool) -> tuple[int | None, bool]:
    """Return (line, is_written). `line`: the first line that reads a variable before the statements have certainly
    written it, or None. `is_written`: whether the statements certainly write the variable, or had done so before them.
    """
    for statement in body:
        if is_written:
            return None, True
        found, is_written = _find_early_read_in_statement(statement, name)
        if found is not None:
            return found, is_written
    return None, is_written


def _find_early_read_in_statement(statement: ast.stmt, name: str) -> tuple[int | None, bool]:
    """Return (line, is_written) for one statement. `line`: the first line that reads a variable before the statement
    has certainly written it, or None. `is_written`: whether the statement certainly writes the variable.
    """
    own = [use for use in find_variable_uses([without_nested(statement)]) if use.name == name]
    reads = [use for use in own if not use.stored]
    if reads:
        return reads[0].line, False
    if isinstance(statement, ast.If):
        first, one = _find_early_read(statement.body, name, False)
        other, two = _find_early_read(statement.orelse, name, False)
        found = first if first is not None else other
        return found, one and two
    if isinstance(statement, ast.For | ast.While):
        stored = any(use.stored for use in own)
        found, _ = _find_early_read(statement.body, name, stored)
        rest, _ = _find_early_read(statement.orelse, name, False)
        return found if found is not None else rest, False
    if isinstance(statement, ast.With):
        return _find_early_read(statement.body, name, any(use.stored for use in own))
    inner = _nested_statements(statement)
    if inner:
        found, _ = _find_early_read(inner, name, False)
        return found, False
    return None, any(use.stored for use in own)


def without_nested(statement: ast.stmt) -> ast.stmt:
    """Return a copy of a compound statement without the statements in it."""
    if not _nested_statements(statement):
        return statement
    bare = type(statement)(
        **{
            key: []
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt | ast.ExceptHandler)
            else value
            for key, value in ast.iter_fields(statement)
        }
    )
    return ast.copy_location(bare, statement)


def find_comprehension_target(function: FunctionType, line: int) -> str:
    """Return the name of the variable that the comprehension at a line is assigned to; "" if there is none."""
    found = parse_function(function)
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp)
    for node in ast.walk(found) if found is not None else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, kinds):
            target = node.targets[0]
            if isinstance(target, ast.Name) and node.lineno <= line <= (node.end_lineno or line):
                return target.id
    return ""
