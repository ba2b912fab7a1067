"""Which line of a program may come after which, read from its instructions: what `next` is held against."""

from __future__ import annotations

import bisect
import linecache
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

LIMIT = 120
JUMP = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(?:\s+([0-9a-f]+) <)?")
MADE_UP = re.compile(r"\s*(\{|\}?\s*#pragma.*|.*\\)?\s*")
"""Source that a compiler's own instructions carry: directives, braces, nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line's stretch of instructions."""

    start: int
    file: str
    line: int
    statement: bool

    @property
    def silent(self) -> bool:
        """Whether a debugger need not stop there."""
        text = linecache.getline(self.file, self.line)
        return not self.statement or not self.line or MADE_UP.fullmatch(text.rstrip("\n")) is not None


@dataclass
class Flow:
    """The program's instructions, each with its line and with those that may follow."""

    program: Path
    rows: list[Row] = field(default_factory=list)
    follows: dict[int, list[int]] = field(default_factory=dict)
    returns: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rows = sorted(self._rows(), key=lambda row: row.start)
        self._starts = [row.start for row in self.rows]
        self.follows = self._follows()
        self._of: dict[tuple[str, int], list[int]] = {}
        for pc in self.follows:
            if (row := self.row(pc)) is not None:
                self._of.setdefault((Path(row.file).name, row.line), []).append(pc)
        self.after = cache(self._after)
        self._functions = self._subprograms()

    def _rows(self) -> Iterator[Row]:
        with self.program.open("rb") as file:
            dwarf = ELFFile(file).get_dwarf_info()
            for unit in dwarf.iter_CUs():
                lines = dwarf.line_program_for_CU(unit)
                folder = Path(unit.get_top_DIE().attributes["DW_AT_comp_dir"].value.decode())
                base = 1 if lines.header.version < 5 else 0
                names = [entry.name.decode() for entry in lines.header.file_entry]
                for entry in lines.get_entries():
                    if (state := entry.state) is not None:
                        line = 0 if state.end_sequence else state.line
                        name = names[state.file - base]
                        yield Row(state.address, str(self._file(folder, name)), line, bool(state.is_stmt))

    @staticmethod
    @cache
    def _file(folder: Path, name: str) -> Path:
        return next((found for found in (folder / name, *folder.glob(f"*/{name}")) if found.exists()), Path(name))

    def _follows(self) -> dict[int, list[int]]:
        command = ["objdump", "-d", "--no-show-raw-insn", str(self.program)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        found, before = dict[int, list[int]](), 0
        for line in told.splitlines():
            if line.endswith(">:") or not (read := JUMP.match(line)):
                before = before if read is None and line.startswith(" ") else 0
                continue
            pc, name = int(read[1], 16), read[2]
            if before:
                found[before].append(pc)
            if name.startswith("ret"):
                self.returns.add(pc)
            found[pc] = [int(read[3], 16)] if read[3] and name.startswith("j") else []
            before = 0 if name.startswith(("ret", "jmp", "ud2")) else pc
        return found

    def row(self, pc: int) -> Row | None:
        """The stretch that an instruction is in."""
        at = bisect.bisect_right(self._starts, pc) - 1
        return self.rows[at] if at >= 0 and self.rows[at].line else None

    def _after(self, file: str, line: int) -> frozenset[int]:
        """The lines of the same function at which a debugger may stop next; 0 where it may leave that."""
        todo, seen, found = list(self._of.get((file, line), ())), set[int](), set[int]()
        while todo:
            pc = todo.pop()
            if pc in seen:
                continue
            seen.add(pc)
            row = self.row(pc)
            other = row is not None and row.statement and (Path(row.file).name, row.line) != (file, line)
            if row is not None and other:
                found.add(row.line)
            if pc in self.returns:
                found.add(0)
            if row is None or not other or row.silent or pc != row.start:
                todo += self.follows.get(pc, ())
        return frozenset(found)

    def entries(self, function: str) -> set[int]:
        """The lines at which a debugger may stop first in a function."""
        opening = [first for _, (_, first, _) in self.parameters(function)]
        return {line for file, first in {(where[0], where[1]) for _, where in self.parameters(function)}
                for line in self.after(Path(file).name, first)} | set(opening)  # fmt: skip

    def leaves(self, file: str, line: int) -> bool:
        """Whether a function may be left from a line with no other one between."""
        return 0 in self.after(file, line)

    # Parameters

    def _subprograms(self) -> dict[str, list[tuple[str, tuple[str, int, int]]]]:
        found: dict[str, list[tuple[str, tuple[str, int, int]]]] = {}
        with self.program.open("rb") as file:
            for unit in ELFFile(file).get_dwarf_info().iter_CUs():
                for die in unit.get_top_DIE().iter_children():
                    values = die.attributes
                    if die.tag != "DW_TAG_subprogram" or not {"DW_AT_low_pc", "DW_AT_name"} <= set(values):
                        continue
                    low, high = values["DW_AT_low_pc"].value, values["DW_AT_high_pc"].value
                    rows = [row for row in self.rows if low <= row.start < low + high and row.line]
                    if not rows:
                        continue
                    of = rows[0].file
                    extent = of, rows[0].line, max(row.line for row in rows if row.file == of)
                    inside = [
                        child.attributes for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"
                    ]
                    names = [one["DW_AT_name"].value.decode() for one in inside if "DW_AT_name" in one]
                    found[values["DW_AT_name"].value.decode()] = [(name, extent) for name in names]
        return found

    def parameters(self, function: str) -> list[tuple[str, tuple[str, int, int]]]:
        """A function's parameters, each with the function's file and first and last line."""
        return self._functions.get(function, [])

    @staticmethod
    @cache
    def assigned(file: str, first: int, last: int, name: str) -> bool:
        """Whether a function's text gives a name another value, or its address away."""
        text = "\n".join(linecache.getlines(file)[first - 1 : last])
        changes = rf"\b{name}\s*(=(?!=)|\+\+|--|[-+*/|&]=|<<=|>>=)|(\+\+|--|(?<!&)&\s*){name}\b"
        return not text or re.search(changes, text) is not None
