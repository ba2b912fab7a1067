"""Dataclasses that cost little to define: Weft has some hundred, and every `weft run` defines most of them.

The standard decorator compiles up to seven methods for a class, about a millisecond each class in a short command. Here
only `__init__` is compiled, when the first instance is made; comparison, hash and repr are the same few functions for
all. `frozen` is held by the type checker alone: an instance is as cheap to make as one that may be changed.
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
def dataclass(cls: object = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True) -> object:
    """As dataclasses.dataclass, whose other functions take these classes too."""

    def made(cls: Any) -> Any:
        own_init = "__init__" in vars(cls)
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # the standard decorator would write the signature here, at some cost
        finished = _finished(dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls), frozen, eq)
        if not own_init:
            _initialised_when_used(finished)
        return finished

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


def _initialised_when_used(cls: Any) -> None:
    """Give the class an `__init__` that compiles the right one when the first instance is made."""

    def __init__(self: Any, /, *args: object, **kwargs: object) -> None:
        if cls.__init__ is __init__:
            cls.__init__ = _initialiser(cls)
        cls.__init__(self, *args, **kwargs)

    cls.__init__ = __init__


def _initialiser(cls: Any) -> object:
    """The `__init__` that the standard decorator would have compiled; names of classes stay as they are written."""
    known: dict[str, Any] = {"default": object()}
    given: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"make_{name}"] = field.default_factory
            value = f"make_{name}() if {name} is default else {name}" if field.init else f"make_{name}()"
            parameter = f"{name}=default"
        elif field.default is not dataclasses.MISSING:
            known[f"default_{name}"] = field.default
            value = name if field.init else f"default_{name}"
            parameter = f"{name}=default_{name}"
        else:
            parameter = name
        if field.init:
            (named if field.kw_only else given).append(parameter)
        if field.init or value != name:
            body.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *given, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), known)
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]


def _getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """What reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)
