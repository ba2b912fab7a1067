"""Registers that hold where arrays lie, for a copy of code without a loop.

The compiler works out the address of each element anew, for a hook may change most registers. In the copy elements
whose addresses differ by a number are taken from one register, and what was only there for their addresses goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from weft.instrument.rows.code import BRANCH, Instruction
from weft.instrument.rows.forms import ONE, Atom, Form, freeze_form, to_signed
from weft.instrument.rows.straight import StraightCode
from weft.instrument.rows.unneeded import find_unneeded, registers_used
from weft.instrument.rows.values import LOST

FEWEST_USES: Final = 4
"""With fewer it does not pay."""

_SPARE: Final = "rax"
"""Works out what the others hold."""

Base = tuple[tuple[Atom, int], ...]
"""A form without its number."""


@dataclass(slots=True)
class ShortenedCode:
    """Code without what it does not need."""

    codes: Mapping[int, Instruction]
    unneeded: set[int]
    bases: Mapping[str, Base]
    """What registers hold from its begin on."""


def shorten_code(
    ways: StraightCode, proven: Mapping[int, object], addresses: Mapping[int, tuple[str, Form]]
) -> ShortenedCode:
    """Return the code with the bases of addresses in free registers, and what is then unneeded.

    `addresses`: for each node its operand in memory and the form of that address.
    """
    codes = {n: ways.codes[n] for n in ways.order}
    made = ShortenedCode(codes, find_unneeded(ways, proven, codes), {})
    # Where it is left in the middle, somebody may need the registers that are free in it.
    if any(BRANCH.match(ways.codes[n].word) and n - 1 not in proven for n in ways.order[:-1]):
        return made
    uses = Counter(
        (not codes[n].word.startswith("lea"), freeze_form(_without_number(form)))
        for n, (_, form) in addresses.items()
        if n not in made.unneeded
    )
    often = sorted((key for key, count in uses.items() if count >= FEWEST_USES), key=lambda key: (key[0], uses[key]))
    wanted = list(dict.fromkeys(base for _, base in reversed(often)))[: len(LOST)]
    while wanted:
        names = {base: f"base{k}" for k, base in enumerate(wanted)}
        codes = _address_through_bases(ways, addresses, names)
        dead = find_unneeded(ways, proven, codes)
        free = _free_registers(ways, proven, codes, dead)
        if len(free) >= len(wanted):
            names = dict(zip(wanted, free, strict=False))
            return ShortenedCode(
                _address_through_bases(ways, addresses, names), dead, {name: base for base, name in names.items()}
            )
        wanted.pop()
    return made


def is_usable_base(form: Form) -> bool:
    """Return whether a register may hold a form without its constant."""
    base = _without_number(form)
    if not base or not -(1 << 31) <= to_signed(form.get(ONE, 0)) < 1 << 31:
        return False
    for atom, times in base.items():
        if atom.kind in ("sx", "zx"):
            inner = _without_number(dict(atom.form))
            if len(inner) != 1 or any(one.kind not in ("register", "slot") for one in inner) or 1 not in inner.values():
                return False
        elif atom.kind not in ("address", "register", "slot") or (atom.kind == "slot" and atom.size != 8):
            return False
        if atom.kind == "address" and times != 1:
            return False
        if not -(1 << 31) <= to_signed(times) < 1 << 31:
            return False
    return True


def render_base_setup(bases: Mapping[str, Base], label: str) -> tuple[str, str]:
    """Return the code that loads the base registers, and its data."""
    code: list[str] = [f"\tpushq\t%{_SPARE}\n"]
    data: list[str] = []
    for register, base in bases.items():
        begun = False
        for atom, times in base:
            if atom.kind == "address":
                data.append(f"{label}{len(data)}:\n\t.quad\t{atom.name}\n")
                code.append(f"\tmovq\t{label}{len(data) - 1}(%rip), %{_SPARE}\n")
            else:
                code += _load_atom(atom)
            if times != 1:
                code.append(f"\timulq\t${to_signed(times)}, %{_SPARE}, %{_SPARE}\n")
            code.append(f"\t{'addq' if begun else 'movq'}\t%{_SPARE}, %{register}\n")
            begun = True
    return "".join([*code, f"\tpopq\t%{_SPARE}\n"]) if bases else "", "".join(data)


def _load_atom(atom: Atom) -> Iterator[str]:
    """Yield what gives the spare register an atom's value."""
    if atom.kind == "register":
        yield f"\tmovq\t%{atom.name}, %{_SPARE}\n"
    elif atom.kind == "slot":
        yield f"\tmov{'q' if atom.size == 8 else 'l'}\t{atom.offset}(%rbp), {'%rax' if atom.size == 8 else '%eax'}\n"
    else:
        inner = dict(atom.form)
        yield from _load_atom(next(one for one in inner if one is not ONE))
        if ONE in inner:
            number = inner[ONE] & 0xFFFFFFFF
            yield f"\taddl\t${number - (1 << 32) if number >> 31 else number}, %eax\n"
        yield "\tmovslq\t%eax, %rax\n" if atom.kind == "sx" else "\tmovl\t%eax, %eax\n"


def _without_number(form: Form) -> Form:
    return {atom: times for atom, times in form.items() if atom is not ONE}


def _free_registers(
    ways: StraightCode, proven: Mapping[int, object], codes: Mapping[int, Instruction], dead: set[int]
) -> list[str]:
    """Return the registers that the code does not use."""
    used = {_SPARE}
    for n in ways.order[:-1]:
        if n not in dead and not ways.graph.is_hook(n) and n not in proven and n - 1 not in proven:
            used |= registers_used(codes[n])
    return [name for name in reversed(LOST) if name not in used]


def _address_through_bases(
    ways: StraightCode, addresses: Mapping[int, tuple[str, Form]], names: Mapping[Base, str]
) -> dict[int, Instruction]:
    """Return the code with some addresses computed from base registers."""
    codes = {n: ways.codes[n] for n in ways.order}
    for n, (operand, form) in addresses.items():
        if name := names.get(freeze_form(_without_number(form))):
            other = f"{to_signed(form.get(ONE, 0))}(%{name})"
            operands = tuple(other if one == operand else one for one in codes[n].operands)
            codes[n] = replace(codes[n], text=f"{codes[n].word}\t{', '.join(operands)}", operands=operands)
    return codes
