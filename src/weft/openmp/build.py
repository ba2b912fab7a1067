"""Build an OpenMP program with the compiler's access hooks and the simulated runtime in place of libgomp."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from weft.dataparallel.compilation import include_options, run_compiler
from weft.dataparallel.front_end import CheckRequest
from weft.dataparallel.progress import wait_for_compilations
from weft.dataparallel.runtime import (
    build_once,
    find_compiler,
    is_clang,
    link_one_object,
    run_build_tool,
    shared_headers,
)
from weft.errors import UsageError
from weft.native.library import library_headers, wrapped_functions
from weft.openmp.source_rewriting import (
    FIXED_SUFFIXES,
    read_directives,
    requires_shared_memory,
    rewrite_c,
    rewrite_fortran,
    source_language,
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
# A read that is made once before a loop, or a write that is made once after it, would be another strand's.
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


CODE: Final = "weft_text"
"""The section of the runtime's code: samples of a slow check are of it or of the program."""
MOST_BEFORE: Final = 4
"""Lines from a directive to the head of its loop."""


def runtime_sources() -> Traversable:
    """Return the folder of the simulated runtime's C sources."""
    return files("weft.openmp") / "native"


def find_gcc_compiler(language: str) -> str:
    """Return the command of the GNU compiler of a language. Raises UsageError if it is clang: the runtime replaces
    GCC's libgomp.
    """
    name = find_compiler(language)
    if language != "fortran" and is_clang(name):
        variable = {"c": "CC", "c++": "CXX"}[language]
        raise UsageError(f"checking OpenMP programs needs gcc and g++, and {variable} names {name}: unset {variable}")
    return name


@cache
def build_runtime() -> Path:
    """Return the simulated OpenMP runtime as an object file; it is compiled on first use and then cached."""
    tool = find_gcc_compiler("c")

    def compile_units(folder: Path, units: list[str]) -> None:
        """Compile and join the runtime's sources in a folder."""
        for unit in units:
            run_build_tool([*tool.split(), *RUNTIME_FLAGS, "-c", unit], folder)
        compiled = [unit.replace(".c", ".o") for unit in units]
        link_one_object(folder, compiled, wrapped_functions(*(folder / one for one in compiled)), KNOWN, CODE)

    held = [
        *library_headers(),
        *shared_headers(),
        *(one for one in runtime_sources().iterdir() if one.name.endswith((".c", ".h"))),
    ]
    return build_once("weft-openmp.o", held, (tool, RUNTIME_FLAGS, KNOWN, CODE), compile_units)


