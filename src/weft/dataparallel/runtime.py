"""Compile the runtime of checked programs on first use, with the system's compiler."""

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
from weft.safety.folders import cache_folder, is_safely_cached

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


def runtime_sources() -> Path:
    """Return the folder of the runtime's C sources and of check.h."""
    return Path(__file__).parent / "native"


def shared_headers() -> list[Path]:
    """Return the headers that the runtime of OpenMP programs includes, too."""
    return [runtime_sources() / name for name in ("growing.h", "lines.h")]


def find_compiler(language: str = "c") -> str:
    """Return the command of the compiler of a language (`c`, `c++`, `fortran`). Raises UsageError if there is none."""
    choices = {
        "c": (os.environ.get("CC"), "gcc", "cc", "clang"),
        "c++": (os.environ.get("CXX"), "g++", "c++", "clang++"),
        "fortran": (os.environ.get("FC"), "gfortran"),
    }[language]
    if choices[0] and not shutil.which(choices[0].split()[0]):
        variable = {"c": "CC", "c++": "CXX", "fortran": "FC"}[language]
        raise UsageError(
            f"{variable} names {choices[0].split()[0]}, which is not a program on this machine: name another one, or "
            "unset the variable"
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
    """Return whether a C compiler's command runs clang, under whatever name."""
    line = [*command.split(), "-dM", "-E", "-x", "c", os.devnull]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "__clang__" in done.stdout


def build_shared_library(other_sources: Iterable[Traversable]) -> Path:
    """Return the runtime as a shared library, built if it is not cached; `other_sources` are compiled into it, too."""

    def make(folder: Path, names: list[str]) -> None:
        """Build the library in a folder."""
        kept = [name for name in names if name not in (*FOR_PROGRAMS, *FOR_FORTRAN)]
        run_build_tool(
            [*find_compiler().split(), *FLAGS, "-fPIC", "-shared", "-o", "made", *kept, "-lm", "-lpthread"], folder
        )

    return _build_runtime_once("libweft-check.so", make, other_sources)


def build_common_object() -> Path:
    """Return one object file with the part of the runtime that serves every language; its symbols are all global.
    Build it if the cache does not have it."""

    def make(folder: Path, names: list[str]) -> None:
        """Compile the sources in a folder, and join their objects there."""
        kept = [name for name in names if name not in FOR_FORTRAN]
        for name in kept:
            run_build_tool([*find_compiler().split(), *FLAGS, "-fPIE", "-c", name], folder)
        run_build_tool(["ld", "-r", "-o", "made", *(name.replace(".c", ".o") for name in kept)], folder)

    return _build_runtime_once("weft-check-units.o", make)


def build_runtime_object(fortran: bool = False) -> Path:
    """Return the runtime as one object file to link programs with, built if it is not cached; `fortran` adds Fortran's
    entry points.
    """

    def make(folder: Path, _: list[str]) -> None:
        """Join the objects for all languages and for Fortran in a folder."""
        own = FOR_FORTRAN if fortran else ()
        for name in own:
            run_build_tool([*find_compiler("fortran").split(), *FLAGS, "-fPIE", "-c", name], folder)
        link_one_object(
            folder, [str(build_common_object().resolve()), *(name.replace(".c", ".o") for name in own)], WRAPPED, KNOWN
        )

    return _build_runtime_once("weft-check-fortran.o" if fortran else "weft-check.o", make)


def _build_runtime_once(name: str, make: Callable[[Path, list[str]], None], more: Iterable[Traversable] = ()) -> Path:
    held = [one for one in (*runtime_sources().iterdir(), *more) if one.name.endswith((".c", ".h"))]
    held += [one for one in (files("weft.values") / "native" / "include").iterdir() if one.name.endswith(".h")]
    return build_once(name, held, (find_compiler(), FLAGS, WRAPPED, KNOWN), make)


def build_once(
    file_name: str, sources: Iterable[Traversable], facts: object, make: Callable[[Path, list[str]], None]
) -> Path:
    """Return a file of the cache that is built from sources. It is built again only if the sources or `facts`
    (compiler, flags) change.

    `make(folder, names)` leaves the result as `made` in `folder`, which holds the sources; `names` are the C files.
    Raises WeftError if the cache cannot be written.
    """
    texts = {one.name: one.read_bytes() for one in sources}
    key = hashlib.sha256(b"".join(texts[one] for one in sorted(texts)) + repr(facts).encode()).hexdigest()[:16]
    target = cache_folder() / "check" / key / file_name
    if is_safely_cached(target):
        return target
    try:
        with exclusive_build(target), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            if not target.exists():
                for one, text in texts.items():
                    Path(folder, one).write_bytes(text)
                make(Path(folder), sorted(one for one in texts if one.endswith(".c")))
                Path(folder, "made").replace(target)
    except OSError as error:
        raise WeftError(f"cannot write the runtime of `weft check` to {target.parent}: {error}") from error
    return target


def link_one_object(
    folder: Path,
    object_files: Sequence[str],
    wrapped_functions: Iterable[str],
    global_patterns: Iterable[str],
    code: str = ".text",
) -> None:
    """Link object files to one object file, `made`, in a folder. Only symbols that match `global_patterns` stay global.

    Calls of `wrapped_functions` in the object go to the real functions (`__real_…`), so that the linker does not wrap
    the runtime's own calls. `code`: the section for the runtime's code; for a section whose name is a C identifier, the
    linker defines the bounds `__start_…` and `__stop_…`.
    """
    run_build_tool(["ld", "-r", "-o", "whole", *object_files], folder)
    own = [f"--redefine-sym={name}=__real_{name}" for name in wrapped_functions]
    if code != ".text":
        own += [f"--rename-section={name}={code}" for name in (".text", ".text.unlikely")]
    run_build_tool(
        [
            "objcopy",
            "--wildcard",
            *own,
            *(f"--keep-global-symbol={names}" for names in global_patterns),
            "whole",
            "made",
        ],
        folder,
    )


def run_build_tool(command: list[str], folder: Path) -> None:
    """Run a compiler or linker in a folder to build the runtime. Raises WeftError if it fails."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False, errors="replace"
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise WeftError(f"cannot build the runtime of `weft check`: {error}") from error
    if done.returncode:
        raise WeftError(f"{command[0]} cannot compile the runtime of `weft check`: {done.stderr.strip()}")
