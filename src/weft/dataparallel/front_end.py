"""What a front end of `weft check` is: the programs that it takes, the options that mean something to it, and its run.

A front end is a module of `weft.check.front_ends` with FRONT_END in it: no list names it.
"""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from weft.dataparallel.compilation import slower
from weft.dataparallel.runtime_output import Told
from weft.dataparallel.process import Ended
from weft.dataparallel.program import PLAIN, Options, build, execute
from weft.dataparallel.source_map import Marked, Texts
from weft.errors import UsageError
from weft.findings import Finding

Option = Literal["grid", "include", "define", "flags", "link"]
"""Options of `weft check` that mean nothing to some front ends, by their fields of a Request."""

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
class Request:
    """A program to check and how to run it."""

    sources: tuple[Path, ...]
    arguments: tuple[str, ...] = ()
    grid: str = ""
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    timeout: float | None = None
    own: Mapping[Path, Options] = field(default_factory=dict)
    """What a build gives some of the sources beside these."""
    left: tuple[str, ...] = ()
    """What was named and is known not to be taken, a phrase each."""
    launcher: tuple[str, ...] = ()
    """What starts the program, as often as it does: mpiexec -n 4."""
    program: str = ""
    """Its name, where it was named by itself and not by its sources."""

    @property
    def named(self) -> tuple[str, ...]:
        """What the user called it."""
        return (self.program,) if self.program else tuple(map(str, self.sources))

    @property
    def options(self) -> Options:
        """How its sources are compiled."""
        return Options(self.include, self.define, self.flags, self.link, self.own)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a front end's run came to."""

    ended: Ended
    texts: Texts
    findings: tuple[Finding, ...] = ()
    """What was found beside the runtime's lines."""
    left: tuple[str, ...] = ()
    """What is known not to have been looked at, a phrase each."""
    notes: tuple[str, ...] = ()
    """What else is to be said of the run, a sentence each."""
    told: Told | None = None
    """What the runtime told, where the front end has read it already."""


class FrontEnd(Protocol):
    """A language of directives."""

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
        """Whether these sources hold directives of its own: it decides between front ends that read one ending."""
        return True

    @abstractmethod
    def run(self, request: Request, folder: Path, found: Path) -> Outcome:
        """Run a program in `folder`; the runtime's lines go to `found`. UsageError where it cannot be checked."""

    def verify(self, request: Request) -> None:
        """Raise UsageError for an option that means nothing here."""
        for name, option in SPELLED.items():
            if getattr(request, name) and name not in self.options:
                own = f"; an option of the program's own stands behind --: -- {option}" if self.script else ""
                raise UsageError(f"{option} means nothing for a {self.name} program: leave it out{own}")
        if request.launcher and not self.launched:
            words = " ".join(request.launcher)
            raise UsageError(f"a {self.name} program is checked in one process: leave out what starts it ({words})")


Copies = tuple[list[Marked], Texts]
"""Marked sources, and what the runtime's numbers in them mean."""


class Marking(FrontEnd):
    """A front end that marks copies of the sources with the runtime's calls, to be compiled and run once."""

    options: frozenset[Option] = COMPILED

    @abstractmethod
    def mark(self, sources: Sequence[Path], options: Options = PLAIN) -> Copies:
        """The program's sources with the runtime's calls."""

    def run(self, request: Request, folder: Path, found: Path) -> Outcome:
        """Mark, compile and run."""
        began = time.perf_counter()
        marked, texts = self.mark(request.sources, request.options)
        texts.write(folder / "texts.json")
        program = build(marked, folder, request.options)
        preparing = time.perf_counter() - began
        ended = execute(program, request.arguments, found, request.grid, request.timeout)
        return Outcome(dataclasses.replace(ended, preparing=preparing), texts, notes=tuple(slower(marked)))
