"""Rows of iterations without hooks: a second copy of innermost loops in the compiler's assembly (x86-64).

A loop whose body is one way from its iteration call around to it again, and whose hooks get addresses that rise evenly,
is written a second time without hooks. The runtime (native/check/rows.c) proves for a number of iterations that every
access would pass, lets the second copy run them, and stamps what they wrote. Both copies have the same registers and
stack at every place, so that control may change between them: into the copy behind the iteration call, out of it before
the next one, or by any jump that leaves the loop.

Values are linear forms of what registers and stack slots hold behind the iteration call; what is not one is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

HOOK: Final = re.compile(r"__tsan_(read|write)([48])(@PLT)?$")
MARK: Final = re.compile(r"weft_check_iteration([123])(@PLT)?$")
KEPT: Final = ("rbx", "r12", "r13", "r14", "r15", "rbp")
"""Registers that a call leaves alone, in the order in which the copy's entry puts them on the stack, from the last."""

LOST: Final = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
ARGUMENTS: Final = ("rdi", "rsi", "rdx")
MOST_NODES: Final = 4000
MOST_SITES: Final = 256

_WIDE: Final = (1 << 64) - 1
_PARTS: Final = {
    **{
        part: full
        for full, parts in {
            "rax": "eax ax al ah", "rbx": "ebx bx bl bh", "rcx": "ecx cx cl ch", "rdx": "edx dx dl dh",
            "rsi": "esi si sil", "rdi": "edi di dil", "rbp": "ebp bp bpl", "rsp": "esp sp spl",
        }.items()
        for part in (full, *parts.split())
    },
    **{f"r{n}{end}": f"r{n}" for n in range(8, 16) for end in ("", "d", "w", "b")},
}  # fmt: skip
_MEMORY: Final = re.compile(r"^(?P<shift>[^(%$*]*)\((?P<base>%\w+)?(,(?P<index>%\w+)?(,(?P<scale>\d))?)?\)$")
_NUMBER: Final = re.compile(r"^-?(0x[0-9a-fA-F]+|\d+)$")
_SYMBOL: Final = re.compile(r"^((?P<before>-?\d+)\+)?(?P<name>[A-Za-z_.][\w.$]*)(?P<after>[+-]\d+)?$")
_LOCAL: Final = re.compile(r"^\.L(VL|BB|BE|FB|FE|EH|cold)?")

# What only changes its last operand, which is unknown afterwards.
_CHANGES: Final = re.compile(
    r"^((and|or|xor|not|shr|sar|rol|ror|adc|sbb|shl|sal|add|sub|inc|dec|neg|imul)[bwlq]"
    r"|mov[bw]|movz\w+|movs(bw|bl|bq|wl|wq)|set\w+|cmov\w+|bs[fr][lq]|popcnt[lq]|[lt]zcnt[lq]|bswap)$"
)
_COMPARES: Final = re.compile(r"^(cmp|test|bt)[bwlq]$")
_BRANCH: Final = re.compile(r"^j[a-z]+$")
_FLAGS_READ: Final = re.compile(r"^(j(?!mp)|set|cmov|adc|sbb)")

Atom = tuple[object, ...]
Form = Mapping[Atom, int]
"""Atoms with their factors; the atom (): the constant."""


def _frozen(form: Form) -> tuple[tuple[Atom, int], ...]:
    return tuple(sorted(((a, c) for a, c in form.items() if c), key=repr))


def _sum(one: Form | None, two: Form | None, factor: int = 1) -> Form | None:
    if one is None or two is None:
        return None
    made = dict(one)
    for atom, times in two.items():
        made[atom] = (made.get(atom, 0) + factor * times) & _WIDE
    return {atom: times for atom, times in made.items() if times}


def _number(value: int) -> Form:
    return {(): value & _WIDE} if value & _WIDE else {}


def _low(form: Form | None) -> Form | None:
    """A form with the same 32 low bits."""
    if form is not None and len(form) == 1:
        ((atom, times),) = form.items()
        if times == 1 and atom and atom[0] in ("sx", "zx"):
            return dict(atom[1])  # type: ignore[call-overload,no-any-return]
    return form


