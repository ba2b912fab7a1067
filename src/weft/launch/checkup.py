"""Check this machine for `weft doctor`: find its MPIs, and whether launcher, compiler, mpi4py and recorder fit."""

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

from weft.base.abilities import ABILITIES
from weft.base.lazy import dataclass
from weft.base.version import VERSION
from weft.errors import WeftError
from weft.launch import library as libraries
from weft.launch.compiler import find_candidate_compilers, find_compiler, find_library_of_launcher, find_linked_library
from weft.launch.launcher_line import find_launcher_family, read_launcher_version
from weft.launch.library import MPILibrary
from weft.launch.options import Family
from weft.launch.plan import find_c_compiler, find_launcher, find_launchers
from weft.launch.pvm.installation import find_daemon as pvm_daemon
from weft.mpi import prebuilt
from weft.native.kernel import load_library
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
class SystemCheck:
    """The result of one check. `remedy` says what to do if the status is not `ok`."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass
class Installation:
    """One MPI of this machine: its library, the compilers that build for it, and the launchers that start its
    programs.
    """

    library: str
    version: str
    abi: str
    compilers: list[str] = field(default_factory=list)
    launchers: list[str] = field(default_factory=list)
    recorder: str = "not built yet"


@dataclass
class Checkup:
    """All MPIs and all results of checks on this machine."""

    installations: list[Installation]
    checks: list[SystemCheck]

    @property
    def healthy(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "failed" for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the checkup as `weft doctor --format json` prints it."""
        return {
            "schema": "weft-doctor/1",
            "weft": VERSION,
            "healthy": self.healthy,
            "installations": [asdict(one) for one in self.installations],
            "checks": [asdict(check) for check in self.checks],
        }


def check_machine() -> Checkup:
    """Run all checks of `weft doctor` on this machine; return the MPIs that were found, and the results."""
    found = find_installations()
    checks = [check_python(), *check_name_conflicts(), check_native_kernels(), check_compiler(), check_mpi(found)]
    checks += [check for python in find_pythons() for check in check_mpi4py(python)]
    checks += [check_launcher(), check_tool("addr2line", "source lines of C, C++ and Fortran calls", "binutils")]
    checks += [*check_abilities(found), check_clock()]
    checks += [*check_fortran(found), *check_pvm()]
    checks += [check for installation in found for check in check_recorder(installation)]
    return Checkup(found, checks)


def find_installations() -> list[Installation]:
    """Return every MPI that an mpicc or a launcher on this machine leads to."""
    found: dict[Path, Installation] = {}
    for mpicc in find_compilers():
        library = find_linked_library(mpicc)
        if library is not None:
            append_new_path(find_or_add_installation(found, library).compilers, str(mpicc))
    for launcher in dict.fromkeys(find_launchers(None)):
        library = find_library_of_launcher(launcher)
        if library is not None:
            append_new_path(find_or_add_installation(found, library).launchers, launcher)
            for other in list(found.values()):
                # An MPI-5 ABI library stands beside its native one and shares its launcher.
                same_folder = Path(other.library).parent == library.real.parent
                if same_folder and MPILibrary(Path(other.library)).family is library.family:
                    append_new_path(other.launchers, launcher)
    return list(found.values())


def append_new_path(paths: list[str], path: str) -> None:
    """Append a path to `paths` unless it leads to the same file as one that is in the list already. Open MPI's
    wrappers are all links to one file, `opal_wrapper`: they are always appended."""
    if (
        Path(path).resolve() not in {Path(known).resolve() for known in paths}
        or Path(path).resolve().name == "opal_wrapper"
    ):
        paths.append(path)


def find_or_add_installation(found: dict[Path, Installation], library: MPILibrary) -> Installation:
    """Return the entry of an MPI library in `found`; add a new one if it is missing."""
    for real, known in found.items():
        if library.is_same(MPILibrary(real)):
            return known
    found[library.real] = Installation(str(library.real), read_library_version(library.real), library.abi)
    return found[library.real]


def find_compilers() -> Iterator[Path]:
    """Yield every mpicc on this machine, first those beside Weft's Python interpreter."""
    beside = Path(sys.executable).parent
    yield from (beside / name for name in ("mpicc", "mpicc_abi") if (beside / name).is_file())
    yield from find_candidate_compilers()


