"""The context managers that a suspended coroutine is inside of."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import BuiltinMethodType, FunctionType, MethodDescriptorType, MethodType

_EXITS = (MethodType, FunctionType, MethodDescriptorType, BuiltinMethodType)
"""What `__exit__` is on a coroutine's stack; from 3.14 on not bound to its object, which lies above it."""


def entered(coroutine: object, deep: int = 4) -> Iterator[object]:
    """The context managers that a suspended coroutine is inside of: their exits lie on its stack."""
    stack = gc.get_referents(coroutine)
    for held, above in zip(stack, [*stack[1:], None], strict=True):
        if type(held) in _EXITS and held.__name__ in ("__aexit__", "__exit__"):
            bound = isinstance(held, MethodType | BuiltinMethodType)
            manager = held.__self__ if bound else above
            if not bound and not _is_of(held, manager):
                continue
            yield manager
            if isinstance(manager, contextlib._GeneratorContextManagerBase) and deep:
                yield from entered(manager.gen, deep - 1)


def _is_of(function: object, thing: object) -> bool:
    """Whether a function is one of a thing's class."""
    return any(function is one for kind in type(thing).__mro__ for one in list(vars(kind).values()))
