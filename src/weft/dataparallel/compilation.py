"""Marked sources as objects with the runtime's hooks: compiled side by side, and kept between runs.

What a compiler would make of a source is known by its preprocessed text, its flags and the compiler: an object of an
earlier check that has the same key is taken as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from weft.dataparallel import shortcut_support
from weft.dataparallel.runtime import cached, compiler, is_clang, sources
from weft.dataparallel.source_map import Marked
from weft.errors import UsageError, WeftError
from weft.instrument.assembly import rewrite
from weft.safety.folders import cache_folder, is_kept, make_private

COMPILE_SECONDS: Final = 600
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
_GFORTRAN: Final = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+):$", re.M)


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: what the user's own line would have."""

    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Passed to every compiler as they are."""
    link: tuple[str, ...] = ()
    own: Mapping[Path, Options] = field(default_factory=dict)
    """What a build gives some of the sources beside these."""

    def of(self, source: Path) -> Options:
        """Those of one source; where both say something of a macro these are the last word."""
        own = self.own.get(source, PLAIN)
        return Options((*self.include, *own.include), (*own.define, *self.define), (*own.flags, *self.flags), self.link)


PLAIN: Final = Options()


@dataclass(frozen=True, slots=True)
class Job:
    """One source to be compiled in a folder."""

    marked: Marked
    number: int
    folder: Path
    options: Options

    @property
    def language(self) -> str:
        """The language of the marked copy."""
        return LANGUAGE[self.marked.suffix]

    @property
    def source(self) -> Path:
        """The marked copy."""
        return self.folder / f"{self.number}-{self.marked.original.stem}{self.marked.suffix}"

    @property
    def target(self) -> Path:
        """The object."""
        return self.source.with_suffix(".o")

    @property
    def gcc(self) -> bool:
        """Whether the compiler is one of GCC's."""
        return self.language == "fortran" or not is_clang(compiler(self.language))

    def flags(self) -> list[str]:
        """The compiler's options, but for what it is to make."""
        fortran = self.language == "fortran"
        options = self.options.of(self.marked.original)
        return [
            *FLAGS[self.language],
            *(HOOKS if self.gcc else CLANG_HOOKS),
            *(GCC_ONLY if self.gcc else ()),
            *(["-J", str(self.folder)] if fortran else []),
            f"-I{sources()}",
            *beside(self.marked.original, fortran=fortran),
            *(f"-I{path}" for path in options.include),
            *(f"-D{name}" for name in options.define),
            *options.flags,
        ]

    def write(self) -> None:
        """Put the marked copy into the folder."""
        text = self.marked.text
        if self.language != "fortran" and not text.startswith("#line"):
            text = f'#line 1 "{self.marked.original}"\n{text}'
        self.source.write_text(text, encoding="utf-8", errors="surrogateescape")

    def make(self) -> None:
        """Compile to assembly, put the runtime's instructions in, assemble."""
        assembly = self.source.with_suffix(".s")
        tool = compiler(self.language).split()
        compile_one(
            [*tool, *self.flags(), "-S", str(self.source), "-o", str(assembly)], self.marked.original, self.folder
        )
        text = rewrite(assembly.read_text(errors="surrogateescape"), gcc=self.gcc)
        assembly.write_text(text, errors="surrogateescape")
        compile_one([*tool, "-c", str(assembly), "-o", str(self.target)], self.marked.original, self.folder)


@dataclass(slots=True)
class Objects:
    """What was compiled."""

    paths: list[Path] = field(default_factory=list)
    kept: int = 0
    """So many were taken from an earlier check."""


def compile_all(marked: Sequence[Marked], folder: Path, options: Options) -> Objects:
    """The objects of all sources, in their order."""
    jobs = [Job(one, number, folder, options) for number, one in enumerate(marked)]
    for job in jobs:
        job.write()
    made = Objects([job.target for job in jobs])
    others = [job for job in jobs if job.language != "fortran"]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        made.kept = sum(pool.map(_one, others))
    # Modules: a later file needs what an earlier one made, so all are compiled, or none.
    fortran = [job for job in jobs if job.language == "fortran"]
    key = _key(fortran, b"".join(job.source.read_bytes() for job in fortran)) if fortran else ""
    names = [f"{key}-{number}" for number in range(len(fortran))]
    if all(kept(name).exists() for name in names):
        made.kept += sum(_take(name, job) for name, job in zip(names, fortran, strict=True))
    else:
        for name, job in zip(names, fortran, strict=True):
            job.make()
            _keep(name, job)
    return made


