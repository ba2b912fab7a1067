"""What registers and stack slots hold before each instruction of a loop, as linear forms."""

from __future__ import annotations

import re
from typing import Final

from weft.instrument.rows.code import BRANCH, COMPARES, MEMORY, NUMBER, PARTS, SYMBOL, ControlFlowGraph, Instruction
from weft.instrument.rows.forms import (
    ONE,
    Atom,
    Form,
    add_forms,
    extend_low_half,
    memory_atom,
    number_form,
    simplify_for_low_half,
    slot_atom,
)

KEPT: Final = ("rbx", "r12", "r13", "r14", "r15", "rbp")
"""Registers that a call leaves alone, in the order in which the copy's entry puts them on the stack, from the last."""

LOST: Final = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
ARGUMENTS: Final = ("rdi", "rsi", "rdx")

# What only changes its last operand, which is unknown afterwards.
CHANGES: Final = re.compile(
    r"^((and|or|xor|not|shr|sar|rol|ror|adc|sbb|shl|sal|add|sub|inc|dec|neg|imul)[bwlq]"
    r"|mov[bw]|movz\w+|movs(bw|bl|bq|wl|wq)|set\w+|cmov\w+|bs[fr][lq]|popcnt[lq]|[lt]zcnt[lq]|bswap)$"
)

SCALARS: Final = {"movsd": 8, "movlpd": 8, "movhpd": 8, "movlps": 8, "movhps": 8, "movq": 8, "movss": 4, "movd": 4}
"""Bytes that a move out of a vector register writes; others may write all 16."""


class NoCopyError(Exception):
    """Raised if a loop cannot have a second copy."""


class MachineState:
    """What registers and slots hold."""

    def __init__(self) -> None:
        self.registers: dict[str, Form | None] = {name: {Atom("register", name): 1} for name in KEPT}
        self.slots: dict[tuple[int, int], Form | None] = {}

    def copy(self) -> MachineState:
        """Return a copy that can be changed without changing this state."""
        made = MachineState()
        made.registers, made.slots = dict(self.registers), dict(self.slots)
        return made

    def merge(self, other: MachineState) -> None:
        """Keep of the known register and slot values only those that another state has, too. The others
        become unknown.
        """
        for name in set(self.registers) | set(other.registers):
            if self.registers.get(name) != other.registers.get(name):
                self.registers[name] = None
        keys = set(self.slots) | set(other.slots)
        self.slots = {key: one if (one := self.get_slot(key)) == other.get_slot(key) else None for key in keys}

    def get_slot(self, slot: tuple[int, int]) -> Form | None:
        """Return the linear form of the value in a stack slot (offset, size). None if writes to overlapping slots make
        it unknown.
        """
        if slot in self.slots:
            return self.slots[slot]
        offset, size = slot
        if any(k[0] < offset + size and offset < k[0] + k[1] for k in self.slots):
            return None
        return {slot_atom(*slot): 1}


