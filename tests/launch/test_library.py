"""Which MPI a program loads, and which mpicc builds for it: asked of real programs, never by initialising MPI."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_support import Installed, execute
from weft.launch import library as libraries
from weft.launch import plan
from weft.launch.compiler import compiler_for
from weft.launch.library import Library, interpreter, is_library, of_program
from weft.launch.line import family_of
from weft.launch.options import Family

SOURCE = Path(__file__).parent / "programs" / "matched.c"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Installed], Path]:
    """Compile a small program with one of the installed MPIs."""

    def build(mpi: Installed, mpicc: str | None = None) -> Path:
        target = tmp_path_factory.mktemp(mpi.name) / "matched"
        assert execute([mpicc or mpi.mpicc, "-o", target, SOURCE]).returncode == 0
        return target

    return build


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("mpi", "abi", "family"),
    [
        ("mpich", "mpich", Family.HYDRA),
        ("openmpi", "openmpi", Family.OPENMPI),
        ("debian_mpich", "mpich", Family.HYDRA),
        ("debian_openmpi", "openmpi", Family.OPENMPI),
    ],
)
def test_program_library_compiler_and_launcher_of_one_mpi_find_one_another(
    request: pytest.FixtureRequest, compiled: Callable[[Installed], Path], mpi: str, abi: str, family: Family
) -> None:
    installed: Installed = request.getfixturevalue(mpi)
    library = of_program([str(compiled(installed))])
    assert library is not None
    assert (library.abi, library.family) == (abi, family)
    compiler = compiler_for(library)
    assert compiler is not None
    assert libraries.of_native(compiled(installed)) == library
    assert compiler.resolve() == Path(installed.mpicc).resolve()
    assert family_of(installed.mpiexec[0]) is family
    assert Path(plan.find_launcher(library)).resolve() == Path(installed.mpiexec[0]).resolve()


def test_the_standard_abi_has_its_own_compiler(mpich: Installed, compiled: Callable[..., Path]) -> None:
    mpicc = Path(mpich.mpicc).with_name("mpicc_abi")
    library = of_program([str(compiled(mpich, str(mpicc)))])
    assert library is not None
    assert (library.abi, library.family) == ("mpi-abi", Family.HYDRA)
    assert compiler_for(library) == mpicc


def test_python_programs_load_what_their_mpi4py_loads(mpich: Installed, openmpi: Installed) -> None:
    for installed, abi in ((mpich, "mpich"), (openmpi, "openmpi")):
        library = of_program([str(installed.python), "prog.py"])
        assert library is not None
        assert library.abi == abi


def test_wrappers_and_scripts_are_looked_through(
    mpich: Installed, tmp_path: Path, compiled: Callable[..., Path]
) -> None:
    program = compiled(mpich)
    script = tmp_path / "script"
    script.write_text(f"#!{mpich.python}\npass\n")
    script.chmod(0o755)
    for words in (["env", "A=1", str(program)], ["nice", "-n", "5", str(program)], [str(script)]):
        library = of_program(words)
        assert library is not None, words
        assert library.abi == "mpich"


@pytest.mark.parametrize("program", [["true"], ["sh", "-c", "exit"], ["./nowhere"], ["bash", "script.sh"]])
def test_a_program_that_says_nothing_has_no_library(program: list[str]) -> None:
    assert of_program(program) is None


def test_no_module_of_the_users_folder_runs_when_python_is_asked(
    mpich: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpi4py.py").write_text("raise SystemExit('the user’s own module ran')")
    monkeypatch.chdir(tmp_path)
    assert libraries.ask_python(Path(str(mpich.python))).library is not None


def test_a_python_without_mpi4py_says_so() -> None:
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if not bare.exists() or execute([bare, "-c", "import mpi4py"]).returncode == 0:
        pytest.skip("this machine's Python has mpi4py")
    answer = libraries.ask_python(bare)
    assert answer.library is None
    assert answer.error is not None
    assert "mpi4py" in answer.error


@pytest.mark.parametrize(
    "name", ["libmpi.so", "libmpi.so.12", "libmpi.so.40.30.4", "libmpich.so.12", "libmpi_abi.so.1", "libmpi_cray.so.12"]
)
def test_c_libraries_of_mpi_are_known_by_name(name: str) -> None:
    assert is_library(f"/usr/lib/{name}")


@pytest.mark.parametrize("name", ["libmpi_cxx.so.40", "libmpi_mpifh.so.40", "libmpichfort.so.12", "libmpfr.so.6"])
def test_what_only_stands_on_an_mpi_is_not_it(name: str) -> None:
    assert not is_library(f"/usr/lib/{name}")


def test_an_unknown_mpi_is_of_no_family() -> None:
    assert Library(Path("/opt/libmpi_cray.so.12")).family is Family.OTHER


def test_interpreters_are_found_behind_scripts(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/usr/bin/env -S python3 -u\n")
    assert interpreter(script) == Path(str(shutil.which("python3")))
    script.write_text("#!/bin/sh\n")
    assert interpreter(script) is None
    assert interpreter(Path("/usr/bin/python3.11")) == Path("/usr/bin/python3.11")
