"""All C of Weft, by every compiler that is here: gcc 14 and clang 16 refuse what earlier ones let pass."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests_support import ROOT, Installed, compilers, execute
from weft.mpi import shim
from weft.pvm import recorder

WEFT = ROOT / "src/weft"
LIBRARY = (f"-I{WEFT}/native/library", f"-I{WEFT}/native", f"-I{WEFT}/recorder")
FLAGS = ("-fsyntax-only", "-Werror=implicit", "-Werror=strict-prototypes", "-Werror=incompatible-pointer-types")
PARTS = {
    "native": ("-std=c11", "-D_GNU_SOURCE", f"-I{WEFT}", f"-I{WEFT}/native", f"-I{sysconfig.get_path('include')}"),
    "native/kernel": ("-std=c11", "-D_GNU_SOURCE", f"-I{WEFT}", f"-I{WEFT}/native"),
    "values/native": ("-std=c11", "-D_GNU_SOURCE", f"-I{WEFT}"),
    "dataparallel/native": ("-std=c11", "-D_GNU_SOURCE", f"-I{WEFT}/values/native/include"),
    "numba/native": ("-std=c11", "-D_GNU_SOURCE", f"-I{WEFT}/dataparallel/native", f"-I{WEFT}/values/native/include"),
    "openmp/native": ("-std=c11", "-D_GNU_SOURCE", *LIBRARY),
    "access/native": ("-std=gnu11", '-DWEFT_VERSION="0"', *LIBRARY),
    "tasks/native": ("-std=c11", f"-I{WEFT}/native"),
}
"""Folders of sources, and how they are compiled."""


def here() -> list[str]:
    """Each compiler once, whatever its names."""
    found = {os.path.realpath(str(shutil.which(name))): name for kind in ("clang", "gcc") for name in compilers(kind)}
    return sorted(found.values())


def has_fortran(compiler: str) -> bool:
    """Whether it belongs to a gfortran, which alone compiles what takes Fortran's descriptors."""
    return (
        compiler.startswith("gcc")
        and Path(execute([compiler, "-print-file-name=include/ISO_Fortran_binding.h"]).stdout.strip()).is_file()
    )


def written(folder: Path, sources: Mapping[str, bytes]) -> list[Path]:
    """Sources that are made when they are compiled, in a folder; those that no other includes."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    return [folder / name for name in sorted(sources) if name.endswith(".c")]


def commands(folder: Path, mpich: Installed) -> Iterator[tuple[list[Path], tuple[str, ...]]]:
    for part, flags in PARTS.items():
        yield sorted((WEFT / part).glob("*.c")), flags
    shown = shlex.split(execute([mpich.mpicc, "-show"]).stdout)
    includes = tuple(word for word in shown if word.startswith("-I"))
    made = {**shim._read_sources(), **shim._generate_sources(shim.probe_library(mpich.mpicc))}
    parts = {name for together in shim._TOGETHER.values() for name in together}
    whole = [path for path in written(folder / "mpi", made) if path.name not in parts]
    yield whole, ("-std=gnu11", f"-I{folder / 'mpi/shim'}", *includes)
    yield written(folder / "pvm", recorder.collect_sources()), (*recorder._FLAGS[:1], f"-I{folder / 'pvm/shim'}")


def test_every_source_is_of_some_part(tmp_path: Path, mpich: Installed) -> None:
    named = {path.name for sources, _ in commands(tmp_path, mpich) for path in sources}
    named |= {name for together in shim._TOGETHER.values() for name in together}
    own = {path.name for path in WEFT.rglob("*.c") if "cilk5" not in path.parts}
    assert own - named == set()


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", here())
def test_a_compiler_takes_all_c_of_weft(compiler: str, tmp_path: Path, mpich: Installed) -> None:
    for sources, flags in commands(tmp_path, mpich):
        assert sources
        own = sources if has_fortran(compiler) else [one for one in sources if "native/fortran.c" not in str(one)]
        done = execute([compiler, *flags, *FLAGS, *own], timeout=300)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", here())
@pytest.mark.parametrize("line", ["void g(void) { f(1); }", "int f();"])
def test_what_is_declared_nowhere_is_refused(line: str, compiler: str, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(f"{line}\n")
    assert execute([compiler, "-std=c11", *FLAGS, tmp_path / "one.c"]).returncode == 1
