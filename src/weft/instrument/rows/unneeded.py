"""Instructions of a copy that nothing needs any more when hooks and proven comparisons are gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.instrument.rows.code import FLAGS_READ, FLAGS_SET, MEMORY, NUMBER, PARTS, Instruction, find_reachable_nodes
from weft.instrument.rows.straight import StraightCode
from weft.instrument.rows.values import ARGUMENTS, KEPT, LOST
from weft.instrument.rows.ways import LoopPaths

FLAGS: Final = "flags"
"""Beside the names of registers."""

_MOVES: Final = re.compile(r"^(mov([lq]|slq|absq|z[bw][lq]|s[bw][lq])|lea[lq]|cltq)$")
_COUNTS: Final = re.compile(r"^((add|sub|and|or|xor|sal|shl|shr|sar|neg)[lq]|imul[lq])$")
_PAIRED: Final = re.compile(r"^(cqto|cltd|cltq|i?(div|mul)[bwlq])$")
_STORED: Final = {"movq": 8, "movl": 4, "movsd": 8, "movss": 4}
_WIDEST: Final = 16


@dataclass(slots=True)
class _Needed:
    """What is read before it is written: registers, and of the compiler's slots all bytes but some."""

    registers: set[str] = field(default_factory=set)
    overwritten: set[int] = field(default_factory=set)


def find_unneeded(
    paths: LoopPaths | StraightCode, proven_comparisons: Mapping[int, object], instructions: Mapping[int, Instruction]
) -> set[int]:
    """Return the nodes (instruction indices) that a copy of code can leave out. Nothing uses their results when hooks
    and proven comparisons are gone.
    """
    everything = _Needed({*KEPT, *LOST, FLAGS})
    needed: dict[int, _Needed] = {
        paths.last: _Needed({*KEPT, *_needed_registers(paths.rank)}, _find_unread_slot_bytes(paths))
    }
    found: set[int] = set()
    for n in reversed(paths.order[:-1]):
        behind = [needed[there] if there in paths.nodes else everything for there in paths.find_next(n)]
        after = _Needed(
            set().union(*(one.registers for one in behind)), set.intersection(*(one.overwritten for one in behind))
        )
        if paths.graph.is_hook(n):
            after.registers -= {*LOST, FLAGS}
        elif n in proven_comparisons or n - 1 in proven_comparisons:
            after = needed[n + 1]
        elif not _update_needed(instructions[n], after, paths.graph.taken):
            found.add(n)
        needed[n] = after
    return found


def _find_unread_slot_bytes(paths: LoopPaths | StraightCode) -> set[int]:
    """Return the frame offsets of the bytes that the copy writes to the compiler's slots and that no code after it
    reads. Empty if control comes around to the copy again in an unknown way.
    """
    graph = paths.graph
    if paths.last == graph.end or graph.elsewhere:  # a loop comes around
        return set()
    found = set().union(*(_slot_bytes_written(graph.codes[n], graph.taken) for n in paths.order[:-1]))
    for n in find_reachable_nodes([paths.last], lambda n: graph.codes[n].next, set()):
        one = graph.codes[n]
        for operand in one.operands[:-1] if _slot_bytes_written(one, graph.taken) else one.operands:
            found -= _slot_bytes_named(operand, found)
    return found


def _needed_registers(rank: int) -> tuple[str, ...]:
    """Return the caller-saved registers whose values are needed where a loop's copy ends. For a parallel loop, they are
    the arguments of the call that begins the next iteration.
    """
    if rank == 0:
        return LOST
    return ARGUMENTS[:rank] if rank > 0 else ()


def registers_used(one: Instruction) -> set[str]:
    """Return the general registers that an instruction reads or writes."""
    return one.registers() | _implicit_registers(one)


def _implicit_registers(one: Instruction) -> set[str]:
    """Registers that an instruction reads without naming them."""
    return {"rax", "rdx"} if _PAIRED.match(one.word) else set()


def _update_needed(instruction: Instruction, needed: _Needed, lowest_taken_offset: int) -> bool:
    """Change `needed`, what later instructions read, from the state after an instruction to the state before it, and
    return True. Return False, without a change, if nothing needs the instruction's result.
    """
    stored = _slot_bytes_written(instruction, lowest_taken_offset)
    if stored and stored <= needed.overwritten:
        return False
    target = _target_register(instruction)
    if target and target not in needed.registers and (_MOVES.match(instruction.word) or FLAGS not in needed.registers):
        return False
    if FLAGS_SET.match(instruction.word):
        needed.registers.discard(FLAGS)
    if FLAGS_READ.match(instruction.word):
        needed.registers.add(FLAGS)
    if target:
        needed.registers.discard(target)
    needed.registers |= _registers_read(instruction) if target else registers_used(instruction)
    needed.overwritten |= stored
    for operand in instruction.operands[:-1] if stored else instruction.operands:
        needed.overwritten -= _slot_bytes_named(operand, needed.overwritten)
    return True


def _target_register(instruction: Instruction) -> str:
    """Return the only register that an instruction changes, flags not counted; "" if it changes none, several or
    unknown ones.
    """
    if instruction.word == "cltq" and not instruction.operands:
        return "rax"
    known = _MOVES.match(instruction.word) or (
        _COUNTS.match(instruction.word) and (len(instruction.operands) > 1 or instruction.word[0] != "i")
    )
    last = instruction.operands[-1] if instruction.operands else ""
    return PARTS.get(last[1:], "") if known and last.startswith("%") else ""


def _registers_read(instruction: Instruction) -> set[str]:
    """Return the registers that an instruction reads; the instruction must be of a kind that changes one register."""
    if instruction.word == "cltq":
        return {"rax"}
    if instruction.word.startswith("xor") and instruction.operands[0] == instruction.operands[1]:
        return set()
    written = (
        len(instruction.operands) - 1
        if _MOVES.match(instruction.word) or len(instruction.operands) == 3
        else len(instruction.operands)
    )
    text = " ".join(instruction.operands[:written])
    return {PARTS[k] for k in re.findall(r"%(\w+)", text) if k in PARTS}


def _slot_bytes_written(instruction: Instruction, lowest_taken_offset: int) -> set[int]:
    """Return the frame offsets of the bytes that an instruction writes to one of the compiler's stack slots. Empty if
    it writes anything else, or nothing.
    """
    size, place = (
        _STORED.get(instruction.word, 0),
        MEMORY.match(instruction.operands[-1]) if instruction.operands else None,
    )
    if not size or not place or place["base"] != "%rbp" or place["index"] or not NUMBER.match(place["shift"] or "0"):
        return set()
    offset = int(place["shift"] or "0", 0)
    return set(range(offset, offset + size)) if offset + size <= lowest_taken_offset else set()


def _slot_bytes_named(operand: str, slot_bytes: set[int]) -> set[int]:
    """Return which of some bytes of the frame (`slot_bytes`, by offset) an operand may refer to."""
    place = MEMORY.match(operand)
    if not place or "%rbp" not in (place["base"], place["index"]):
        return set()
    if place["index"] or not NUMBER.match(place["shift"] or "0"):
        return set(slot_bytes)
    offset = int(place["shift"] or "0", 0)
    return set(range(offset, offset + _WIDEST))
