"""Decide how to run a program: the launcher, the MPI library that it loads, and the mpicc that builds its recorder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from weft.base.lazy import dataclass
from weft.errors import UsageError, WeftError
from weft.launch import library as libraries
from weft.launch.compiler import find_candidate_compilers, find_compiler, find_library_of_launcher, find_linked_library
from weft.launch.launcher_line import LauncherLine, LineContext, find_launcher_family, is_launcher, parse_launcher_line
from weft.launch.library import MPILibrary
from weft.launch.options import Family
from weft.launch.pvm import detect
from weft.launch.pvm.detect import PVMUse
from weft.launch.pvm.installation import find_daemon
from weft.mpi import prebuilt

NO_COMPILER = "there is no C compiler: install one (Debian: apt install gcc libc6-dev)"
ROOT_CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SLEEP_BETWEEN_POLLS = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "10",
}
"""MPICH's own variables: a rank that waits sleeps for some 50 µs after ten polls that found nothing."""


@dataclass(frozen=True)
class LaunchPlan:
    """The launcher line to start, and the MPI library that it is recorded for."""

    line: LauncherLine
    library: MPILibrary
    mpicc: Path | None
    """What builds the recorder, None where there is one that needs no building."""
    environment: dict[str, str]
    """The user's environment, plus what our own mpiexec needs."""
    recognised: bool
    """Whether the program itself told its MPI; else the library is the launcher's own, by default."""
    notes: list[str] = field(default_factory=list)
    """What the user should know, said after the run."""
    pvm: PVMUse | None = None
    """How the program uses PVM, where it is one of PVM's."""


def plan_run(command: Sequence[str], ranks: int | None) -> LaunchPlan:
    """Return the plan for a run of `command`; with `ranks`, it is started by an mpiexec that Weft chooses.

    Raises UsageError for a command that cannot run, WeftError if this machine lacks a part of MPI for it.
    """
    if ranks is not None:
        return plan_own_launcher(command, ranks)
    line = parse_launcher_line(command)
    if line.launcher is None:
        require_program(line.programs[0])
        if (uses := detect.detect_in_program(line.programs[0])) is not None:
            return plan_pvm_run(line, uses)
    return plan_launcher_line(line, dict(os.environ))


def plan_pvm_run(line: LauncherLine, uses: PVMUse) -> LaunchPlan:
    """Return the plan for a PVM program, which runs on a virtual machine of its own. UsageError if its calls cannot be
    recorded, WeftError if there is no PVM daemon here."""
    if uses.library is None:
        raise UsageError(
            f"{uses.path} is linked with libpvm3.a, so that its calls of PVM cannot be recorded: link it with the "
            "shared library instead (Debian: libpvm3 and pvm-dev; leave out -static, and *.a from the link line)"
        )
    if find_daemon() is None:
        raise WeftError("the program uses PVM, and there is no pvmd on this machine (Debian: apt install pvm)")
    from weft.safety.started import own_python  # of programs of PVM alone

    machine = tuple(own_python("-m", "weft.launch.pvm"))
    environment = dict(os.environ) | ({"WEFT_INTERNAL_PVM_GROUPS": "1"} if uses.groups else {})
    started = LauncherLine(None, Family.OTHER, (LineContext(machine, line.programs[0]),))
    return LaunchPlan(started, MPILibrary(uses.library), None, environment, True, pvm=uses)


def plan_own_launcher(command: Sequence[str], ranks: int) -> LaunchPlan:
    """Return the plan for `weft run -n N -- PROGRAM`, with the mpiexec that fits the program's MPI."""
    if command and is_launcher(command[0]):
        raise UsageError(f"-n starts mpiexec itself: leave out {command[0]}, or leave out -n")
    if ranks < 1:
        raise UsageError(f"-n {ranks}: at least one rank is needed")
    bare = parse_launcher_line(command)
    require_program(bare.programs[0])
    if detect.detect_in_program(bare.programs[0]) is not None:
        raise UsageError(f"-n {ranks}: {command[0]} uses PVM, whose tasks the program spawns itself: leave out -n")
    library = libraries.find_program_library(bare.programs[0])
    launcher = find_launcher(library)
    family = find_launcher_family(launcher)
    options = ["-n", str(ranks)]
    environment = dict(os.environ)
    if family is Family.OPENMPI:
        if ranks > (os.cpu_count() or 1):
            options.insert(0, "--oversubscribe")
        if os.geteuid() == 0:
            environment |= ROOT_CONSENT
    environment |= choose_polling_variables(family, ranks)
    line = LauncherLine(launcher, family, (LineContext(tuple(options), bare.programs[0]),))
    return plan_launcher_line(line, environment, library)


