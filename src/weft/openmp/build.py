"""An OpenMP program with the compiler's access hooks and the simulated runtime in place of libgomp."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from weft.dataparallel.compilation import beside, compile_one
from weft.dataparallel.front_end import Request
from weft.dataparallel.runtime import cached, compiler, is_clang, one_object, run, shared
from weft.errors import UsageError
from weft.native.library import headers, wrapped
from weft.openmp.source_rewriting import (
    FIXED_SUFFIXES,
    constructs,
    language,
    one_memory,
    rewritten_c,
    rewritten_fortran,
)

HOOKS: Final = (
    "-fopenmp",
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=0",
    "-gdwarf-4",
    "-gno-variable-location-views",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-w",
)
# A read that is made once before a loop, or a write that is made once behind it, would be another strand's.
KEPT: Final = (
    "-O1",
    "-fno-tree-loop-im",
    "-fno-tree-pre",
    "-fno-tree-sink",
    "-fno-ipa-pure-const",
    "-finline-small-functions",
    "-fno-toplevel-reorder",
    "-fno-tree-dse",
    "-fno-tree-dce",  # these keep what is only written or only read
    "-fno-tree-loop-distribute-patterns",
)
# Private variables are watched where their address goes out; gfortran knows too well where it does not (-fno-tree-pta).
# It does not know -fno-builtin-memcpy: what it copies as a whole would pass by the wrapped functions.
CALLED: Final = ("-mmemcpy-strategy=libcall:-1:noalign", "-mmemset-strategy=libcall:-1:noalign")
FORTRAN: Final = ("-ffree-line-length-none", "-fno-tree-pta", *(CALLED if platform.machine() == "x86_64" else ()))
RUNTIME_FLAGS: Final = (
    "-std=c11",
    "-O2",
    "-fno-tree-vectorize",
    "-g",
    "-D_GNU_SOURCE",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fno-omit-frame-pointer",
    "-fno-builtin-malloc",
)
KNOWN: Final = (
    "weft_*",
    "__*",
    "GOMP_*",
    "omp_*",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
)


MOST_BEFORE: Final = 4
"""Lines from a directive to the head of its loop."""


def native() -> Traversable:
    """The folder of the simulated runtime's sources."""
    return files("weft.openmp") / "native"


def gnu(of: str) -> str:
    """GCC's compiler of a language: the runtime takes the place of its libgomp. UsageError where it is another one."""
    name = compiler(of)
    if of != "fortran" and is_clang(name):
        variable = {"c": "CC", "c++": "CXX"}[of]
        raise UsageError(f"checking OpenMP programs needs gcc and g++; {variable} names {name}: unset it")
    return name


@cache
def runtime() -> Path:
    """The simulated runtime as an object file, built on first use."""
    tool = gnu("c")

    def make(folder: Path, units: list[str]) -> None:
        for unit in units:
            run([*tool.split(), *RUNTIME_FLAGS, "-c", unit], folder)
        compiled = [unit.replace(".c", ".o") for unit in units]
        one_object(folder, compiled, wrapped(*(folder / one for one in compiled)), KNOWN)

    held = [*headers(), *shared(), *(one for one in native().iterdir() if one.name.endswith((".c", ".h")))]
    return cached("weft-openmp.o", held, (tool, RUNTIME_FLAGS, KNOWN), make)


