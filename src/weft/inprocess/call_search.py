"""Searches the source of the program's own modules for calls of a method, such as `ready.set()`."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from .births import is_library
from .source_lines import parse_file

MOST_FILES, MOST_CALLS = 200, 3
"""Modules that are searched, and calls that are returned, at most."""


RELEASES = {
    "Event.wait": ("set",), "Condition.wait": ("notify", "notify_all"), "Semaphore.acquire": ("release",),
    "Lock.acquire": ("release",), "Queue.get": ("put_nowait",), "Queue.put": ("get_nowait",),
    "Queue.join": ("task_done",), "Barrier.wait": ("abort",),
    "": ("set_result", "set_exception", "cancel"), "new": ("create_task", "ensure_future"), "callback": ("call_soon",),
}  # fmt: skip
"""By the function in which a task waits, the methods that end the wait: none of them wakes a loop in another thread."""
AWAITED_RELEASES = {"Queue.get": ("put",), "Queue.put": ("get",)}
"""The methods that end the wait and are coroutines."""


class FoundCall(NamedTuple):
    """A use of a method in the source: its line, its text, and the function that contains it."""

    file: str
    line: int
    text: str
    function: str
    is_in_coroutine: bool

    def row(self) -> list[Any]:
        """Return what is reported of it: [file, line, text]."""
        return [self.file, self.line, self.text]


def find_thread_calls(function: str, variable: str) -> list[list[Any]]:
    """Return [file, line, text] for each call by which another thread can have ended a wait. The wait is in asyncio's
    `function`, on the object in `variable`.

    Calls in coroutines are returned only if there are none in plain functions, which threads execute.
    """
    found = _find_calls(RELEASES.get(function, ()), variable)
    return [call.row() for call in [one for one in found if not one.is_in_coroutine] or found][:MOST_CALLS]


@lru_cache(maxsize=MOST_FILES)
def find_releasing_calls(function: str, variable: str) -> list[FoundCall] | None:
    """Return the program's calls that can end a wait in asyncio's `function` on the object in `variable`. None if the
    calls are not known, as the end of a `with` may end the wait, or a call on another name of the object.
    """
    if not function or not variable:
        return None  # under another name
    methods = RELEASES.get(function, ()) + AWAITED_RELEASES.get(function, ())
    found = _find_calls(methods, variable)
    if not found and (function in ("Semaphore.acquire", "Lock.acquire") or _find_calls(methods, "")):
        return None  # by the end of a `with`, or under another name
    return found


def _find_calls(methods: tuple[str, ...], variable: str) -> list[FoundCall]:
    """Return the program's calls of some methods on the object in a variable.

    `variable`: a name or `self.NAME`; only the last part has to match; empty: any object.
    """
    last = variable.rpartition(".")[2]
    return [
        call
        for file in _program_files()
        for method, receiver, call in find_method_uses(file)
        if method in methods and (not last or receiver.rpartition(".")[2] == last)
    ]


def _program_files() -> Iterator[str]:
    """Yield the source files of the imported modules that are the program's own."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = (file for file in files if isinstance(file, str) and file.endswith(".py") and not is_library(file))
    yield from sorted(own)[:MOST_FILES]
    if "<string>" in linecache.cache:
        yield "<string>"


@lru_cache(maxsize=MOST_FILES)
def find_method_uses(file: str) -> list[tuple[str, str, FoundCall]]:
    """Return (method, object, call) for each use of a method in a source file, as text. A method that is only passed on
    counts, too, as in `Thread(target=ready.set)`.
    """
    tree = parse_file(file)
    return list(_method_calls_below(tree, file, "", False)) if tree is not None else []


def _method_calls_below(
    node: ast.AST, file: str, function: str, is_coroutine: bool
) -> Iterator[tuple[str, str, FoundCall]]:
    """Yield (method, object, call) for each use of a method below a syntax node. `function`: the name of the function
    that contains the node; `is_coroutine`: whether that is an `async def`.
    """
    for child in ast.iter_child_nodes(node):
        name, inside = function, is_coroutine
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name, inside = child.name, isinstance(child, ast.AsyncFunctionDef)
        elif isinstance(child, ast.Lambda):
            inside = False
        if isinstance(child, ast.Attribute):
            call = FoundCall(file, child.lineno, ast.unparse(child), function, is_coroutine)
            yield child.attr, ast.unparse(child.value), call
        yield from _method_calls_below(child, file, name, inside)
