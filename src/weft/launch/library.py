"""Which MPI library a program will load, found without initialising MPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from weft.base.cache import keep, recall
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
class Library:
    """One MPI library on this machine."""

    path: Path

    @cached_property
    def real(self) -> Path:
        """The file behind all links."""
        return self.path.resolve()

    @property
    def abi(self) -> str:
        """Which of the three ABIs it has: mpich, openmpi or mpi-abi (MPI-5); empty when it is another one."""
        return abi_of(self.path.name) or abi_of(self.real.name) or abi_of(self._soname)

    @cached_property
    def _soname(self) -> str:
        """The name that it has for itself: where links are copies, as in wheels, that of its file tells less."""
        # Few libraries need it, and `weft run` starts without numpy.
        from weft.debuginfo.elf import soname_of

        try:
            return soname_of(self.real)
        except (OSError, ValueError):
            return ""

    def is_same(self, other: Library) -> bool:
        """Whether both are one library: one file, or copies of one. Wheels have copies where packages have links."""
        if self.real == other.real:
            return True
        import filecmp  # seldom: where two are found

        try:
            return filecmp.cmp(self.real, other.real, shallow=False)
        except OSError:
            return False

    @property
    def family(self) -> Family:
        """The family of launchers that can start it as one world."""
        if self.abi == "mpi-abi":  # the name is everybody's: see what it stands among
            beside = {path.name.split(".so")[0] for path in self.real.parent.glob("lib*.so*")}
            return Family.OPENMPI if {"libopen-pal", "libopen-rte"} & beside else Family.HYDRA
        return {"mpich": Family.HYDRA, "openmpi": Family.OPENMPI}.get(self.abi, Family.OTHER)


@dataclass(frozen=True)
class PythonMPI:
    """What a Python interpreter says of its mpi4py."""

    version: str | None
    library: Library | None
    error: str | None


def abi_of(name: str) -> str:
    """Return the ABI that a library's name tells, empty for none."""
    if name.startswith("libmpi_abi."):
        return "mpi-abi"
    if name.startswith("libmpich.") or re.match(r"libmpi(_mt)?\.so\.12\b", name):
        return "mpich"
    return "openmpi" if re.match(r"libmpi\.so\.[1-4]0\b", name) else ""


def is_library(path: str) -> bool:
    """Whether a path names an MPI library."""
    return LIBRARY_NAME.match(Path(path).name) is not None


def of_program(program: Sequence[str]) -> Library | None:
    """Return the MPI library that a program (with its arguments) will load, None where that cannot be told.

    Wrappers (`env`, `numactl`, `valgrind`, `bash script`) are looked through: the first word that names a program
    with MPI decides.
    """
    for word in program[:32]:
        found = executable(word)
        if found is None:
            continue
        library = of_executable(found)
        if library is not None:
            return library
    return None


def of_executable(path: Path) -> Library | None:
    """Return the MPI library of one file: a native program, a Python, or a script that Python runs."""
    python = interpreter(path)
    if python is not None:
        return ask_python(python).library
    return of_native(path) if is_elf(path) else None


def executable(word: str) -> Path | None:
    """Return the file that a word starts when it is given as a program."""
    found = shutil.which(word)
    return Path(found) if found else None


def is_elf(path: Path) -> bool:
    """Whether the file is a native program or library."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def interpreter(path: Path) -> Path | None:
    """Return the Python interpreter behind a path: itself, or the one that its first line names."""
    if re.fullmatch(r"(python|pypy)[0-9.]*t?", path.name):
        return path
    words = shebang(path)
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words or not re.match(r"(python|pypy)", Path(words[0]).name):
        return None
    return executable(words[0])


def shebang(path: Path) -> list[str]:
    """Return the words after #! on a script's first line."""
    try:
        with path.open("rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    return first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []


def of_native(path: Path) -> Library | None:
    """Return the MPI library among what the dynamic linker would load for a native program or library."""
    key = [str(path.absolute()), *(os.environ.get(name, "") for name in _LINKER)]
    depends = [path, Path("/etc/ld.so.cache")]
    known = recall("loads", key, depends)
    if known is not None:
        return Library(Path(known["library"]))
    found = next((Library(Path(found)) for found in needed(path) if is_library(found)), None)
    if found is not None and found.path.exists():
        keep("loads", key, depends, {"library": str(found.path)}, more=[found.path])
    return found


def needed(path: Path) -> Iterator[str]:
    """The files that the dynamic linker would load for `path`, with the environment as it is."""
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


def ask_python(python: Path) -> PythonMPI:
    """Which MPI library an interpreter's mpi4py loads: what it said last time, where nothing has changed since."""
    key = [str(python.absolute())]
    key += [f"{name}={value}" for name, value in sorted(os.environ.items()) if name in _LINKER or _OF_PYTHON(name)]
    depends = [python, python.parent.parent / "pyvenv.cfg", Path("/etc/ld.so.cache")]
    known = recall("mpi4py", key, depends)
    if known is not None:
        return PythonMPI(known["version"], Library(Path(known["library"])), None)
    text = answer_of(python)
    found = read_answer(text)
    package = next((Path(line[4:]).parent for line in text.splitlines() if "/mpi4py/MPI" in line), None)
    if found.library is not None and found.error is None and package is not None:
        facts = {"version": found.version, "library": str(found.library.path)}
        keep("mpi4py", key, depends, facts, more=[found.library.path, package, package.parent])
    return found


def answer_of(python: Path) -> str:
    """Ask an interpreter which MPI library its mpi4py loads; MPI is not initialised."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            [str(python), "-c", ASK_PYTHON], capture_output=True, text=True, errors="replace", timeout=60,
            stdin=subprocess.DEVNULL, env=environment, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"error {python} does not answer: {error}"
    return done.stdout


def read_answer(text: str) -> PythonMPI:
    """Read what ASK_PYTHON printed."""
    version, error, library = None, None, None
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "version":
            version = value
        elif key == "error":
            error = value
        elif key == "map" and library is None and is_library(value):
            library = Library(Path(value))
    return PythonMPI(version, library, error)