def _one(job: Job) -> bool:
    """Compile a source in C; whether its object was there."""
    line = [*compiler(job.language).split(), *job.flags(), "-E", str(job.source)]
    try:
        done = subprocess.run(line, capture_output=True, timeout=COMPILE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    name = _key([job], done.stdout) if done is not None and done.returncode == 0 else ""
    if name and _take(name, job):
        return True
    job.make()
    if name:
        _keep(name, job)
    return False


# --- the compiler ---


def slower(marked: Sequence[Marked]) -> list[str]:
    """A sentence for each compiler of these sources in whose assembly Weft's shortcuts find nothing."""
    languages = dict.fromkeys(LANGUAGE[one.suffix] for one in marked)
    return [
        shortcut_support.UNKNOWN.format(compiler=compiler(of), what=" and ".join(unknown))
        for of in languages
        if (unknown := _unknown(compiler(of), of == "fortran" or not is_clang(compiler(of))))
    ]


@cache
def _unknown(command: str, gcc: bool) -> list[str]:
    """What of a compiler's assembly is not recognised: asked once, and kept beside the runtime."""
    words = [*command.split(), *C_FLAGS, *(HOOKS if gcc else CLANG_HOOKS), *(GCC_ONLY if gcc else ())]

    def make(folder: Path, _: list[str]) -> None:
        (folder / "made").write_text("\n".join(shortcut_support.ask(words, folder, gcc=gcc)))

    facts = (_identity(command), words, shortcut_support.PROGRAM, hashlib.sha256(_tools()).hexdigest())
    try:
        return cached("shortcuts.txt", (), facts, make).read_text().splitlines()
    except WeftError:  # a compiler that takes no C
        return []


def beside(source: Path, *, fortran: bool) -> list[str]:
    """Options by which a copy elsewhere finds what lies beside the source, in quotes only: `#include <version>`
    never means a file of that name there."""
    return [f"-I{source.parent}"] if fortran else ["-iquote", str(source.parent)]


def compile_one(command: list[str], original: Path, folder: Path) -> None:
    """Run a compiler or linker; UsageError with its first error where it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            check=False,
            errors="replace",
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WeftError(f"{original} cannot be compiled: {error}") from error
    if done.returncode:
        raise UsageError(_first_error(done.stderr, original, folder))


def _first_error(output: str, original: Path, folder: Path) -> str:
    """`jac.c:12:3: error ...: mend that first`, with the user's own file and line."""
    found = _MESSAGE.search(output)
    if found and not re.match(rf"{re.escape(str(folder))}/\d+-", found["file"]):
        return f"{found['file']}:{found['line']}: the program does not compile: {found['text']}"
    place = _GFORTRAN.search(output)
    texts = [line for line in output.splitlines() if re.match(r"(fatal )?error:", line, re.I)]
    if place and texts:
        return f"{place['file']}:{place['line']}: the program does not compile: {texts[0].partition(':')[2].strip()}"
    undefined = re.search(r"undefined reference to [`'](?P<name>[^']+)'", output)
    if undefined:
        return (
            f"{original}: the program does not link: {undefined['name']} is defined nowhere; "
            "name its file or library on the command line"
        )
    twice = re.search(r"multiple definition of [`'](?P<name>[^']+)'", output)
    if twice:
        return f"{original}: the program does not link: two of its files define {twice['name']}; leave one of them out"
    tail = (output.strip().splitlines() or ["no message"])[-1]
    return f"{original}: the program does not compile: {tail}"


# --- the cache ---


@cache
def _tools() -> bytes:
    """What makes objects of sources here: a change of it makes all objects anew."""
    room = files("weft.instrument")
    held = [room / "assembly.py", files("weft.dataparallel") / "compiled.py"]
    held += [one for one in (room / "rows").iterdir() if one.name.endswith(".py")]
    held += [one for one in sources().iterdir() if one.name.endswith((".h", ".f90"))]
    return b"".join(one.read_bytes() for one in sorted(held, key=lambda one: one.name))


@cache
def _identity(command: str) -> str:
    path = Path(shutil.which(command.split(maxsplit=1)[0]) or command).resolve()
    held = path.stat()
    return f"{command} {path} {held.st_size} {held.st_mtime_ns}"


def _key(jobs: Sequence[Job], text: bytes) -> str:
    """What the objects of these sources depend on."""
    job = jobs[0]
    folder = os.fsencode(job.folder)
    facts = [_identity(compiler(job.language)), str(Path.cwd()), *map(str, (one.marked.original for one in jobs))]
    facts += [flag.replace(str(job.folder), "") for one in jobs for flag in one.flags()]
    whole = hashlib.sha256(_tools())
    whole.update("\0".join(facts).encode(errors="surrogateescape"))
    whole.update(text.replace(folder, b""))
    return whole.hexdigest()[:32]


def kept(name: str) -> Path:
    """Where an object lies that an earlier check made."""
    return cache_folder() / "check" / "objects" / f"{name}.o"


def _take(name: str, job: Job) -> bool:
    try:
        if not is_kept(kept(name)):
            return False
        shutil.copyfile(kept(name), job.target)
        os.utime(kept(name))
    except OSError:
        return False
    return True


def _keep(name: str, job: Job) -> None:
    """Put an object into the cache, in one step; a cache that cannot be written is none."""
    target = kept(name)
    with suppress(OSError):
        make_private(target.parent)
        partial = target.with_suffix(f".{os.getpid()}-{job.number}")
        shutil.copyfile(job.target, partial)
        partial.replace(target)
        for old in _oldest(target.parent):
            old.unlink(missing_ok=True)


def _oldest(folder: Path) -> Iterator[Path]:
    held = list(folder.glob("*.o"))
    if len(held) > MOST_KEPT:
        yield from sorted(held, key=lambda one: one.stat().st_mtime)[: len(held) - MOST_KEPT]
