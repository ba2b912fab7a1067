"""Guards: branches within a loop's copy whose outcome the runtime knows before it runs a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.instrument.rows.code import COMPARES
from weft.instrument.rows.forms import Form, simplify_for_low_half
from weft.instrument.rows.values import InstructionEffects, MachineState
from weft.instrument.rows.ways import LoopBlock, LoopPaths
from weft.native.headers.check_rows import RowTest as Test

_TESTS: Final = {
    name: test + Test.NOT * negated
    for test, names in {
        Test.EQUAL: ("e z", "ne nz"),
        Test.LESS: ("l nge", "ge nl"),
        Test.AT_MOST: ("le ng", "g nle"),
        Test.BELOW: ("b c nae", "ae nc nb"),
        Test.NOT_ABOVE: ("be na", "a nbe"),
    }.items()
    for negated, listed in enumerate(names)
    for name in listed.split()
}


@dataclass(frozen=True, slots=True)
class Guard:
    """The jump is taken where the test holds of two values of 4 or 8 bytes; those of 4 are the forms' low halves."""

    left: Form
    right: Form
    size: int
    test: int


def find_block_guard(
    paths: LoopPaths, effects: InstructionEffects, block: LoopBlock, states: dict[int, MachineState]
) -> Guard | None:
    """Return the comparison that decides the branch at the end of a block of instructions. None if the block ends
    without a branch, or if the compared values are unknown.
    """
    return find_branch_guard(paths, effects, block.nodes[-1], states) if len(block.next) == 2 else None


def find_branch_guard(
    paths: LoopPaths, effects: InstructionEffects, node: int, states: dict[int, MachineState]
) -> Guard | None:
    """Return the comparison that decides the branch at a node (an instruction index); None if the compared values are
    unknown.
    """
    codes = paths.codes
    test = _TESTS.get(codes[node].word[1:])
    compare = node - 1
    # Branches leave the flags as they are, and so do moves.
    while compare in states and not codes[compare + 1].labels and not COMPARES.match(codes[compare].word):
        if not codes[compare].word.startswith(("j", "mov", "lea")) or codes[compare].word == "jmp":
            return None
        compare -= 1
    if compare not in states or codes[compare + 1].labels or compare + 1 not in states:
        return None
    one, state = codes[compare], states[compare]
    left: Form | None = None
    right: Form | None = {}
    size = {"q": 8, "l": 4}.get(one.word[-1], 0)
    if not size or one.word.startswith("bt"):
        return None
    if one.word.startswith("test"):
        if one.operands[0] != one.operands[1]:
            return None
        left = effects.compute_value(one.operands[0], size, state)
        if codes[node].word in ("js", "jns"):
            test = Test.LESS + Test.NOT * (codes[node].word == "jns")
    else:
        right, left = (effects.compute_value(operand, size, state) for operand in one.operands)
    if size == 4:
        left, right = simplify_for_low_half(left), simplify_for_low_half(right)
    if left is None or right is None or test is None:
        return None
    return Guard(left, right, size, test)
