"""Dataclasses that cost little to define: Weft has some hundred, and every `weft run` defines most of them.

The standard decorator compiles up to seven methods for a class, about a millisecond each class in a short command. Here
only `__init__` is compiled; comparison, hash and repr are the same few functions for all. `frozen` is held by the type
checker alone, which also makes an instance as cheap to make as one that may be changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)


@overload
def dataclass(cls: _Class, /) -> _Class: ...
@overload
def dataclass(*, frozen: bool = ..., slots: bool = ..., eq: bool = ...) -> Callable[[_Class], _Class]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> Any:
    """As dataclasses.dataclass, whose other functions take these classes too."""

    def made(cls: Any) -> Any:
        return _finished(dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls), frozen, eq)

    return made if cls is None else made(cls)


def _finished(cls: Any, frozen: bool, eq: bool) -> Any:
    """The class with the methods that the standard decorator was told to leave out."""
    own = vars(cls)
    shown = [field.name for field in dataclasses.fields(cls) if field.repr]
    values = _getter([field.name for field in dataclasses.fields(cls) if field.compare])

    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    if "__repr__" not in own:
        cls.__repr__ = __repr__
    if eq and "__eq__" not in own:
        cls.__eq__ = __eq__
    if eq and own.get("__hash__") is None:
        cls.__hash__ = __hash__ if frozen else None
    return cls


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)
