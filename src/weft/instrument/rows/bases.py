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
    paths: StraightCode, proven_comparisons: Mapping[int, object], addresses: Mapping[int, tuple[str, Form]]
) -> ShortenedCode:
    """Return straight code in a shorter form. Free registers hold what many of its addresses have in common, and the
    instructions that then compute nothing needed are named as unneeded.

    `addresses`: node (index of an instruction) -> its operand in memory and the linear form of that operand's address.
    """
    codes = {n: paths.codes[n] for n in paths.order}
    made = ShortenedCode(codes, find_unneeded(paths, proven_comparisons, codes), {})
    # Where it is left in the middle, somebody may need the registers that are free in it.
    if any(BRANCH.match(paths.codes[n].word) and n - 1 not in proven_comparisons for n in paths.order[:-1]):
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
        codes = _address_through_bases(paths, addresses, names)
        dead = find_unneeded(paths, proven_comparisons, codes)
        free = _find_free_registers(paths, proven_comparisons, codes, dead)
        if len(free) >= len(wanted):
            names = dict(zip(wanted, free, strict=False))
            return ShortenedCode(
                _address_through_bases(paths, addresses, names), dead, {name: base for base, name in names.items()}
            )
        wanted.pop()
    return made


def is_usable_base(form: Form) -> bool:
    """Return whether a free register can hold what is left of an address without its constant. `form`: the address as a
    sum of registers, stack slots, symbols and a constant.
    """
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


def render_base_setup(bases_by_register: Mapping[str, Base], label_prefix: str) -> tuple[str, str]:
    """Return two texts: the assembly that loads base registers with what many addresses have in common, and the data
    that this assembly reads. The first is "" if there are no base registers.
    """
    code: list[str] = [f"\tpushq\t%{_SPARE}\n"]
    data: list[str] = []
    for register, base in bases_by_register.items():
        begun = False
        for atom, times in base:
            if atom.kind == "address":
                data.append(f"{label_prefix}{len(data)}:\n\t.quad\t{atom.name}\n")
                code.append(f"\tmovq\t{label_prefix}{len(data) - 1}(%rip), %{_SPARE}\n")
            else:
                code += _load_atom(atom)
            if times != 1:
                code.append(f"\timulq\t${to_signed(times)}, %{_SPARE}, %{_SPARE}\n")
            code.append(f"\t{'addq' if begun else 'movq'}\t%{_SPARE}, %{register}\n")
            begun = True
    return "".join([*code, f"\tpopq\t%{_SPARE}\n"]) if bases_by_register else "", "".join(data)


def _load_atom(atom: Atom) -> Iterator[str]:
    """Yield instructions that load a value into the spare register. `atom`: a register, a stack slot, or the low half
    of a sum of these, extended to 64 bits.
    """
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


def _find_free_registers(
    paths: StraightCode, proven_comparisons: Mapping[int, object], codes: Mapping[int, Instruction], unneeded: set[int]
) -> list[str]:
    """Return the caller-saved registers that a copy of straight code does not use. Instructions that the copy leaves
    out do not count: `unneeded` ones, hooks, and the `proven_comparisons` with their jumps.
    """
    used = {_SPARE}
    for n in paths.order[:-1]:
        if (
            n not in unneeded
            and not paths.graph.is_hook(n)
            and n not in proven_comparisons
            and n - 1 not in proven_comparisons
        ):
            used |= registers_used(codes[n])
    return [name for name in reversed(LOST) if name not in used]


def _address_through_bases(
    paths: StraightCode, addresses: Mapping[int, tuple[str, Form]], register_names: Mapping[Base, str]
) -> dict[int, Instruction]:
    """Return the instructions of straight code by node (index of an instruction). Where a base register fits an
    address, the address is written relative to that register.
    """
    codes = {n: paths.codes[n] for n in paths.order}
    for n, (operand, form) in addresses.items():
        if name := register_names.get(freeze_form(_without_number(form))):
            other = f"{to_signed(form.get(ONE, 0))}(%{name})"
            operands = tuple(other if one == operand else one for one in codes[n].operands)
            codes[n] = replace(codes[n], text=f"{codes[n].word}\t{', '.join(operands)}", operands=operands)
    return codes
