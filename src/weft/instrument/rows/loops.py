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
from weft.instrument.rows.forms import ONE, Atom, Form, add_forms, low_half, slot_atom
from weft.instrument.rows.guards import Guard, block_guard, branch_guard
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


def find_copied_loops(lines: list[str], sites: Mapping[int, int]) -> Iterator[CopiedLoop]:
    """Yield the loops of an assembly text that get a second copy; `sites`: the site number of each line with a hook."""
    count = 0
    for first, last in find_functions(lines):
        if not any(line in sites for line in range(first, last)):
            continue
        codes = parse_instructions(lines, first, last)
        if any(re.search(r"%[yz]mm", one.text) for one in codes):
            continue
        graph = ControlFlowGraph(codes, sites, catches=any("\t.cfi_personality" in line for line in lines[first:last]))
        copied: set[int] = set()
        for mark, rank in graph.loops():
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
    """Return the copy of a loop. NoCopyError if it cannot have one."""
    return _Loop(LoopPaths(graph, mark, rank)).row(number)


class _Still(dict[Atom, Form]):
    """What happens once does not rise."""

    def __missing__(self, atom: Atom) -> Form:
        return {}


def copy_straight_code(ways: StraightCode, number: int) -> CopiedLoop:
    """Return the copy of code without a loop."""
    effects, state = InstructionEffects(ways.graph), MachineState()
    places, compared, addresses = {}, {}, {}
    for n in ways.order[:-1]:
        if ways.graph.is_hook(n):
            places[n] = _hook_site(ways.graph, n, state)
        else:
            if ways.codes[n].word == "cmpq":
                compared[n] = state.copy()
            for operand in ways.codes[n].operands:
                form = effects.address(operand, state) if not re.search(r"%r[bi]p", operand) else None
                if form is not None and is_usable_base(form):
                    addresses[n] = operand, form
        effects.run(ways.codes[n], n, state)
    proven, still = _bounds_checks(ways, compared, is_known_at_start), _Still()
    made = shorten_code(ways, proven, addresses)
    codes = [made.codes.get(n, one) for n, one in enumerate(ways.codes)]
    return CopiedLoop(number, ways, codes, places, proven, {}, {}, made.unneeded, still, still, [], made.bases)


def _hook_site(graph: ControlFlowGraph, n: int, state: MachineState) -> HookSite:
    """Return the hook at a node. NoCopyError if its address is unknown."""
    found = HOOK.match(graph.codes[n].target)
    assert found
    form = state.registers.get("rdi")
    if form is None:
        raise NoCopyError
    return HookSite(graph.sites[graph.codes[n].line], found[1] == "write", int(found[2]), form)


