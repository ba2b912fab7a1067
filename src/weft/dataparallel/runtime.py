"""The runtime of checked programs, compiled on first use with the system's compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from weft.base.cache import exclusive_build
from weft.errors import UsageError, WeftError
from weft.safety.folders import cache_folder, is_kept

BUILD_SECONDS: Final = 300
# A program may have a `fill` or a `scan` of its own: only these names of the runtime stay known to the linker.
KNOWN: Final = ("weft_*", "__*", "_gfortran_*", "dvmh_*", "*_")
FLAGS: Final = ("-std=c11", "-O2", "-fno-tree-vectorize", "-g", "-D_GNU_SOURCE", "-fno-strict-aliasing")
FOR_PROGRAMS: Final = ("heap.c", "library.c")
"""What takes the place of libc's functions and of DVM's: not in a library that Python loads."""

FOR_FORTRAN: Final = ("fortran.c",)

WRAPPED: Final = (
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memcpy",
    "memmove",
    "memset",
    "fwrite",
    "write",
    "puts",
    "fputs",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",  # C++'s new and delete
)
"""Functions of libc that heap.c wraps in programs."""


def sources() -> Path:
    """The folder of the runtime's sources and of check.h."""
    return Path(__file__).parent / "native"


def shared() -> list[Path]:
    """The headers that the runtime of OpenMP programs includes, too."""
    return [sources() / name for name in ("growing.h", "lines.h")]


def compiler(language: str = "c") -> str:
    """The compiler of a language (`c`, `c++`, `fortran`). UsageError where there is none."""
    choices = {
        "c": (os.environ.get("CC"), "gcc", "cc", "clang"),
        "c++": (os.environ.get("CXX"), "g++", "c++", "clang++"),
        "fortran": (os.environ.get("FC"), "gfortran"),
    }[language]
    if choices[0] and not shutil.which(choices[0].split()[0]):
        variable = {"c": "CC", "c++": "CXX", "fortran": "FC"}[language]
        raise UsageError(
            f"{variable} names {choices[0].split()[0]}, which is not a program here; name one, or unset it"
        )
    for choice in choices:
        if choice and shutil.which(choice.split()[0]):
            return choice
    name = {
        "c": "C compiler: install gcc",
        "c++": "C++ compiler: install g++",
        "fortran": "Fortran compiler: install gfortran",
    }
    raise UsageError(
        f"there is no {name[language]}, or name it in {({'c': 'CC', 'c++': 'CXX', 'fortran': 'FC'})[language]}"
    )


@cache
def is_clang(command: str) -> bool:
    """Whether a C compiler is clang, by whatever name."""
    line = [*command.split(), "-dM", "-E", "-x", "c", os.devnull]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "__clang__" in done.stdout


def library(more: Iterable[Traversable]) -> Path:
    """Build the runtime as a shared library, with more sources and headers than its own."""

    def make(folder: Path, names: list[str]) -> None:
        kept = [name for name in names if name not in (*FOR_PROGRAMS, *FOR_FORTRAN)]
        run([*compiler().split(), *FLAGS, "-fPIC", "-shared", "-o", "made", *kept, "-lm", "-lpthread"], folder)

    return _cached("libweft-check.so", make, more)


def units() -> Path:
    """What programs of every language are linked with, as one object whose names are all known."""

    def make(folder: Path, names: list[str]) -> None:
        kept = [name for name in names if name not in FOR_FORTRAN]
        for name in kept:
            run([*compiler().split(), *FLAGS, "-fPIE", "-c", name], folder)
        run(["ld", "-r", "-o", "made", *(name.replace(".c", ".o") for name in kept)], folder)

    return _cached("weft-check-units.o", make)


def objects(fortran: bool = False) -> Path:
    """The runtime as one object file that programs are linked with."""

    def make(folder: Path, _: list[str]) -> None:
        own = FOR_FORTRAN if fortran else ()
        for name in own:
            run([*compiler("fortran").split(), *FLAGS, "-fPIE", "-c", name], folder)
        one_object(folder, [str(units().resolve()), *(name.replace(".c", ".o") for name in own)], WRAPPED, KNOWN)

    return _cached("weft-check-fortran.o" if fortran else "weft-check.o", make)


def _cached(name: str, make: Callable[[Path, list[str]], None], more: Iterable[Traversable] = ()) -> Path:
    held = [one for one in (*sources().iterdir(), *more) if one.name.endswith((".c", ".h"))]
    held += [one for one in (files("weft.values") / "native" / "include").iterdir() if one.name.endswith(".h")]
    return cached(name, held, (compiler(), FLAGS, WRAPPED, KNOWN), make)


def cached(name: str, held: Iterable[Traversable], facts: object, make: Callable[[Path, list[str]], None]) -> Path:
    """A file that is built once from sources and what `facts` say of how; `make` leaves it as `made` in a folder.

    It is given the folder, with the sources in it, and the names of those that are compiled.
    """
    texts = {one.name: one.read_bytes() for one in held}
    key = hashlib.sha256(b"".join(texts[one] for one in sorted(texts)) + repr(facts).encode()).hexdigest()[:16]
    target = cache_folder() / "check" / key / name
    if is_kept(target):
        return target
    try:
        with exclusive_build(target), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            if not target.exists():
                for one, text in texts.items():
                    Path(folder, one).write_bytes(text)
                make(Path(folder), sorted(one for one in texts if one.endswith(".c")))
                Path(folder, "made").replace(target)
    except OSError as error:
        raise WeftError(f"cannot build the runtime of `weft check` in {target.parent}: {error}") from error
    return target


def one_object(folder: Path, parts: Sequence[str], wrapped: Iterable[str], known: Iterable[str]) -> None:
    """`made`, of object files: of its names the linker sees `known`, and it wraps no call of its own."""
    run(["ld", "-r", "-o", "whole", *parts], folder)
    own = [f"--redefine-sym={name}=__real_{name}" for name in wrapped]
    run(["objcopy", "--wildcard", *own, *(f"--keep-global-symbol={names}" for names in known), "whole", "made"], folder)


def run(command: list[str], folder: Path) -> None:
    """Run a compiler for the runtime."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False, errors="replace"
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise WeftError(f"cannot build the runtime of `weft check`: {error}") from error
    if done.returncode:
        raise WeftError(f"cannot build the runtime of `weft check`: {done.stderr.strip()}")
