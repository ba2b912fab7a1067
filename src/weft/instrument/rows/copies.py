"""The second copy of a loop, the ways into it and out of it, and what the runtime reads of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from weft.instrument.rows.bases import render_base_setup
from weft.instrument.rows.code import BRANCH
from weft.instrument.rows.forms import ONE, Atom, Form, freeze_form, to_signed
from weft.instrument.rows.loops import CopiedLoop
from weft.instrument.rows.straight import StraightCode
from weft.instrument.rows.ways import LoopPaths
from weft.native.headers.check_rows import (
    MEMORY4,
    MEMORY8,
    NUMBER,
    REGISTER,
    SHIFTED,
    SIGNED,
    SLOT4,
    SLOT8,
    STEP_IS_FORM,
    ZEROED,
)

SAVED: Final = {"rbp": 0, "rbx": 1, "r12": 2, "r13": 3, "r14": 4, "r15": 5}

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
\tcall\t.Lweftr_enter{plain}
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


# Behind a hook nothing is needed that a call may change.
_ONCE: Final = """\
\tdecq\t.Lweftr{n}+8(%rip)
\tleaq\t.Lweftr{n}(%rip), %rdi
\tmovl\t$-1, %esi
\tcall\tweft_check_row_exit
\tjmp\t.Lweftr{n}_m
"""


def _render_saving_call(
    label: str, function_name: str, readable_registers: tuple[str, ...], vector_registers: list[str]
) -> str:
    """Return an assembly routine that calls a function of the runtime and preserves all registers; the function gets a
    pointer to `readable_registers`.
    """
    pushed = (*_PUSHED, *readable_registers)
    room = 16 * len(vector_registers) + 8 * (len(pushed) % 2)
    return "\n".join(
        [
            f"{label}:",
            "\tpushfq",
            *(f"\tpushq\t%{register}" for register in pushed),
            *(["\tmovq\t%rsp, %rsi"] if readable_registers else []),
            f"\tsubq\t${room}, %rsp",
            *(f"\tmovups\t{vector}, {16 * n}(%rsp)" for n, vector in enumerate(vector_registers)),
            "\tcld",
            f"\tcall\t{function_name}",
            *(f"\tmovups\t{16 * n}(%rsp), {vector}" for n, vector in enumerate(vector_registers)),
            f"\taddq\t${room}, %rsp",
            *(f"\tpopq\t%{register}" for register in reversed(pushed)),
            "\tpopfq",
            "\tret",
            "",
        ]
    )


_KEPT: Final = ("r15", "r14", "r13", "r12", "rbx", "rbp")
SHARED: Final = (
    _render_saving_call(".Lweftr_leave", "weft_check_row_exit", (), _VECTORS)
    + _render_saving_call(".Lweftr_enter", "weft_check_row", _KEPT, _VECTORS)
    + _render_saving_call(".Lweftr_enter_plain", "weft_check_row", _KEPT, [])
)


class _Forms:
    """The forms of a row as the runtime reads them (`struct row_term`)."""

    def __init__(self, row: CopiedLoop) -> None:
        self.row = row
        self.known: dict[object, str] = {}
        self.made: list[list[str]] = []
        self.shifted: list[list[str]] = []
        """Their numbers follow those of the others."""

    def find_or_add_form(self, form: Form, is_low_half: bool = False) -> str:
        """Return the number, as assembler text, of a linear form (a sum of registers, stack slots and constants) in the
        data of a loop's copy. A new form is added to the data, after the forms that it refers to.
        """
        key = (freeze_form(form), is_low_half)
        if key not in self.known:
            if shift := self._render_shift(form, is_low_half):
                self.known[key] = f".Lweftr{self.row.number}_w+{len(self.shifted)}"
                self.shifted.append([shift])
            else:
                terms = [self._render_term(atom, times, is_low_half) for atom, times in sorted(form.items(), key=repr)]
                self.known[key] = str(len(self.made))
                self.made.append(terms)
        return self.known[key]

    def _render_shift(self, form: Form, is_low_half: bool) -> str:
        """Return the data that describe a linear form as another form plus a constant or symbol, so that elements of
        one array share the other form. "" if there is nothing to split off.
        """
        fixed = {atom: times for atom, times in form.items() if atom is ONE or atom.kind == "address"}
        names = [atom.name for atom in fixed if atom is not ONE]
        if not fixed or len(fixed) == len(form) or len(names) > 1 or any(fixed[a] != 1 for a in fixed if a is not ONE):
            return ""
        other = self.find_or_add_form({atom: times for atom, times in form.items() if atom not in fixed}, is_low_half)
        shift = to_signed(fixed.get(ONE, 0))
        factor = f"{names[0]}{shift:+d}" if names else str(shift)
        return f"\t.quad\t{factor}, 0\n\t.long\t{SHIFTED}, {other}\n"

    def _render_term(self, atom: Atom, factor: int, is_low_half: bool) -> str:
        """Return the data of one term of a linear form for the runtime: a factor, and the register, stack slot or other
        value that is multiplied by it.
        """
        if atom is ONE:
            return f"\t.quad\t{factor}, 0\n\t.long\t{NUMBER}, 0\n"
        if atom.kind == "address":
            return f"\t.quad\t{atom.name}, 0\n\t.long\t{NUMBER}, 0\n"
        if atom.kind in ("sx", "zx"):
            kind = SIGNED if atom.kind == "sx" else ZEROED
            inner = self.find_or_add_form(dict(atom.form), True)
            return f"\t.quad\t{factor}, 0\n\t.long\t{kind}, {inner}\n"
        if atom.kind == "memory":
            kind = MEMORY8 if atom.size == 8 else MEMORY4
            return f"\t.quad\t{factor}, {render_memory_address(atom)}\n\t.long\t{kind}, 0\n"
        rise = self.row.narrow[atom] if is_low_half else self.row.steps[atom]
        assert rise is not None
        if set(rise) - {ONE}:
            step, flag = self.find_or_add_form(rise), STEP_IS_FORM
        else:
            step, flag = str(rise.get(ONE, 0)), 0
        if atom.kind == "register":
            kind, argument = REGISTER, 8 * SAVED[atom.name]
        else:
            kind, argument = (SLOT8 if atom.size == 8 else SLOT4), atom.offset
        return f"\t.quad\t{factor}, {step}\n\t.long\t{kind | flag}, {argument}\n"


def render_memory_address(memory: Atom) -> str:
    """Return the address of a memory atom as assembler text: `symbol+8`."""
    shift = dict(memory.form).get(ONE, 0)
    name = next(atom.name for atom, _ in memory.form if atom is not ONE)
    return f"{name}{to_signed(shift):+d}"


def _memory_atoms(form: Iterable[tuple[Atom, int]]) -> Iterator[Atom]:
    """Yield the terms of a linear form that are values in memory, also those within extended 32-bit halves."""
    for atom, _ in form:
        if atom.kind == "memory":
            yield atom
        elif atom.kind in ("sx", "zx"):
            yield from _memory_atoms(atom.form)


def render_copy(loop: CopiedLoop) -> tuple[dict[int, str], dict[int, str], str, str]:
    """Return four parts of a loop's second copy, which has no hooks (calls before memory accesses): texts to insert
    before lines and after lines of the assembly (both by line index), the copy's code, and its data.
    """
    codes, n, ways = loop.codes, loop.number, loop.ways
    marked = ways.rank > 0
    turn = {node: k for k, node in enumerate(ways.order)}
    first = ways.order[0]
    place = codes[ways.mark].line
    asking = f"\tdecl\t.Lweftr{n}(%rip)\n\tjle\t.Lweftr{n}_t\n.Lweftr{n}_i:"
    before: dict[int, str] = {place: f".Lweftr{n}_m:\n" if marked else f"{asking}\n"}
    if ways.rank < 0:
        before[codes[ways.last].line] = f".Lweftr{n}_m:\n"
    elif not marked:
        before[place] = f".Lweftr{n}_m:\n" + before[place]
    behind = {place: "\n" + asking} if marked else {}
    places = sorted(loop.places, key=lambda node: turn[node])
    exits: dict[tuple[int, int], int] = {}

    def label_towards(node: int, there: int) -> str:
        """Return the label by which control goes from one instruction of the copy to the next, within the copy or out
        of it.
        """
        if there in ways.nodes:
            return f".Lweftr{n}_{there}"
        done = sum(turn[place] < turn[node] for place in places)
        return f".Lweftr{n}_x{exits.setdefault((done, there), len(exits))}"

    begun, held = render_base_setup(loop.bases, f".Lweftr{n}_k")
    plain = "_plain" if ways.rank < 0 and _has_no_vectors_before_hook(ways) else ""
    code = [(_ENTRY if marked else _BEGIN).format(n=n, first="q" if begun else first, plain=plain)]
    code += [f".Lweftr{n}_q:\n{begun}"] if begun else []
    chain = sorted(ways.order)
    for k, node in enumerate(chain):
        code.append(f".Lweftr{n}_{node}:\n")
        if node == ways.last:
            code.append((_DONE if marked else _AGAIN if ways.rank == 0 else _ONCE).format(n=n, first=first))
            continue
        one, onward = codes[node], ways.find_next(node)
        if one.word == "jmp":
            code.append(f"\tjmp\t{label_towards(node, onward[0])}\n")
            continue
        if (
            node not in loop.places
            and node not in loop.dead
            and node not in loop.proven
            and node - 1 not in loop.proven
        ):
            if BRANCH.match(one.word):
                code.append(f"\t{one.word}\t{label_towards(node, onward[1])}\n")
            else:
                code.append(f"\t{one.text}\n")
        if k + 1 == len(chain) or label_towards(node, onward[0]) != f".Lweftr{n}_{chain[k + 1]}":
            code.append(f"\tjmp\t{label_towards(node, onward[0])}\n")
    for (done, there), number in exits.items():
        if codes[there].labels:
            target = codes[there].labels[0]
        else:
            target = f".Lweftr{n}_o{there}"
            line = codes[there].line
            if target + ":" not in before.get(line, ""):
                before[line] = before.get(line, "") + f"{target}:\n"
        code.append(_EXIT.format(n=n, exit=number, done=done, target=target))
    return before, behind, "".join(code), f"{_render_copy_data(loop, places)}\t.balign\t8\n{held}"


def _has_no_vectors_before_hook(ways: LoopPaths | StraightCode) -> bool:
    """Return whether code uses no vector register before its first hook (a call before a memory access)."""
    before = itertools.takewhile(lambda n: not ways.graph.is_hook(n), ways.order)
    return not any("%xmm" in ways.codes[n].text for n in before)


def _render_exits(loop: CopiedLoop, forms: _Forms, block_numbers: dict[int, int]) -> Iterator[str]:
    """Yield the data of each branch that leaves a loop's copy, by which the runtime decides it (`struct
    row_end` in C).
    """
    turn = {node: k for k, node in enumerate(loop.ways.order)}
    for node, one in loop.ends.items():
        left, right = (forms.find_or_add_form(form, one.size == 4) for form in (one.left, one.right))
        fall = loop.ways.find_next(node)[0] not in loop.ways.nodes
        last = all(turn[place] < turn[node] for place in loop.places)
        yield (
            f"\t.long\t{left}, {right}, {one.size}, {one.test}\n"
            f"\t.long\t{block_numbers[node]}, {int(fall)}, {int(last)}\n"
        )


def _render_copy_data(loop: CopiedLoop, hook_nodes: list[int]) -> str:
    """Return the data of a loop's copy that the runtime reads (`struct row` in C): its memory accesses, linear forms,
    limits of indices, blocks and branches.
    """
    n, forms, blocks = loop.number, _Forms(loop), loop.ways.blocks
    within = {node: k for k, block in enumerate(blocks) for node in block.nodes}
    held = []
    for node in hook_nodes:
        place = loop.places[node]
        held.append(
            f"\t.quad\t.Lweft{place.number}\n"
            f"\t.long\t{forms.find_or_add_form(place.address)}, {place.size}, {int(place.write)}, {within[node]}\n"
        )
    arguments = [forms.find_or_add_form(form) for form in loop.arguments] + ["0"] * (4 - len(loop.arguments))
    checks = [(forms.find_or_add_form(form), limit, within[node]) for node, (form, limit) in loop.proven.items()]
    everywhere = {check for check in checks if check[2] == 0}
    limits = [
        f"\t.quad\t{limit}\n\t.long\t{form}, {block}\n"
        for form, limit, block in dict.fromkeys(checks)
        if block == 0 or (form, limit, 0) not in everywhere
    ]
    asked = list(loop.guards.values())
    number = {node: k for k, node in enumerate(loop.guards)}
    sides = [
        (forms.find_or_add_form(one.left, one.size == 4), forms.find_or_add_form(one.right, one.size == 4))
        for one in asked
    ]
    guards = [
        f"\t.long\t{left}, {right}, {one.size}, {one.test}\n" for (left, right), one in zip(sides, asked, strict=True)
    ]
    memories = [
        f"\t.quad\t{render_memory_address(atom)}\n\t.long\t{atom.size}, {k}\n"
        for k, one in enumerate(asked)
        for atom in dict.fromkeys([*_memory_atoms(one.left.items()), *_memory_atoms(one.right.items())])
    ]
    leaving = list(_render_exits(loop, forms, within))
    ends = []
    for block in blocks:
        onward = (*block.next, *block.next[-1:] * 2, -1, -1)[:2]
        ends.append(f"\t.long\t{onward[0]}, {onward[1]}, {number.get(block.nodes[-1], -1)}\n")
    starts, terms = [0], []
    for made in forms.made + forms.shifted:
        terms += made
        starts.append(len(terms))
    return (
        f"\t.set\t.Lweftr{n}_w, {len(forms.made)}\n"
        f"\t.balign\t8\n.Lweftr{n}:\n\t.long\t3, 0\n\t.quad\t0\n"
        f"\t.long\t{loop.ways.rank}, {len(hook_nodes)}, {len(forms.made + forms.shifted)}, {len(limits)}\n"
        f"\t.long\t{len(blocks)}, {len(guards)}, {len(memories)}, {len(forms.made)}\n"
        f"\t.quad\t.Lweftr{n}_p, .Lweftr{n}_f, .Lweftr{n}_s, .Lweftr{n}_l, .Lweftr{n}_b, .Lweftr{n}_g, .Lweftr{n}_y\n"
        f"\t.quad\t{len(leaving)}, .Lweftr{n}_e\n"
        f"\t.long\t{', '.join(arguments)}\n\t.quad\t0, 0, 0, 0\n"
        f".Lweftr{n}_p:\n{''.join(held)}.Lweftr{n}_f:\n{''.join(terms)}"
        f".Lweftr{n}_l:\n{''.join(limits)}.Lweftr{n}_y:\n{''.join(memories)}"
        f".Lweftr{n}_e:\n{''.join(leaving)}"
        f".Lweftr{n}_s:\n\t.long\t{', '.join(map(str, starts))}\n"
        f".Lweftr{n}_b:\n{''.join(ends)}.Lweftr{n}_g:\n{''.join(guards)}"
    )
