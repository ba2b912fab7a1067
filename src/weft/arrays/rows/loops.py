"""The loops that get a second copy, and what has to be proved of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from weft.arrays.rows.code import (
    COMPARES,
    FLAGS_READ,
    HOOK,
    MARK,
    NUMBER,
    PARTS,
    Code,
    Graph,
    codes_of,
    functions,
    reach,
)
from weft.arrays.rows.forms import ONE, Atom, Form, added, low, slot
from weft.arrays.rows.values import ARGUMENTS, KEPT, LOST, Effects, State, Unfit

MOST_NODES: Final = 4000
MOST_SITES: Final = 256


@dataclass(slots=True)
class Place:
    """A hook in the copy: which site, and the form of its address."""

    number: int
    write: bool
    size: int
    always: bool
    address: Form


@dataclass(slots=True)
class Row:
    """A loop with a second copy."""

    number: int
    mark: int
    """The iteration call; the head of a loop without one."""

    last: int
    rank: int
    """Of the loop's index; 0: a loop within an iteration."""

    codes: list[Code]
    next: Callable[[int], list[int]]
    order: list[int]
    """Nodes of the loop from behind the mark to the mark, so that each comes after all that lead to it."""

    places: dict[int, Place]
    proven: dict[int, tuple[Form, int]]
    """Comparisons whose branch is never taken while the form is at most the number, unsigned: with their branch."""

    dead: set[int]
    steps: dict[Atom, Form | None]
    narrow: dict[Atom, Form]
    arguments: list[Form]


def find(lines: list[str], sites: Mapping[int, int]) -> Iterator[Row]:
    """The loops of an assembly text that get a second copy. sites: the number of the site of each line with a hook."""
    count = 0
    for first, last in functions(lines):
        if not any(line in sites for line in range(first, last)):
            continue
        codes = codes_of(lines, first, last)
        if any(re.search(r"%[yz]mm", one.text) for one in codes):
            continue
        graph = Graph(codes, sites)
        for mark, rank in graph.loops():
            try:
                made = _Loop(graph, mark, rank).row(count + 1)
            except Unfit:
                continue
            yield made
            count += 1


