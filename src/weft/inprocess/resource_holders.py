"""Finds who holds what a library's pool of connections has no more of, and which thread completes a future.

Libraries do not say whom they have lent a connection to. It is found by what the variables of other tasks lead to: no
code of the program is executed, only references are followed.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any

from .births import is_library

MOST_OBJECTS = 5000
"""Objects that the variables of a task may lead to."""
MOST_FOLLOWED = 20000
"""Objects that are followed from the variables of all others."""
MOST_INSIDE = 500
"""Objects of a pool that are looked at."""
_CLOSED = (
    ModuleType, type, FunctionType, BuiltinFunctionType, CodeType, str, bytes, int, float,
    FrameType, CoroutineType, GeneratorType, AsyncGeneratorType,
)  # fmt: skip
"""What leads to nothing, to everything (modules), or to what others hold (coroutines)."""
_CLOSED_MODULES = ("asyncio.", "_asyncio", "uvloop", "selectors", "_contextvars", "logging", "threading", "_thread")


def find_pool_holders(
    frames: list[FrameType], frames_by_task: dict[int, list[FrameType]]
) -> tuple[object, dict[int, tuple[FrameType, str, object]]] | None:
    """Return (the library's object, such as a pool of connections, for which a task waits; the other tasks that hold a
    part of it, such as a connection). None if no task holds a part.

    The second part: task number -> (frame, name of the variable, the part). `frames`: of the waiting task, outermost
    first; `frames_by_task`: the frames of the other tasks, by number.
    """
    inner = frames[_own_depth(frames) + 1 :]
    owners = [thing for frame in reversed(inner) if (thing := _library_object(frame)) is not None]
    values = [value for frame in frames for value in frame.f_locals.values()]
    for owner in owners:
        shared = {id(one) for one in _walk_references(values, {id(owner)}, MOST_OBJECTS)} | {id(owner)}
        parts = {id(part): part for part in _parts_of_library_object(owner) if id(part) not in shared}
        if not parts:
            continue
        seen = set(shared)
        found = {
            number: holder
            for number, line in frames_by_task.items()
            if not any(_library_object(frame) is owner and _is_waiting_alike(frame, frames) for frame in line)
            and (holder := _find_variable_leading_to_part(line, parts, seen)) is not None
        }
        if found:
            return owner, found
    return None


def _own_depth(frames: list[FrameType]) -> int:
    """Return the depth of the program's innermost frame; -1 if it has none. `frames`: from the outermost in."""
    return max((i for i, frame in enumerate(frames) if not is_library(frame.f_code.co_filename)), default=-1)


def _library_object(frame: FrameType) -> object | None:
    """Return the `self` of a frame of an installed package; None for other frames."""
    return frame.f_locals.get("self") if "site-packages" in frame.f_code.co_filename else None


def _is_waiting_alike(frame: FrameType, frames: list[FrameType]) -> bool:
    """Return whether a frame is at the same instruction as one of the frames of a task that waits."""
    return any(frame.f_code is one.f_code and frame.f_lasti == one.f_lasti for one in frames)


def _parts_of_library_object(owner: object) -> Iterator[object]:
    """Yield the objects to which a library's object leads, if their types are of the same package."""
    package = type(owner).__module__.partition(".")[0]
    for one in _walk_references([owner], set(), MOST_INSIDE):
        if one is not owner and type(one).__module__.partition(".")[0] == package:
            yield one


def _find_variable_leading_to_part(
    frames: list[FrameType], parts: dict[int, object], seen: set[int]
) -> tuple[FrameType, str, object] | None:
    """Return (frame, variable, part) for the first variable of some frames through which one of the parts can be
    reached. None if there is none. `parts`: by id().

    `seen`: the id() of objects that are not followed again; the objects that are followed here are added.
    """
    inner = frames[max(_own_depth(frames), 0) :]
    for frame in inner:
        for name, value in list(frame.f_locals.items()):
            for one in _walk_references([value], seen, MOST_FOLLOWED - len(seen)):
                seen.add(id(one))
                if id(one) in parts:
                    return frame, str(name), one
    return None


def find_completing_threads(futures: Iterable[Any], stacks: dict[int, list[FrameType]]) -> dict[int, tuple[int, bool]]:
    """Return which thread will complete each future: id() of the future -> (identity of the thread, whether it works on
    it now). A thread works on a future that one of its variables has; a future in a queue of the thread comes later.
    Other futures are left out.
    """
    wanted = {id(future) for future in futures}
    found: dict[int, tuple[int, bool]] = {}
    for ident, stack in stacks.items():
        for value in [value for frame in stack for value in frame.f_locals.values()]:
            if id(value) in wanted:
                found[id(value)] = ident, True
            elif type(value).__name__ in ("SimpleQueue", "Queue", "deque", "list"):
                for one in _walk_references([value], set(), MOST_INSIDE):
                    left = wanted - found.keys()
                    found |= {id(part): (ident, False) for part in gc.get_referents(one) if id(part) in left}
    return found


def _walk_references(roots: list[object], closed: set[int], limit: int) -> Iterator[object]:
    """Yield the objects that can be reached from `roots`, nearest first, at most `limit`. Objects whose id() is in
    `closed` are neither yielded nor followed.
    """
    todo, seen = deque(roots), set[int]()
    while todo and len(seen) < limit:
        one = todo.popleft()
        if id(one) in seen or id(one) in closed or isinstance(one, _CLOSED):
            continue
        module = type(one).__module__
        if module.startswith(_CLOSED_MODULES) and module != "asyncio.queues":
            continue
        seen.add(id(one))
        yield one
        todo.extend(gc.get_referents(one))
