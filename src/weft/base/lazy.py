"""Provide dataclasses that cost little to define: Weft has some hundred, and every `weft run` defines most of them.

The standard decorator compiles up to seven methods for a class, about a millisecond each class in a short command. Here
only `__init__` is compiled, when the first instance is made; comparison, hash and repr are the same few functions for
all. `frozen` is checked by the type checker only: an instance is as cheap to make as a mutable one.
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
    """Make a class a dataclass as dataclasses.dataclass does, but compile its methods at their first use only. The
    functions of dataclasses take it, too."""

    def made(cls: Any) -> Any:
        """Return the class with the methods of a dataclass, which are compiled when they are first used."""
        own_init = "__init__" in vars(cls)
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # the standard decorator would write the signature here, at some cost
        finished = _add_methods(dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls), frozen, eq)
        if not own_init:
            _add_lazy_init(finished)
        return finished

    return made if cls is None else made(cls)


def _add_methods(cls: Any, frozen: bool, eq: bool) -> Any:
    """Add the methods to a class that the standard decorator left out, and return the class."""
    own = vars(cls)
    shown = [field.name for field in dataclasses.fields(cls) if field.repr]
    values = _make_tuple_getter([field.name for field in dataclasses.fields(cls) if field.compare])

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


def _add_lazy_init(cls: Any) -> None:
    """Give the class an `__init__` that replaces itself by the compiled one when the first instance is made."""

    def __init__(self: Any, /, *args: object, **kwargs: object) -> None:
        if cls.__init__ is __init__:
            cls.__init__ = _compile_init(cls)
        cls.__init__(self, *args, **kwargs)

    cls.__init__ = __init__


def _compile_init(cls: Any) -> object:
    """Compile the `__init__` that the standard decorator would have made, and return it. Annotations are not
    evaluated."""
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


def _make_tuple_getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads these attributes of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda of: tuple(getattr(of, name) for name in names)
