"""Check data-parallel programs: run them on one processor while their parallel execution is simulated.

A front end (`dvm` for C-DVMH and Fortran-DVM, `numba` for prange) brings the program and its `Texts`; the runtime
(`native/check`) watches loops and accesses and writes what it found; `findings` puts both together.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.arrays.texts import Marked, Texts
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

    @property
    def ended(self) -> str:
        """How the program ended, for people."""
        if self.status < 0:
            return f"the program ended by {signal.Signals(-self.status).name}"
        return f"the program exited with {self.status}" if self.status else "finished"


def check(request: Request, folder: Path) -> Checked:
    """Build, run and judge a program in `folder`. UsageError where it cannot be checked."""
    from weft.arrays.findings import read

    for source in request.sources:
        if not source.is_file():
            raise UsageError(f"{source} is no file; name the program's sources")
    found = folder / "findings.jsonl"
    found.unlink(missing_ok=True)
    status, texts = _run_python(request, folder, found) if _is_python(request) else _run_marked(request, folder, found)
    findings = read(found, texts)
    if _is_python(request):
        from weft.arrays import numba

        findings = worst_first([*findings, *numba.compared(folder)])
        notes = tuple(numba.problems(folder))
    else:
        notes = ()
    if status == -signal.SIGTERM and request.timeout:
        problems: tuple[str, ...] = (
            f"the program was ended after {request.timeout:g} s: what it would have done is not checked",
        )
    else:
        problems = ()
    return Checked(
        name=" ".join(map(str, request.sources)),
        findings=tuple(findings),
        status=status,
        run={
            "command": [*map(str, request.sources), *request.arguments],
            "cwd": str(Path.cwd()),
            "ended": "finished" if status == 0 else "crashed" if status < 0 else "finished",
        },
        problems=(*problems, *notes),
    )


def _is_python(request: Request) -> bool:
    return request.sources[0].suffix == ".py"


def _run_python(request: Request, folder: Path, found: Path) -> tuple[int, Texts]:
    from weft.arrays import numba

    texts = folder / "texts.json"
    status = numba.run(request.sources[0], request.arguments, found, texts, request.timeout)
    return status, Texts.read(texts) if texts.exists() else Texts("python")


def _run_marked(request: Request, folder: Path, found: Path) -> tuple[int, Texts]:
    from weft.arrays.program import Options, build, execute

    marked, texts = mark(request.sources, request.include, request.define)
    texts.write(folder / "texts.json")
    options = Options(request.include, request.define, request.flags, request.link)
    program = build(marked, folder, options)
    return execute(program, request.arguments, found, request.grid, request.timeout), texts


def mark(
    sources: Sequence[Path], include: Sequence[Path] = (), define: Sequence[str] = ()
) -> tuple[list[Marked], Texts]:
    """The program's sources with the runtime's calls, by the front end of their language."""
    suffixes = {source.suffix.lower() for source in sources}
    if suffixes <= C_SUFFIXES:
        from weft.arrays.dvm import c

        texts = Texts("c")
        return c.mark(sources, texts, include, define), texts
    if suffixes <= FORTRAN_SUFFIXES:
        from weft.arrays.dvm import fortran

        texts = Texts("fortran")
        return fortran.mark(sources, texts, include), texts
    known = ", ".join(sorted(C_SUFFIXES | FORTRAN_SUFFIXES | {".py"}))
    raise UsageError(
        f"{os.fspath(sources[0])}: name sources of one language (C-DVMH or Fortran-DVM) or a Python program: {known}"
    )
