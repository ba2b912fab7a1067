"""Reads from the program's code where frames are resumed, and which functions are helpers of spawns.

A frame is resumed at the address of its `__builtin_setjmp`: an address in its own function, which the function itself
stores in the frame's descriptor (`lea`, relative to the program counter). A helper is what a spawn calls: it pushes its
parent, calls the spawned function, and asks the runtime (`Cilk_exception_handler`) whether the parent was stolen.
"""

from __future__ import annotations

import bisect
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from weft.errors import UsageError
from weft.tasks.model import SourceLine

FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
RESUMED = re.compile(r"^\s*([0-9a-f]+):\s+lea\s+\S+\(%rip\),%\w+\s+# ([0-9a-f]+) <(.+)\+0x[0-9a-f]+>$")
INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\t")
CALLED = re.compile(r"\b(?:call|jmp)\s+[0-9a-f]+ <([^@>]+)")
LEAVES = "Cilk_exception_handler"
OWN = re.compile(r"__cilk|Cilk_|worker_scheduler$|scheduler_thread_proc$|do_what_it_says|sync_in_personality$")
"""Functions of the runtime, where it is linked statically."""
PATIENCE = 120


SYNC = "__cilk_sync"
INLINED = "cilk2c_inlined.c"
"""The runtime's file whose functions are compiled into the program's."""


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A function of the program, by addresses in its file. `resumed`: (address at which frames are resumed, storing
    address).
    """

    name: str
    start: int
    end: int
    resumed: tuple[tuple[int, int], ...]
    helper: bool


@dataclass(frozen=True, slots=True)
class Resumption:
    """The line at which a frame is resumed, and whether the resumption is that of a sync and not of a spawn."""

    at: SourceLine | None
    sync: bool


class ProgramCode:
    """A program's functions; `shift` is the distance between their addresses in the process and in the file.

    `folder`: the folder of the runtime's own sources, as far as they are compiled into the program.
    """

    def __init__(self, functions: list[CompiledFunction], main: int, chains: dict[int, list[SourceLine]]) -> None:
        self._functions = sorted(functions, key=lambda function: function.start)
        self._main, self._chains = main, chains
        self.shift = 0
        inner = [line.file for chain in chains.values() for line in chain if line.file.endswith(f"/{INLINED}")]
        self.folder = folder_of(inner[0]) if inner else ""

    def loaded(self, main: int) -> None:
        """`main` is at this address in the process."""
        self.shift = main - self._main

    @cached_property
    def _starts(self) -> list[int]:
        return [function.start for function in self._functions]

    def function_at(self, pc: int) -> CompiledFunction | None:
        """Return the function that contains an address of the process; None if it is not the program's."""
        at = bisect.bisect_right(self._starts, pc - self.shift) - 1
        found = self._functions[at] if at >= 0 else None
        return found if found is not None and pc - self.shift <= found.end else None

    @property
    def resumed(self) -> list[int]:
        """Return where frames are resumed, in the process."""
        return [at + self.shift for function in self._functions for at, _ in function.resumed]

    def resumption_at(self, pc: int) -> Resumption | None:
        """Return how a frame is resumed at an address of the process: at which line, and whether after a sync or a
        spawn. None if no frame is resumed there.
        """
        function = self.function_at(pc)
        said = dict(function.resumed).get(pc - self.shift) if function is not None else None
        if said is None:
            return None
        chain = self._chains.get(said, [])
        own = chain[-1] if chain and folder_of(chain[-1].file) != self.folder else None
        return Resumption(own, any(line.function.startswith(SYNC) for line in chain))

    def line_of_resumption(self, pc: int, function: str) -> SourceLine | None:
        """Return the line of the program at which a frame continues that the runtime is just resuming. None if it is
        not at such a point, or the line is unknown.

        The compiler's debug information names a line of the runtime there. `pc`: the frame's address; `function`: the
        name of its function.
        """
        found = self.function_at(pc)
        if found is None or found.name != function:
            return None
        last = max((at for at, _ in found.resumed if at <= pc - self.shift), default=None)
        one = self.resumption_at(last + self.shift) if last is not None else None
        return one.at if one is not None else None

    @cached_property
    def syncs(self) -> frozenset[tuple[str, int]]:
        """Files and lines of all syncs, as far as they are known."""
        found = (self.resumption_at(pc) for pc in self.resumed)
        return frozenset((one.at.file, one.at.line) for one in found if one is not None and one.sync and one.at)

    @property
    def helpers(self) -> list[int]:
        """Return where helpers begin, in the process."""
        return [function.start + self.shift for function in self._functions if function.helper]


