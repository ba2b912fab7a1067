"""Compile marked sources with the runtime's hooks, in parallel, and cache the objects between checks.

An object depends on the preprocessed text, the flags and the compiler: an object of an earlier check with the same key
is reused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from weft.dataparallel import shortcut_support
from weft.dataparallel.progress import Say, ignore, wait_for_compilations
from weft.dataparallel.runtime import build_once, find_compiler, is_clang, runtime_sources
from weft.dataparallel.source_map import MarkedSource
from weft.errors import UsageError, WeftError
from weft.instrument.assembly import inline_hooks
from weft.safety.folders import cache_folder, is_safely_cached, make_private

COMPILE_SECONDS: Final = 600
_limits: Final[list[float]] = [COMPILE_SECONDS]
"""Seconds that a call of the compiler may take: the last one holds."""
MOST_KEPT: Final = 1024
"""Objects in the cache: the oldest ones go."""
HOOKS: Final = ("-fsanitize=thread",)
# clang's thread sanitizer leaves out what another thread could not see: reads of local arrays, reads before a write.
CLANG_HOOKS: Final = (
    *HOOKS,
    "-mllvm",
    "-tsan-instrument-memory-accesses=0",
    "-fsanitize-coverage=func,trace-loads,trace-stores",
    "-fno-sanitize=local-bounds",  # that one ends the program
)
COMMON: Final = ("-O1", "-gdwarf-4", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-w")
GCC_ONLY: Final = ("-fno-var-tracking", "-fno-tree-loop-im")
"""Only lines are asked for: where variables lie takes up to five times the rest of a compilation.
What a loop reads is not read ahead of it: there it may have no value yet."""
C_FLAGS: Final = (
    *COMMON,
    "-fsanitize=bounds",
    "-fno-builtin-memset",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",  # the wrapped functions are to be called
)
CPLUSPLUS_FLAGS: Final = (*C_FLAGS, "-Wno-narrowing")
FORTRAN_FLAGS: Final = (*COMMON, "-fcheck=bounds", "-ffixed-line-length-none", "-ffree-line-length-none")
FLAGS: Final = {"c": C_FLAGS, "c++": CPLUSPLUS_FLAGS, "fortran": FORTRAN_FLAGS}
LANGUAGE: Final = {".c": "c", ".cpp": "c++", ".f": "fortran", ".f90": "fortran"}

_MESSAGE: Final = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+)(:(?P<column>\d+))?:?\s+(fatal )?error: (?P<text>.*)$", re.M | re.I
)
_MPI: Final = re.compile(
    r"mpi\.h: No such file|(?P<fortran>Cannot open (?:module|included) file '(?:mpi|mpi_f08|mpif)\."
    r"|: mpi_\w+_ is defined)"
    r"|: MPI_\w+ is defined"
)
_BUILD: Final = "build it with `weft cc {}` and name the program: weft check -- ./prog"
_GFORTRAN: Final = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+):$", re.M)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Compiler options that the user gave: include folders, macros, flags, linker options."""

    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Passed to every compiler as they are."""
    link: tuple[str, ...] = ()
    per_source: Mapping[Path, CompileOptions] = field(default_factory=dict)
    """What a build gives some of the sources beside these."""

    def for_source(self, source: Path) -> CompileOptions:
        """Return the options for one source: the general ones and its own. If both define a macro, the general
        definition wins.
        """
        own = self.per_source.get(source, PLAIN)
        return CompileOptions(
            (*self.include, *own.include), (*own.define, *self.define), (*own.flags, *self.flags), self.link
        )


PLAIN: Final = CompileOptions()


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One marked source to be compiled in a folder; `number` makes its file names unique there."""

    marked: MarkedSource
    number: int
    folder: Path
    options: CompileOptions

    @property
    def language(self) -> str:
        """Return the language of the marked copy."""
        return LANGUAGE[self.marked.suffix]

    @property
    def source(self) -> Path:
        """Return the path of the marked copy."""
        return self.folder / f"{self.number}-{self.marked.original.stem}{self.marked.suffix}"

    @property
    def target(self) -> Path:
        """Return the path of the object."""
        return self.source.with_suffix(".o")

    @property
    def is_gcc(self) -> bool:
        """Return whether the compiler is one of GCC's."""
        return self.language == "fortran" or not is_clang(find_compiler(self.language))

    def build_compiler_flags(self) -> list[str]:
        """Return the compiler's options, without those for its input and output."""
        fortran = self.language == "fortran"
        options = self.options.for_source(self.marked.original)
        return [
            *FLAGS[self.language],
            *(HOOKS if self.is_gcc else CLANG_HOOKS),
            *(GCC_ONLY if self.is_gcc else ()),
            *(["-J", str(self.folder)] if fortran else []),
            f"-I{runtime_sources()}",
            *include_options(self.marked.original, fortran=fortran),
            *(f"-I{path}" for path in options.include),
            *(f"-D{name}" for name in options.define),
            *options.flags,
        ]

    def write_source(self) -> None:
        """Write the marked copy of the source into the job's folder, with a `#line` for the original."""
        text = self.marked.text
        if self.language != "fortran" and not text.startswith("#line"):
            text = f'#line 1 "{self.marked.original}"\n{text}'
        self.source.write_text(text, encoding="utf-8", errors="surrogateescape")

    def compile(self) -> None:
        """Compile the source to assembly, insert the checks around its memory accesses, and assemble the
        object file.
        """
        assembly = self.source.with_suffix(".s")
        tool = find_compiler(self.language).split()
        run_compiler(
            [*tool, *self.build_compiler_flags(), "-S", str(self.source), "-o", str(assembly)],
            self.marked.original,
            self.folder,
        )
        text = inline_hooks(assembly.read_text(errors="surrogateescape"), gcc=self.is_gcc)
        assembly.write_text(text, errors="surrogateescape")
        run_compiler([*tool, "-c", str(assembly), "-o", str(self.target)], self.marked.original, self.folder)