class _Loop:
    """One loop under examination."""

    def __init__(self, graph: Graph, mark: int, rank: int) -> None:
        self.graph, self.codes, self.mark, self.rank = graph, graph.codes, mark, rank
        self.start = mark + 1 if rank else mark
        self.last = mark if rank else graph.end
        self.effects = Effects(graph)
        self.prefix: list[int] = []
        self.written: set[tuple[int, int]] = set()

    def next(self, n: int) -> list[int]:
        """Where control goes within one way around."""
        if n == self.last:
            return []
        if self.rank:
            return self.codes[n].next
        return [self.last if there == self.mark else there for there in self.codes[n].next]

    def row(self, number: int) -> Row:
        order = self._order(self._nodes())
        states = self._values(order)
        always = self._always(order)
        places = self._places(order, states, always)
        if not places:
            raise Unfit
        last = states[self.last]
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
        proven = self._proven(order, states, steps, narrow)
        made = Row(
            number,
            self.mark,
            self.last,
            self.rank,
            self.codes,
            self.next,
            order,
            places,
            proven,
            set(),
            steps,
            narrow,
            arguments,
        )
        made.dead = self._dead(order, proven)
        return made

    # --- control ---

    def _nodes(self) -> set[int]:
        """The natural loop around the mark, less what calls something."""
        codes, graph = self.codes, self.graph
        head = self.mark
        if not self.rank and self._flags_read(head):
            raise Unfit
        while self.rank and len(graph.before.get(head, [])) == 1:
            head = graph.before[head][0]
            self.prefix.insert(0, head)
            if graph.is_call(head):
                raise Unfit
        latches = graph.latches(head)
        body = reach(latches, lambda n: graph.before.get(n, []), {head}) | {head}
        marks = [n for n in body if graph.is_call(n) and MARK.match(codes[n].target)]
        if not latches or marks != ([self.mark] if self.rank else []):
            raise Unfit
        fit = {n for n in body if graph.is_hook(n) or codes[n].word not in ("call", "callq", "ret", "unknown")}
        fit.add(self.last)
        ahead = reach([self.start], lambda n: [k for k in self.next(n) if k in fit], set())
        before: dict[int, list[int]] = {}
        for n in ahead:
            for there in self.next(n):
                before.setdefault(there, []).append(n)
        nodes = ahead & reach([self.last], lambda n: before.get(n, []), set())
        if self.start not in nodes or self.last not in nodes or len(nodes) > MOST_NODES:
            raise Unfit
        if not any(graph.is_hook(n) for n in nodes):
            raise Unfit
        return nodes

    def _order(self, nodes: set[int]) -> list[int]:
        """The nodes in topological order. Unfit where there is a loop within the loop."""
        waits = dict.fromkeys(nodes, 0)
        for n in nodes:
            for there in self.next(n):
                if there in nodes:
                    waits[there] += 1
        start = self.start
        if waits[start]:
            raise Unfit
        ready, order = [start], []
        while ready:
            n = ready.pop()
            order.append(n)
            if n == self.last:
                continue
            for there in self.next(n):
                if there in nodes:
                    waits[there] -= 1
                    if not waits[there]:
                        ready.append(there)
        if len(order) != len(nodes) or order[-1] != self.last:
            raise Unfit
        return order

    def _always(self, order: list[int]) -> set[int]:
        """The nodes that are on every way around."""
        ways = {order[0]: 1}
        nodes = set(order)
        for n in order[:-1]:
            for there in self.next(n):
                if there in nodes:
                    ways[there] = ways.get(there, 0) + ways[n]
        onward = {order[-1]: 1}
        for n in reversed(order[:-1]):
            onward[n] = sum(onward[there] for there in self.next(n) if there in nodes)
        total = ways[order[-1]]
        return {n for n in order if ways[n] * onward[n] == total}

    # --- values ---

    def _values(self, order: list[int]) -> dict[int, State]:
        """What holds before each node."""
        states: dict[int, State] = {order[0]: self._entry()}
        nodes = set(order)
        for n in order[:-1]:
            after = states[n].copy()
            self.effects.run(self.codes[n], n, after)
            for there in self.next(n):
                if there not in nodes:
                    continue
                if there in states:
                    states[there].merge(after)
                else:
                    states[there] = after.copy()
        return states

    def _entry(self) -> State:
        """What is known behind the mark: what the instructions before it made of what they left alone."""
        state = State()
        for n in self.prefix:
            self.effects.run(self.codes[n], n, state)

        def left_alone(form: Form) -> bool:
            for atom in form:
                if atom.kind in ("one", "address"):
                    continue
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

    def _linear(self, form: Form, steps: dict[Atom, Form | None], narrow: dict[Atom, Form], half: bool = False) -> bool:
        """Whether a form rises by the same each iteration."""
        for atom, times in form.items():
            if atom is ONE:
                continue
            if atom.kind == "address":
                if times != 1 or half:
                    return False
            elif atom.kind in ("sx", "zx"):
                if not self._linear(dict(atom.form), steps, narrow, True):
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

    def _places(self, order: list[int], states: dict[int, State], always: set[int]) -> dict[int, Place]:
        made: dict[int, Place] = {}
        for n in order[:-1]:
            if not self.graph.is_hook(n):
                continue
            found = HOOK.match(self.codes[n].target)
            assert found
            form = states[n].registers.get("rdi")
            write = found[1] == "write"
            if form is None:
                raise Unfit
            made[n] = Place(self.graph.sites[self.codes[n].line], write, int(found[2]), n in always, form)
        if len(made) > MOST_SITES:
            raise Unfit
        return made

    # --- what the copy can do without ---

    def _proven(
        self, order: list[int], states: dict[int, State], steps: dict[Atom, Form | None], narrow: dict[Atom, Form]
    ) -> dict[int, tuple[Form, int]]:
        """Comparisons with a number before a jump out of the loop, unsigned above: checks of bounds."""
        nodes, made = set(order), {}
        for n in order[:-1]:
            one = self.codes[n]
            if one.word != "cmpq" or not NUMBER.match(one.operands[0][1:]) or not one.operands[0].startswith("$"):
                continue
            jump = self.codes[n + 1] if n + 1 in nodes else None
            if jump is None or jump.word != "ja" or len(self.next(n + 1)) != 2 or jump.labels:
                continue
            stay, leave = self.next(n + 1)
            limit = int(one.operands[0][1:], 0)
            if leave in nodes or stay not in nodes or limit < 0 or self._flags_read(stay):
                continue
            form = self.effects.value(one.operands[1], 8, states[n])
            if form is not None and self._linear(form, steps, narrow):
                made[n] = form, limit
        return made

    def _flags_read(self, n: int) -> bool:
        """Whether the flags at this node may still be read."""
        while n < len(self.codes) and not self.graph.is_hook(n):
            one = self.codes[n]
            if FLAGS_READ.match(one.word) or one.word in ("jmp", "call", "callq", "ret"):
                return True
            if COMPARES.match(one.word) or re.match(r"^(add|sub|and|or|xor|neg|u?comis[sd])", one.word):
                return False
            n += 1
        return False

    def _dead(self, order: list[int], proven: Mapping[int, object]) -> set[int]:
        """Moves between registers that nothing reads any more when hooks and proven comparisons are gone."""
        nodes = set(order)
        live: dict[int, set[str]] = {self.last: {*KEPT, *(ARGUMENTS[: self.rank] if self.rank else LOST)}}
        dead: set[int] = set()
        for n in reversed(order[:-1]):
            one = self.codes[n]
            after: set[str] = set()
            for there in self.next(n):
                after |= live[there] if there in nodes else {*KEPT, *LOST}
            if self.graph.is_hook(n):
                live[n] = after - set(LOST)
            elif n in proven or n - 1 in proven:
                inside = [there for there in self.next(n) if there in nodes]
                live[n] = set().union(*(live[there] for there in inside))
            elif one.word in ("movq", "movl", "leaq", "leal", "movslq", "cltq", "movabsq"):
                target = one.operands[-1] if one.operands else "%rax"
                if target.startswith("%") and target[1:] in PARTS:
                    full = PARTS[target[1:]]
                    if full not in after:
                        dead.add(n)
                        live[n] = after
                        continue
                    reads = {
                        PARTS[k]
                        for k in re.findall(r"%(\w+)", one.operands[0] if one.operands else "%eax")
                        if k in PARTS
                    }
                    live[n] = (after - {full}) | reads
                else:
                    live[n] = after | one.registers()
            else:
                live[n] = after | one.registers() | self._hidden(one)
        return dead

    @staticmethod
    def _hidden(one: Code) -> set[str]:
        """Registers that an instruction reads without naming them."""
        if one.word in ("cqto", "cltd") or one.word.startswith(("idiv", "div", "mul", "imul")):
            return {"rax", "rdx"}
        return set()