class InstructionEffects:
    """What the instructions of a function change."""

    def __init__(self, graph: ControlFlowGraph) -> None:
        self.graph = graph

    def _parse_frame_operand(self, operand: str) -> tuple[int, bool] | None:
        """Return (frame offset, whether a slot of the compiler is there) for an operand in the frame; None for another
        operand. Raises NoCopyError if the offset is unclear.
        """
        found = MEMORY.match(operand)
        if not found or "%rbp" not in (found["base"], found["index"]):
            return None
        shift = found["shift"] or "0"
        if found["base"] != "%rbp" or not NUMBER.match(shift):
            raise NoCopyError
        if found["index"]:
            return 0, False
        return int(shift, 0), int(shift, 0) < self.graph.taken

    def compute_address(self, operand: str, state: MachineState) -> Form | None:
        """Return the address of a memory operand, such as `8(%rbx,%rax,4)`, as a linear form (a sum of registers, stack
        slots and constants); None if it is unknown.
        """
        found = MEMORY.match(operand)
        if not found:
            return None
        shift, form = found["shift"] or "0", None
        if NUMBER.match(shift):
            form = number_form(int(shift, 0))
        elif found["base"] == "%rip":
            symbol = SYMBOL.match(shift)
            if not symbol:
                return None
            form = {
                Atom("address", symbol["name"]): 1,
                **number_form(int(symbol["before"] or 0) + int(symbol["after"] or 0)),
            }
        if found["base"] and found["base"] != "%rip":
            form = add_forms(form, state.registers.get(PARTS.get(found["base"][1:], "")))
        if found["index"]:
            form = add_forms(form, state.registers.get(PARTS.get(found["index"][1:], "")), int(found["scale"] or 1))
        return form

    def compute_value(self, operand: str, byte_count: int, state: MachineState) -> Form | None:
        """Return the linear form of an operand's value; None if it is unknown. For `byte_count` 4, only the form's 32
        low bits are those of the value.
        """
        if operand.startswith("$"):
            return number_form(int(operand[1:], 0)) if NUMBER.match(operand[1:]) else None
        if operand.startswith("%"):
            return state.registers.get(PARTS.get(operand[1:], ""))
        if operand.endswith("@GOTPCREL(%rip)") and byte_count == 8:
            return {Atom("address", operand[: -len("@GOTPCREL(%rip)")]): 1}
        place = self._parse_frame_operand(operand)
        if place:
            return state.get_slot((place[0], byte_count)) if place[1] else None
        at = self.compute_address(operand, state)
        if at and [atom.kind for atom in at if atom is not ONE] == ["address"] and byte_count in (4, 8):
            return {memory_atom(at, byte_count): 1}
        return None

    def _set_value(self, operand: str, form: Form | None, byte_count: int, state: MachineState) -> None:
        """Set the form of a register or stack slot that an instruction writes. Slots that overlap the written one
        become unknown. Raises NoCopyError for the stack pointer, the frame pointer, and an unclear address in the
        frame.
        """
        if operand.startswith("%"):
            if operand[1:] in PARTS:
                full = PARTS[operand[1:]]
                if full in ("rsp", "rbp"):
                    raise NoCopyError
                state.registers[full] = (
                    form if byte_count == 8 else extend_low_half(form, "zx") if byte_count == 4 else None
                )
            return
        place = self._parse_frame_operand(operand)
        if place is None:
            return
        if not place[1]:
            found = MEMORY.match(operand)
            if found and found["index"]:
                raise NoCopyError
            return
        wide = byte_count if byte_count in (4, 8) else 16
        for k in [k for k in state.slots if k[0] < place[0] + wide and place[0] < k[0] + k[1]]:
            state.slots[k] = None
        if byte_count in (4, 8):
            state.slots[place[0], byte_count] = form if byte_count == 8 else simplify_for_low_half(form)
        else:
            for k in (
                (place[0], 8),
                (place[0], 4),
                (place[0] + 4, 4),
                (place[0] + 8, 8),
                (place[0] + 4, 8),
                (place[0] + 12, 4),
            ):
                state.slots[k] = None

    def apply_instruction(self, instruction: Instruction, node: int, state: MachineState) -> None:
        """Change the state by what an instruction does. Raises NoCopyError for an instruction that is not known."""
        word, operands = instruction.word, instruction.operands
        if "%rsp" in instruction.text or "%esp" in instruction.text:
            raise NoCopyError
        if self.graph.is_hook(node):
            for name in LOST:
                state.registers.pop(name, None)
            return
        if word == "jmp" and instruction.target.startswith("*"):
            raise NoCopyError
        if BRANCH.match(word) or COMPARES.match(word) or word in ("nop", "endbr64"):
            return
        if re.search(r"%xmm\d", instruction.text):
            if word.startswith(("pcmpestr", "pcmpistr", "maskmov", "v")):
                raise NoCopyError
            self._set_value(operands[-1], None, SCALARS.get(word, 16), state)
            return
        if word.startswith("f"):
            if word in ("fnstsw", "fstsw"):
                state.registers["rax"] = None
            elif operands and operands[-1].endswith(")"):
                self._set_value(operands[-1], None, 16, state)
            return
        size = 8 if word.endswith("q") else 4
        if word in ("movq", "movl", "movabsq"):
            self._set_value(operands[1], self.compute_value(operands[0], size, state), size, state)
        elif word in ("leaq", "leal"):
            self._set_value(operands[1], self.compute_address(operands[0], state), size, state)
        elif word in ("movslq", "cltq"):
            source, target = operands if operands else ("%eax", "%rax")
            self._set_value(target, extend_low_half(self.compute_value(source, 4, state), "sx"), 8, state)
        elif word in ("addq", "addl", "subq", "subl") and len(operands) == 2:
            part = self.compute_value(operands[0], size, state), self.compute_value(operands[1], size, state)
            if size == 4:
                part = simplify_for_low_half(part[0]), simplify_for_low_half(part[1])
            self._set_value(operands[1], add_forms(part[1], part[0], 1 if word.startswith("a") else -1), size, state)
        elif word in ("salq", "sall", "shlq", "shll", "imulq", "imull") and len(operands) >= 2:
            self._set_product(word, operands, size, state)
        elif word in ("xorl", "xorq") and operands[0] == operands[1]:
            self._set_value(operands[1], {}, size, state)
        elif word in ("cqto", "cltd"):
            state.registers["rdx"] = None
        elif word in ("idivq", "idivl", "divq", "divl", "mulq", "mull", "imulq", "imull") and len(operands) == 1:
            state.registers["rax"] = state.registers["rdx"] = None
        elif CHANGES.match(word) and operands:
            self._set_value(operands[-1], None, {"b": 1, "w": 2, "l": 4}.get(word[-1], 8), state)
            if operands[-1].startswith("%") and operands[-1][1:] in PARTS:
                state.registers[PARTS[operands[-1][1:]]] = None
        else:
            raise NoCopyError

    def _set_product(self, opcode: str, operands: tuple[str, ...], byte_count: int, state: MachineState) -> None:
        """Set the value of the target of a multiplication or left shift. It becomes unknown unless the factor is a
        constant and the other value is known.
        """
        target = operands[-1]
        form = self.compute_value(operands[-1] if len(operands) == 2 else operands[1], byte_count, state)
        if byte_count == 4:
            form = simplify_for_low_half(form)
        if not operands[0].startswith("$") or not NUMBER.match(operands[0][1:]) or form is None:
            self._set_value(target, None, byte_count, state)
            return
        factor = int(operands[0][1:], 0)
        if opcode.startswith("s"):
            factor = 1 << (factor & (63 if byte_count == 8 else 31))
        self._set_value(target, add_forms({}, form, factor), byte_count, state)
