"""Check data-parallel programs: run them on one processor while their parallel execution is simulated.

A front end (`dvm` for C-DVMH and Fortran-DVM, `numba` for prange) brings the program and its `Texts`; the runtime
(`check/native`) watches loops and accesses and writes what it found; `findings` puts both together.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.check import looked
from weft.check.looked import Looked
from weft.check.others import unread
from weft.check.process import Ended
from weft.check.texts import Marked, Texts
from weft.errors import UsageError
from weft.findings import Finding, worst_first

C_SUFFIXES: Final = frozenset((".cdv", ".c", ".cpp", ".cc", ".cxx", ".cdvh"))
FORTRAN_SUFFIXES: Final = frozenset((".fdv", ".f", ".for", ".f90", ".f95", ".f03", ".f08", ".ftn"))


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


@dataclass(frozen=True, slots=True)
class Checked:
    """What came out of a check; `status` is the program's own exit status, negative for a signal."""

    name: str
    findings: tuple[Finding, ...]
    status: int
    run: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    ranks: tuple[Any, ...] = ()
    looked: Looked = field(default_factory=Looked)
    cut_off: bool = False
    """Its time was up."""
    hidden: int = 0
    """Findings that the user chose not to be told."""

    @property
    def ended(self) -> str:
        """How the program ended, for people."""
        if self.cut_off:
            return "the program was cut off"
        if self.status < 0:
            return f"the program ended by {signal.Signals(-self.status).name}"
        return f"the program exited with {self.status}" if self.status else "finished"

    @property
    def whole(self) -> bool:
        """Whether the program ran to an end of its own that it calls a good one."""
        return self.status == 0 and not self.cut_off


def check(request: Request, folder: Path) -> Checked:
    """Build, run and judge a program in `folder`. UsageError where it cannot be checked."""
    from weft.check.findings import read

    for source in request.sources:
        if not source.is_file():
            raise UsageError(f"{source} is no file; name the program's sources")
    found = folder / "findings.jsonl"
    found.unlink(missing_ok=True)
    ended, texts = _run_python(request, folder, found) if _is_python(request) else _run_marked(request, folder, found)
    findings = read(found, texts)
    left: Iterable[str] = ()
    if _is_python(request):
        from weft.check import numba

        findings = worst_first([*findings, *numba.compared(folder)])
        left = numba.left(folder)
    seen = looked.read(found, texts, left)
    return Checked(
        name=" ".join(map(str, request.sources)),
        findings=tuple(findings),
        status=ended.status,
        run={
            "command": [*map(str, request.sources), *request.arguments],
            "cwd": str(Path.cwd()),
            "ended": "killed" if ended.cut_off else "crashed" if ended.status < 0 else "finished",
            "seconds": {"preparing": round(ended.preparing, 3), "program": round(ended.seconds, 3)},
        },
        problems=tuple(_problems(ended, request, seen, texts)),
        looked=seen,
        cut_off=ended.cut_off,
    )


def _problems(ended: Ended, request: Request, seen: Looked, texts: Texts) -> Iterator[str]:
    """What keeps the result from being all that there is to know."""
    if ended.cut_off:
        yield f"the program was ended after {request.timeout or 0:g} s: what it would have done is not checked"
    elif ended.status:
        yield "the program did not end well: what it would have done is not checked"
    if seen.nothing:
        yield f"nothing was looked at: {looked.remedy(texts)}"


def _is_python(request: Request) -> bool:
    return request.sources[0].suffix == ".py"


def _run_python(request: Request, folder: Path, found: Path) -> tuple[Ended, Texts]:
    from weft.check import numba

    texts = folder / "texts.json"
    ended = numba.run(request.sources[0], request.arguments, found, texts, request.timeout)
    return ended, Texts.read(texts) if texts.exists() else Texts("python")


def _run_marked(request: Request, folder: Path, found: Path) -> tuple[Ended, Texts]:
    from weft.check.program import Options, build, execute

    began = time.perf_counter()
    marked, texts = mark(request.sources, request.include, request.define)
    texts.write(folder / "texts.json")
    options = Options(request.include, request.define, request.flags, request.link)
    program = build(marked, folder, options)
    preparing = time.perf_counter() - began
    ended = execute(program, request.arguments, found, request.grid, request.timeout)
    return dataclasses.replace(ended, preparing=preparing), texts


def mark(
    sources: Sequence[Path], include: Sequence[Path] = (), define: Sequence[str] = ()
) -> tuple[list[Marked], Texts]:
    """The program's sources with the runtime's calls, by the front end of their language."""
    suffixes = {source.suffix.lower() for source in sources}
    if suffixes <= C_SUFFIXES:
        for name in ("tree_sitter", "tree_sitter_c"):
            if importlib.util.find_spec(name) is None:
                raise UsageError("checking C programs needs tree-sitter: pip install 'weft-debugger[check]'")
        from weft.check.dvm import c

        texts = Texts("c", left=list(unread(sources, fortran=False)))
        return c.mark(sources, texts, include, define), texts
    if suffixes <= FORTRAN_SUFFIXES:
        from weft.check.dvm import fortran

        texts = Texts("fortran", left=list(unread(sources, fortran=True)))
        return fortran.mark(sources, texts, include, define), texts
    known = ", ".join(sorted(C_SUFFIXES | FORTRAN_SUFFIXES | {".py"}))
    raise UsageError(
        f"{os.fspath(sources[0])}: name sources of one language (C-DVMH or Fortran-DVM) or a Python program: {known}"
    )
