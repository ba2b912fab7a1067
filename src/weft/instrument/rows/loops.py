"""The loops that get a second copy, and what has to be proved of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.instrument.rows.bases import Base, shortened, usable
from weft.instrument.rows.code import ABOVE, BRANCH, HOOK, NUMBER, Code, Graph, codes_of, functions
from weft.instrument.rows.forms import ONE, Atom, Form, added, low, slot
from weft.instrument.rows.guards import Guard, comparison, guard
from weft.instrument.rows.straight import Straight, settled, straights
from weft.instrument.rows.unneeded import unneeded
from weft.instrument.rows.values import ARGUMENTS, KEPT, Effects, State, Unfit
from weft.instrument.rows.ways import Ways, flags_read

MOST_SITES: Final = 1024


@dataclass(slots=True)
class Hook:
    """A hook in the copy: which site, and the form of its address."""

    number: int
    write: bool
    size: int
    address: Form


@dataclass(slots=True)
class CopiedLoop:
    """A loop with a second copy."""

    number: int
    ways: Ways | Straight
    codes: list[Code]
    places: dict[int, Hook]
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


def find(lines: list[str], sites: Mapping[int, int]) -> Iterator[CopiedLoop]:
    """The loops of an assembly text that get a second copy. sites: the number of the site of each line with a hook."""
    count = 0
    for first, last in functions(lines):
        if not any(line in sites for line in range(first, last)):
            continue
        codes = codes_of(lines, first, last)
        if any(re.search(r"%[yz]mm", one.text) for one in codes):
            continue
        graph = Graph(codes, sites, catches=any("\t.cfi_personality" in line for line in lines[first:last]))
        copied: set[int] = set()
        for mark, rank in graph.loops():
            try:
                made = row(graph, mark, rank, count + 1)
            except Unfit:
                continue
            yield made
            count += 1
            copied |= made.ways.nodes
        for ways in straights(graph, copied):
            count += 1
            yield straight(ways, count)


def row(graph: Graph, mark: int, rank: int, number: int) -> CopiedLoop:
    """A loop's copy."""
    return _Loop(Ways(graph, mark, rank)).row(number)


class _Still(dict[Atom, Form]):
    """What happens once does not rise."""

    def __missing__(self, atom: Atom) -> Form:
        return {}


def straight(ways: Straight, number: int) -> CopiedLoop:
    """The copy of code without a loop."""
    effects, state = Effects(ways.graph), State()
    places, compared, addresses = {}, {}, {}
    for n in ways.order[:-1]:
        if ways.graph.is_hook(n):
            places[n] = _hook(ways.graph, n, state)
        else:
            if ways.codes[n].word == "cmpq":
                compared[n] = state.copy()
            for operand in ways.codes[n].operands:
                form = effects.address(operand, state) if not re.search(r"%r[bi]p", operand) else None
                if form is not None and usable(form):
                    addresses[n] = operand, form
        effects.run(ways.codes[n], n, state)
    proven, still = _proven(ways, compared, settled), _Still()
    made = shortened(ways, proven, addresses)
    codes = [made.codes.get(n, one) for n, one in enumerate(ways.codes)]
    return CopiedLoop(number, ways, codes, places, proven, {}, {}, made.unneeded, still, still, [], made.bases)


def _hook(graph: Graph, n: int, state: State) -> Hook:
    """The hook at a node. Unfit where nothing is known of its address."""
    found = HOOK.match(graph.codes[n].target)
    assert found
    form = state.registers.get("rdi")
    if form is None:
        raise Unfit
    return Hook(graph.sites[graph.codes[n].line], found[1] == "write", int(found[2]), form)


class _Loop:
    """One loop under examination."""

    def __init__(self, ways: Ways) -> None:
        self.ways, self.graph, self.codes, self.rank = ways, ways.graph, ways.codes, ways.rank
        self.effects = Effects(ways.graph)
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
            self._step(slot(*key), held, steps, narrow)
        arguments = []
        for name in ARGUMENTS[: self.rank]:
            form = last.registers.get(name)
            if form is None or not self._linear(form, steps, narrow):
                raise Unfit
            arguments.append(form)
        for place in places.values():
            if not self._linear(place.address, steps, narrow):
                raise Unfit
        proven = _proven(self.ways, states, lambda form: self._linear(form, steps, narrow))
        dead = unneeded(self.ways, proven, dict(enumerate(self.codes)))
        guards = {}
        for block in self.ways.blocks:
            made = guard(self.ways, self.effects, block, states)
            if made and all(
                self._linear(low(form) or {} if made.size == 4 else form, steps, narrow, made.size == 4, memory=True)
                for form in (made.left, made.right)
            ):
                guards[block.nodes[-1]] = made
        ends = {
            n: made
            for n in self._leaving(proven)
            if (made := comparison(self.ways, self.effects, n, states))
            and all(
                self._linear(low(form) or {} if made.size == 4 else form, steps, narrow, made.size == 4)
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

    def _values(self) -> dict[int, State]:
        """What holds before each node."""
        order = self.ways.order
        states: dict[int, State] = {order[0]: self._entry()}
        for n in order[:-1]:
            after = states[n].copy()
            self.effects.run(self.codes[n], n, after)
            for there in self.ways.inside(n):
                if there in states:
                    states[there].merge(after)
                else:
                    states[there] = after.copy()
        return states

    def _entry(self) -> State:
        """What is known behind the mark: what the instructions before it made of what they left alone."""
        state = State()
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

        made = State()
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
            steps[atom] = added(held, own, -1)
        part = low(held)
        if part is not None and part.get(atom) == 1:
            rise = added(part, own, -1)
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
        """Whether a form rises by the same each iteration; where `memory` stays what it is, if that is said."""
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

    def _places(self, states: dict[int, State]) -> dict[int, Hook]:
        made: dict[int, Hook] = {}
        for n in self.ways.order[:-1]:
            if not self.graph.is_hook(n):
                continue
            made[n] = _hook(self.graph, n, states[n])
        if len(made) > MOST_SITES:
            raise Unfit
        return made


# --- what the copy can do without ---


def _proven(
    ways: Ways | Straight, states: Mapping[int, State], fits: Callable[[Form], bool]
) -> dict[int, tuple[Form, int]]:
    """Comparisons with a number before a jump out of the copy, unsigned above: checks of bounds."""
    effects, nodes, made = Effects(ways.graph), ways.nodes, {}
    for n in ways.order[:-1]:
        one = ways.codes[n]
        if one.word != "cmpq" or not NUMBER.match(one.operands[0][1:]) or not one.operands[0].startswith("$"):
            continue
        jump = ways.codes[n + 1] if n + 1 in nodes else None
        if jump is None or jump.word not in ABOVE or len(ways.next(n + 1)) != 2 or jump.labels:
            continue
        stay, leave = ways.next(n + 1)
        limit = int(one.operands[0][1:], 0) - ABOVE[jump.word]
        if leave in nodes or stay not in nodes or limit < 0 or flags_read(ways.graph, stay):
            continue
        form = effects.value(one.operands[1], 8, states[n])
        if form is not None and fits(form):
            made[n] = form, limit
    return made
