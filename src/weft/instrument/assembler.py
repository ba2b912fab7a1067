"""Stands before the assembler where `weft cc` compiles (gcc, x86-64), as a program of its own: the hooks' fast path.

    python assembler.py REAL_ASSEMBLER ARGUMENTS...

gcc calls a hook before each access. Here a segment of code with such calls (no label within, no other call) becomes
two: one without hooks, which runs while MPI has no memory of the program, and one with them at the end of the
function. Which one runs is asked once a segment. In the one with hooks what a hook looks at first, whether anything
in the page of the address is of interest, is looked at in place of the call. The registers and flags that a call may
change are free there.

As a call may change all vector registers, the compiler saves what they hold before each hook and loads it again
behind it. Where the hooks are gone, a value that is still in its register is not loaded, and what is saved again
before anybody has read it is not saved (Slots). The compiler's comments tell its own slots for this (-fverbose-asm,
%sfp), which nothing else can name.

A loop of one such segment, whose addresses go on in equal steps, has a third form (Loop). While MPI has memory
somewhere else, it is asked from time to time how many iterations will not get to a page of interest (weft_hook_reach,
hooks.c), and so many run without hooks.

Line and frame tables say the same of all. Nothing is imported from Weft: this runs once for each file compiled.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_PLAIN = re.compile(r"\tcall\t__tsan_(?:volatile_)?(read|write)\d+(?:@PLT)?$")
_HOOK = re.compile(
    r"\tcall\t__tsan_(?:(?:unaligned_)?(?:volatile_)?(?:read|write|read_write)\d+|(?:read|write)_range|vptr_\w+)(?:@PLT)?$"
)
_OF_DEBUGGERS = re.compile(r"\.L(?:VL|BB|BE|BI)\d+:")
"""Labels that nobody jumps to."""
_VIEW = re.compile(r" view \S+")
_STATEMENT = re.compile(r" is_stmt (\d)")
_ARGUMENT = re.compile(r"\t(?:lea|mov)[lq]\t(?!.*%[re]?dil?\b.*, %[re]di$).*, %[re]di$")
"""Sets the address that a hook is to be given, from what lies elsewhere."""
_NAMES_IT = re.compile(r"%[re]?dil?\b")
_ENDS = re.compile(r"\t(?:call|jmp|ret|notrack|bnd|ud2|hlt|int3|rep\s+ret)")
_SAVES = re.compile(r"\t(v?)mov(ss|sd|aps|apd)\t(%xmm\d+), (-?\d*\(%r[sb]p\))\t# %sfp")
_LOADS = re.compile(r"\t(v?)mov(ss|sd|aps|apd)\t(-?\d*\(%r[sb]p\)), (%xmm\d+)\t# %sfp")
_COPIES = re.compile(r"\tv?mov(ss|sd|aps|apd)\t(\S+), (%xmm\d+)(?:\t#|$)")
_COMPUTES = re.compile(r"\t(v)?(?:add|sub|mul|div|min|max)(ss|sd)\t(.*?), (?:(%xmm\d+), )?(%xmm\d+)(?:\t#|$)")
_VECTORS = re.compile(r"%[xyz](mm\d+)")
_FRAME_POINTER = "\tmovq\t%rsp, %rbp"
_CLEARS = re.compile(r"\t(?:push|pop|leave|enter|rep|v?pcmp[ei]str|f?xrstor|xbegin)|%rsp(?!\))")
"""Moves the frame, or changes registers that it does not name."""
_BYTES = {"ss": 4, "sd": 8, "aps": 16, "apd": 16}
_LABEL = re.compile(r"\.L\d+:$")
_INTEGER = re.compile(r"-?\d+$")
_MEMORY = re.compile(r"(-?\d*)\((%r\w+)?(?:,(%r\w+)(?:,(\d))?)?\)$")
_GENERAL = re.compile(
    r"(?:mov|lea|add|sub|and|or|xor|sal|sar|shl|shr|neg|not|inc|dec|set|cmov|imul|cmp|test|nop)(?!xchg)"
)
_OPPOSITE = {
    a: b
    for pair in ("e ne", "l ge", "le g", "b ae", "be a", "s ns", "z nz", "c nc")
    for a, b in (pair.split(), pair.split()[::-1])
}
_REGISTERS = {
    name: f"%r{full}"
    for full, parts in (
        *((f"{x}x", (f"%r{x}x", f"%e{x}x", f"%{x}x", f"%{x}l", f"%{x}h")) for x in "abcd"),
        *((x, (f"%r{x}", f"%e{x}", f"%{x}", f"%{x}l")) for x in ("si", "di", "bp", "sp")),
        *((f"{x}", (f"%r{x}", f"%r{x}d", f"%r{x}w", f"%r{x}b")) for x in range(8, 16)),
    )
    for name in parts
}
"""By each name of a register, or of a part of it, that of the whole."""
_CALLEES = ("%rax", "%rcx", "%rdx", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11")
_MOST, _ASKS_EACH, _FARTHEST, _MOST_ASKED = 1024, 128, 256, 12
"""Of a loop: how many iterations at most run without hooks, after how many with hooks it is asked, how many bytes its
longest step has, and how many different accesses."""
_LOOKS_ON = 16
"""How many lines after the last hook a register may be loaded again to be seen."""
_BITS = {"read": 1, "write": 3}
"""WEFT_PAGE_READS; with WEFT_PAGE_WRITES (client.h)."""


State = tuple[tuple[str, str], frozenset[tuple[str, str]]]
"""How the unwinder finds a frame: its register and offset, and which registers lie at which offsets."""


class Frame:
    """How the unwinder finds the caller's frame at a place, and where registers are saved."""

    def __init__(self) -> None:
        self.known = True
        """Whether each directive so far was one of those understood here."""
        self.state: State = ("7", "8"), frozenset()
        self._kept: list[State] = []

    def apply_directive(self, line: str) -> None:
        """Update the frame's state by a line with a directive of the unwinder (`.cfi_…`). A directive of another kind
        than those handled here sets `known` to False.
        """
        name, _, rest = line.strip().partition(" ")
        values = [value.strip() for value in rest.split(",")]
        (register, offset), saved = self.state
        match name, values:
            case ".cfi_def_cfa", [new, far]:
                self.state = (new, far), saved
            case ".cfi_def_cfa_offset", [far]:
                self.state = (register, far), saved
            case ".cfi_def_cfa_register", [new]:
                self.state = (new, offset), saved
            case ".cfi_offset", [of, far]:
                self.state = self.state[0], frozenset({*(pair for pair in saved if pair[0] != of), (of, far)})
            case ".cfi_restore", [of]:
                self.state = self.state[0], frozenset(pair for pair in saved if pair[0] != of)
            case ".cfi_remember_state", _:
                self._kept.append(self.state)
            case ".cfi_restore_state", _ if self._kept:
                self.state = self._kept.pop()
            case ((".cfi_startproc" | ".cfi_personality" | ".cfi_lsda"), _):
                pass
            case _:
                self.known = False

    def render_transition(self, target_state: State) -> Iterator[str]:
        """Yield the unwinder directives (`.cfi_…`) that lead from the current state of the frame to another one. The
        target state then is the current one.
        """
        (now, saved), (then, wanted) = self.state, target_state
        if now != then:
            yield f"\t.cfi_def_cfa {then[0]}, {then[1]}"
        yield from (f"\t.cfi_offset {of}, {far}" for of, far in sorted(wanted - saved))
        gone = {of for of, _ in saved} - {of for of, _ in wanted}
        yield from (f"\t.cfi_restore {of}" for of in sorted(gone))
        self.state = target_state


