"""A function's instructions as gcc and clang write them (AT&T, x86-64), and the ways between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

HOOK: Final = re.compile(r"__tsan_(read|write)([48])(@PLT)?$")
MARK: Final = re.compile(r"weft_check_iteration([123])(@PLT)?$")
AGAIN: Final = re.compile(r"_*(sig)?setjmp|v?fork|getcontext")
"""What returns more than once."""

PARTS: Final = {
    **{
        part: full
        for full, parts in {
            "rax": "eax ax al ah",
            "rbx": "ebx bx bl bh",
            "rcx": "ecx cx cl ch",
            "rdx": "edx dx dl dh",
            "rsi": "esi si sil",
            "rdi": "edi di dil",
            "rbp": "ebp bp bpl",
            "rsp": "esp sp spl",
        }.items()
        for part in (full, *parts.split())
    },
    **{f"r{n}{end}": f"r{n}" for n in range(8, 16) for end in ("", "d", "w", "b")},
}
MEMORY: Final = re.compile(r"^(?P<shift>[^(%$*]*)\((?P<base>%\w+)?(,(?P<index>%\w+)?(,(?P<scale>\d))?)?\)$")
NUMBER: Final = re.compile(r"^-?(0x[0-9a-fA-F]+|\d+)$")
SYMBOL: Final = re.compile(r"^((?P<before>-?\d+)\+)?(?P<name>[A-Za-z_.][\w.$]*)(?P<after>[+-]\d+)?$")
COMPARES: Final = re.compile(r"^(cmp|test|bt)[bwlq]$")
BRANCH: Final = re.compile(r"^j[a-z]+$")
ABOVE: Final = {"ja": 0, "jnbe": 0, "jae": 1, "jnb": 1, "jnc": 1}
"""Jumps after a comparison with a number that unsigned larger values take; how many of the smaller ones do not: up to
gcc 13 a check of bounds is `cmpq $3; ja`, from 14 on `cmpq $4; jnb`."""
FLAGS_READ: Final = re.compile(r"^(j(?!mp)|set|cmov|adc|sbb)")
FLAGS_SET: Final = re.compile(r"^((cmp|test|add|sub|and|or|xor|neg)[bwlq]|u?comis[sd])$")
"""All of them. (Not `bt`: one flag alone.)"""


@dataclass(slots=True)
class Instruction:
    """An instruction, the labels before it, and the nodes that can follow it."""

    text: str
    word: str
    operands: tuple[str, ...]
    line: int
    labels: list[str] = field(default_factory=list)
    next: list[int] = field(default_factory=list)

    @property
    def target(self) -> str:
        """Return where a call or jump goes."""
        return self.operands[0] if self.operands else ""

    def registers(self) -> set[str]:
        """Return the general registers that the instruction names, each by its 64-bit name."""
        return {PARTS[one] for one in re.findall(r"%(\w+)", self.text) if one in PARTS}


def _split_operands(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in re.split(r",(?![^(]*\))", text)) if text else ()


def parse_instructions(lines: list[str], first_line: int, end_line: int) -> list[Instruction]:
    """Return the instructions in the lines of a compiler's assembly from `first_line` up to `end_line` (without it),
    each with the labels that stand before it. Their successors are not set yet.
    """
    made: list[Instruction] = []
    labels: list[str] = []
    for at in range(first_line, end_line):
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
            made.append(Instruction(line.strip(), word, _split_operands(rest.strip()), at, labels))
            labels = []
    return made


def _link_successors(instructions: list[Instruction]) -> None:
    """Set the successors of each instruction: the nodes (indices of instructions) that control can reach directly after
    it.
    """
    at = {label: n for n, one in enumerate(instructions) for label in one.labels}
    everywhere = sorted(at.values())
    for n, one in enumerate(instructions):
        after = [n + 1] if n + 1 < len(instructions) else []
        if one.word in ("ret", "ud2", "hlt"):
            one.next = []
        elif BRANCH.match(one.word):
            there = everywhere if one.target.startswith("*") else [at[one.target]] if one.target in at else []
            if not there and one.word != "jmp":
                one.word = "unknown"
            one.next = there if one.word == "jmp" else [*after, *there]
        else:
            one.next = after


def find_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield (index of the label's line, index of the `.size` line after the code) for each function in a compiler's
    assembly.
    """
    names = {found[1] for line in lines if (found := re.match(r"\t\.type\t([\w.$]+),\s*@function", line))}
    begun = None
    for n, line in enumerate(lines):
        if line.endswith(":") and line[:-1] in names:
            begun = n
        elif begun is not None and re.match(r"\t\.size\t", line):
            yield begun, n
            begun = None


