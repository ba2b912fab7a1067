"""Which MPI a program loads, and which mpicc builds for it: asked of real programs, never by initialising MPI."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests_support import Installed, execute
from weft.launch import library as libraries
from weft.launch import plan
from weft.launch.compiler import find_compiler
from weft.launch.launcher_line import find_launcher_family
from weft.launch.library import MPILibrary, find_interpreter, find_program_library, is_library
from weft.launch.options import Family
from weft.mpi import shim

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
    library = find_program_library([str(compiled(installed))])
    assert library is not None
    assert (library.abi, library.family) == (abi, family)
    compiler = find_compiler(library)
    assert compiler is not None
    assert libraries.find_native_library(compiled(installed)) == library
    assert compiler.resolve() == Path(installed.mpicc).resolve()
    assert find_launcher_family(installed.mpiexec[0]) is family
    assert Path(plan.find_launcher(library)).resolve() == Path(installed.mpiexec[0]).resolve()


def test_the_standard_abi_has_its_own_compiler(mpich: Installed, compiled: Callable[..., Path]) -> None:
    mpicc = Path(mpich.mpicc).with_name("mpicc_abi")
    library = find_program_library([str(compiled(mpich, str(mpicc)))])
    assert library is not None
    assert (library.abi, library.family) == ("mpi-abi", Family.HYDRA)
    assert find_compiler(library) == mpicc


def test_python_programs_load_what_their_mpi4py_loads(mpich: Installed, openmpi: Installed) -> None:
    for installed, abi in ((mpich, "mpich"), (openmpi, "openmpi")):
        library = find_program_library([str(installed.python), "prog.py"])
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
        library = find_program_library(words)
        assert library is not None, words
        assert library.abi == "mpich"


@pytest.mark.parametrize("program", [["true"], ["sh", "-c", "exit"], ["./nowhere"], ["bash", "script.sh"]])
def test_a_program_that_says_nothing_has_no_library(program: list[str]) -> None:
    assert find_program_library(program) is None


def test_no_module_of_the_users_folder_runs_when_python_is_asked(
    mpich: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpi4py.py").write_text("raise SystemExit('the user’s own module ran')")
    monkeypatch.chdir(tmp_path)
    assert libraries.query_mpi4py(Path(str(mpich.python))).library is not None


def test_a_python_without_mpi4py_says_so() -> None:
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if not bare.exists() or execute([bare, "-c", "import mpi4py"]).returncode == 0:
        pytest.skip("this machine's Python has mpi4py")
    answer = libraries.query_mpi4py(bare)
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
    assert MPILibrary(Path("/opt/libmpi_cray.so.12")).family is Family.OTHER


def test_interpreters_are_found_behind_scripts(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/usr/bin/env -S python3 -u\n")
    assert find_interpreter(script) == Path(str(shutil.which("python3")))
    script.write_text("#!/bin/sh\n")
    assert find_interpreter(script) is None
    assert find_interpreter(Path("/usr/bin/python3.11")) == Path("/usr/bin/python3.11")


# ---- a tree as wheels have it: copies in place of links, and an mpicc that knows it by a variable alone ----
MPICC = """#!/bin/sh
test -n "$I_MPI_ROOT" || exit 1
exec cc -I"$I_MPI_ROOT/include" "$@" -L"$I_MPI_ROOT/lib" -Wl,-rpath,"$I_MPI_ROOT/lib" -lmpi
"""


@pytest.fixture
def copies(mpich: Installed, tmp_path: Path) -> Path:
    """MPICH in such a tree."""
    real = Path(mpich.mpicc).parent.parent
    for name in ("bin", "lib"):
        (tmp_path / name).mkdir()
    for name in ("libmpi.so", "libmpi.so.12"):
        shutil.copy(real / "lib/libmpi.so.12", tmp_path / "lib" / name)
    (tmp_path / "include").symlink_to(real / "include")
    for name in ("mpicc", "mpigcc"):
        (tmp_path / "bin" / name).write_text(MPICC)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def test_a_library_is_known_by_what_it_is_not_by_its_path(copies: Path) -> None:
    linked, opened = MPILibrary(copies / "lib/libmpi.so.12"), MPILibrary(copies / "lib/libmpi.so")
    assert opened.real != linked.real and opened.is_same(linked) and linked.is_same(opened)
    assert (opened.abi, opened.family) == ("mpich", Family.HYDRA)
    assert find_compiler(opened) == find_compiler(linked) == copies / "bin/mpicc"


def test_another_build_of_that_name_is_another_library(copies: Path) -> None:
    linked, other = MPILibrary(copies / "lib/libmpi.so.12"), copies / "lib/libmpi.so"
    text = other.read_bytes()
    other.write_bytes(text[:-1] + bytes([text[-1] ^ 1]))  # as long as the first
    assert MPILibrary(other).abi == "mpich" and not MPILibrary(other).is_same(linked)
    assert find_compiler(MPILibrary(other)) is None


def test_a_file_that_is_none_has_no_abi(tmp_path: Path) -> None:
    for text in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x02\x01" + bytes([255] * 1000)):
        (tmp_path / "libmpi.so").write_bytes(text)
        assert MPILibrary(tmp_path / "libmpi.so").abi == ""


def test_a_program_that_opens_the_copy_is_recorded(mpich: Installed, copies: Path, tmp_path: Path) -> None:
    recorder, run = shim.build_shim(mpich.mpicc), tmp_path / "run"
    (run / "ranks").mkdir(parents=True)
    shutil.copy(recorder.functions_json_path, run / "functions.json")
    (run / "run.json").write_text("{}")
    beside = libraries.find_needed_files(Path(mpich.mpicc).parent.parent / "lib/libmpi.so.12")
    folders = dict.fromkeys(str(Path(one).parent) for one in beside if not one.startswith(("/lib", "/usr/lib")))
    environment = {
        "MPI4PY_LIBMPI": str(copies / "lib/libmpi.so"), "LD_LIBRARY_PATH": ":".join(folders),
        "LD_PRELOAD": str(recorder.path), "WEFT_INTERNAL_RUN": str(run),
    }  # fmt: skip
    program = "from mpi4py import MPI; print([line for line in open('/proc/self/maps') if 'libmpi.so' in line][0])"
    done = execute([sys.executable, "-c", program], env=environment)
    assert done.returncode == 0 and str(copies / "lib/libmpi.so") in done.stdout, done.stderr
    assert not list(run.glob("ranks/other-*"))
    [rank] = weft.open(run).ranks
    assert not rank.missing and len(rank)