def _wide(form: Form | None, kind: str) -> Form | None:
    """The 32 low bits extended with their sign (`sx`) or zeros (`zx`)."""
    form = _low(form)
    if form is None:
        return None
    if not set(form) - {()}:
        value = form.get((), 0) & 0xFFFFFFFF
        return _number(value - (1 << 32) if kind == "sx" and value >> 31 else value)
    return {(kind, _frozen(form)): 1}


@dataclass(slots=True)
class Code:
    """An instruction and the labels before it."""

    text: str
    word: str
    operands: tuple[str, ...]
    line: int
    labels: list[str] = field(default_factory=list)
    next: list[int] = field(default_factory=list)

    @property
    def target(self) -> str:
        """Where a call or jump goes."""
        return self.operands[0] if self.operands else ""

    def registers(self) -> set[str]:
        """All general registers that are named, in full width."""
        return {_PARTS[one] for one in re.findall(r"%(\w+)", self.text) if one in _PARTS}


class Unfit(Exception):
    """This loop has no second copy."""


def _operands(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in re.split(r",(?![^(]*\))", text)) if text else ()


def _codes(lines: list[str], first: int, last: int) -> list[Code]:
    made: list[Code] = []
    labels: list[str] = []
    for at in range(first, last):
        line = lines[at].split("#")[0] if '"' not in lines[at] else lines[at]
        label = re.match(r"^([\w.$]+):\s*$", line)
        if label:
            labels.append(label[1])
        elif re.match(r"^\t[a-z]", line):
            word, _, rest = line.strip().partition("\t")
            if word == "notrack":
                word, _, rest = rest.partition(" ")
            if word in ("rep", "lock", "bnd") or " " in word:
                word, rest = "unknown", line.strip()
            made.append(Code(line.strip(), word, _operands(rest.strip()), at, labels))
            labels = []
    return made


def _link(codes: list[Code]) -> None:
    """Where control goes from each instruction."""
    at = {label: n for n, one in enumerate(codes) for label in one.labels}
    everywhere = sorted(at.values())
    for n, one in enumerate(codes):
        after = [n + 1] if n + 1 < len(codes) else []
        if one.word in ("ret", "ud2", "hlt"):
            one.next = []
        elif _BRANCH.match(one.word):
            there = everywhere if one.target.startswith("*") else [at[one.target]] if one.target in at else []
            if not there and one.word != "jmp":
                one.word = "unknown"
            one.next = there if one.word == "jmp" else [*after, *there]
        else:
            one.next = after


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
    for first, last in _functions(lines):
        if not any(line in sites for line in range(first, last)):
            continue
        codes = _codes(lines, first, last)
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


def _functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each function."""
    names = {found[1] for line in lines if (found := re.match(r"\t\.type\t([\w.$]+), @function", line))}
    begun = None
    for n, line in enumerate(lines):
        if line.endswith(":") and line[:-1] in names:
            begun = n
        elif begun is not None and re.match(r"\t\.size\t", line):
            yield begun, n
            begun = None


def _addresses_taken(codes: list[Code]) -> int:
    """The lowest offset from the frame pointer whose address is computed: what lies below is the compiler's own."""
    lowest = 1 << 40
    for one in codes:
        if not any("%rbp" in operand or "%ebp" in operand for operand in one.operands):
            continue
        memory = _MEMORY.match(one.operands[0]) if one.operands else None
        if one.word == "leaq" and memory and _NUMBER.match(memory["shift"] or "0"):
            lowest = min(lowest, int(memory["shift"] or "0", 0))
        elif "%rbp" in one.operands and one.text not in ("pushq\t%rbp", "popq\t%rbp", "movq\t%rsp, %rbp"):
            lowest = -(1 << 40)
        elif any(re.search(r"\(.*,\s*%rbp", operand) for operand in one.operands):
            lowest = -(1 << 40)
    return lowest