def choose_polling_variables(family: Family, ranks: int) -> dict[str, str]:
    """Return variables that let waiting ranks give up their core if there are fewer cores than ranks.

    Ranks of Open MPI do so by themselves. Those of MPICH poll for a whole time slice of the kernel: a barrier of four
    ranks took 8 ms on two cores, and takes 0.2 ms with these variables. Variables that the user has set are left out.
    """
    if family is not Family.HYDRA or ranks <= len(os.sched_getaffinity(0)):
        return {}
    return {name: value for name, value in SLEEP_BETWEEN_POLLS.items() if name not in os.environ}


def require_program(program: Sequence[str]) -> None:
    """Raise UsageError with the likely reason if the program cannot be started."""
    word = program[0]
    if shutil.which(word):
        return
    path = Path(word)
    if path.is_dir():
        raise UsageError(f"{word} is a directory, not a program")
    if path.is_file() and path.suffix == ".py":
        raise UsageError(f"{word} is not executable: run it as `python {word}`")
    if path.is_file():
        local = f" (or name it ./{word})" if os.sep not in word else ""
        raise UsageError(f"{word} is not executable: `chmod +x {word}`{local}")
    raise UsageError(f"there is no program {word!r}")


def find_launcher(library: MPILibrary | None) -> str:
    """Return the mpiexec for a library: the library's own, else the first that can start programs with it."""
    found = list(dict.fromkeys(find_launchers(library)))
    if not found:
        raise WeftError("there is no mpiexec: install an MPI (`pip install mpich mpi4py`), or see `weft doctor`")
    if library is None:
        return found[0]
    alike = [one for one in found if library.family in (find_launcher_family(one), Family.OTHER)]
    own = (one for one in alike if (its := find_library_of_launcher(one)) is not None and its.is_same(library))
    return next(own, (alike or found)[0])


def find_launchers(library: MPILibrary | None) -> Iterator[str]:
    """Yield every mpiexec on this machine, the preferred one first."""
    folders = [Path(sys.executable).parent]
    if library is not None:
        # One prefix's launcher belongs to that prefix's library.
        folders = [parent / "bin" for parent in list(library.path.parents)[1:2]] + folders
    for folder in folders:
        if os.access(folder / "mpiexec", os.X_OK):
            yield str(folder / "mpiexec")
    for name in ("mpiexec", "mpirun", "mpiexec.mpich", "mpiexec.openmpi", "mpiexec.hydra"):
        if found := shutil.which(name):
            yield found


def plan_launcher_line(
    line: LauncherLine, environment: dict[str, str], library: MPILibrary | None = None
) -> LaunchPlan:
    """Return the plan for a launcher line: with its MPI library, which is looked for unless `library` is given, and
    the mpicc to build its recorder with."""
    found = [known for program in line.programs if (known := libraries.find_program_library(program)) is not None]
    library = library or next(iter(found), None)
    launcher = shutil.which(line.launcher) if line.launcher else None
    notes = []
    if any(not one.is_same(found[0]) for one in found):
        notes.append(
            "the programs of this line load different MPI libraries: only those with " + f"{library} are recorded"
        )
    recognised = library is not None
    if library is None:
        library = find_default_library(launcher)
    built = prebuilt.find_recorder(library.path)
    mpicc = find_compiler(library, launcher) if built is None else None
    if mpicc is None and built is None:
        raise WeftError(
            f"no mpicc on this machine builds for {library.path}, so the recorder cannot be built: "
            + (NO_COMPILER if not find_c_compiler() else "install that MPI's development files (see `weft doctor`)")
        )
    if line.launcher and line.family is Family.OTHER:
        notes.append(
            f"{line.launcher} is not a launcher that Weft knows, so the recorder is loaded into the launcher, too"
        )
    return LaunchPlan(line, library, mpicc, environment, recognised, notes)


def format_family(family: Family) -> str:
    """Return the name of a launcher family for messages."""
    return {Family.HYDRA: "MPICH", Family.OPENMPI: "Open MPI", Family.SRUN: "Slurm"}.get(family, "another MPI")


def find_default_library(launcher: str | None) -> MPILibrary:
    """Return the MPI library to assume for a program that does not show its own: the launcher's, or the first on this
    machine."""
    if launcher is not None and (library := find_library_of_launcher(launcher)) is not None:
        return library
    beside_python = Path(sys.executable).parent / "mpicc"
    for mpicc in [beside_python, *find_candidate_compilers()]:
        if mpicc.exists() and (library := find_linked_library(mpicc)) is not None:
            return library
    if not find_c_compiler():
        raise WeftError(f"the recorder cannot be built: {NO_COMPILER}")
    raise WeftError("no MPI was found: install one (`pip install mpich mpi4py`), or see `weft doctor`")


def find_c_compiler() -> str | None:
    """Return the C compiler that every mpicc needs, None if there is none."""
    return shutil.which("cc") or shutil.which("gcc")