class HookEditor:
    """Rewrites the hooks of one assembly file."""

    def __init__(self) -> None:
        self.changed = False
        self._segments = 0
        self._statement = "1"
        """The line table's flag, which a .loc sets for all that follow."""

    def rewrite_hooks(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines of an assembly file with its hooks rewritten so that they cost little while nothing needs
        their answer. Hooks are the calls that `weft cc` inserts before accesses to memory.
        """
        function: list[str] | None = None
        for line in lines:
            if function is not None:
                function.append(line)
                if line.startswith("\t.cfi_endproc"):
                    yield from self._cheapen_hooks(function)
                    function = None
            elif line.startswith("\t.cfi_startproc"):
                function = [line]
            else:
                yield line
        yield from function or ()
        if self.changed:
            yield from (f"\t.hidden\tweft_hook_{name}" for name in ("pages", "span", "reach"))

    def _cheapen_hooks(self, function_lines: list[str]) -> list[str]:
        """Replace the hooks of a function (calls before memory accesses) by cheaper code, and return the new lines. The
        first and the last line are the unwinder directives that begin and end the function.
        """
        function_lines = _strip_comments(function_lines)
        places = [self._normalize_loc(line) for line in function_lines]
        if not any(map(_HOOK.match, function_lines)):
            return function_lines
        self.changed = True
        frame = Frame()
        for line in function_lines[:-1]:
            if line.startswith("\t.cfi_"):
                frame.apply_directive(line)
        if frame.known:
            return self._split_segments(function_lines, places)
        return [more for line in function_lines for more in _inline_page_check(line)]

    def _normalize_loc(self, line: str) -> str:
        """Return a `.loc` line (source position) in a form that is valid anywhere in the file; "" for any other line.
        Its flag is_stmt is remembered for later lines that have none.
        """
        if not line.startswith("\t.loc "):
            return ""
        if found := _STATEMENT.search(line):
            self._statement = found[1]
        return f"{_STATEMENT.sub('', _VIEW.sub('', line))} is_stmt {self._statement}"

    def _split_segments(self, function_lines: list[str], locations: list[str]) -> list[str]:
        """Return a function's lines, in which each segment of code with hooks exists twice: in place without hooks, and
        at the function's end with hooks. A test in place jumps to the copy with hooks.
        """
        frame, place, pointed = Frame(), "", _FRAME_POINTER in function_lines
        hot: list[str] = []
        behind: list[tuple[State, list[str]]] = []
        loop: Loop | None = None
        at, end = 0, len(function_lines) - 1

        def copy_lines(first: int, last: int) -> list[str]:
            """Return a range of the function's lines to be written a second time. Source positions are made valid
            there, and other lines for debuggers are left out.
            """
            return [
                locations[n] or function_lines[n]
                for n in range(first, last)
                if not _OF_DEBUGGERS.match(function_lines[n])
            ]

        while at < end:
            line = function_lines[at]
            if not _HOOK.match(line):
                if line.startswith("\t.cfi_"):
                    frame.apply_directive(line)
                elif _LABEL.match(line):
                    loop = find_loop(function_lines, at)
                place = locations[at] or place
                hot.append(line)
                if loop and at == loop.last:
                    hot.append(f".Lweft_exit_{loop.number}:")
                    loop = None
                at += 1
                continue
            until = _find_segment_end(function_lines, at)
            number = self._segments
            self._segments += 1
            if loop:
                until = min(until, loop.last)
            before = [place, _pop_argument_setup(hot)]
            slow = [more for part in copy_lines(at, until) for more in _inline_page_check(part)]
            hot += (
                "\tcmpq\t$0, weft_hook_span(%rip)",
                f"\tjne\t.Lweft_{number}",
                *StackSlots(_remove_hooks(function_lines[at:until]), pointed).lines,
                f".Lweft_back_{number}:",
            )
            cold = [f".Lweft_{number}:", *filter(None, before), *slow]
            if loop:
                loop.number = number
                whole = StackSlots(_remove_hooks(copy_lines(loop.first, loop.last)), pointed).lines
                on_stack = frame.state[0][0] == "7"
                cold += loop.render_cold_part(copy_lines(loop.first, at), copy_lines(until, loop.last), whole, on_stack)
            else:
                cold.append(f"\tjmp\t.Lweft_back_{number}")
            behind.append((frame.state, cold))
            place = next(filter(None, reversed(locations[at:until])), place)
            at = until
        # The line table's flag is to be what the compiler left it at.
        if place:
            behind[-1][1].insert(-1, f"{_STATEMENT.sub('', place)} is_stmt {self._statement}")
        for state, cold in behind:
            hot += (*frame.render_transition(state), *cold)
        return [*hot, function_lines[-1]]


Form = tuple[int, tuple[tuple[str, int], ...]]
"""A sum: a number, and registers as they are when an iteration begins, each times a number."""


def _add_forms(first: Form | None, second: Form | None, multiplier: int = 1) -> Form | None:
    """Return `first + multiplier * second` for two sums of registers and constants; None if either is unknown."""
    if first is None or second is None:
        return None
    terms = dict(first[1])
    for register, factor in second[1]:
        terms[register] = terms.get(register, 0) + factor * multiplier
    return first[0] + second[0] * multiplier, tuple(sorted((r, f) for r, f in terms.items() if f))


class Values:
    """What registers hold while an iteration runs, as far as that is a sum; `known` until a strange instruction."""

    def __init__(self) -> None:
        self.known = True
        self._of: dict[str, Form | None] = {name: (0, ((name, 1),)) for name in set(_REGISTERS.values())}

    def __getitem__(self, register: str) -> Form | None:
        return self._of[register]

    def called(self) -> None:
        """A hook was called: it may have changed what is the callee's."""
        self._of.update(dict.fromkeys(_CALLEES))

    def apply_instruction(self, line: str) -> None:
        """Update what is known of the registers' values by the effect of one instruction. An instruction with an
        unclear effect sets `known` to False.
        """
        operation, _, rest = line.partition("\t# ")[0][1:].partition("\t")
        operands = rest.split(", ") if rest else []
        into = _REGISTERS.get(operands[-1]) if operands else None
        if operation.startswith("j") or operation == "nop":
            return
        if "%xmm" in rest or "%ymm" in rest or "%zmm" in rest:
            self.known &= re.search(r"gather|mask|str[im]", operation) is None
            if into:
                self._of[into] = None
        elif operation == "cltq":
            self._of["%rax"] = None
        elif not operands or not _GENERAL.match(operation) or (operation.startswith("imul") and len(operands) == 1):
            self.known = False
        elif into and not operation.startswith(("cmp", "test")):
            self._of[into] = self._compute_result(operation, operands, into) if operands[-1] == into else None

    def _compute_result(self, operation: str, operands: list[str], target: str) -> Form | None:
        """Return an instruction's result as a sum of registers and a constant; None if it is no such sum."""
        first = self._operand_form(operands[0])
        match operation:
            case "movq":
                return first
            case "addq" | "subq":
                return _add_forms(self._of[target], first, 1 if operation == "addq" else -1)
            case "incq" | "decq":
                return _add_forms(self._of[target], (1, ()), 1 if operation == "incq" else -1)
            case "salq" | "shlq" if len(operands) == 2 and first is not None and not first[1]:
                return _add_forms((0, ()), self._of[target], 1 << (first[0] & 63))
            case "leaq":
                found = _MEMORY.match(operands[0])
                if not found or "%rip" in operands[0]:
                    return None
                value: Form | None = int(found[1] or 0), ()
                for register, times in ((found[2], 1), (found[3], int(found[4] or 1))):
                    value = _add_forms(value, self._of[register], times) if register else value
                return value
            case _:
                return None

    def _operand_form(self, operand: str) -> Form | None:
        """Return an operand, a constant or a whole register, as a sum of registers and a constant; None if it is
        unknown.
        """
        if operand.startswith("$") and _INTEGER.match(operand[1:]):
            return int(operand[1:]), ()
        return self._of.get(operand)


class Loop:
    """A loop whose only segment with hooks is all of it, and whose addresses go on in equal steps."""

    number = -1
    """Of its segment."""

    def __init__(self, first: int, last: int, leaves: str, counter: tuple[str, int], asks: list[str]) -> None:
        self.first, self.last = first, last
        """Of its first line, and of the jump back."""
        self._leaves = leaves
        self._counter, self._step = counter
        self._asks = asks

    def render_cold_part(
        self,
        iteration_begin: list[str],
        iteration_rest: list[str],
        hookless_iteration: list[str],
        uses_stack_pointer: bool,
    ) -> list[str]:
        """Return the code at the function's end that follows a loop's segment with hooks (calls before memory
        accesses). It has the rest of the iteration, a call that asks how many iterations may run without hooks, and a
        loop without hooks for those iterations.

        The counter's value at which that loop ends is saved below the stack pointer: in a function that calls others,
        nothing is there. `uses_stack_pointer`: the unwinder finds frames by the stack pointer.
        """
        n, small = (
            self.number,
            [name for name, whole in _REGISTERS.items() if whole == self._counter][1],
        )
        step = abs(self._step)
        leave = f"\tj{self._leaves}\t.Lweft_exit_{n}"
        grown, shrunk = (
            (["\t.cfi_adjust_cfa_offset 64"], ["\t.cfi_adjust_cfa_offset -64"]) if uses_stack_pointer else ([], [])
        )
        return [
            *iteration_rest,
            leave,
            f"\ttestl\t${(_ASKS_EACH * step - 1) & -step}, {small}",
            f"\tje\t.Lweft_ask_{n}",
            f".Lweft_slow_{n}:",
            *iteration_begin,
            f"\tjmp\t.Lweft_{n}",
            f".Lweft_ask_{n}:",
            "\tleaq\t-64(%rsp), %rsp",
            *grown,
            "\tmovq\t%rax, (%rsp)",
            f"\tmovq\t${_MOST}, 8(%rsp)",
            *self._asks,
            "\tmovq\t8(%rsp), %rax",
            "\ttestq\t%rax, %rax",
            f"\tje\t.Lweft_none_{n}",
            f"\timulq\t${self._step}, %rax, %rax",
            f"\taddq\t{self._counter}, %rax",
            "\tmovq\t%rax, 56(%rsp)",
            "\tmovq\t(%rsp), %rax",
            "\tleaq\t64(%rsp), %rsp",
            *shrunk,
            f".Lweft_free_{n}:",
            *hookless_iteration,
            leave,
            f"\tcmpq\t-8(%rsp), {self._counter}",
            f"\tj{'l' if self._step > 0 else 'g'}\t.Lweft_free_{n}",
            f"\tjmp\t.Lweft_ask_{n}",
            *grown,
            f".Lweft_none_{n}:",
            "\tmovq\t(%rsp), %rax",
            "\tleaq\t64(%rsp), %rsp",
            *shrunk,
            f"\tjmp\t.Lweft_slow_{n}",
        ]


def find_loop(lines: list[str], label_line: int) -> Loop | None:
    """Return the loop that begins at a label's line, if it can run without hooks (calls before memory accesses). None
    if it calls anything else, or if the addresses of its accesses are not sums of registers.
    """
    label = lines[label_line][:-1]
    back, leaves = 0, ""
    for number in range(label_line + 1, len(lines)):
        line = lines[number]
        if (
            line.startswith("\tj")
            and line.endswith(f"\t{label}")
            and (other := _OPPOSITE.get(line[2:].partition("\t")[0]))
        ):
            back, leaves = number, other
        if _ends_segment(line):
            break
    body = lines[label_line + 1 : back]
    if not back or not any(map(_PLAIN.match, body)) or not _are_flags_free(body):
        return None
    values = Values()
    accesses: list[tuple[Form, int]] = []
    for line in body:
        if found := _PLAIN.match(line):
            address = values["%rdi"]
            if address is None:
                return None
            accesses.append((address, _BITS[found[1]]))
            values.called()
        elif _HOOK.match(line):
            return None
        elif line.startswith("\t") and line[1] != ".":
            values.apply_instruction(line)
    steps = {r: form[0] for r in set(_REGISTERS.values()) if (form := values[r]) and form[1] == ((r, 1),)}
    counters = [(r, step) for r, step in steps.items() if step and abs(step) & (abs(step) - 1) == 0 and r != "%rsp"]
    asks = _render_reach_calls(accesses, steps) if values.known and counters else None
    return Loop(label_line + 1, back, leaves, min(counters, key=lambda c: abs(c[1])), asks) if asks else None


def _are_flags_free(loop_lines: list[str]) -> bool:
    """Return whether the processor's flags are unused when an iteration begins: something sets them before any use."""
    for line in loop_lines:
        if _HOOK.match(line) or re.match(r"\t(?:cmp|test|add|sub)[bwlq]\t", line):
            return True
        if line.startswith(("\tj", "\tset", "\tcmov", "\tadc", "\tsbb", "\trc", "\tlahf", "\tpushf")):
            return False
    return False


def _render_reach_calls(accesses: list[tuple[Form, int]], register_steps: dict[str, int]) -> list[str] | None:
    """Return code that asks the runtime, for each memory access of a loop, how many iterations may run without hooks.
    None if there are too many accesses, or if an address has a form that the runtime cannot be asked about.
    """
    together: dict[tuple[tuple[tuple[str, int], ...], int], list[int]] = {}
    for (number, terms), bits in accesses:
        together.setdefault((terms, bits), []).append(number)
    if len(together) > _MOST_ASKED:
        return None
    lines: list[str] = []
    for (terms, bits), numbers in together.items():
        low, high = min(numbers), max(numbers)
        match terms:
            case ((base, 1),):
                place = f"({base})"
            case ((base, 1), (index, (1 | 2 | 4 | 8) as times)) | ((index, (2 | 4 | 8) as times), (base, 1)):
                place = f"({base},{index},{times})"
            case _:
                return None
        if any(r not in register_steps or r == "%rsp" for r, _ in terms) or high - low > 4096 or abs(low) > 1 << 30:
            return None
        step = sum(register_steps[r] * times for r, times in terms)
        if abs(step) > _FARTHEST:
            return None
        lines += (
            f"\tleaq\t{low}{place}, %rax",
            "\tmovq\t%rax, 16(%rsp)",
            f"\tmovq\t${step}, 24(%rsp)",
            f"\tmovq\t${high - low}, 32(%rsp)",
            f"\tmovq\t${bits}, 40(%rsp)",
            "\tcall\tweft_hook_reach",
        )
    return lines


def _strip_comments(lines: list[str]) -> list[str]:
    """Return a function's lines without the compiler's comments. Comments that mark the compiler's own stack slots
    (`%sfp`), and hand-written assembly, are left as they are.
    """
    left: list[str] = []
    by_hand = False  # a person's assembly
    for line in lines:
        by_hand = (by_hand or line == "#APP") and line != "#NO_APP"
        if by_hand or not line.startswith(("\t", "# ")) or line.startswith("\t."):
            left.append(line)
        elif line.startswith("\t"):
            text, mark, said = line.partition("\t#")
            left.append(f"{text}\t# %sfp" if mark and "%sfp" in said else text)
    return left


class StackSlots:
    """Code without the saves and loads of vector registers that only removed calls needed.

    `pointed`: %rbp is the frame pointer, not just a register.
    """

    def __init__(self, lines: Iterable[str], pointed: bool) -> None:
        self._frame = re.compile(r"(-?\d*)\(%r([sb])p\)" if pointed else r"(-?\d*)\(%r(s)p\)")
        self._left: list[str | None] = []
        self._held: dict[tuple[str, int], str] = {}
        """By slot and bytes the register that has what lies there."""
        self._unread: dict[tuple[str, int], int] = {}
        """By slot and bytes where it was saved, as long as nobody can have read it."""
        self._low: dict[str, int] = {}
        """By register how many of its bytes can be other than 0, where that is known."""
        for line in lines:
            self._left.append(line if line[:1] != "\t" or line[1] == "." else self._simplify_instruction(line))

    @property
    def lines(self) -> list[str]:
        """Return what is left."""
        return [line for line in self._left if line is not None]

    def _simplify_instruction(self, line: str) -> str | None:
        """Return an instruction, changed so that it does not load a stack slot whose value a register already has. None
        if the instruction is not needed at all. What it writes is noted.
        """
        if found := _SAVES.match(line):
            key = found[4], _BYTES[found[2]]
            again = self._unread.get(key)
            self._note_frame_access(line, key[1])
            if again is not None:
                self._left[again] = None
            self._held[key], self._unread[key] = found[3], len(self._left)
        elif found := _LOADS.match(line):
            return self._simplify_load(line, found)
        elif found := _COPIES.match(line):
            self._note_frame_access(line, writes=False)
            width, source = _BYTES[found[1]], found[2]
            known = width if "(" in source else self._low.get(source, 16) if width == 16 else 16
            self._note_register_write(found[3], known)
        elif found := _COMPUTES.match(line):
            return self._simplify_arithmetic(line, found)
        elif line.startswith("\tj"):
            self._unread.clear()  # who reads there is not known
        elif "\t" not in line[1:] or _CLEARS.search(line):
            self._held.clear()
            self._unread.clear()
            self._low.clear()
        else:
            self._note_frame_access(line)
            for name in _VECTORS.findall(line):
                self._note_register_write(f"%x{name}", 16)
        return line

    def _simplify_load(self, line: str, match: re.Match[str]) -> str | None:
        """Return an instruction that loads a stack slot, or a move if another register still has the slot's value.
        Return None if the target register itself has that value.
        """
        vex, width, slot, into = match[1], _BYTES[match[2]], match[3], match[4]
        held = self._held.get((slot, width))
        low = self._low.get(held, 16) if held else 16
        if held is None or (width == 4 and low > 4):
            self._note_frame_access(line, width, writes=False)
            self._note_register_write(into, width)
            self._held[slot, width] = into
            return line
        if held != into:
            self._note_register_write(into, min(low, width))
        elif low <= width and not (vex and width == 16):
            return None
        else:
            self._low[into] = min(low, width)
        return f"\t{vex}mov{'aps' if low <= width else 'q'}\t{held}, {into}"

    def _simplify_arithmetic(self, line: str, match: re.Match[str]) -> str:
        """Return an operation on single numbers. If its operand is a stack slot whose value a register has, that
        register takes the slot's place.
        """
        width, operand, first, into = _BYTES[match[2]], match[3], match[4] or match[5], match[5]
        held = self._held.get((operand, width)) if line.endswith("# %sfp") else None
        if held is None:
            self._note_frame_access(line, writes=False)
        else:
            line = line.replace(f"\t{operand}, ", f"\t{held}, ", 1)
        self._note_register_write(into, max(self._low.get(first, 16), width))
        return line

    def _note_register_write(self, register: str, low: int) -> None:
        """Note that a register has a new value of which only `low` bytes can be other than 0."""
        self._held = {key: held for key, held in self._held.items() if held != register}
        self._low[register] = low

    def _note_frame_access(self, line: str, width: int = 64, *, writes: bool = True) -> None:
        """Note that a line may read, and with `writes` write, `width` bytes of memory of the frame."""
        for offset, base in self._frame.findall(line):
            for of in (self._unread, self._held) if writes else (self._unread,):
                for key in [key for key in of if _slot_overlaps(key, base, int(offset or 0), width)]:
                    del of[key]


def _slot_overlaps(slot: tuple[str, int], base_letter: str, begin_offset: int, width: int) -> bool:
    """Return whether a stack slot may overlap `width` bytes of the frame that begin at an offset. `base_letter`: the
    letter after %r in the name of the register from which the offset counts, %rsp or %rbp.
    """
    offset, _, register = slot[0].partition("(%r")
    at = int(offset or 0)
    return register[0] != base_letter or (at < begin_offset + width and at + slot[1] > begin_offset)


def _find_segment_end(lines: list[str], hook_line: int) -> int:
    """Return the index of the line after a segment, the code that begins with a hook (a call before a memory access)
    and ends with the last hook that is reached only from its beginning.

    Loads soon after that hook, of values that the segment saved, belong to the segment, too.
    """
    last = more = hook_line + 1
    saved: dict[str, int] = {}
    for number in range(hook_line + 1, len(lines)):
        line = lines[number]
        if _ends_segment(line):
            break
        if _HOOK.match(line):
            last = number + 1
        elif found := _SAVES.match(line):
            saved[found[4]] = number
        elif (found := _LOADS.match(line)) and saved.get(found[3], last) < last and number - last < _LOOKS_ON:
            more = number + 1
    return max(last, more)


def _ends_segment(line: str) -> bool:
    """Return whether a segment must end before a line: the line is a label, a jump, a call of a function that is no
    hook, or no instruction.
    """
    if not line.startswith("\t"):
        return not _OF_DEBUGGERS.match(line)
    if line[1] == ".":
        return not line.startswith("\t.loc ")
    return bool(_ENDS.match(line)) and not _HOOK.match(line)


def _inline_page_check(line: str) -> list[str]:
    """Return the lines to write in place of a line. For a plain hook, these are code that looks up the page of the
    address, and the hook, which is skipped if the page needs no hooks. Any other line stays as it is.
    """
    found = _PLAIN.match(line)
    if not found:
        return [line]
    return [
        "\tmovl\t%edi, %eax",
        "\tleaq\tweft_hook_pages(%rip), %rcx",
        "\tshrl\t$12, %eax",
        f"\ttestb\t${_BITS[found[1]]}, (%rcx,%rax)",
        "\tje\t77775f",
        line,
        "77775:",
    ]


def _remove_hooks(segment: list[str]) -> list[str]:
    """Return some code without its hooks (calls before memory accesses), and without the instructions that only
    computed their arguments.
    """
    left: list[str] = []
    begin = 0
    for line in segment:
        if not _HOOK.match(line):
            left.append(line)
            continue
        for number in reversed(range(begin, len(left))):
            before = left[number]
            if not before.startswith("\t") or before.startswith("\t.loc "):
                continue
            if _ARGUMENT.match(before):
                del left[number]
                break
            # A jump may lead to where the register is read; instructions without operands may read it (movsq).
            if _NAMES_IT.search(before) or before.startswith(("\tj", "\trep")) or "\t" not in before[1:]:
                break
        begin = len(left)
    return left


def _pop_argument_setup(lines: list[str]) -> str:
    """Remove and return the last instruction if it only sets the address that is passed to a hook.
    Otherwise return "".
    """
    for number in reversed(range(len(lines))):
        line = lines[number]
        if line.startswith("\t.loc ") or _OF_DEBUGGERS.match(line):
            continue
        return lines.pop(number) if _ARGUMENT.match(line) else ""
    return ""


def find_source_argument(arguments: list[str]) -> int | None:
    """Return the index of the file to assemble among an assembler's arguments; None if it reads standard input."""
    found, value = None, False
    for number, word in enumerate(arguments):
        if not value and (word == "-" or word.endswith(".s")):
            found = number
        value = not value and word in ("-o", "-I", "--defsym", "-MD")
    return found


def main(assembler_path: str, arguments: list[str]) -> int:
    """Assemble a file with the real assembler, after its hooks (calls before memory accesses) were made cheaper. Return
    the assembler's exit status.
    """
    at = find_source_argument(arguments)
    name = "-" if at is None else arguments[at]
    text = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("latin-1")
    if "__tsan_" in text and ".intel_syntax" not in text and not {"--32", "--x32"} & set(arguments):
        try:
            text = "\n".join([*HookEditor().rewrite_hooks(text.removesuffix("\n").split("\n")), ""])
        except Exception as error:  # whatever it is, the program is to be built
            print(f"weft cc: the hooks of {name} stay calls, which are slower: {error!r}", file=sys.stderr)
    elif name != "-":
        os.execv(assembler_path, [assembler_path, *arguments])
    handle, work = tempfile.mkstemp(prefix="weft-cc-", suffix=".s")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("latin-1"))
        words = [*arguments, work] if at is None else [*arguments[:at], work, *arguments[at + 1 :]]
        return subprocess.run([assembler_path, *words], check=False).returncode
    finally:
        Path(work).unlink(missing_ok=True)  # `weft cc` that is ended takes its folder away


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an assembler says nothing of Ctrl-C
    sys.exit(main(sys.argv[1], sys.argv[2:]))
