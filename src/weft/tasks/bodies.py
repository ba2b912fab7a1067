"""Finds the functions that a compiler made of tasks and regions: where they begin, and which lines belong to them.

clang's untied tasks have a prologue of the compiler's: they return their place to the runtime before their first line,
and come through the prologue again whenever they continue. It carries lines of the program that it does not execute.
"""

from __future__ import annotations

import bisect
import linecache
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from weft.tasks.gdb import ENTRY, Frame, Gdb, MachineInstruction

OUTLINED = re.compile(r"(\S+\._omp_fn\.\d+|\.omp_task_entry\.\S*)$")
COMPILERS = re.compile(r"\.omp_(?!outlined|task_entry)")
"""clang's own functions, which carry the line of a directive."""
GIVEN_BACK = re.compile(r"<__kmpc_omp_task(@plt|@got|>)")
"""The call by which an untied task of clang's gives its place back. It makes other tasks at their directives' lines."""
JUMP = re.compile(r"(jmp|b)\b")


@dataclass(frozen=True, slots=True)
class OutlinedBody:
    """The function that a compiler made of the body of a task or region: symbol, addresses and lines.

    `begins`: the address of the program's own code, after clang's prologue; `first`: (line, address) in that code.
    """

    name: str
    start: int
    end: int
    directive: int
    lines: frozenset[int]
    file: str = ""
    begins: int = 0
    first: tuple[tuple[int, int], ...] = ()


def analyse_body(
    name: str, instructions: list[MachineInstruction], size: int, spawn_lines: set[tuple[str, int]]
) -> OutlinedBody:
    """Return the function that the compiler made of a task or parallel region, with its addresses and lines.

    `name`: its symbol. `instructions`: all its instructions, in order. `size`: its length in bytes. `spawn_lines`:
    (file, line) of all directives that create tasks.
    """
    first = instructions[0]
    lines = frozenset(one.line for one in instructions if one.file == first.file)
    body = OutlinedBody(name, first.pc, first.pc + size, first.line, lines, first.file)
    back = next(
        (i for i, one in enumerate(instructions) if GIVEN_BACK.search(one.text) and one[1:3] not in spawn_lines),
        len(instructions),
    )
    behind = next((one.pc for one in instructions[back + 1 :] if not JUMP.match(one.text)), 0)
    if not behind or not name.startswith(".omp_task_entry."):
        return body
    own = {one.line: one.pc for one in reversed(instructions) if one.pc >= behind and one.file == first.file}
    return replace(body, begins=behind, first=tuple(own.items()))


class OutlinedBodies:
    """All bodies of a program, from its symbol table (gdb's own list of functions misses some) and gdb's lines."""

    def __init__(self, gdb: Gdb, program: str) -> None:
        done = subprocess.run(["nm", "-S", program], capture_output=True, text=True, timeout=60, check=False)
        rows = [words for line in done.stdout.splitlines() if len(words := line.split()) == 4]
        at_rest = next((int(words[0], 16) for words in rows if words[3] == "main"), 0)
        shift = gdb.symbol_address("main") - at_rest
        bodies = [words for words in rows if ENTRY.search(words[3]) and words[3] != "main"]
        codes = [
            self._read_instructions(gdb, words, shift) for words in bodies
        ]  # several files may have bodies of one name
        spawns = {(code[0].file, code[0].line) for code in codes if code[0].file}
        self.all = [analyse_body(of[3], code, int(of[1], 16), spawns) for of, code in zip(bodies, codes, strict=True)]
        self._starts = sorted(self.all, key=lambda body: body.start)

    @staticmethod
    def _read_instructions(gdb: Gdb, words: list[str], shift: int) -> list[MachineInstruction]:
        start = int(words[0], 16) + shift
        return gdb.instructions(start, start + int(words[1], 16)) or [MachineInstruction(start, "", 0, "")]

    @property
    def task_symbols(self) -> list[str]:
        """Return the symbols of the bodies of tasks; with gcc, also those of regions."""
        return [body.name for body in self.all if OUTLINED.match(body.name)]

    def body_at(self, pc: int) -> OutlinedBody | None:
        """Return the body of a task or region that contains an address; None if none does."""
        at = bisect.bisect_right(self._starts, pc, key=lambda body: body.start) - 1
        return self._starts[at] if at >= 0 and pc < self._starts[at].end else None

    def is_compiler_line(self, frame: Frame) -> bool:
        """Return whether a frame is at code that the compiler added to a task. That is so at the line of the task's
        directive, in a function of the compiler's own, at a line with only `{`, and at a line that is executed
        elsewhere.
        """
        body, line = self.body_at(int(frame["addr"], 16)), int(frame["line"])
        if (body is not None and line == body.directive) or COMPILERS.match(str(frame.get("func", ""))):
            return True
        return linecache.getline(str(frame["fullname"]), line).strip() == "{" or self.is_line_executed_elsewhere(frame)

    def is_line_executed_elsewhere(self, frame: Frame) -> bool:
        """Return whether the line that gdb shows for a frame is really executed in other code. That is so in the
        compiler's code at the beginning of a task's body, and if the line is in the body of a task that is nested
        inside.
        """
        pc, file, line = int(frame["addr"], 16), str(frame.get("fullname", "")), int(frame.get("line", 0))
        body = self.body_at(pc)
        if self.is_in_prologue(pc):
            return True
        directive = body.directive if body is not None else 0
        others = (one for one in self.all if one is not body and one.file == file)
        return any(line in one.lines and directive < one.directive < line for one in others)

    def is_in_prologue(self, pc: int) -> bool:
        """Return whether an address is in the code that clang put before a body's own code."""
        body = self.body_at(pc)
        return body is not None and pc < body.begins

    def line_addresses(self, file: str, line: int) -> list[int]:
        """Return the addresses at which a source line is executed in functions that the compiler made of tasks and that
        begin with code of its own. A breakpoint that gdb sets at such a line would stop in that code, too early.
        """
        name = Path(file).name
        return [pc for body in self.all if Path(body.file).name == name for at, pc in body.first if at == line]
