"""Provide enums that cost little to define: the words of the table are some hundred, and every command defines them.

The standard's Enum takes 20 to 40 microseconds a member. These have what the table needs: members are one object each,
with `name` and `value`; the class is iterable, and indexed by name. The type checker reads them as the standard's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Words(type):
    """The metaclass of cheap enums: texts and numbers in the class body become members."""

    _members: dict[str, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> Any:
        stated = {k: v for k, v in body.items() if k[0] != "_" and isinstance(v, (str, int))}
        made: Any = super().__new__(cls, name, bases, {k: v for k, v in body.items() if k not in stated})
        made._members, made._known = {}, {}
        for key, value in stated.items():
            member = made._member(value)
            member.name, member.value = key, value
            made._members[key] = made._known[value] = member
            setattr(made, key, member)
        return made

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls._members.values())

    def __len__(cls) -> int:
        return len(cls._members)

    def __getitem__(cls, name: str) -> Any:
        return cls._members[name]


def _shown(word: Any) -> str:
    return f"{type(word).__name__}.{word.name}"


class Enum(metaclass=Words):
    """A word with a text."""

    name: str
    value: Any

    @classmethod
    def _member(cls, value: str) -> object:
        return object.__new__(cls)

    __repr__ = _shown


class IntEnum(int, metaclass=Words):
    """A word that is a number."""

    name: str
    value: int

    @classmethod
    def _member(cls, value: int) -> object:
        return int.__new__(cls, value)

    __repr__ = _shown


class Flag(int, metaclass=Words):
    """Words of which several hold at a time; each combination is one object, too."""

    name: str
    value: int

    @classmethod
    def _member(cls, value: int) -> Any:
        """Return the object for a combination of words. There is one for each, made when first asked for."""
        known: dict[int, object] = cls.__dict__["_known"]
        if value not in known:
            known[value] = int.__new__(cls, value)
        return known[value]

    def __or__(self, other: int) -> Any:
        return self._member(int(self) | int(other))

    def __and__(self, other: int) -> Any:
        return self._member(int(self) & int(other))

    def __contains__(self, other: int) -> bool:
        return int.__and__(self, other) == other

    def __repr__(self) -> str:
        held = [name for name, member in type(self)._members.items() if member and member in self]
        return f"{type(self).__name__}.{'|'.join(held) or 'NONE'}"
