"""Instructions of a native rank, named so that they are the same in every replay: by module and place in it."""

from __future__ import annotations

import bisect
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from weft.errors import DebuggerError
from weft.gdb.mi import Mi

NOT_THE_PROGRAM: Final = re.compile(
    r"(libweft|weft|lib[pf]?mpi|libmpich|libopen[-_]|libprrte|libpmix|libuc|libfabric|libhwloc|libevent|libc[.-]|libm[.-]"
    r"|libpthread|ld-linux|libmpifort|libmpicxx|libi?omp5?[.]|libgomp[.])[^/]*$|^\[vdso\]"
)
"""Modules that are not the program's own: the recorder, MPI, the system's."""
LONGEST: Final = 15
"""Bytes of the longest instruction that a processor has (x86)."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: the function that it is of, and where it comes from in the source, as far as that is known."""

    address: int
    text: str
    code: str
    symbol: str
    file: str = ""
    line: int = 0


class Halting(Protocol):
    """A gdb in a process that can be halted: debug.gdb.NativeHand."""

    gdb: Mi
    maps: Maps

    def halted(self) -> AbstractContextManager[None]:
        """Halt the process while gdb is asked."""
        ...


def disassembled(hand: Halting, address: int, first: int, count: int) -> list[Instruction | None]:
    """`count` instructions from the one that is `first` behind (or before) an address; None where nothing is known.

    Before it only those of the same function: where instructions begin in other bytes cannot be told.
    """
    with hand.halted():
        whole = _read(hand, f"-a {address:#x}") if first < 0 else []
        before = [one for one in whole if one.address < address]
        wanted = max(first + count, 0)
        last = min(address + wanted * LONGEST, hand.maps.end(address))
        behind = _read(hand, f"-s {address:#x} -e {last:#x}") if wanted else []
    rows: list[Instruction | None] = [*before, *behind]
    at = len(before) + first
    padded = [None] * max(-at, 0) + rows[max(at, 0) :]
    return (padded + [None] * count)[:count]


def _read(hand: Halting, where: str) -> list[Instruction]:
    """What gdb disassembles, with lines where there are some; nothing where it cannot read."""
    for mode in (5, 2):
        try:
            groups = hand.gdb.ask(f"-data-disassemble {where} -- {mode}").get("asm_insns", [])
        except DebuggerError:
            continue
        found: dict[int, Instruction] = {}
        for group in groups:
            rows = group.get("line_asm_insn", []) if "line_asm_insn" in group or "line" in group else [group]
            file, line = str(group.get("fullname") or ""), int(group.get("line") or 0)
            found |= {one.address: one for one in (_instruction(row, file, line) for row in rows)}
        if found:
            return [found[address] for address in sorted(found)]
    return []


def _instruction(row: dict[str, Any], file: str, line: int) -> Instruction:
    symbol = f"{row['func-name']}+{row.get('offset', 0)}" if "func-name" in row else ""
    return Instruction(int(row["address"], 16), str(row["inst"]), str(row.get("opcodes", "")), symbol, file, line)


class Maps:
    """Which module of a process holds an address."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._read()

    def _read(self) -> None:
        rows: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        for line in Path(f"/proc/{self._pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6:
                start, end = (int(word, 16) for word in words[0].split("-"))
                rows.append((start, end, words[5]))
                self._bases.setdefault(words[5], start)
        self._rows = rows
        self._starts = [row[0] for row in rows]

    def module(self, address: int) -> str:
        """The file, empty where there is none."""
        for again in (False, True):  # a library may have come since
            row = bisect.bisect_right(self._starts, address) - 1
            if row >= 0 and address < self._rows[row][1]:
                return self._rows[row][2]
            if not again:
                self._read()
        return ""

    def end(self, address: int) -> int:
        """Where the part of the module that holds an address ends; the address itself where there is none."""
        row = bisect.bisect_right(self._starts, address) - 1
        return self._rows[row][1] if self.module(address) else address

    def base(self, module: str) -> int:
        """Where the module begins."""
        return self._bases.get(module, 0)

    def address(self, instruction: str) -> int:
        """Where *MODULE+OFFSET lies; the module by its path, or the end of it. DebuggerError where it is not loaded."""
        name, _, offset = instruction[1:].rpartition("+")
        for again in (False, True):
            if again:
                self._read()
            found = [path for path in self._bases if path == name or path.endswith("/" + name)]
            if found:
                break
        else:
            raise DebuggerError(f"the rank has loaded no file {name} (yet)")
        if NOT_THE_PROGRAM.search(found[0]):
            raise DebuggerError(f"ranks stop in code of the program, and {name} is a library of the system")
        address = self._bases[found[0]] + int(offset, 0)
        if self.module(address) != found[0]:
            raise DebuggerError(f"{name} ends before that")
        return address