@dataclass(slots=True)
class CompiledObjects:
    """The objects of all sources, and how many of them came from the cache."""

    paths: list[Path] = field(default_factory=list)
    cached_count: int = 0
    """So many were taken from an earlier check."""


def compile_all(
    sources: Sequence[MarkedSource], folder: Path, options: CompileOptions, say: Say = ignore
) -> CompiledObjects:
    """Compile all sources, C and C++ in parallel, Fortran in their order, and return the objects in the order of the
    sources.
    """
    jobs = [CompileJob(one, number, folder, options) for number, one in enumerate(sources)]
    for job in jobs:
        job.write_source()
    made = CompiledObjects([job.target for job in jobs])
    others = [job for job in jobs if job.language != "fortran"]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        made.cached_count = sum(wait_for_compilations([pool.submit(_compile_or_copy_c, job) for job in others], say))
    # Modules: a later file needs what an earlier one made, so all are compiled, or none.
    fortran = [job for job in jobs if job.language == "fortran"]
    key = _compute_object_key(fortran, b"".join(job.source.read_bytes() for job in fortran)) if fortran else ""
    names = [f"{key}-{number}" for number in range(len(fortran))]
    if all(cached_object_path(name).exists() for name in names):
        made.cached_count += sum(_copy_from_cache(name, job) for name, job in zip(names, fortran, strict=True))
    else:
        for name, job in zip(names, fortran, strict=True):
            job.compile()
            _store_in_cache(name, job)
    return made