class Graph:
    """A function's instructions and the ways between them."""

    def __init__(self, codes: list[Code], sites: Mapping[int, int]) -> None:
        _link(codes)
        self.codes, self.sites = codes, sites
        self.taken = _addresses_taken(codes)
        self.end = len(codes)
        """A node of its own: where the loops without a mark begin anew."""

        self.before: dict[int, list[int]] = {}
        for n, one in enumerate(codes):
            for there in one.next:
                self.before.setdefault(there, []).append(n)

    def is_hook(self, n: int) -> bool:
        """Whether a node is a hook with a site of its own."""
        return n < self.end and self.is_call(n) and bool(HOOK.match(self.codes[n].target)) and self.codes[n].line in self.sites

    def is_call(self, n: int) -> bool:
        """Whether a node calls something."""
        return self.codes[n].word in ("call", "callq")

    def loops(self) -> Iterator[tuple[int, int]]:
        """Marks with the rank of their loop, and heads of loops (rank 0)."""
        for n, one in enumerate(self.codes):
            mark = MARK.match(one.target) if self.is_call(n) else None
            if mark:
                yield n, int(mark[1])
            elif one.labels and any(k >= n and not self.is_call(k - 1) for k in self.before.get(n, [])):
                yield n, 0

    def latches(self, head: int) -> list[int]:
        """What jumps back to the head of a loop: nodes that only the head leads to."""
        entered = reach([0], lambda n: self.codes[n].next, {head})
        return [n for n in self.before.get(head, []) if n not in entered]


def reach(start: Iterable[int], following: Callable[[int], list[int]], without: set[int]) -> set[int]:
    """All nodes that some nodes lead to."""
    found = set(start) - without
    todo = list(found)
    while todo:
        for there in following(todo.pop()):
            if there not in found and there not in without:
                found.add(there)
                todo.append(there)
    return found


class _State:
    """What registers and slots hold."""

    def __init__(self) -> None:
        self.registers: dict[str, Form | None] = {name: {("r", name): 1} for name in KEPT}
        self.slots: dict[tuple[int, int], Form | None] = {}

    def copy(self) -> _State:
        made = _State()
        made.registers, made.slots = dict(self.registers), dict(self.slots)
        return made

    def merge(self, other: _State) -> None:
        for name in set(self.registers) | set(other.registers):
            if self.registers.get(name) != other.registers.get(name):
                self.registers[name] = None
        for key in set(self.slots) | set(other.slots):
            one = self.slots.get(key, {("s", *key): 1})
            if one != other.slots.get(key, {("s", *key): 1}):
                self.slots[key] = None


