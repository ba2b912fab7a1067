"""Linear forms modulo 2^64 of what registers and stack slots hold at one place of a loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_WIDE: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Atom:
    """`one`, the `address` of a symbol, what a `register` or `slot` holds, or 32 bits of a form: `sx` or `zx`.

    `memory`: what a place at an address that never changes holds as long as the loop does not write it.
    """

    kind: str
    name: str = ""
    offset: int = 0
    size: int = 0
    form: tuple[tuple[Atom, int], ...] = ()


ONE: Final = Atom("one")
Form = Mapping[Atom, int]
"""Atoms with their factors."""


def slot_atom(offset: int, size: int) -> Atom:
    """Return the value of a stack slot as a term of linear forms: `size` bytes at an offset from the frame pointer."""
    return Atom("slot", offset=offset, size=size)


def memory_atom(address: Form, size: int) -> Atom:
    """Return the value of `size` bytes of memory as a term of linear forms. `address`: the linear form
    of the address.
    """
    return Atom("memory", size=size, form=freeze_form(address))


def freeze_form(form: Form) -> tuple[tuple[Atom, int], ...]:
    """Return a linear form as a sorted tuple without zero factors: equal forms give equal tuples."""
    return tuple(sorted(((a, c) for a, c in form.items() if c), key=repr))


def add_forms(first: Form | None, second: Form | None, factor: int = 1) -> Form | None:
    """Return `first + factor * second` of two linear forms modulo 2^64; None if either is unknown."""
    if first is None or second is None:
        return None
    made = dict(first)
    for atom, times in second.items():
        made[atom] = (made.get(atom, 0) + factor * times) & _WIDE
    return {atom: times for atom, times in made.items() if times}


def number_form(value: int) -> Form:
    return {ONE: value & _WIDE} if value & _WIDE else {}


def to_signed(value: int) -> int:
    """Return a number modulo 2^64 as one with a sign."""
    return (value ^ 1 << 63) - (1 << 63)


def simplify_for_low_half(form: Form | None) -> Form | None:
    """Return a simpler form with the same 32 low bits, without a sign or zero extension around the whole. Other forms
    are returned as they are.
    """
    if form is not None and len(form) == 1:
        ((atom, times),) = form.items()
        if times == 1 and atom and atom.kind in ("sx", "zx"):
            return dict(atom.form)
    return form


def extend_low_half(form: Form | None, kind: str) -> Form | None:
    """Return the linear form of another form's 32 low bits, extended to 64 bits with their sign (`sx`) or with zeros
    (`zx`). None if `form` is None: the value is unknown.
    """
    form = simplify_for_low_half(form)
    if form is None:
        return None
    if not set(form) - {ONE}:
        value = form.get(ONE, 0) & 0xFFFFFFFF
        return number_form(value - (1 << 32) if kind == "sx" and value >> 31 else value)
    return {Atom(kind, form=freeze_form(form)): 1}
