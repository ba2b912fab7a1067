"""The loops that get a second copy, and what has to be proved of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.instrument.rows.bases import Base, is_usable_base, shorten_code
from weft.instrument.rows.code import (
    ABOVE,
    BRANCH,
    HOOK,
    NUMBER,
    ControlFlowGraph,
    Instruction,
    find_functions,
    parse_instructions,
)
from weft.instrument.rows.forms import ONE, Atom, Form, add_forms, simplify_for_low_half, slot_atom
from weft.instrument.rows.guards import Guard, find_block_guard, find_branch_guard
from weft.instrument.rows.straight import StraightCode, find_straight_code, is_known_at_start
from weft.instrument.rows.unneeded import find_unneeded
from weft.instrument.rows.values import ARGUMENTS, KEPT, InstructionEffects, MachineState, NoCopyError
from weft.instrument.rows.ways import LoopPaths, are_flags_read

MOST_SITES: Final = 1024


@dataclass(slots=True)
class HookSite:
    """A hook in the copy: which site, and the form of its address."""

    number: int
    write: bool
    size: int
    address: Form


@dataclass(slots=True)
class CopiedLoop:
    """A loop with a second copy."""

    number: int
    ways: LoopPaths | StraightCode
    codes: list[Instruction]
    places: dict[int, HookSite]
    proven: dict[int, tuple[Form, int]]
    """Comparisons whose branch is never taken while the form is at most the number, unsigned: with their branch."""

    guards: dict[int, Guard]
    """Branches between blocks whose outcome the runtime knows beforehand."""

    ends: dict[int, Guard]
    """Branches that leave the copy, and what they ask."""

    dead: set[int]
    steps: Mapping[Atom, Form | None]
    narrow: Mapping[Atom, Form]
    arguments: list[Form]
    bases: Mapping[str, Base] = field(default_factory=dict)
    """What registers are to hold where the copy begins."""


def find_copied_loops(assembly_lines: list[str], site_numbers: Mapping[int, int]) -> Iterator[CopiedLoop]:
    """Yield the loops, and the long pieces of code without loops, that get a second copy without hooks. `site_numbers`:
    line index of a hook -> its site number.
    """
    count = 0
    for first, last in find_functions(assembly_lines):
        if not any(line in site_numbers for line in range(first, last)):
            continue
        codes = parse_instructions(assembly_lines, first, last)
        if any(re.search(r"%[yz]mm", one.text) for one in codes):
            continue
        graph = ControlFlowGraph(
            codes, site_numbers, catches=any("\t.cfi_personality" in line for line in assembly_lines[first:last])
        )
        copied: set[int] = set()
        for mark, rank in graph.find_loop_marks():
            try:
                made = copy_loop(graph, mark, rank, count + 1)
            except NoCopyError:
                continue
            yield made
            count += 1
            copied |= made.ways.nodes
        for ways in find_straight_code(graph, copied):
            count += 1
            yield copy_straight_code(ways, count)


def copy_loop(graph: ControlFlowGraph, mark: int, rank: int, number: int) -> CopiedLoop:
    """Return the second copy of a loop, without hooks (calls before memory accesses). Raises NoCopyError if it cannot
    have one.
    """
    return _Loop(LoopPaths(graph, mark, rank)).make_copied_loop(number)


class _Still(dict[Atom, Form]):
    """What happens once does not rise."""

    def __missing__(self, atom: Atom) -> Form:
        return {}


def copy_straight_code(paths: StraightCode, copy_number: int) -> CopiedLoop:
    """Return the second copy of code without a loop: its hooks (calls before memory accesses) with their addresses, and
    the instructions that the copy can leave out. Raises NoCopyError if the code cannot be copied.
    """
    effects, state = InstructionEffects(paths.graph), MachineState()
    places, compared, addresses = {}, {}, {}
    for n in paths.order[:-1]:
        if paths.graph.is_hook(n):
            places[n] = _make_hook_site(paths.graph, n, state)
        else:
            if paths.codes[n].word == "cmpq":
                compared[n] = state.copy()
            for operand in paths.codes[n].operands:
                form = effects.compute_address(operand, state) if not re.search(r"%r[bi]p", operand) else None
                if form is not None and is_usable_base(form):
                    addresses[n] = operand, form
        effects.apply_instruction(paths.codes[n], n, state)
    proven, still = _find_bounds_checks(paths, compared, is_known_at_start), _Still()
    made = shorten_code(paths, proven, addresses)
    codes = [made.codes.get(n, one) for n, one in enumerate(paths.codes)]
    return CopiedLoop(copy_number, paths, codes, places, proven, {}, {}, made.unneeded, still, still, [], made.bases)


def _make_hook_site(graph: ControlFlowGraph, node: int, state: MachineState) -> HookSite:
    """Return what the runtime must know of a hook, a call before a memory access: number, access, size, and the address
    as a linear form. Raises NoCopyError if the address is unknown.
    """
    found = HOOK.match(graph.codes[node].target)
    assert found
    form = state.registers.get("rdi")
    if form is None:
        raise NoCopyError
    return HookSite(graph.sites[graph.codes[node].line], found[1] == "write", int(found[2]), form)


class _Loop:
    """One loop under examination."""

    def __init__(self, ways: LoopPaths) -> None:
        self.ways, self.graph, self.codes, self.rank = ways, ways.graph, ways.codes, ways.rank
        self.effects = InstructionEffects(ways.graph)
        self.written: set[tuple[int, int]] = set()

    def make_copied_loop(self, copy_number: int) -> CopiedLoop:
        """Return the loop's second copy: its hooks (calls before memory accesses), and the branches that the runtime
        can decide before the copy runs some iterations. Raises NoCopyError if an address does not rise by the same
        amount in each iteration.
        """
        states = self._compute_states()
        places = self._find_hook_sites(states)
        last = states[self.ways.last]
        self.written = set(last.slots)
        steps: dict[Atom, Form | None] = {}
        narrow: dict[Atom, Form] = {}
        for name in KEPT:
            self._note_rise(Atom("register", name), last.registers.get(name), steps, narrow)
        for key, held in last.slots.items():
            self._note_rise(slot_atom(*key), held, steps, narrow)
        arguments = []
        for name in ARGUMENTS[: self.rank]:
            form = last.registers.get(name)
            if form is None or not self._rises_evenly(form, steps, narrow):
                raise NoCopyError
            arguments.append(form)
        for place in places.values():
            if not self._rises_evenly(place.address, steps, narrow):
                raise NoCopyError
        proven = _find_bounds_checks(self.ways, states, lambda form: self._rises_evenly(form, steps, narrow))
        dead = find_unneeded(self.ways, proven, dict(enumerate(self.codes)))
        guards = {}
        for block in self.ways.blocks:
            made = find_block_guard(self.ways, self.effects, block, states)
            if made and all(
                self._rises_evenly(
                    simplify_for_low_half(form) or {} if made.size == 4 else form,
                    steps,
                    narrow,
                    made.size == 4,
                    allows_memory=True,
                )
                for form in (made.left, made.right)
            ):
                guards[block.nodes[-1]] = made
        ends = {
            n: made
            for n in self._find_leaving_branches(proven)
            if (made := find_branch_guard(self.ways, self.effects, n, states))
            and all(
                self._rises_evenly(
                    simplify_for_low_half(form) or {} if made.size == 4 else form, steps, narrow, made.size == 4
                )
                for form in (made.left, made.right)
            )
        }
        return CopiedLoop(
            copy_number, self.ways, self.codes, places, proven, guards, ends, dead, steps, narrow, arguments
        )

    def _find_leaving_branches(self, proven_comparisons: Mapping[int, object]) -> Iterator[int]:
        """Yield the nodes (instruction indices) of the conditional branches that have one way within the loop's copy
        and one way out of it. Checks of bounds in `proven_comparisons` are left out: the copy does not need them.
        """
        for n in self.ways.order[:-1]:
            one, onward = self.codes[n], self.ways.find_next(n)
            if (
                BRANCH.match(one.word)
                and len(onward) == 2
                and len(self.ways.inside(n)) == 1
                and n - 1 not in proven_comparisons
            ):
                yield n

    # --- values ---

    def _compute_states(self) -> dict[int, MachineState]:
        """Return node (instruction index) -> the values that registers and stack slots have before the instruction."""
        order = self.ways.order
        states: dict[int, MachineState] = {order[0]: self._compute_entry_state()}
        for n in order[:-1]:
            after = states[n].copy()
            self.effects.apply_instruction(self.codes[n], n, after)
            for there in self.ways.inside(n):
                if there in states:
                    states[there].merge(after)
                else:
                    states[there] = after.copy()
        return states

    def _compute_entry_state(self) -> MachineState:
        """Return the values that registers and stack slots have where an iteration begins, as far as the instructions
        before that place show them.
        """
        state = MachineState()
        for n in self.ways.prefix:
            self.effects.apply_instruction(self.codes[n], n, state)

        def is_unchanged(form: Form) -> bool:
            """Return whether the registers and slots of a linear form have the same values here as at the beginning of
            the loop.
            """
            for atom in form:
                if atom.kind in ("one", "address"):
                    continue
                if atom.kind == "memory":
                    return False
                if atom.kind in ("sx", "zx"):
                    if not is_unchanged(dict(atom.form)):
                        return False
                elif atom.kind == "register":
                    if state.registers.get(atom.name) != {atom: 1}:
                        return False
                elif any(k[0] < atom.offset + atom.size and atom.offset < k[0] + k[1] for k in state.slots):
                    return False
            return True

        made = MachineState()
        for name in KEPT:
            form = state.registers.get(name)
            if form is not None and is_unchanged(form):
                made.registers[name] = form
        for key, form in state.slots.items():
            if form is not None and is_unchanged(form):
                made.slots[key] = form
        return made

    # --- what the values are in later iterations ---

    @staticmethod
    def _note_rise(
        atom: Atom, value_after: Form | None, rises: dict[Atom, Form | None], low_half_rises: dict[Atom, Form]
    ) -> None:
        """Note by how much an atom (register or slot) rises in each iteration, as a whole and in its low 32 bits. The
        whole rise is None if it is unknown; the low half is then noted only if its rise is known.
        """
        rises[atom] = None
        if value_after is None:
            return
        own: Form = {atom: 1}
        if value_after.get(atom) == 1:
            rises[atom] = add_forms(value_after, own, -1)
        part = simplify_for_low_half(value_after)
        if part is not None and part.get(atom) == 1:
            rise = add_forms(part, own, -1)
            assert rise is not None
            low_half_rises[atom] = rise

    def _rises_evenly(
        self,
        form: Form,
        rises: dict[Atom, Form | None],
        low_half_rises: dict[Atom, Form],
        is_low_half: bool = False,
        *,
        allows_memory: bool = False,
    ) -> bool:
        """Return whether a linear form (a sum of registers and stack slots) rises by the same amount in each iteration.
        `allows_memory`: accept values in memory at fixed addresses, which must then not change.
        """
        for atom, times in form.items():
            if atom is ONE:
                continue
            if atom.kind == "address":
                if times != 1 or is_low_half:
                    return False
            elif atom.kind in ("sx", "zx"):
                if not self._rises_evenly(dict(atom.form), rises, low_half_rises, True, allows_memory=allows_memory):
                    return False
            elif atom.kind == "memory":
                if not allows_memory or (atom.size == 4 and not is_low_half):
                    return False
            else:
                self._note_unwritten_slot(atom, rises, low_half_rises)
                if atom.kind == "slot" and atom.size == 4 and not is_low_half:
                    return False
                rise = low_half_rises.get(atom) if is_low_half else rises.get(atom)
                if rise is None or not self._is_constant(rise, rises, low_half_rises):
                    return False
        return True

    def _is_constant(self, form: Form, rises: dict[Atom, Form | None], low_half_rises: dict[Atom, Form]) -> bool:
        """Return whether a linear form has the same value in each iteration. False for a form with other terms than
        registers and stack slots.
        """
        for atom in form:
            if atom is ONE:
                continue
            if atom.kind not in ("register", "slot"):
                return False
            self._note_unwritten_slot(atom, rises, low_half_rises)
            if (atom.kind == "slot" and atom.size == 4) or rises.get(atom) != {}:
                return False
        return True

    def _note_unwritten_slot(
        self, atom: Atom, rises: dict[Atom, Form | None], low_half_rises: dict[Atom, Form]
    ) -> None:
        """Note that a stack slot rises by 0 in each iteration if nothing in the loop writes to it. If a write overlaps
        the slot, its rise is noted as unknown.
        """
        if atom.kind != "slot" or atom in rises:
            return
        offset, size = atom.offset, atom.size
        if any(k[0] < offset + size and offset < k[0] + k[1] for k in self.written):
            rises[atom] = None
        else:
            rises[atom] = low_half_rises[atom] = {}

    def _find_hook_sites(self, states: dict[int, MachineState]) -> dict[int, HookSite]:
        """Return node (instruction index) -> the hook there with its address. Raises NoCopyError if an address is
        unknown, or if there are more than MOST_SITES hooks.
        """
        made: dict[int, HookSite] = {}
        for n in self.ways.order[:-1]:
            if not self.graph.is_hook(n):
                continue
            made[n] = _make_hook_site(self.graph, n, states[n])
        if len(made) > MOST_SITES:
            raise NoCopyError
        return made


# --- what the copy can do without ---


def _find_bounds_checks(
    paths: LoopPaths | StraightCode, states: Mapping[int, MachineState], is_usable: Callable[[Form], bool]
) -> dict[int, tuple[Form, int]]:
    """Return node (instruction index) -> (compared linear form, limit) for the comparisons that check bounds. Each
    precedes a jump that leaves the copy if the value, as an unsigned number, is above the limit.
    """
    effects, nodes, made = InstructionEffects(paths.graph), paths.nodes, {}
    for n in paths.order[:-1]:
        one = paths.codes[n]
        if one.word != "cmpq" or not NUMBER.match(one.operands[0][1:]) or not one.operands[0].startswith("$"):
            continue
        jump = paths.codes[n + 1] if n + 1 in nodes else None
        if jump is None or jump.word not in ABOVE or len(paths.find_next(n + 1)) != 2 or jump.labels:
            continue
        stay, leave = paths.find_next(n + 1)
        limit = int(one.operands[0][1:], 0) - ABOVE[jump.word]
        if leave in nodes or stay not in nodes or limit < 0 or are_flags_read(paths.graph, stay):
            continue
        form = effects.compute_value(one.operands[1], 8, states[n])
        if form is not None and is_usable(form):
            made[n] = form, limit
    return made
