"""Weft's cheap dataclasses do what the standard ones do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from weft.base import lazy

DECORATORS = [dataclasses.dataclass, lazy.dataclass]


def made(decorator: Callable[..., Any], **options: bool) -> Any:
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list, compare=False)
        z: str = dataclasses.field(default="a", repr=False)

    return decorator(**options)(Point)


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}], ids=str)
def test_they_compare_hash_print_and_are_replaced_alike(options: dict[str, bool]) -> None:
    standard, ours = (made(decorator, **options) for decorator in DECORATORS)
    for a, b in ((standard, standard), (ours, ours)):
        assert a(1, [2]) == b(1, [3])
        assert a(1) != b(2)
        assert dataclasses.replace(a(1), x=5) == b(5)
        assert dataclasses.asdict(a(1, [2])) == {"x": 1, "y": [2], "z": "a"}
    assert standard(1) != ours(1)
    assert repr(standard(1, [2])) == repr(ours(1, [2]))
    if options.get("frozen"):
        assert hash(standard(1, [2])) == hash(ours(1, [3]))
        assert len({ours(1), ours(1), ours(2)}) == 2
    else:
        with pytest.raises(TypeError):
            hash(ours(1))


@pytest.mark.parametrize("slots", [False, True])
def test_they_are_initialised_alike(slots: bool) -> None:
    def prepared(decorator: Callable[..., Any]) -> Any:
        class Base:
            a: int
            made: list[int] = dataclasses.field(default_factory=list, init=False)

            def __post_init__(self) -> None:
                self.made.append(self.a)

        base = decorator(slots=slots)(Base)

        class Derived(base):  # type: ignore[misc]
            b: str = "b"
            c: int = dataclasses.field(default=3, kw_only=True)

        return decorator(slots=slots)(Derived)

    standard, ours = (prepared(decorator) for decorator in DECORATORS)
    for arguments, named in (((1,), {}), ((1, "x"), {}), ((), {"a": 1, "b": "y", "c": 4}), ((2,), {"c": 5})):
        for _ in range(2):
            assert vars_of(ours(*arguments, **named)) == vars_of(standard(*arguments, **named))
    for wrong in ((), (1, "x", 3)):
        messages = []
        for cls in (standard, ours):
            with pytest.raises(TypeError) as told:
                cls(*wrong)
            messages.append(str(told.value))
        assert messages[0] == messages[1]


def vars_of(instance: Any) -> dict[str, Any]:
    return {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}


def test_what_a_class_says_itself_stays() -> None:
    @lazy.dataclass(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2) and hash(Own(1)) == 7 and repr(Own(1)) == "own"
