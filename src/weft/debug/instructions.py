"""Instructions of a native rank, named by module and offset, so that the names are the same in every replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weft.debug.gdb import NativeHand
from weft.errors import DebuggerError

LONGEST: Final = 15
"""Bytes of the longest instruction that a processor has (x86)."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with its function and its source line, as far as they are known."""

    address: int
    text: str
    code: str
    symbol: str
    file: str = ""
    line: int = 0


def disassemble_around(hand: NativeHand, address: int, first: int, count: int) -> list[Instruction | None]:
    """Return `count` instructions around an address; None for each that is unknown. The first is the one that is
    `first` instructions after the one at the address, or before it if negative.

    Before the address only instructions of the same function are known, as elsewhere it is unknown where one begins.
    """
    with hand.halted():
        whole = _disassemble(hand, f"-a {address:#x}") if first < 0 else []
        before = [one for one in whole if one.address < address]
        wanted = max(first + count, 0)
        last = min(address + wanted * LONGEST, hand.maps.end(address))
        behind = _disassemble(hand, f"-s {address:#x} -e {last:#x}") if wanted else []
    rows: list[Instruction | None] = [*before, *behind]
    at = len(before) + first
    padded = [None] * max(-at, 0) + rows[max(at, 0) :]
    return (padded + [None] * count)[:count]


def _disassemble(hand: NativeHand, options: str) -> list[Instruction]:
    """Return the instructions that gdb disassembles with `options`, with their source lines if these are known; empty
    if gdb cannot read the memory.
    """
    for mode in (5, 2):
        try:
            groups = hand.gdb.ask(f"-data-disassemble {options} -- {mode}").get("asm_insns", [])
        except DebuggerError:
            continue
        found: dict[int, Instruction] = {}
        for group in groups:
            rows = group.get("line_asm_insn", []) if "line_asm_insn" in group or "line" in group else [group]
            file, line = str(group.get("fullname") or ""), int(group.get("line") or 0)
            found |= {one.address: one for one in (_instruction(row, file, line) for row in rows)}
        if found:
            return [found[address] for address in sorted(found)]
    return []


def _instruction(row: dict[str, Any], file: str, line: int) -> Instruction:
    symbol = f"{row['func-name']}+{row.get('offset', 0)}" if "func-name" in row else ""
    return Instruction(int(row["address"], 16), str(row["inst"]), str(row.get("opcodes", "")), symbol, file, line)