@cache
def offloaded() -> tuple[list[str], list[str]]:
    """The compiler's objects that a list of the device's variables begins and ends with; none where it has none."""
    found = []
    for name in ("crtoffloadbegin.o", "crtoffloadend.o", "crtoffloadtable.o"):
        asked = [*gnu("c").split(), f"-print-file-name={name}"]
        found.append(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    if not all(Path(one).is_absolute() for one in found):
        return [], []
    return found[:1], found[1:]


@dataclass(frozen=True, slots=True)
class Built:
    """A program, and the directives that the compiler does not take in the simulated runtime's form."""

    path: Path
    kept: tuple[tuple[Path, int], ...] = ()


def build(request: Request, folder: Path) -> Built:
    """Compile and link a program in `folder`. UsageError with the compiler's first error where that fails."""
    kept: list[tuple[Path, int]] = []
    objects = []
    for number, source in enumerate(_ordered(request.sources)):
        made, lines = _object(request, source, number, folder)
        objects.append(made)
        kept += [(source, line) for line in sorted(lines)]
    languages = {language(source) for source in request.sources}
    linker = gnu("fortran" if "fortran" in languages else "c++" if "c++" in languages else "c").split()
    program = folder / request.sources[-1].stem
    begin, end = offloaded()
    command = [
        *linker,
        "-g",
        "-o",
        str(program),
        *begin,
        *map(str, objects),
        str(runtime()),
        *(f"-Wl,--wrap={name}" for name in wrapped(runtime())),
        *request.link,
        *end,
        *(["-Wl,--defsym=weft_omp_one_memory=1"] if any(map(one_memory, request.sources)) else []),
        *(["-lstdc++"] if languages >= {"fortran", "c++"} else []),
        "-lm",
        "-lpthread",
        "-ldl",
    ]
    compile_one(command, request.sources[-1], folder)
    return Built(program, tuple(kept))


def _ordered(sources: Sequence[Path]) -> list[Path]:
    """Sources in Fortran behind those that make the modules which they use."""
    made: dict[str, Path] = {}
    used: dict[Path, set[str]] = {}
    for one in sources:
        text = one.read_text(encoding="utf-8", errors="replace") if language(one) == "fortran" else ""
        used[one] = {name.lower() for name in re.findall(r"^\s*use\b(?:[^:\n]*::)?\s*(\w+)", text, re.I | re.M)}
        for name in re.findall(r"^\s*module\s+(\w+)\s*(?:!.*)?$", text, re.I | re.M):
            made[name.lower()] = one
    found: list[Path] = []

    def put(one: Path, way: tuple[Path, ...] = ()) -> None:
        if one in found or one in way:
            return
        for name in sorted(used[one]):
            if name in made:
                put(made[name], (*way, one))
        found.append(one)

    for one in sources:
        put(one)
    return found


def flags(request: Request, source: Path, folder: Path) -> list[str]:
    """The compiler's options for a source, but for what it is to make."""
    fortran = language(source) == "fortran"
    options = request.options.of(source)
    # What the compiler would do itself in place of a call would pass by the wrapped functions.
    called = [f"-fno-builtin-{name}" for name in wrapped(runtime()) if not name.startswith("_")]
    return [
        *KEPT,
        *called,
        *HOOKS,
        *((*FORTRAN, "-J", str(folder)) if fortran else ()),
        *beside(source, fortran=fortran),
        *(f"-I{path}" for path in options.include),
        *(f"-D{name}" for name in options.define),
        *options.flags,
    ]


def _object(request: Request, source: Path, number: int, folder: Path) -> tuple[Path, set[int]]:
    """A source's object, and the lines of directives that stay as they are: the compiler takes no other form there."""
    of = language(source)
    target = folder / f"{number}-{source.stem}.o"
    words = flags(request, source, folder)
    fortran = of == "fortran"
    copy = folder / f"{number}-{source.stem}{source.suffix if fortran else '.i' if of == 'c' else '.ii'}"
    fixed = source.suffix.lower() in FIXED_SUFFIXES
    if fortran:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        words += [f"-fdebug-prefix-map={copy}={source.absolute()}"]
    else:
        text = _preprocessed(of, words, source, folder)
    kept: set[int] = set()
    while True:
        made = rewritten_fortran(text, copy, fixed, kept) if fortran else rewritten_c(text, of, kept)
        copy.write_text(made, encoding="utf-8", errors="surrogateescape")
        try:
            compile_one([*gnu(of).split(), *words, "-c", str(copy), "-o", str(target)], source, folder)
        except UsageError as error:
            line = _directive_at(str(error), source)
            if line is None or line in kept:
                raise
            kept.add(line)
        else:
            return target, kept


def _directive_at(message: str, source: Path) -> int | None:
    """The line of the directive that the compiler's first error is about: at its place, or shortly before it."""
    found = re.search(r":(\d+): the program does not compile", message)
    if not found:
        return None
    lines = [line for line, _ in constructs(source) if 0 <= int(found[1]) - line <= MOST_BEFORE]
    return lines[-1] if lines else None


def _preprocessed(of: str, words: Sequence[str], source: Path, folder: Path) -> str:
    made = folder / "preprocessed"
    command = [*gnu(of).split(), *words, "-E", str(source.absolute()), "-o", str(made)]
    compile_one(command, source, folder)
    return made.read_text(encoding="utf-8", errors="surrogateescape")