@cache
def read_library_version(path: Path) -> str:
    """Return the first line of MPI_Get_library_version, which may be called before MPI is initialised; `unknown` if it
    fails.
    """
    try:
        done = subprocess.run(
            own_python("-c", ASK_VERSION, str(path)), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = [" ".join(line.replace("\t", " ").split()) for line in done.stdout.splitlines()]
    return next((line for line in lines if line), "unknown").split(", package:")[0]


def check_python() -> SystemCheck:
    """Report Weft's version and its Python interpreter."""
    return SystemCheck("weft", "ok", f"{VERSION} on Python {platform.python_version()} ({sys.executable})")


def check_name_conflicts() -> list[SystemCheck]:
    """Check whether another project's `weft` hides this one: the name `weft` on PyPI belongs to another project."""
    checks = []
    ours = "The debugger for parallel programs"  # an older one had the bare name
    others = [one for one in distributions() if (one.metadata["Name"] or "").lower() == "weft"]
    if any(not (one.metadata["Summary"] or "").startswith(ours) for one in others):
        checks.append(SystemCheck(
            "distribution weft", "warning", "another package, called weft, is installed too: it may have "
            "replaced files of weft-debugger and the command `weft`",
            "pip uninstall weft; pip install --force-reinstall weft-debugger",
        ))  # fmt: skip
    command = shutil.which("weft")
    if command is not None and Path(command).parent != Path(sys.executable).parent:
        checks.append(SystemCheck(
            "command weft", "warning", f"the PATH finds {command}, which belongs to another "
            f"installation than this one ({sys.executable})",
            f"run `{sys.executable} -m weft`, or put {Path(sys.executable).parent} first on the PATH",
        ))  # fmt: skip
    return checks


def check_native_kernels() -> SystemCheck:
    """Check whether Weft's compiled library (its native kernels) loads. It needs no Python headers, to build or to
    load."""
    try:
        return SystemCheck("native kernels", "ok", Path(load_library()._name).name)
    except (WeftError, OSError, AttributeError) as error:
        return SystemCheck("native kernels", "failed", str(error), "install a C compiler, then reinstall weft-debugger")


def check_compiler() -> SystemCheck:
    """Check whether there is a C compiler, which builds the recorders."""
    found = find_c_compiler()
    if found:
        return SystemCheck("C compiler", "ok", found)
    remedy = "Debian: apt install gcc libc6-dev"
    if any(prebuilt.wheel_folder().glob(f"*/{prebuilt.FACTS}")):
        return SystemCheck(
            "C compiler", "warning", "no C compiler found: only the MPIs from PyPI can be recorded", remedy
        )
    return SystemCheck("C compiler", "failed", "no C compiler found: no recorder can be built", remedy)


def check_mpi(installations: list[Installation]) -> SystemCheck:
    """Check whether there is any MPI among the `installations` that were found."""
    if installations:
        return SystemCheck("MPI", "ok", f"{len(installations)} found")
    if wrappers := [str(path) for path in dict.fromkeys(find_compilers())]:
        detail = f"none that compiles: {', '.join(wrappers)} cannot build a small library"
        return SystemCheck("MPI", "failed", detail, f"check that the compiler that `{wrappers[0]} -show` names exists")
    return SystemCheck("MPI", "failed", "none found", "pip install mpich mpi4py (no system package is needed)")


def find_pythons() -> list[Path]:
    """Return the interpreters that users are likely to run programs with: Weft's own, and those on the PATH."""
    words = [sys.executable, *(found for name in ("python", "python3") if (found := shutil.which(name)))]
    return [Path(word) for word in dict.fromkeys(words)]


def check_mpi4py(python: Path) -> list[SystemCheck]:
    """Check which MPI library the mpi4py of an interpreter loads, and whether it can be recorded and started."""
    name = f"mpi4py of {python}"
    answer = libraries.query_mpi4py(python)
    if answer.library is None:
        own = python == Path(sys.executable)
        return [
            SystemCheck(
                name, "warning", answer.error or f"mpi4py {answer.version} loads no MPI library",
                "pip install mpi4py mpich" if own else "only needed for Python programs run with this interpreter",
            )
        ]  # fmt: skip
    detail = f"{answer.version}, loads {answer.library.path}"
    if prebuilt.find_recorder(answer.library.path) is None and find_compiler(answer.library) is None:
        return [SystemCheck(name, "failed", f"{detail}, for which there is no mpicc", "install that MPI's mpicc")]
    try:
        launcher = find_launcher(answer.library)
    except WeftError as error:
        return [SystemCheck(name, "warning", f"{detail}; {error}", "pip install mpich")]
    family = find_launcher_family(launcher)
    if family is not answer.library.family and Family.OTHER not in (family, answer.library.family):
        return [
            SystemCheck(name, "failed", f"{detail}, but {launcher} is another MPI's", "use the mpiexec of that MPI")
        ]
    return [SystemCheck(name, "ok", f"{detail}; `weft run -n` starts it with {launcher}")]


def check_launcher() -> SystemCheck:
    """Check which mpiexec comes first on the PATH."""
    found = shutil.which("mpiexec") or next(find_launchers(None), None)
    if found is None:
        return SystemCheck("mpiexec", "failed", "none found", "pip install mpich, or put your MPI's bin on the PATH")
    version = next(
        (line.strip() for line in read_launcher_version(found).splitlines() if "ersion" in line or "MPI" in line), ""
    )
    version = " ".join(version.split())
    return SystemCheck(
        "mpiexec", "ok", f"{found} ({find_launcher_family(found).value}{', ' + version if version else ''})"
    )


def check_tool(tool: str, purpose: str, package: str) -> SystemCheck:
    """Check whether an optional program is installed; `purpose`: what is lacking without it, `package`: what to
    install.
    """
    found = shutil.which(tool)
    if found:
        return SystemCheck(tool, "ok", found)
    return SystemCheck(tool, "warning", f"not found: no {purpose}", f"install {package}")


def check_abilities(installations: list[Installation]) -> list[SystemCheck]:
    """Check what the system permits Weft and the ranks to do; a reason that several abilities share is reported
    once.
    """
    checks: dict[str, SystemCheck] = {}
    for name, ask in ABILITIES.items():
        told = ask()
        if not told.lack:
            checks[name] = SystemCheck(name, "ok", told.detail)
        elif told.lack not in checks:
            no_start = name == "shared memory" and any(one.abi == "mpich" for one in installations)
            checks[told.lack] = SystemCheck(name, "failed" if no_start else "warning", told.lack, told.remedy)
    return list(checks.values())


def check_pvm() -> list[SystemCheck]:
    """Check PVM's daemon and the recorder of its calls; return nothing if PVM is not installed."""
    library, daemon = find_library("pvm3"), pvm_daemon()
    if library is None and daemon is None:
        return []
    if daemon is None:
        return [
            SystemCheck(
                "PVM",
                "warning",
                "the library of PVM is installed, but no pvmd: PVM programs cannot run",
                "apt install pvm",
            )
        ]
    try:
        of_pvm.build_recorder()
    except WeftError as error:
        return [
            SystemCheck(
                "PVM", "warning", f"{daemon}; the recorder cannot be built: {error}", "apt install gcc libc6-dev"
            )
        ]
    return [SystemCheck("PVM", "ok", f"{daemon}; the recorder of its calls is built")]


def check_clock() -> SystemCheck:
    """Check whether the kernel's clock source is `tsc`. A program reads it without a system call; any other source
    makes each recorded event some 100 ns slower."""
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        source = "unknown"
    if platform.machine() in ("x86_64", "AMD64") and source != "tsc":
        return SystemCheck(
            "clock", "warning",
            f"clock source {source}: Weft reads the time by clock_gettime, which adds some 100 ns to each event",
            "nothing to do, unless the machine can use the clock source tsc",
        )  # fmt: skip
    return SystemCheck("clock", "ok", f"clock source {source}: reading the time takes a few ns")


def check_fortran(installations: list[Installation]) -> list[SystemCheck]:
    """Check whether Fortran programs can be built; MPICH from PyPI has no Fortran compiler wrapper."""
    if any(shutil.which(name) for name in ("mpif90", "mpifort", "mpif90.mpich", "mpif90.openmpi")) or not installations:
        return []
    return [SystemCheck(
        "Fortran", "ok", "no mpif90 on this machine (the MPIs from PyPI have none)",
        "for Fortran programs install a system MPI with its development files",
    )]  # fmt: skip


def check_recorder(installation: Installation) -> list[SystemCheck]:
    """Check whether the recorder for an MPI exists or can be built."""
    name = f"recorder for {installation.library}"
    known = prebuilt.find_recorder(Path(installation.library))
    if known is not None:
        installation.recorder = str(known.path.parent)
        return [SystemCheck(name, "ok", f"ready: {known.path.parent}")]
    if not installation.compilers:
        return [SystemCheck(name, "warning", "cannot be built: no mpicc", "install this MPI's development files")]
    cached = find_cached_recorder(Path(installation.library))
    if cached:
        installation.recorder = cached
        return [SystemCheck(name, "ok", f"built: {cached}")]
    if is_writable(cache_folder()):
        return [SystemCheck(name, "ok", "not built yet: the first `weft run` builds it")]
    return [SystemCheck(name, "failed", f"{cache_folder()} cannot be written", "set WEFT_CACHE to a folder of yours")]


def find_cached_recorder(library: Path) -> str | None:
    """Return the folder of the recorder in the cache that was built for a library, None if there is none."""
    for table in cache_folder().glob("shim/*/functions.json"):
        try:
            built_for = json.loads(table.read_text())["mpi"]["path"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if Path(built_for).resolve() == library:
            return str(table.parent)
    return None


def is_writable(folder: Path) -> bool:
    """Return whether a folder can be written, or created."""
    return os.access(next(parent for parent in (folder, *folder.parents) if parent.exists()), os.W_OK)