def _find_lowest_address_taken(instructions: list[Instruction]) -> int:
    """Return the lowest frame offset whose address a function takes: 2^40 if it takes none, -2^40 if it passes the
    frame pointer on. The slots below that offset belong to the compiler, and no pointer leads to them.
    """
    lowest = 1 << 40
    for one in instructions:
        if not any("%rbp" in operand or "%ebp" in operand for operand in one.operands):
            continue
        memory = MEMORY.match(one.operands[0]) if one.operands else None
        if one.word == "leaq" and memory and NUMBER.match(memory["shift"] or "0"):
            lowest = min(lowest, int(memory["shift"] or "0", 0))
        elif one.text in ("pushq\t%rbp", "popq\t%rbp", "movq\t%rsp, %rbp"):
            continue
        elif "%rbp" in one.operands or any(re.search(r"\(.*,\s*%rbp", operand) for operand in one.operands):
            lowest = -(1 << 40)
    return lowest


class ControlFlowGraph:
    """A function's instructions and how control moves between them."""

    def __init__(self, codes: list[Instruction], sites: Mapping[int, int], *, catches: bool = False) -> None:
        _link_successors(codes)
        self.codes, self.sites = codes, sites
        self.elsewhere = catches or any(AGAIN.match(one.target) for one in codes if one.word in ("call", "callq"))
        """Whether control may also come from a call to another node than the one after it."""

        self.taken = _find_lowest_address_taken(codes)
        self.end = len(codes)
        """A node of its own: where the loops without a mark begin anew."""

        self.before: dict[int, list[int]] = {}
        for n, one in enumerate(codes):
            for there in one.next:
                self.before.setdefault(there, []).append(n)

    def is_hook(self, node: int) -> bool:
        """Return whether a node (index of an instruction) calls a hook that has a site number."""
        return (
            node < self.end
            and self.is_call(node)
            and bool(HOOK.match(self.codes[node].target))
            and self.codes[node].line in self.sites
        )

    def is_call(self, n: int) -> bool:
        """Return whether a node calls something."""
        return self.codes[n].word in ("call", "callq")

    def find_loop_marks(self) -> Iterator[tuple[int, int]]:
        """Yield (node, dimensions) for each node at which an iteration of a loop begins. In a parallel loop this is a
        call of the runtime, and `dimensions` is how many loops it nests (1 to 3). In any other loop it is the loop's
        head, and `dimensions` is 0."""
        for n, one in enumerate(self.codes):
            mark = MARK.match(one.target) if self.is_call(n) else None
            if mark:
                yield n, int(mark[1])
            elif one.labels and self.find_latches(n):
                yield n, 0

    def find_latches(self, loop_head: int) -> list[int]:
        """Return the nodes (instruction indices) from which control goes back to the head of a loop. Those that can be
        reached without passing the head are left out.
        """
        spans = self._dominator_spans
        if loop_head not in spans:
            return []
        first, last = spans[loop_head]
        return [n for n in self.before.get(loop_head, []) if n in spans and first <= spans[n][0] <= last]

    @cached_property
    def _dominator_spans(self) -> dict[int, tuple[int, int]]:
        """Return node -> (its number, the greatest number below it). The nodes are numbered in a walk through the
        dominator tree, so that a node dominates exactly those nodes whose numbers are in its range.
        """
        below: dict[int, list[int]] = {}
        for n, above in self._find_dominators().items():
            if n != above:
                below.setdefault(above, []).append(n)
        first: dict[int, int] = {}
        spans: dict[int, tuple[int, int]] = {}
        todo = [0]
        while todo:
            n = todo.pop()
            if n >= 0:
                first[n] = len(first)
                todo.append(~n)
                todo += below.get(n, [])
            else:
                spans[~n] = first[~n], len(first) - 1
        return spans

    def _find_dominators(self) -> dict[int, int]:
        """Return node -> the nearest other node that is on every path to it (its dominator); nodes are instruction
        indices. The algorithm is that of Cooper, Harvey and Kennedy (2001).
        """
        order, seen = [], {0}
        todo = [(0, iter(self.codes[0].next))]
        while todo:
            n, following = todo[-1]
            there = next((k for k in following if k not in seen), None)
            if there is None:
                order.append(n)
                todo.pop()
            else:
                seen.add(there)
                todo.append((there, iter(self.codes[there].next)))
        turn = {n: k for k, n in enumerate(order)}
        above = {0: 0}
        changed = True
        while changed:
            changed = False
            for n in reversed(order[:-1]):
                found = -1
                for before in self.before[n]:
                    one = before
                    if one not in above:
                        continue
                    if found < 0:
                        found = one
                    while found != one:
                        if turn[found] < turn[one]:
                            found = above[found]
                        else:
                            one = above[one]
                if above.get(n) != found:
                    above[n], changed = found, True
        return above


def find_reachable_nodes(
    start_nodes: Iterable[int], successors: Callable[[int], list[int]], excluded: set[int]
) -> set[int]:
    """Return all nodes that can be reached from `start_nodes` without a step into `excluded` ones."""
    found = set(start_nodes) - excluded
    todo = list(found)
    while todo:
        for there in successors(todo.pop()):
            if there not in found and there not in excluded:
                found.add(there)
                todo.append(there)
    return found