@cache
def find_offload_objects() -> tuple[list[str], list[str]]:
    """Return (objects to link first, objects to link last): the compiler's objects that list the variables of target
    regions for the device. Both are empty if the compiler has no such objects.
    """
    found = []
    for name in ("crtoffloadbegin.o", "crtoffloadend.o", "crtoffloadtable.o"):
        asked = [*find_gcc_compiler("c").split(), f"-print-file-name={name}"]
        found.append(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    if not all(Path(one).is_absolute() for one in found):
        return [], []
    return found[:1], found[1:]


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """A built program, and the (file, line) of directives that the compiler does not accept in the runtime's form."""

    path: Path
    unchanged_directives: tuple[tuple[Path, int], ...] = ()


def build_program(request: CheckRequest, folder: Path) -> BuiltProgram:
    """Compile and link a program in `folder`; return its path, and the directives that the compiler does not accept in
    the form that the runtime needs. Raises UsageError with the compiler's first error if that fails.
    """
    languages = {source_language(source) for source in request.sources}
    sources = _order_by_modules(request.sources)
    # A source in Fortran needs the modules of those before it.
    with ThreadPoolExecutor(max_workers=1 if "fortran" in languages else os.cpu_count() or 1) as pool:
        jobs = [pool.submit(_compile_source, request, source, number, folder) for number, source in enumerate(sources)]
        compiled = wait_for_compilations(jobs, request.say)
    objects = [made for made, _ in compiled]
    kept = [(source, line) for source, (_, lines) in zip(sources, compiled, strict=True) for line in sorted(lines)]
    linker = find_gcc_compiler("fortran" if "fortran" in languages else "c++" if "c++" in languages else "c").split()
    program = folder / request.sources[-1].stem
    begin, end = find_offload_objects()
    command = [
        *linker,
        "-g",
        "-o",
        str(program),
        *begin,
        *map(str, objects),
        str(build_runtime()),
        *(f"-Wl,--wrap={name}" for name in wrapped_functions(build_runtime())),
        *request.link,
        *end,
        *(["-Wl,--defsym=weft_omp_one_memory=1"] if any(map(requires_shared_memory, request.sources)) else []),
        *(["-lstdc++"] if languages >= {"fortran", "c++"} else []),
        "-lm",
        "-lpthread",
        "-ldl",
    ]
    run_compiler(command, request.sources[-1], folder)
    return BuiltProgram(program, tuple(kept))


def _order_by_modules(sources: Sequence[Path]) -> list[Path]:
    """Return Fortran sources in an order that compiles each module before the sources that use it."""
    made: dict[str, Path] = {}
    used: dict[Path, set[str]] = {}
    for one in sources:
        text = one.read_text(encoding="utf-8", errors="replace") if source_language(one) == "fortran" else ""
        used[one] = {name.lower() for name in re.findall(r"^\s*use\b(?:[^:\n]*::)?\s*(\w+)", text, re.I | re.M)}
        for name in re.findall(r"^\s*module\s+(\w+)\s*(?:!.*)?$", text, re.I | re.M):
            made[name.lower()] = one
    found: list[Path] = []

    def add_after_modules(source: Path, waiting: tuple[Path, ...] = ()) -> None:
        """Add a source to the result, after the sources of the modules that it uses."""
        if source in found or source in waiting:
            return
        for name in sorted(used[source]):
            if name in made:
                add_after_modules(made[name], (*waiting, source))
        found.append(source)

    for one in sources:
        add_after_modules(one)
    return found


def build_compiler_flags(request: CheckRequest, source: Path, folder: Path) -> list[str]:
    """Return the compiler's options for a source, without those for its input and output."""
    fortran = source_language(source) == "fortran"
    options = request.options.for_source(source)
    # What the compiler would do itself in place of a call would pass by the wrapped functions.
    called = [f"-fno-builtin-{name}" for name in wrapped_functions(build_runtime()) if not name.startswith("_")]
    return [
        *KEPT,
        *called,
        *HOOKS,
        *((*FORTRAN, "-J", str(folder)) if fortran else ()),
        *include_options(source, fortran=fortran),
        *(f"-I{path}" for path in options.include),
        *(f"-D{name}" for name in options.define),
        *options.flags,
    ]


def _compile_source(request: CheckRequest, source: Path, source_number: int, folder: Path) -> tuple[Path, set[int]]:
    """Compile one source. Return its object file, and the lines of the directives that were not rewritten for the
    runtime.

    A directive that the compiler rejects in its rewritten form is left unchanged, and the source is compiled again.
    """
    of = source_language(source)
    target = folder / f"{source_number}-{source.stem}.o"
    words = build_compiler_flags(request, source, folder)
    fortran = of == "fortran"
    copy = folder / f"{source_number}-{source.stem}{source.suffix if fortran else '.i' if of == 'c' else '.ii'}"
    fixed = source.suffix.lower() in FIXED_SUFFIXES
    if fortran:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        words += [f"-fdebug-prefix-map={copy}={source.absolute()}"]
    else:
        text = _preprocess(of, words, source, source_number, folder)
    kept: set[int] = set()
    while True:
        made = rewrite_fortran(text, copy, fixed, kept) if fortran else rewrite_c(text, of, kept)
        copy.write_text(made, encoding="utf-8", errors="surrogateescape")
        try:
            run_compiler([*find_gcc_compiler(of).split(), *words, "-c", str(copy), "-o", str(target)], source, folder)
        except UsageError as error:
            line = _find_directive_at_error(str(error), source)
            if line is None or line in kept:
                raise
            kept.add(line)
        else:
            return target, kept


def _find_directive_at_error(message: str, source: Path) -> int | None:
    """Return the line of the directive that the compiler's first error is about; None if the error is not near one."""
    found = re.search(r":(\d+): the program does not compile", message)
    if not found:
        return None
    lines = [line for line, _ in read_directives(source) if 0 <= int(found[1]) - line <= MOST_BEFORE]
    return lines[-1] if lines else None


def _preprocess(language: str, options: Sequence[str], source: Path, number: int, folder: Path) -> str:
    """Return the text of a source after the preprocessor ran on it with the given options. `number` distinguishes the
    source's file in `folder` from those of other sources.
    """
    made = folder / f"{number}-preprocessed"
    command = [*find_gcc_compiler(language).split(), *options, "-E", str(source.absolute()), "-o", str(made)]
    run_compiler(command, source, folder)
    return made.read_text(encoding="utf-8", errors="surrogateescape")
