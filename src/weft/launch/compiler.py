"""Find the mpicc that builds for an MPI library, and the library that belongs to a launcher."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from weft.launch.library import MPILibrary, find_native_library
from weft.mpi import tools

NAMES = ("mpicc", "mpicc.mpich", "mpicc.openmpi", "mpicc_abi", "mpiicc", "mpiicx", "cc")
"""Compiler wrappers, the usual one first. `cc` is one on Cray systems."""

PROBE = "int MPI_Finalize(void); int weft_probe(void); int weft_probe(void) { return MPI_Finalize(); }\n"


def find_compiler(library: MPILibrary, launcher: str | None = None) -> Path | None:
    """Return the mpicc whose programs load `library`, None if this machine has none."""
    for candidate in find_candidate_compilers(library, launcher):
        linked = find_linked_library(candidate)
        if linked is not None and linked.is_same(library):
            return candidate
    return None


def find_candidate_compilers(library: MPILibrary | None = None, launcher: str | None = None) -> Iterator[Path]:
    """Yield every mpicc worth trying, the likeliest first: in the library's own tree, beside the launcher, on
    the PATH.
    """
    folders = []
    if library is not None:
        folders += [parent / "bin" for parent in list(library.path.parents)[1:4]]
        folders += [parent / "bin" for parent in list(library.real.parents)[1:4]]
    if launcher is not None:
        folders += [Path(launcher).parent, Path(launcher).resolve().parent]
    names = sorted(NAMES, key=lambda name: not has_name_of_abi(name, library))
    seen = set()
    for folder in dict.fromkeys(folders):
        for name in names[: len(NAMES)]:
            if name != "cc" and (folder / name).is_file():
                seen.add(folder / name)
                yield folder / name
    for name in names:
        found = shutil.which(name)
        if found and Path(found) not in seen:
            yield Path(found)


def has_name_of_abi(name: str, library: MPILibrary | None) -> bool:
    """Return whether the name of a compiler wrapper suggests the library's ABI. Such wrappers are only tried first."""
    if library is None:
        return True
    words = {"mpich": "mpich", "openmpi": "openmpi", "mpi-abi": "_abi"}
    return words.get(library.abi, "-") in name


@cache
def find_linked_library(mpicc: Path) -> MPILibrary | None:
    """Return the MPI library that programs built with `mpicc` load, found by building a tiny one."""
    # `weft run` imports this module before the program starts, and seldom builds anything.
    from weft.base.lifetime import temporary_folder

    with temporary_folder("probe") as folder:
        source, target = Path(folder, "probe.c"), Path(folder, "probe.so")
        source.write_text(PROBE)
        command = [str(mpicc), "-shared", "-fPIC", "-o", str(target), str(source)]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
                env=tools.tool_environment(mpicc),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return find_native_library(target) if done.returncode == 0 else None


def find_library_of_launcher(launcher: str) -> MPILibrary | None:
    """Return the MPI library that is installed together with a launcher, None if it is unknown. Weft takes this
    library where the program itself does not show its MPI library."""
    folder = Path(launcher).parent
    installed = [path for name in ("libmpi.so.12", "libmpi.so.40") if (path := folder.parent / "lib" / name).exists()]
    if len(installed) == 1 and folder.name == "bin" and folder.parent != Path("/usr"):
        return MPILibrary(installed[0])  # one prefix's own: nothing need be compiled to see it
    suffix = "".join(Path(launcher).suffixes)  # mpiexec.mpich -> mpicc.mpich
    for name in (f"mpicc{suffix}" if suffix in (".mpich", ".openmpi") else "mpicc", "mpicc"):
        if (folder / name).exists():
            return find_linked_library(folder / name)
    return None