class _Loop:
    """One loop under examination."""

    def __init__(self, graph: Graph, mark: int, rank: int) -> None:
        self.graph, self.codes, self.mark, self.rank = graph, graph.codes, mark, rank
        self.start = mark + 1 if rank else mark
        self.last = mark if rank else graph.end
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
            self._step(("r", name), last.registers.get(name), steps, narrow)
        for key, held in last.slots.items():
            self._step(("s", *key), held, steps, narrow)
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
        made = Row(number, self.mark, self.last, self.rank, self.codes, self.next, order, places, proven, set(), steps, narrow, arguments)
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
        waits = {n: 0 for n in nodes}
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

    def _values(self, order: list[int]) -> dict[int, _State]:
        """What holds before each node."""
        states: dict[int, _State] = {order[0]: self._entry()}
        nodes = set(order)
        for n in order[:-1]:
            after = states[n].copy()
            self._run(self.codes[n], n, after)
            for there in self.next(n):
                if there not in nodes:
                    continue
                if there in states:
                    states[there].merge(after)
                else:
                    states[there] = after.copy()
        return states

    def _entry(self) -> _State:
        """What is known behind the mark: what the instructions before it made of what they left alone."""
        state = _State()
        for n in self.prefix:
            self._run(self.codes[n], n, state)

        def left_alone(form: Form) -> bool:
            for atom in form:
                if not atom or atom[0] == "a":
                    continue
                if atom[0] in ("sx", "zx"):
                    if not left_alone(dict(atom[1])):  # type: ignore[call-overload]
                        return False
                elif atom[0] == "r":
                    if state.registers.get(str(atom[1])) != {atom: 1}:
                        return False
                elif any(
                    k[0] < int(str(atom[1])) + int(str(atom[2])) and int(str(atom[1])) < k[0] + k[1] for k in state.slots
                ):
                    return False
            return True

        made = _State()
        for name in KEPT:
            form = state.registers.get(name)
            if form is not None and left_alone(form):
                made.registers[name] = form
        for key, form in state.slots.items():
            if form is not None and left_alone(form):
                made.slots[key] = form
        return made

    def _memory(self, operand: str) -> tuple[int, bool] | None:
        """The offset of a slot and whether it is the compiler's own; None: not on this frame."""
        found = _MEMORY.match(operand)
        if not found or "%rbp" not in (found["base"], found["index"]):
            return None
        shift = found["shift"] or "0"
        if found["base"] != "%rbp" or not _NUMBER.match(shift):
            raise Unfit
        if found["index"]:
            return 0, False
        return int(shift, 0), int(shift, 0) < self.graph.taken

    def _address(self, operand: str, state: _State) -> Form | None:
        found = _MEMORY.match(operand)
        if not found:
            return None
        shift, form = found["shift"] or "0", None
        if _NUMBER.match(shift):
            form = _number(int(shift, 0))
        elif found["base"] == "%rip":
            symbol = _SYMBOL.match(shift)
            if not symbol:
                return None
            form = {("a", symbol["name"]): 1, **_number(int(symbol["before"] or 0) + int(symbol["after"] or 0))}
        if found["base"] and found["base"] != "%rip":
            form = _sum(form, state.registers.get(_PARTS.get(found["base"][1:], "")))
        if found["index"]:
            form = _sum(form, state.registers.get(_PARTS.get(found["index"][1:], "")), int(found["scale"] or 1))
        return form

    def _value(self, operand: str, size: int, state: _State) -> Form | None:
        """A value of 8 bytes, or one with the same low 4 bytes."""
        if operand.startswith("$"):
            return _number(int(operand[1:], 0)) if _NUMBER.match(operand[1:]) else None
        if operand.startswith("%"):
            return state.registers.get(_PARTS.get(operand[1:], ""))
        if operand.endswith("@GOTPCREL(%rip)") and size == 8:
            return {("a", operand[: -len("@GOTPCREL(%rip)")]): 1}
        slot = self._memory(operand)
        if slot and slot[1]:
            key = (slot[0], size)
            if any(k != key and k[0] < key[0] + size and key[0] < k[0] + k[1] for k in state.slots):
                return None
            return state.slots.get(key, {("s", *key): 1})
        return None

    def _set(self, operand: str, form: Form | None, size: int, state: _State) -> None:
        if operand.startswith("%"):
            if operand[1:] in _PARTS:
                full = _PARTS[operand[1:]]
                if full in ("rsp", "rbp"):
                    raise Unfit
                state.registers[full] = form if size == 8 else _wide(form, "zx") if size == 4 else None
            return
        slot = self._memory(operand)
        if slot is None:
            return
        if not slot[1]:
            found = _MEMORY.match(operand)
            if found and found["index"]:
                raise Unfit
            return
        wide = size if size in (4, 8) else 16
        for k in [k for k in state.slots if k[0] < slot[0] + wide and slot[0] < k[0] + k[1]]:
            state.slots[k] = None
        if size in (4, 8):
            state.slots[slot[0], size] = form if size == 8 else _low(form)
        else:
            for k in ((slot[0], 8), (slot[0], 4), (slot[0] + 4, 4), (slot[0] + 8, 8), (slot[0] + 4, 8), (slot[0] + 12, 4)):
                state.slots[k] = None

    def _run(self, one: Code, n: int, state: _State) -> None:
        """Change the state by an instruction; Unfit where it is not known."""
        word, operands = one.word, one.operands
        if "%rsp" in one.text or "%esp" in one.text:
            raise Unfit
        if self.graph.is_hook(n):
            for name in LOST:
                state.registers.pop(name, None)
            return
        if word == "jmp" and one.target.startswith("*"):
            raise Unfit
        if _BRANCH.match(word) or _COMPARES.match(word) or word in ("nop", "endbr64"):
            return
        if re.search(r"%xmm\d", one.text):
            if word.startswith(("pcmpestr", "pcmpistr", "maskmov", "v")):
                raise Unfit
            self._set(operands[-1], None, 16, state)
            return
        if word.startswith("f"):
            if word in ("fnstsw", "fstsw"):
                state.registers["rax"] = None
            elif operands and operands[-1].endswith(")"):
                self._set(operands[-1], None, 16, state)
            return
        size = 8 if word.endswith("q") else 4
        if word in ("movq", "movl", "movabsq"):
            self._set(operands[1], self._value(operands[0], size, state), size, state)
        elif word in ("leaq", "leal"):
            self._set(operands[1], self._address(operands[0], state), size, state)
        elif word in ("movslq", "cltq"):
            source, target = operands if operands else ("%eax", "%rax")
            self._set(target, _wide(self._value(source, 4, state), "sx"), 8, state)
        elif word in ("addq", "addl", "subq", "subl") and len(operands) == 2:
            part = self._value(operands[0], size, state), self._value(operands[1], size, state)
            if size == 4:
                part = _low(part[0]), _low(part[1])
            self._set(operands[1], _sum(part[1], part[0], 1 if word.startswith("a") else -1), size, state)
        elif word in ("salq", "sall", "shlq", "shll", "imulq", "imull") and len(operands) >= 2:
            self._product(word, operands, size, state)
        elif word in ("xorl", "xorq") and operands[0] == operands[1]:
            self._set(operands[1], {}, size, state)
        elif word in ("cqto", "cltd"):
            state.registers["rdx"] = None
        elif word in ("idivq", "idivl", "divq", "divl", "mulq", "mull", "imulq", "imull") and len(operands) == 1:
            state.registers["rax"] = state.registers["rdx"] = None
        elif _CHANGES.match(word) and operands:
            self._set(operands[-1], None, {"b": 1, "w": 2, "l": 4}.get(word[-1], 8), state)
            if operands[-1].startswith("%") and operands[-1][1:] in _PARTS:
                state.registers[_PARTS[operands[-1][1:]]] = None
        else:
            raise Unfit

    def _product(self, word: str, operands: tuple[str, ...], size: int, state: _State) -> None:
        target = operands[-1]
        form = self._value(operands[-1] if len(operands) == 2 else operands[1], size, state)
        if size == 4:
            form = _low(form)
        if not operands[0].startswith("$") or not _NUMBER.match(operands[0][1:]) or form is None:
            self._set(target, None, size, state)
            return
        factor = int(operands[0][1:], 0)
        if word.startswith("s"):
            factor = 1 << (factor & (63 if size == 8 else 31))
        self._set(target, _sum({}, form, factor), size, state)

    # --- what the values are in later iterations ---

    @staticmethod
    def _step(
        atom: Atom, held: Form | None, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]
    ) -> None:
        """How much an atom rises each iteration: in full, or (narrow) in its low 32 bits."""
        steps[atom] = None
        if held is None:
            return
        own: Form = {atom: 1}
        if held.get(atom) == 1:
            steps[atom] = _sum(held, own, -1)
        low = _low(held)
        if low is not None and low.get(atom) == 1:
            rise = _sum(low, own, -1)
            assert rise is not None
            narrow[atom] = rise

    def _linear(self, form: Form, steps: dict[Atom, Form | None], narrow: dict[Atom, Form], low: bool = False) -> bool:
        """Whether a form rises by the same each iteration."""
        for atom, times in form.items():
            if not atom:
                continue
            if atom[0] == "a":
                if times != 1 or low:
                    return False
            elif atom[0] in ("sx", "zx"):
                if not self._linear(dict(atom[1]), steps, narrow, True):  # type: ignore[call-overload]
                    return False
            else:
                self._unwritten(atom, steps, narrow)
                if atom[0] == "s" and atom[2] == 4 and not low:
                    return False
                rise = narrow.get(atom) if low else steps.get(atom)
                if rise is None or not self._constant(rise, steps, narrow):
                    return False
        return True

    def _constant(self, form: Form, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]) -> bool:
        for atom in form:
            if not atom:
                continue
            if atom[0] not in ("r", "s"):
                return False
            self._unwritten(atom, steps, narrow)
            if (atom[0] == "s" and atom[2] == 4) or steps.get(atom) != {}:
                return False
        return True

    def _unwritten(self, atom: Atom, steps: dict[Atom, Form | None], narrow: dict[Atom, Form]) -> None:
        """A slot that nothing in the loop writes stays what it is."""
        if atom[0] != "s" or atom in steps:
            return
        offset, size = int(str(atom[1])), int(str(atom[2]))
        if any(k[0] < offset + size and offset < k[0] + k[1] for k in self.written):
            steps[atom] = None
        else:
            steps[atom] = narrow[atom] = {}

    def _places(self, order: list[int], states: dict[int, _State], always: set[int]) -> dict[int, Place]:
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
        self, order: list[int], states: dict[int, _State], steps: dict[Atom, Form | None], narrow: dict[Atom, Form]
    ) -> dict[int, tuple[Form, int]]:
        """Comparisons with a number before a jump out of the loop, unsigned above: checks of bounds."""
        nodes, made = set(order), {}
        for n in order[:-1]:
            one = self.codes[n]
            if one.word != "cmpq" or not _NUMBER.match(one.operands[0][1:]) or not one.operands[0].startswith("$"):
                continue
            jump = self.codes[n + 1] if n + 1 in nodes else None
            if jump is None or jump.word != "ja" or len(self.next(n + 1)) != 2 or jump.labels:
                continue
            stay, leave = self.next(n + 1)
            limit = int(one.operands[0][1:], 0)
            if leave in nodes or stay not in nodes or limit < 0 or self._flags_read(stay):
                continue
            form = self._value(one.operands[1], 8, states[n])
            if form is not None and self._linear(form, steps, narrow):
                made[n] = form, limit
        return made

    def _flags_read(self, n: int) -> bool:
        """Whether the flags at this node may still be read."""
        while n < len(self.codes) and not self.graph.is_hook(n):
            one = self.codes[n]
            if _FLAGS_READ.match(one.word) or one.word in ("jmp", "call", "callq", "ret"):
                return True
            if _COMPARES.match(one.word) or re.match(r"^(add|sub|and|or|xor|neg|u?comis[sd])", one.word):
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
                if target.startswith("%") and target[1:] in _PARTS:
                    full = _PARTS[target[1:]]
                    if full not in after:
                        dead.add(n)
                        live[n] = after
                        continue
                    reads = {_PARTS[k] for k in re.findall(r"%(\w+)", one.operands[0] if one.operands else "%eax") if k in _PARTS}
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


