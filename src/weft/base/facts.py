"""Facts with types that become JSON: a class states them once, for writers, readers and users.

A dataclass would take a tenth of a millisecond to define, and every `weft run` imports some dozen of these.
"""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

from weft.base.event_id import Forced

_Facts = TypeVar("_Facts", bound="Facts")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Facts:
    """A JSON object with a key for each annotated name, those of a base class first.

    What has its default is left out. `_` after a name keeps it apart from a word of Python and is not in the key. That
    nothing is forgotten and nothing changed is held by the type checker.
    """

    def __init__(self, **facts: object) -> None:
        vars(self).update(facts)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self))))  # lists are among the facts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def to_json(self) -> dict[str, Any]:
        """Return the facts as a JSON object."""
        kind, own = type(self), vars(self)
        return {
            key: _to_json_value(own[name])
            for name, key in json_keys(kind).items()
            if name in own and not (hasattr(kind, name) and own[name] == getattr(kind, name))
        }


def json_keys(kind: type[Facts]) -> dict[str, str]:
    """Return {name: key in JSON} for the annotated names of a class of facts. The key lacks the `_` that a name may
    end with."""
    if kind not in _known:
        mine = [one for one in reversed(kind.__mro__) if issubclass(one, Facts)]
        _known[kind] = {name: name.removesuffix("_") for one in mine for name in one.__annotations__}
    return _known[kind]


_known: dict[type[Facts], dict[str, str]] = {}


def changed(facts: _Facts, **to: object) -> _Facts:
    """The facts, some of them others."""
    assert to.keys() <= json_keys(type(facts)).keys()
    return type(facts)(**vars(facts) | to)


def _to_json_value(value: object) -> object:
    """Return a value as JSON: facts as objects, sequences as lists."""
    if isinstance(value, Facts):
        return value.to_json()
    if isinstance(value, Forced):
        return str(value)
    if isinstance(value, list | tuple):
        return [_to_json_value(one) for one in value]
    return value
