"""Code without a loop that gets a second copy: instructions that follow one another, with many hooks.

It is a row of one iteration, whose addresses need not rise: they are linear forms of what registers and stack slots
hold where it begins. It ends behind a hook, where nothing that a call may change is needed. Checks of bounds leave it,
as they leave a loop; what comes back from them, or from elsewhere into the middle, goes on in the first copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.instrument.rows.code import ABOVE, BRANCH, HOOK, ControlFlowGraph
from weft.instrument.rows.forms import ONE, Form
from weft.instrument.rows.values import InstructionEffects, MachineState, NoCopyError
from weft.instrument.rows.ways import LoopBlock, are_flags_read

RANK: Final = -1
"""In the place of a loop's rank."""

FEWEST_HOOKS: Final = 48
"""With fewer the proof costs as much as they do."""

MOST_HOOKS: Final = 1000
ENDS: Final = ("call", "callq", "ret", "unknown", "jmp")


class StraightCode:
    """Code without a loop, from its first instruction to the one after its last hook."""

    def __init__(self, graph: ControlFlowGraph, first: int, behind: int) -> None:
        self.graph, self.codes = graph, graph.codes
        self.rank, self.mark, self.start, self.last = RANK, first, first, behind
        self.prefix: list[int] = []
        self.order = list(range(first, behind + 1))
        self.nodes = set(self.order)
        self.blocks = [LoopBlock(self.order, ())]

    def find_next(self, node: int) -> list[int]:
        """Return where control goes from a node."""
        return [] if node == self.last else self.codes[node].next

    def inside(self, node: int) -> list[int]:
        """Return where control goes in the copy."""
        return [] if node == self.last else [node + 1]


def find_straight_code(graph: ControlFlowGraph, excluded: set[int]) -> Iterator[StraightCode]:
    """Yield the pieces of a function's code that have no loop and at least FEWEST_HOOKS hooks. Nodes in `excluded` are
    in none of them.
    """
    n = 0
    while n < graph.end:
        if n in excluded or are_flags_read(graph, n):
            n += 1
            continue
        behind, hooks, stopped = _follow_straight_code(graph, n, excluded)
        if hooks >= FEWEST_HOOKS and not _is_jumped_into(graph, n, behind):
            yield StraightCode(graph, n, behind)
        n = max(stopped, n + 1)


def _is_jumped_into(graph: ControlFlowGraph, first_node: int, last_node: int) -> bool:
    """Return whether a jump within a range of nodes (instruction indices) leads to a place in the range other than the
    next instruction.
    """
    return any(
        first_node <= there <= last_node
        for n in range(first_node, last_node)
        for there in graph.codes[n].next
        if there != n + 1
    )


def _follow_straight_code(graph: ControlFlowGraph, first_node: int, excluded: set[int]) -> tuple[int, int, int]:
    """Follow the code without branches from `first_node`, and count its hooks (calls before memory accesses). Return
    (node after the last hook, number of hooks, node at which the code without branches ends).
    """
    effects, state = InstructionEffects(graph), MachineState()
    behind, hooks, n = first_node, 0, first_node
    while n + 1 < graph.end and n not in excluded and hooks < MOST_HOOKS:
        one = graph.codes[n]
        if graph.is_hook(n):
            form = state.registers.get("rdi")
            if form is None or not is_known_at_start(form) or not HOOK.match(one.target):
                return behind, hooks, n + 1
            behind, hooks = n + 1, hooks + 1
        elif one.word in ENDS or (BRANCH.match(one.word) and one.word not in ABOVE):
            return behind, hooks, n + 1
        if n + 1 not in one.next:
            break
        try:
            effects.apply_instruction(one, n, state)
        except NoCopyError:
            return behind, hooks, n + 1
        n += 1
    return behind, hooks, n


def is_known_at_start(form: Form, is_low_half: bool = False) -> bool:
    """Return whether a linear form uses only values of registers and slots, so that it can be computed where the code
    begins.
    """
    for atom, times in form.items():
        if atom is ONE or atom.kind == "register":
            continue
        if atom.kind == "address":
            if times != 1 or is_low_half:
                return False
        elif atom.kind in ("sx", "zx"):
            if not is_known_at_start(dict(atom.form), True):
                return False
        elif atom.kind != "slot" or (atom.size == 4 and not is_low_half):
            return False
    return True