# --- writing ---

_SAVED: Final = {"rbp": 0, "rbx": 1, "r12": 2, "r13": 3, "r14": 4, "r15": 5}
_NUMBER_TERM, _REGISTER, _SLOT8, _SLOT4, _SIGNED, _ZEROED = range(6)
_STEP_IS_FORM: Final = 16

_ENTRY: Final = """\
.Lweftr{n}_t:
\tpushq\t%r15
\tpushq\t%r14
\tpushq\t%r13
\tpushq\t%r12
\tpushq\t%rbx
\tpushq\t%rbp
\tmovq\t%rsp, %rsi
\tleaq\t.Lweftr{n}(%rip), %rdi
\tcall\tweft_check_row
\taddq\t$48, %rsp
\ttestl\t%eax, %eax
\tjne\t.Lweftr{n}_{first}
\tjmp\t.Lweftr{n}_i
"""

_DONE: Final = """\
\tdecq\t.Lweftr{n}+8(%rip)
\tjne\t.Lweftr{n}_{first}
\tpushq\t%rdi
\tpushq\t%rsi
\tpushq\t%rdx
\tsubq\t$8, %rsp
\tleaq\t.Lweftr{n}(%rip), %rdi
\tcall\tweft_check_row_end
\taddq\t$8, %rsp
\tpopq\t%rdx
\tpopq\t%rsi
\tpopq\t%rdi
\tjmp\t.Lweftr{n}_m
"""

