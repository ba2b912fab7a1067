"""Deciding how to run: which launcher, which MPI library the program loads, and which mpicc builds its recorder."""

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
from weft.launch.compiler import beside, candidates, compiler_for, linked_by
from weft.launch.launcher_line import Context, Line, family_of, is_launcher, parse
from weft.launch.library import Library
from weft.launch.options import Family
from weft.launch.pvm import detect
from weft.launch.pvm.detect import Uses
from weft.launch.pvm.installation import daemon
from weft.mpi import prebuilt

NO_COMPILER = "there is no C compiler: install one (Debian: apt install gcc libc6-dev)"
ROOT_CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SLEEP_BETWEEN_POLLS = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "10",
}
"""MPICH's own variables: a rank that waits sleeps for some 50 µs after ten polls that found nothing."""


@dataclass(frozen=True)
class Plan:
    """What will be started, and for which MPI."""

    line: Line
    library: Library
    mpicc: Path | None
    """What builds the recorder, None where there is one that needs no building."""
    environment: dict[str, str]
    """The user's environment, plus what our own mpiexec needs."""
    recognised: bool
    """Whether the program itself told its MPI; else the library is the launcher's own, by default."""
    notes: list[str] = field(default_factory=list)
    """What the user should know, said after the run."""
    pvm: Uses | None = None
    """How the program uses PVM, where it is one of PVM's."""


def decide(command: Sequence[str], ranks: int | None) -> Plan:
    """Plan a run of `command`, with our own mpiexec when `ranks` is given.

    Raises UsageError for a command that cannot run, WeftError when this machine lacks an MPI part for it.
    """
    if ranks is not None:
        return own_launcher(command, ranks)
    line = parse(command)
    if line.launcher is None:
        require_program(line.programs[0])
        if (uses := detect.of_program(line.programs[0])) is not None:
            return of_pvm(line, uses)
    return plan_for(line, dict(os.environ))


def of_pvm(line: Line, uses: Uses) -> Plan:
    """Plan a program of PVM: on a virtual machine of its own. UsageError where its calls cannot be seen."""
    if uses.library is None:
        raise UsageError(
            f"{uses.path} is linked with libpvm3.a, so that its calls of PVM cannot be recorded: link it with the "
            "shared library instead (Debian: libpvm3 and pvm-dev; leave out -static, and *.a from the link line)"
        )
    if daemon() is None:
        raise WeftError("the program uses PVM, and there is no pvmd on this machine (Debian: apt install pvm)")
    from weft.safety.started import own_python  # of programs of PVM alone

    machine = tuple(own_python("-m", "weft.launch.pvm"))
    environment = dict(os.environ) | ({"WEFT_INTERNAL_PVM_GROUPS": "1"} if uses.groups else {})
    started = Line(None, Family.OTHER, (Context(machine, line.programs[0]),))
    return Plan(started, Library(uses.library), None, environment, True, pvm=uses)


def own_launcher(command: Sequence[str], ranks: int) -> Plan:
    """Plan `weft run -n N -- PROGRAM`: the mpiexec that fits the program's MPI."""
    if command and is_launcher(command[0]):
        raise UsageError(f"-n starts mpiexec itself: leave out {command[0]}, or leave out -n")
    if ranks < 1:
        raise UsageError(f"-n {ranks}: at least one rank is needed")
    bare = parse(command)
    require_program(bare.programs[0])
    if detect.of_program(bare.programs[0]) is not None:
        raise UsageError(f"-n {ranks}: {command[0]} uses PVM, whose tasks the program spawns itself: leave out -n")
    library = libraries.of_program(bare.programs[0])
    launcher = find_launcher(library)
    family = family_of(launcher)
    options = ["-n", str(ranks)]
    environment = dict(os.environ)
    if family is Family.OPENMPI:
        if ranks > (os.cpu_count() or 1):
            options.insert(0, "--oversubscribe")
        if os.geteuid() == 0:
            environment |= ROOT_CONSENT
    environment |= share_cores(family, ranks)
    line = Line(launcher, family, (Context(tuple(options), bare.programs[0]),))
    return plan_for(line, environment, library)


def share_cores(family: Family, ranks: int) -> dict[str, str]:
    """Return the variables that let waiting ranks leave their core to others, where there are fewer cores than ranks.

    Open MPI's ranks do so by themselves. Those of MPICH poll for a whole time slice of the kernel's: a barrier of four
    ranks took 8 ms on two cores, and takes 0.2 ms with these. What the user has set of them stays as it is.
    """
    if family is not Family.HYDRA or ranks <= len(os.sched_getaffinity(0)):
        return {}
    return {name: value for name, value in SLEEP_BETWEEN_POLLS.items() if name not in os.environ}


def require_program(program: Sequence[str]) -> None:
    """Raise UsageError when the program cannot be started, with the likely reason."""
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


def find_launcher(library: Library | None) -> str:
    """Return the mpiexec to use: the library's own, else the first that can start programs with it."""
    found = list(dict.fromkeys(launchers(library)))
    if not found:
        raise WeftError("there is no mpiexec: install an MPI (`pip install mpich mpi4py`), or see `weft doctor`")
    if library is None:
        return found[0]
    alike = [one for one in found if library.family in (family_of(one), Family.OTHER)]
    own = (one for one in alike if (its := beside(one)) is not None and its.is_same(library))
    return next(own, (alike or found)[0])


def launchers(library: Library | None) -> Iterator[str]:
    """Every mpiexec on this machine, in the order of preference."""
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


def plan_for(line: Line, environment: dict[str, str], library: Library | None = None) -> Plan:
    """Find library and compiler for a line."""
    found = [known for program in line.programs if (known := libraries.of_program(program)) is not None]
    library = library or next(iter(found), None)
    launcher = shutil.which(line.launcher) if line.launcher else None
    notes = []
    if any(not one.is_same(found[0]) for one in found):
        notes.append(
            "the programs of this line load different MPI libraries: only those with " + f"{library} are recorded"
        )
    recognised = library is not None
    if library is None:
        library = default_library(launcher)
    built = prebuilt.look(library.path)
    mpicc = compiler_for(library, launcher) if built is None else None
    if mpicc is None and built is None:
        raise WeftError(
            f"no mpicc on this machine builds for {library.path}, so the recorder cannot be built: "
            + (NO_COMPILER if not c_compiler() else "install that MPI's development files (see `weft doctor`)")
        )
    if line.launcher and line.family is Family.OTHER:
        notes.append(
            f"{line.launcher} is not a launcher that Weft knows: it was started with the recorder loaded as well"
        )
    return Plan(line, library, mpicc, environment, recognised, notes)


def spoken(family: Family) -> str:
    """The family's name for people."""
    return {Family.HYDRA: "MPICH", Family.OPENMPI: "Open MPI", Family.SRUN: "Slurm"}.get(family, "another MPI")


def default_library(launcher: str | None) -> Library:
    """Return the library for a program that does not tell its own: the launcher's, or the first on this machine."""
    if launcher is not None and (library := beside(launcher)) is not None:
        return library
    beside_python = Path(sys.executable).parent / "mpicc"
    for mpicc in [beside_python, *candidates()]:
        if mpicc.exists() and (library := linked_by(mpicc)) is not None:
            return library
    if not c_compiler():
        raise WeftError(f"the recorder cannot be built: {NO_COMPILER}")
    raise WeftError("no MPI was found: install one (`pip install mpich mpi4py`), or see `weft doctor`")


def c_compiler() -> str | None:
    """Return the C compiler that every mpicc stands on, None where there is none."""
    return shutil.which("cc") or shutil.which("gcc")
