"""Find out which MPI library a program will load, without initialising MPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from weft.base.cache import recall_facts, store_facts
from weft.base.lazy import dataclass
from weft.launch.options import Family

_LINKER = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_OF_PYTHON = re.compile(r"(PYTHON|MPI4PY|VIRTUAL_ENV)").match

LIBRARY_NAME = re.compile(r"^lib(mpi|mpich|mpi_abi|mpi_mt|mpi_cray|mpi_gnu_\d+|mpi_intel)\.so(\.\d+)*$")
"""The C libraries of the MPIs; libmpi_cxx, libmpi_mpifh, libmpichfort and so on only stand on one of them."""

ASK_PYTHON = """
import sys
sys.path[:] = [p for p in sys.path if p]  # no module of the current folder may run
try:
    import mpi4py
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI
except Exception as error:
    print("error", type(error).__name__, " ".join(str(error).split()))
else:
    print("version", mpi4py.__version__)
    for line in open("/proc/self/maps"):
        words = line.split(None, 5)
        if len(words) == 6:
            print("map", words[5].strip())
"""


@dataclass(frozen=True)
class MPILibrary:
    """An MPI library on this machine."""

    path: Path

    @cached_property
    def real(self) -> Path:
        """The file behind all links."""
        return self.path.resolve()

    @property
    def abi(self) -> str:
        """Which of the three ABIs it has: mpich, openmpi or mpi-abi (MPI-5); empty when it is another one."""
        return abi_from_name(self.path.name) or abi_from_name(self.real.name) or abi_from_name(self._soname)

    @cached_property
    def _soname(self) -> str:
        """Return the name that the library itself declares (its SONAME), empty if it cannot be read. File names of
        copies in wheels say less."""
        # Few libraries need it, and `weft run` starts without numpy.
        from weft.debuginfo.elf import read_soname

        try:
            return read_soname(self.real)
        except (OSError, ValueError):
            return ""

    def is_same(self, other: MPILibrary) -> bool:
        """Return whether both are one library: the same file, or copies of it. Wheels have copies, packages
        have links.
        """
        if self.real == other.real:
            return True
        import filecmp  # seldom: where two are found

        try:
            return filecmp.cmp(self.real, other.real, shallow=False)
        except OSError:
            return False

    @property
    def family(self) -> Family:
        """Return the family of launchers whose ranks join into one MPI world with this library."""
        if self.abi == "mpi-abi":  # the name is everybody's: see what it stands among
            beside = {path.name.split(".so")[0] for path in self.real.parent.glob("lib*.so*")}
            return Family.OPENMPI if {"libopen-pal", "libopen-rte"} & beside else Family.HYDRA
        return {"mpich": Family.HYDRA, "openmpi": Family.OPENMPI}.get(self.abi, Family.OTHER)


@dataclass(frozen=True)
class PythonMPI:
    """The mpi4py of a Python interpreter: its version, its MPI library, or why it does not load."""

    version: str | None
    library: MPILibrary | None
    error: str | None


def abi_from_name(name: str) -> str:
    """Return the ABI that a library's file name shows: `mpich`, `openmpi` or `mpi-abi`; empty for another one."""
    if name.startswith("libmpi_abi."):
        return "mpi-abi"
    if name.startswith("libmpich.") or re.match(r"libmpi(_mt)?\.so\.12\b", name):
        return "mpich"
    return "openmpi" if re.match(r"libmpi\.so\.[1-4]0\b", name) else ""


def is_library(path: str) -> bool:
    """Return whether a path names an MPI library."""
    return LIBRARY_NAME.match(Path(path).name) is not None


def find_program_library(program: Sequence[str]) -> MPILibrary | None:
    """Return the MPI library that a program with its arguments will load, None if unknown.

    Wrappers (`env`, `numactl`, `valgrind`, `bash script`) are skipped: the first word that names a program with MPI
    decides.
    """
    for word in program[:32]:
        found = find_executable(word)
        if found is None:
            continue
        library = find_executable_library(found)
        if library is not None:
            return library
    return None