_EXIT: Final = """\
.Lweftr{n}_x{exit}:
\tpushq\t%rdi
\tpushq\t%rsi
\tleaq\t.Lweftr{n}(%rip), %rdi
\tmovl\t${done}, %esi
\tcall\t.Lweftr_leave
\tpopq\t%rsi
\tpopq\t%rdi
\tjmp\t{target}
"""

# Calls the runtime and changes nothing: any register may hold something where a loop is left.
_VECTORS: Final = [f"%xmm{n}" for n in range(16)]
_PUSHED: Final = ("rax", "rcx", "rdx", "r8", "r9", "r10", "r11")
# The same for loops without a mark, where any register may hold something at the head, too.
_BEGIN: Final = """\
.Lweftr{n}_t:
\tpushq\t%rdi
\tpushq\t%rsi
\tleaq\t.Lweftr{n}(%rip), %rdi
\tcall\t.Lweftr_enter
\tpopq\t%rsi
\tpopq\t%rdi
\tcmpq\t$0, .Lweftr{n}+8(%rip)
\tjne\t.Lweftr{n}_{first}
\tjmp\t.Lweftr{n}_i
"""

_AGAIN: Final = """\
\tdecq\t.Lweftr{n}+8(%rip)
\tjne\t.Lweftr{n}_{first}
\tpushq\t%rdi
\tpushq\t%rsi
\tleaq\t.Lweftr{n}(%rip), %rdi
\tmovl\t$-1, %esi
\tcall\t.Lweftr_leave
\tpopq\t%rsi
\tpopq\t%rdi
\tjmp\t.Lweftr{n}_m
"""



