"""Finds the context managers that a suspended coroutine has entered."""

from __future__ import annotations

import contextlib
import dis
import gc
from collections.abc import Iterator
from types import BuiltinMethodType, FrameType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

_EXITS = (MethodType, FunctionType, MethodDescriptorType, BuiltinMethodType)
"""What `__exit__` is on a coroutine's stack; from 3.14 on not bound to its object, which lies above it."""

_AENTER, _AWAIT = 1, 6
"""What GET_AWAITABLE says of an `__aenter__`, and among how many instructions up to a suspension it stands."""


def find_entered_managers(coroutine: object, depth: int = 4) -> Iterator[object]:
    """Yield the context managers that a suspended coroutine has entered. They are found by their exit methods, which
    Python keeps on the coroutine's stack.

    `depth`: a manager made by `contextlib.contextmanager` is a generator, which may have entered managers itself; so
    many of these generators are searched, one inside the other.
    """
    found = list(_managers_on_stack(coroutine, depth))
    yield from found[:-1] if found and _is_waiting_for_aenter(coroutine) else found


def _is_waiting_for_aenter(coroutine: Any) -> bool:
    """Return whether a coroutine waits for an `__aenter__`, so that the last manager on its stack is not
    entered yet.
    """
    frame: FrameType | None = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
    if frame is None:
        return False
    before = [op for op in dis.get_instructions(frame.f_code) if op.offset <= frame.f_lasti][-_AWAIT:]
    awaits = [op.arg for op in before if op.opname == "GET_AWAITABLE"]
    return awaits[-1:] == [_AENTER]


def _managers_on_stack(coroutine: object, depth: int) -> Iterator[object]:
    """Yield the objects whose `__exit__` or `__aexit__` is on a coroutine's stack. `depth`: how many generators behind
    `contextlib.contextmanager` are searched too, one inside the other.
    """
    stack = gc.get_referents(coroutine)
    for held, above in zip(stack, [*stack[1:], None], strict=True):
        if type(held) in _EXITS and held.__name__ in ("__aexit__", "__exit__"):
            bound = isinstance(held, MethodType | BuiltinMethodType)
            manager = held.__self__ if bound else above
            if not bound and not _is_method_of(held, manager):
                continue
            yield manager
            if isinstance(manager, contextlib._GeneratorContextManagerBase) and depth:
                yield from find_entered_managers(manager.gen, depth - 1)


def _is_method_of(function: object, thing: object) -> bool:
    """Return whether a function is a method of an object's class or its bases."""
    return any(function is one for kind in type(thing).__mro__ for one in list(vars(kind).values()))