def find_executable_library(path: Path) -> MPILibrary | None:
    """Return the MPI library of one file: a native program, a Python interpreter, or a script that Python runs."""
    python = find_interpreter(path)
    if python is not None:
        return query_mpi4py(python).library
    return find_native_library(path) if is_elf(path) else None


def find_executable(word: str) -> Path | None:
    """Return the file that a word starts if it is given as a program, None for no such program."""
    found = shutil.which(word)
    return Path(found) if found else None


def is_elf(path: Path) -> bool:
    """Return whether a file is a native program or library."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def find_interpreter(path: Path) -> Path | None:
    """Return the Python interpreter that runs a file: the file itself, or the one in its #! line; None for another
    file.
    """
    if re.fullmatch(r"(python|pypy)[0-9.]*t?", path.name):
        return path
    words = read_shebang(path)
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words or not re.match(r"(python|pypy)", Path(words[0]).name):
        return None
    return find_executable(words[0])


def read_shebang(path: Path) -> list[str]:
    """Return the words after #! in a script's first line."""
    try:
        with path.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    return first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []


def find_native_library(path: Path) -> MPILibrary | None:
    """Return the MPI library that the dynamic linker would load for a native program or library, None if there
    is none.
    """
    key = [str(path.absolute()), *(os.environ.get(name, "") for name in _LINKER)]
    depends = [path, Path("/etc/ld.so.cache")]
    known = recall_facts("loads", key, depends)
    if known is not None:
        return MPILibrary(Path(known["library"]))
    found = next((MPILibrary(Path(found)) for found in find_needed_files(path) if is_library(found)), None)
    if found is not None and found.path.exists():
        store_facts("loads", key, depends, {"library": str(found.path)}, more=[found.path])
    return found


def find_needed_files(path: Path) -> Iterator[str]:
    """Yield the shared libraries that the dynamic linker would load for `path`, in the current environment."""
    try:
        done = subprocess.run(
            ["ldd", str(path)], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in done.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        found = rest.rpartition(" (")[0] if arrow else name.rpartition(" (")[0]
        if found.startswith("/"):
            # ldd prints the name that was asked for: the soname, which may lead elsewhere than the file's own name
            yield found


def query_mpi4py(python: Path) -> PythonMPI:
    """Return which MPI library an interpreter's mpi4py loads; from the cache unless something has changed."""
    key = [str(python.absolute())]
    key += [f"{name}={value}" for name, value in sorted(os.environ.items()) if name in _LINKER or _OF_PYTHON(name)]
    depends = [python, python.parent.parent / "pyvenv.cfg", Path("/etc/ld.so.cache")]
    known = recall_facts("mpi4py", key, depends)
    if known is not None:
        return PythonMPI(known["version"], MPILibrary(Path(known["library"])), None)
    text = run_mpi4py_query(python)
    found = parse_mpi4py_answer(text)
    package = next((Path(line[4:]).parent for line in text.splitlines() if "/mpi4py/MPI" in line), None)
    if found.library is not None and found.error is None and package is not None:
        facts = {"version": found.version, "library": str(found.library.path)}
        store_facts("mpi4py", key, depends, facts, more=[found.library.path, package, package.parent])
    return found


def run_mpi4py_query(python: Path) -> str:
    """Run an interpreter that prints which MPI library its mpi4py loads, without initialising MPI; return its
    output.
    """
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            [str(python), "-c", ASK_PYTHON], capture_output=True, text=True, errors="replace", timeout=60,
            stdin=subprocess.DEVNULL, env=environment, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"error {python} does not answer: {error}"
    return done.stdout


def parse_mpi4py_answer(output: str) -> PythonMPI:
    """Parse what the script ASK_PYTHON printed: mpi4py's version and its MPI library, or why there is none."""
    version, error, library = None, None, None
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        if key == "version":
            version = value
        elif key == "error":
            error = value
        elif key == "map" and library is None and is_library(value):
            library = MPILibrary(Path(value))
    return PythonMPI(version, library, error)