def _saving(name: str, called: str, kept: tuple[str, ...]) -> str:
    """A routine that calls the runtime and gives every register back; `kept`: for the runtime to read."""
    pushed = (*_PUSHED, *kept)
    room = 16 * len(_VECTORS) + 8 * (len(pushed) % 2)
    return "\n".join(
        [
            f"{name}:",
            "\tpushfq",
            *(f"\tpushq\t%{register}" for register in pushed),
            "\tmovq\t%rsp, %rsi" if kept else "\tcld",
            f"\tsubq\t${room}, %rsp",
            *(f"\tmovups\t{vector}, {16 * n}(%rsp)" for n, vector in enumerate(_VECTORS)),
            "\tcld",
            f"\tcall\t{called}",
            *(f"\tmovups\t{16 * n}(%rsp), {vector}" for n, vector in enumerate(_VECTORS)),
            f"\taddq\t${room}, %rsp",
            *(f"\tpopq\t%{register}" for register in reversed(pushed)),
            "\tpopfq",
            "\tret",
            "",
        ]
    )


SHARED: Final = _saving(".Lweftr_leave", "weft_check_row_exit", ()) + _saving(
    ".Lweftr_enter", "weft_check_row", ("r15", "r14", "r13", "r12", "rbx", "rbp")
)