class _Loop:
    """One loop under examination."""

    def __init__(self, ways: LoopPaths) -> None:
        self.ways, self.graph, self.codes, self.rank = ways, ways.graph, ways.codes, ways.rank
        self.effects = InstructionEffects(ways.graph)
        self.written: set[tuple[int, int]] = set()

    def row(self, number: int) -> CopiedLoop:
        states = self._values()
        places = self._places(states)
        last = states[self.ways.last]
        self.written = set(last.slots)
        steps: dict[Atom, Form | None] = {}
        narrow: dict[Atom, Form] = {}
        for name in KEPT:
            self._step(Atom("register", name), last.registers.get(name), steps, narrow)
        for key, held in last.slots.items():
            self._step(slot_atom(*key), held, steps, narrow)
        arguments = []
        for name in ARGUMENTS[: self.rank]:
            form = last.registers.get(name)
            if form is None or not self._linear(form, steps, narrow):
                raise NoCopyError
            arguments.append(form)
        for place in places.values():
            if not self._linear(place.address, steps, narrow):
                raise NoCopyError
        proven = _bounds_checks(self.ways, states, lambda form: self._linear(form, steps, narrow))
        dead = find_unneeded(self.ways, proven, dict(enumerate(self.codes)))
        guards = {}
        for block in self.ways.blocks:
            made = block_guard(self.ways, self.effects, block, states)
            if made and all(
                self._linear(
                    low_half(form) or {} if made.size == 4 else form, steps, narrow, made.size == 4, memory=True
                )
                for form in (made.left, made.right)
            ):
                guards[block.nodes[-1]] = made
        ends = {
            n: made
            for n in self._leaving(proven)
            if (made := branch_guard(self.ways, self.effects, n, states))
            and all(
                self._linear(low_half(form) or {} if made.size == 4 else form, steps, narrow, made.size == 4)
                for form in (made.left, made.right)
            )
        }
        return CopiedLoop(number, self.ways, self.codes, places, proven, guards, ends, dead, steps, narrow, arguments)

    def _leaving(self, proven: Mapping[int, object]) -> Iterator[int]:
        """Branches with one way out of the copy, but for checks of bounds."""
        for n in self.ways.order[:-1]:
            one, onward = self.codes[n], self.ways.next(n)
            if BRANCH.match(one.word) and len(onward) == 2 and len(self.ways.inside(n)) == 1 and n - 1 not in proven:
                yield n

    # --- values ---

    def _values(self) -> dict[int, MachineState]:
        """Return what holds before each node."""
        order = self.ways.order
        states: dict[int, MachineState] = {order[0]: self._entry()}
        for n in order[:-1]:
            after = states[n].copy()
            self.effects.run(self.codes[n], n, after)
            for there in self.ways.inside(n):
                if there in states:
                    states[there].merge(after)
                else:
                    states[there] = after.copy()
        return states

    def _entry(self) -> MachineState:
        """Return what is known behind the mark: what the instructions before it made of what they left alone."""
        state = MachineState()
        for n in self.ways.prefix:
            self.effects.run(self.codes[n], n, state)

        def left_alone(form: Form) -> bool:
            for atom in form:
                if atom.kind in ("one", "address"):
                    continue
                if atom.kind == "memory":
                    return False
                if atom.kind in ("sx", "zx"):
                    if not left_alone(dict(atom.form)):
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
            if form is not None and left_alone(form):
                made.registers[name] = form
        for key, form in state.slots.items():
            if form is not None and left_alone(form):
                made.slots[key] = form
        return made

    # --- what the values are in later iterations ---

    @staticmethod
    def _step(atom: Atom, held: Form | None, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]) -> None:
        """How much an atom rises each iteration: in full, or (narrow) in its low 32 bits."""
        steps[atom] = None
        if held is None:
            return
        own: Form = {atom: 1}
        if held.get(atom) == 1:
            steps[atom] = add_forms(held, own, -1)
        part = low_half(held)
        if part is not None and part.get(atom) == 1:
            rise = add_forms(part, own, -1)
            assert rise is not None
            narrow[atom] = rise

    def _linear(
        self,
        form: Form,
        steps: dict[Atom, Form | None],
        narrow: dict[Atom, Form],
        half: bool = False,
        *,
        memory: bool = False,
    ) -> bool:
        """Return whether a form rises by the same each iteration; with `memory`, if that memory stays unchanged."""
        for atom, times in form.items():
            if atom is ONE:
                continue
            if atom.kind == "address":
                if times != 1 or half:
                    return False
            elif atom.kind in ("sx", "zx"):
                if not self._linear(dict(atom.form), steps, narrow, True, memory=memory):
                    return False
            elif atom.kind == "memory":
                if not memory or (atom.size == 4 and not half):
                    return False
            else:
                self._unwritten(atom, steps, narrow)
                if atom.kind == "slot" and atom.size == 4 and not half:
                    return False
                rise = narrow.get(atom) if half else steps.get(atom)
                if rise is None or not self._constant(rise, steps, narrow):
                    return False
        return True

    def _constant(self, form: Form, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]) -> bool:
        for atom in form:
            if atom is ONE:
                continue
            if atom.kind not in ("register", "slot"):
                return False
            self._unwritten(atom, steps, narrow)
            if (atom.kind == "slot" and atom.size == 4) or steps.get(atom) != {}:
                return False
        return True

    def _unwritten(self, atom: Atom, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]) -> None:
        """A slot that nothing in the loop writes stays what it is."""
        if atom.kind != "slot" or atom in steps:
            return
        offset, size = atom.offset, atom.size
        if any(k[0] < offset + size and offset < k[0] + k[1] for k in self.written):
            steps[atom] = None
        else:
            steps[atom] = narrow[atom] = {}

    def _places(self, states: dict[int, MachineState]) -> dict[int, HookSite]:
        made: dict[int, HookSite] = {}
        for n in self.ways.order[:-1]:
            if not self.graph.is_hook(n):
                continue
            made[n] = _hook_site(self.graph, n, states[n])
        if len(made) > MOST_SITES:
            raise NoCopyError
        return made


# --- what the copy can do without ---


def _bounds_checks(
    ways: LoopPaths | StraightCode, states: Mapping[int, MachineState], fits: Callable[[Form], bool]
) -> dict[int, tuple[Form, int]]:
    """Return the checks of bounds: comparisons with a number before a jump out of the copy if (unsigned) above."""
    effects, nodes, made = InstructionEffects(ways.graph), ways.nodes, {}
    for n in ways.order[:-1]:
        one = ways.codes[n]
        if one.word != "cmpq" or not NUMBER.match(one.operands[0][1:]) or not one.operands[0].startswith("$"):
            continue
        jump = ways.codes[n + 1] if n + 1 in nodes else None
        if jump is None or jump.word not in ABOVE or len(ways.next(n + 1)) != 2 or jump.labels:
            continue
        stay, leave = ways.next(n + 1)
        limit = int(one.operands[0][1:], 0) - ABOVE[jump.word]
        if leave in nodes or stay not in nodes or limit < 0 or are_flags_read(ways.graph, stay):
            continue
        form = effects.value(one.operands[1], 8, states[n])
        if form is not None and fits(form):
            made[n] = form, limit
    return made
