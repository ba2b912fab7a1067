"""The interface of a front end of `weft check`: which programs it reads, which options it accepts, and how it runs
them.

A front end is a module of `weft.check.front_ends` with a FRONT_END in it; it is listed nowhere else.
"""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from weft.dataparallel.compilation import describe_unknown_compilers
from weft.dataparallel.process import ProcessEnd
from weft.dataparallel.program import PLAIN, CompileOptions, build_program, run_program
from weft.dataparallel.progress import Say, ignore
from weft.dataparallel.runtime_output import RuntimeOutput
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.errors import UsageError
from weft.findings import Finding

Option = Literal["grid", "include", "define", "flags", "link"]
"""Options of `weft check` that mean nothing to some front ends, by their fields of a CheckRequest."""

SPELLED: Final[Mapping[Option, str]] = {
    "grid": "-p",
    "include": "-I",
    "define": "-D",
    "flags": "--flags",
    "link": "--link",
}
COMPILED: Final[frozenset[Option]] = frozenset(("grid", "include", "define", "flags", "link"))
"""What a program that is compiled, and runs on a grid of processors, can be given."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A program to check, and how to compile and run it."""

    sources: tuple[Path, ...]
    arguments: tuple[str, ...] = ()
    grid: str = ""
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    timeout: float | None = None
    per_source: Mapping[Path, CompileOptions] = field(default_factory=dict)
    """What a build gives some of the sources beside these."""
    unchecked: tuple[str, ...] = ()
    """What was named and is known not to be taken, a phrase each."""
    launcher: tuple[str, ...] = ()
    """What starts the program, as often as it does: mpiexec -n 4."""
    program: str = ""
    """Its name, where it was named by itself and not by its sources."""
    say: Say = ignore
    """Prints how far the check has come."""

    @property
    def display_names(self) -> tuple[str, ...]:
        """Return the names by which the user called the program: the program itself, or its sources."""
        return (self.program,) if self.program else tuple(map(str, self.sources))

    @property
    def options(self) -> CompileOptions:
        """Return the options with which its sources are compiled."""
        return CompileOptions(self.include, self.define, self.flags, self.link, self.per_source)


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of a front end's run: how the program ended, what was found, and what was not checked."""

    ended: ProcessEnd
    texts: SourceMap
    findings: tuple[Finding, ...] = ()
    """What was found beside the runtime's lines."""
    unchecked: tuple[str, ...] = ()
    """What is known not to have been looked at, a phrase each."""
    notes: tuple[str, ...] = ()
    """What else is to be said of the run, a sentence each."""
    runtime_output: RuntimeOutput | None = None
    """What the runtime told, where the front end has read it already."""


class FrontEnd(Protocol):
    """What reads one language's directives for `weft check`, and runs its programs."""

    name: str
    """For people: `C-DVMH`."""
    suffixes: frozenset[str]
    """Endings of its sources, in small letters."""
    options: frozenset[Option]
    """The options that mean something to it; the others are refused."""
    remedy: str
    """What to do where nothing was looked at."""
    script: bool = False
    """Whether its program is one file, and what follows that on the command line is the program's own."""

    launched: bool = False
    """Whether another command may start its program, several times."""

    def claims(self, sources: Sequence[Path]) -> bool:
        """Return whether these sources hold this front end's directives; used if several read one suffix."""
        return True

    @abstractmethod
    def run(self, request: CheckRequest, folder: Path, found: Path) -> CheckOutcome:
        """Run a program in `folder`; the runtime writes to `found`. UsageError if the program cannot be checked."""

    def refuse_unsupported_options(self, request: CheckRequest) -> None:
        """Raise UsageError if a request has an option that this front end does not support."""
        for name, option in SPELLED.items():
            if getattr(request, name) and name not in self.options:
                own = f"; an option of the program itself comes after --: -- {option}" if self.script else ""
                raise UsageError(f"{option} has no effect on a {self.name} program: leave it out{own}")
        if request.launcher and not self.launched:
            words = " ".join(request.launcher)
            raise UsageError(f"a {self.name} program is checked in one process: leave out what starts it ({words})")


MarkedSources = tuple[list[MarkedSource], SourceMap]
"""Marked sources, and what the runtime's numbers in them mean."""


class MarkingFrontEnd(FrontEnd):
    """A front end that inserts the runtime's calls into copies of the sources, which are then compiled and run once."""

    options: frozenset[Option] = COMPILED

    @abstractmethod
    def mark(self, sources: Sequence[Path], options: CompileOptions = PLAIN) -> MarkedSources:
        """Return copies of the sources with the runtime's calls, and the source map of the numbers in them."""

    def run(self, request: CheckRequest, folder: Path, findings_path: Path) -> CheckOutcome:
        """Insert the runtime's calls into a program's sources, compile it and run it once. The runtime writes its
        findings to `findings_path`; the outcome has none of them yet."""
        began = time.perf_counter()
        marked, texts = self.mark(request.sources, request.options)
        texts.write(folder / "texts.json")
        program = build_program(marked, folder, request.options, request.say)
        preparing = time.perf_counter() - began
        ended = run_program(program, request.arguments, findings_path, request.grid, request.timeout, say=request.say)
        return CheckOutcome(
            dataclasses.replace(ended, preparing=preparing), texts, notes=tuple(describe_unknown_compilers(marked))
        )