def folder_of(file: str) -> str:
    """Return the folder that a source lies in, without the steps back that compilers write."""
    return str(Path(os.path.normpath(file)).parent) if file else ""


def parse_functions(disassembly: str) -> list[CompiledFunction]:
    """Return the functions in the output of `objdump -d`."""
    return [_parse_function(opened, lines) for opened, lines in _split_functions(disassembly)]


def _split_functions(disassembly: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Yield (heading, instruction lines) for each function in the output of objdump."""
    opened, lines = None, list[str]()
    for line in disassembly.splitlines():
        if (begins := FUNCTION.match(line)) is not None:
            if opened is not None:
                yield opened, lines
            opened, lines = begins, []
        elif INSTRUCTION.match(line):
            lines.append(line)
    if opened is not None:
        yield opened, lines


def _parse_function(heading: re.Match[str], lines: list[str]) -> CompiledFunction:
    """Return a function of the program, with the addresses at which its frames are resumed. `heading`, `lines`: its
    heading and its instructions in the output of objdump.
    """
    start, name = int(heading[1], 16), heading[2]
    end = int(lines[-1].partition(":")[0], 16) if lines else start
    if OWN.match(name):
        return CompiledFunction(name, start, end, (), False)
    labels = [label for label in map(RESUMED.match, lines) if label is not None and label[3] == name]
    resumed = tuple((int(label[2], 16), int(label[1], 16)) for label in labels)
    calls = [call[1] for call in map(CALLED.search, lines) if call is not None]
    return CompiledFunction(name, start, end, resumed, LEAVES in calls)


def read_program_code(program: str) -> ProgramCode:
    """Return the functions of a program, read by objdump. UsageError if that is impossible, for example as the program
    is stripped.
    """
    functions = parse_functions(_run_tool("objdump", "-d", "--no-show-raw-insn", program))
    main = next((function.start for function in functions if function.name == "main"), None)
    if main is None:
        raise UsageError(f"{program}: objdump finds no main in it: do not strip it")
    return ProgramCode(functions, main, read_inline_chains(program, [said for f in functions for _, said in f.resumed]))


def read_inline_chains(program: str, addresses: Iterable[int]) -> dict[int, list[SourceLine]]:
    """Return for each address its source lines: that of the innermost inlined function first, then those of the calls
    that were inlined around it.

    LLVM's addr2line is preferred: that of binutils cannot read this part of DWARF 5.
    """
    tool = shutil.which("llvm-addr2line") or "addr2line"
    given = [hex(address) for address in addresses]
    return (
        dict(_parse_inline_chains(_run_tool(tool, "-a", "-f", "-i", "-e", program, *given).splitlines()))
        if given
        else {}
    )


def _parse_inline_chains(lines: list[str]) -> Iterator[tuple[int, list[SourceLine]]]:
    """Yield (address, source lines) for each address in the output of addr2line, innermost line first."""
    at, chain, function = 0, list[SourceLine](), ""
    for line in lines:
        if line.startswith("0x") and not function:
            if at:
                yield at, chain
            at, chain = int(line, 16), []
        elif not function:
            function = line
        else:
            file, _, number = re.sub(r" \(discriminator.*", "", line).partition(":")
            number = number.partition(":")[0]
            chain.append(SourceLine(os.path.normpath(file), int(number) if number.isdigit() else 0, function))
            function = ""
    if at:
        yield at, chain


def _run_tool(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.stdout