class _Forms:
    """The forms of a row as the runtime reads them (`struct row_term`)."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.known: dict[object, int] = {}
        self.made: list[list[str]] = []

    def add(self, form: Form, low: bool = False) -> int:
        """The number of a form; those that it needs have smaller ones."""
        key = (_frozen(form), low)
        if key not in self.known:
            terms = [self._term(atom, times, low) for atom, times in sorted(form.items(), key=repr)]
            self.known[key] = len(self.made)
            self.made.append(terms)
        return self.known[key]

    def _term(self, atom: Atom, times: int, low: bool) -> str:
        if not atom:
            return f"\t.quad\t{times}, 0\n\t.long\t{_NUMBER_TERM}, 0\n"
        if atom[0] == "a":
            return f"\t.quad\t{atom[1]}, 0\n\t.long\t{_NUMBER_TERM}, 0\n"
        if atom[0] in ("sx", "zx"):
            kind = _SIGNED if atom[0] == "sx" else _ZEROED
            inner = self.add(dict(atom[1]), True)  # type: ignore[call-overload]
            return f"\t.quad\t{times}, 0\n\t.long\t{kind}, {inner}\n"
        rise = self.row.narrow[atom] if low else self.row.steps[atom]
        assert rise is not None
        if set(rise) - {()}:
            step, flag = self.add(rise), _STEP_IS_FORM
        else:
            step, flag = rise.get((), 0), 0
        if atom[0] == "r":
            kind, argument = _REGISTER, _SAVED[str(atom[1])]
        else:
            kind, argument = (_SLOT8 if atom[2] == 8 else _SLOT4), int(str(atom[1]))
        return f"\t.quad\t{times}, {step}\n\t.long\t{kind | flag}, {argument}\n"


def write(row: Row) -> tuple[dict[int, str], dict[int, str], str, str]:
    """What stands before and after lines of the text, the copy's code, and its data."""
    codes, n = row.codes, row.number
    nodes = set(row.order)
    turn = {node: k for k, node in enumerate(row.order)}
    first = row.order[0]
    place = codes[row.mark].line
    asking = f"\tdecl\t.Lweftr{n}(%rip)\n\tjle\t.Lweftr{n}_t\n.Lweftr{n}_i:"
    before: dict[int, str] = {place: f".Lweftr{n}_m:\n" if row.rank else f".Lweftr{n}_m:\n{asking}\n"}
    behind = {place: "\n" + asking} if row.rank else {}
    places = sorted(row.places, key=lambda node: turn[node])
    exits: dict[tuple[int, int], int] = {}

    def way(node: int, there: int) -> str:
        if there in nodes:
            return f".Lweftr{n}_{there}"
        done = sum(turn[place] < turn[node] for place in places)
        return f".Lweftr{n}_x{exits.setdefault((done, there), len(exits))}"

    code = [(_ENTRY if row.rank else _BEGIN).format(n=n, first=first)]
    chain = sorted(row.order)
    for k, node in enumerate(chain):
        code.append(f".Lweftr{n}_{node}:\n")
        if node == row.last:
            code.append((_DONE if row.rank else _AGAIN).format(n=n, first=first))
            continue
        one, onward = codes[node], row.next(node)
        following = onward[0]
        if one.word == "jmp":
            code.append(f"\tjmp\t{way(node, onward[0])}\n")
            continue
        if node not in row.places and node not in row.dead and node not in row.proven and node - 1 not in row.proven:
            if _BRANCH.match(one.word):
                code.append(f"\t{one.word}\t{way(node, onward[1])}\n")
            else:
                code.append(f"\t{one.text}\n")
        if k + 1 == len(chain) or chain[k + 1] != following:
            code.append(f"\tjmp\t{way(node, following)}\n")
    for (done, there), number in exits.items():
        if codes[there].labels:
            target = codes[there].labels[0]
        else:
            target = f".Lweftr{n}_o{there}"
            line = codes[there].line
            if target + ":" not in before.get(line, ""):
                before[line] = before.get(line, "") + f"{target}:\n"
        code.append(_EXIT.format(n=n, exit=number, done=done, target=target))
    return before, behind, "".join(code), _data(row, places)


def _data(row: Row, places: list[int]) -> str:
    n, forms = row.number, _Forms(row)
    held = []
    for node in places:
        place = row.places[node]
        held.append(
            f"\t.quad\t.Lweft{place.number}\n"
            f"\t.long\t{forms.add(place.address)}, {place.size}, {int(place.write)}, {int(place.always)}\n"
        )
    arguments = [forms.add(form) for form in row.arguments] + [0] * (4 - len(row.arguments))
    checks = dict.fromkeys((forms.add(form), limit) for form, limit in row.proven.values())
    limits = [f"\t.quad\t{limit}\n\t.long\t{form}, 0\n" for form, limit in checks]
    starts, terms = [0], []
    for made in forms.made:
        terms += made
        starts.append(len(terms))
    return (
        f"\t.balign\t8\n.Lweftr{n}:\n\t.long\t3, 0\n\t.quad\t0\n"
        f"\t.long\t{row.rank}, {len(places)}, {len(forms.made)}, {len(limits)}\n"
        f"\t.quad\t.Lweftr{n}_p, .Lweftr{n}_f, .Lweftr{n}_s, .Lweftr{n}_l\n"
        f"\t.long\t{', '.join(map(str, arguments))}\n\t.quad\t0, 0\n"
        f".Lweftr{n}_p:\n{''.join(held)}.Lweftr{n}_f:\n{''.join(terms)}"
        f".Lweftr{n}_s:\n\t.long\t{', '.join(map(str, starts))}\n\t.balign\t8\n.Lweftr{n}_l:\n{''.join(limits)}"
    )