def _compile_or_copy_c(job: CompileJob) -> bool:
    """Make the object of a C or C++ source: copy it from the cache, or compile it and put it there. Return whether it
    came from the cache."""
    line = [*find_compiler(job.language).split(), *job.build_compiler_flags(), "-E", str(job.source)]
    try:
        done = subprocess.run(line, capture_output=True, timeout=COMPILE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    name = _compute_object_key([job], done.stdout) if done is not None and done.returncode == 0 else ""
    if name and _copy_from_cache(name, job):
        return True
    job.compile()
    if name:
        _store_in_cache(name, job)
    return False


# --- the compiler ---


def describe_unknown_compilers(marked: Sequence[MarkedSource]) -> list[str]:
    """Return a sentence for each compiler of these sources whose assembly Weft does not recognise. Code made by it is
    checked, but slowly."""
    languages = dict.fromkeys(LANGUAGE[one.suffix] for one in marked)
    return [
        shortcut_support.UNKNOWN.format(compiler=find_compiler(of), what=" and ".join(unknown))
        for of in languages
        if (unknown := _unrecognised_assembly(find_compiler(of), of == "fortran" or not is_clang(find_compiler(of))))
    ]


@cache
def _unrecognised_assembly(command: str, gcc: bool) -> list[str]:
    """Return phrases for the kinds of code that Weft cannot make faster in this compiler's assembly, because it does
    not recognise them. Empty if it recognises all. The answer is cached on disk."""
    words = [*command.split(), *C_FLAGS, *(HOOKS if gcc else CLANG_HOOKS), *(GCC_ONLY if gcc else ())]

    def make(folder: Path, _: list[str]) -> None:
        (folder / "made").write_text("\n".join(shortcut_support.check_compiler(words, folder, gcc=gcc)))

    facts = (_compiler_identity(command), words, shortcut_support.PROGRAM, hashlib.sha256(_tool_sources()).hexdigest())
    try:
        return build_once("shortcuts.txt", (), facts, make).read_text().splitlines()
    except WeftError:  # a compiler that takes no C
        return []


def include_options(source: Path, *, fortran: bool) -> list[str]:
    """Return the compiler's options by which a copy of a source in another folder finds the files beside the original.

    In C the options apply to `#include "..."` only, so that `#include <version>` never finds a file of that name there.
    """
    return [f"-I{source.parent}"] if fortran else ["-iquote", str(source.parent)]


@contextmanager
def limit_compiler(seconds: float | None) -> Iterator[None]:
    """In a `with` block, limit each compiler call to `seconds`; no limit for None."""
    _limits.append(COMPILE_SECONDS if seconds is None else min(seconds, COMPILE_SECONDS))
    try:
        yield
    finally:
        _limits.pop()


def run_compiler(command: list[str], original: Path, folder: Path) -> None:
    """Run a compiler or linker. Raises UsageError with its first error if it fails, WeftError if it cannot be run."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_limits[-1],
            check=False,
            errors="replace",
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{original}: it did not compile within {error.timeout:g} s: raise --timeout") from error
    except OSError as error:
        raise WeftError(f"{original} cannot be compiled: {error}") from error
    if done.returncode:
        raise UsageError(_format_first_error(done.stderr, original, folder))


def _format_first_error(output: str, original: Path, folder: Path) -> str:
    """Return the compiler's first error as one line with the user's own file and line, and a remedy if one is known."""
    text = _first_error(output, original, folder)
    if found := _MPI.search(text):
        fortran = found["fortran"] is not None
        variable, wrapper = ("FC", "mpifort") if fortran else ("CC", "mpicc" if original.suffix == ".c" else "mpicxx")
        chosen = os.environ.get(variable, "")
        if "mpi" in chosen:
            return (
                f"{text}; the MPI behind {variable}={chosen} does not fit this compiler: set {variable} to "
                f"the wrapper of another MPI"
            )
        wrappers = "FC=mpifort" if fortran else "CC=mpicc CXX=mpicxx"
        return f"{text}; compile it with MPI's wrapper: {wrappers} weft check ..., or {_BUILD.format(wrapper)}"
    if "is defined nowhere" in text:
        return f"{text}; name its file or library on the command line, or {_BUILD.format('gcc')}"
    return text


def _first_error(output: str, original: Path, folder: Path) -> str:
    """Return the compiler's or linker's first error as a sentence `file:line: the program does not compile: text`. An
    error in the translated file is reported for the user's file `original`; an error of the linker has no line.
    """
    found = _MESSAGE.search(output)
    if found and not re.match(rf"{re.escape(str(folder))}/\d+-", found["file"]):
        return f"{found['file']}:{found['line']}: the program does not compile: {found['text']}"
    place = _GFORTRAN.search(output)
    texts = [line for line in output.splitlines() if re.match(r"(fatal )?error:", line, re.I)]
    if place and texts:
        file = original if Path(place["file"]).parent == folder else place["file"]
        return f"{file}:{place['line']}: the program does not compile: {texts[0].partition(':')[2].strip()}"
    undefined = re.search(r"undefined reference to [`'](?P<name>[^']+)'", output)
    if undefined:
        return (
            f"{original}: the program does not link: {undefined['name']} is not defined: name the file or library "
            f"that defines it"
        )
    twice = re.search(r"multiple definition of [`'](?P<name>[^']+)'", output)
    if twice:
        return f"{original}: the program does not link: two of its files define {twice['name']}; leave one of them out"
    tail = (output.strip().splitlines() or ["no message"])[-1]
    return f"{original}: the program does not compile: {tail}"


# --- the cache ---


@cache
def _tool_sources() -> bytes:
    """Return the contents of all files of Weft that affect the objects: if one changes, all are compiled again."""
    room = files("weft.instrument")
    held = [room / "assembly.py", files("weft.dataparallel") / "compilation.py"]
    held += [one for one in (room / "rows").iterdir() if one.name.endswith(".py")]
    held += [one for one in runtime_sources().iterdir() if one.name.endswith((".h", ".f90"))]
    return b"".join(one.read_bytes() for one in sorted(held, key=lambda one: one.name))


@cache
def _compiler_identity(command: str) -> str:
    """Return a text that changes when a compiler is replaced: its command, path, size and time of change."""
    path = Path(shutil.which(command.split(maxsplit=1)[0]) or command).resolve()
    held = path.stat()
    return f"{command} {path} {held.st_size} {held.st_mtime_ns}"


def _compute_object_key(jobs: Sequence[CompileJob], source_text: bytes) -> str:
    """Return the name under which the objects of some sources are kept in the cache. It is a hash of the preprocessed
    text, the compiler, its flags and Weft's own files."""
    job = jobs[0]
    folder = os.fsencode(job.folder)
    facts = [
        _compiler_identity(find_compiler(job.language)),
        str(Path.cwd()),
        *map(str, (one.marked.original for one in jobs)),
    ]
    facts += [flag.replace(str(job.folder), "") for one in jobs for flag in one.build_compiler_flags()]
    whole = hashlib.sha256(_tool_sources())
    whole.update("\0".join(facts).encode(errors="surrogateescape"))
    whole.update(source_text.replace(folder, b""))
    return whole.hexdigest()[:32]


def cached_object_path(name: str) -> Path:
    """Return the path in the cache of an object with this key."""
    return cache_folder() / "check" / "objects" / f"{name}.o"


def _copy_from_cache(object_key: str, job: CompileJob) -> bool:
    """Copy an object from the cache to the job's target; return whether it was there."""
    try:
        if not is_safely_cached(cached_object_path(object_key)):
            return False
        shutil.copyfile(cached_object_path(object_key), job.target)
        os.utime(cached_object_path(object_key))
    except OSError:
        return False
    return True


def _store_in_cache(object_key: str, job: CompileJob) -> None:
    """Copy an object into the cache atomically and delete the oldest ones; errors are ignored."""
    target = cached_object_path(object_key)
    with suppress(OSError):
        make_private(target.parent)
        partial = target.with_suffix(f".{os.getpid()}-{job.number}")
        shutil.copyfile(job.target, partial)
        partial.replace(target)
        for old in _find_excess_objects(target.parent):
            old.unlink(missing_ok=True)


def _find_excess_objects(folder: Path) -> Iterator[Path]:
    """Yield the oldest objects of the cache beyond the number that it may hold."""
    held = list(folder.glob("*.o"))
    if len(held) > MOST_KEPT:
        yield from sorted(held, key=lambda one: one.stat().st_mtime)[: len(held) - MOST_KEPT]
