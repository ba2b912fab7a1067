"""Memory that the recorder cannot read, or that is gone when it looks: the program goes on as if nobody had looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from survival import unreadable
from survival.conftest import PROGRAMS
from tests_support import WEFT, Installed, execute
from weft.mpi import shim


def compiled(mpi: Installed, folder: Path, source: Path, *options: str | Path) -> Path:
    program = folder / source.stem
    done = execute([mpi.mpicc, "-g", "-w", "-o", program, source, *options], env=mpi.environment)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.cases(1)
@pytest.mark.parametrize("where", ["mapping", "thread"])
def test_a_guard_that_maps_do_not_show_hurts_nobody(mpich: Installed, tmp_path: Path, where: str) -> None:
    program = compiled(mpich, tmp_path, PROGRAMS / "guards.c", "-lpthread")
    line: list[str | Path] = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpich.mpiexec, "-n", "2", program, where]
    done = execute(line, cwd=tmp_path, env=mpich.environment, timeout=120)
    if "no guards" in done.stdout:
        pytest.skip("the kernel has no MADV_GUARD_INSTALL (Linux 6.13)")
    assert (done.returncode, done.stdout.count("whole")) == (0, 2), done.stdout + done.stderr
    assert "nothing found" in done.stderr


MODES = {"none": True, "guard": True, "cut": True, "gone": False, "plain": False}
"""What the memory of the device is, and whether the recorder says that it could not look. Where it is gone another
mapping may have come."""


@pytest.fixture(scope="session")
def device(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that calls each function with memory of a device, linked with an MPI that takes it."""
    return with_device(mpich, tmp_path_factory.mktemp("device"))


def with_device(mpi: Installed, folder: Path) -> Path:
    exported = shim.probe_library(mpi.mpicc).exported
    (folder / "taking.inc").write_text(unreadable.stand_in(exported))
    (folder / "calls.inc").write_text(unreadable.calls(exported))
    library = compiled(mpi, folder, PROGRAMS / "standin.c", "-shared", "-fPIC", "-I", folder, "-ldl")
    library = library.rename(folder / "libstandin.so")
    return compiled(mpi, folder, PROGRAMS / "unreadable.c", "-I", folder, library, f"-Wl,-rpath,{folder}")


def recorded(
    mpi: Installed, folder: Path, program: Path, *words: str, options: tuple[str, ...] = ()
) -> tuple[str, str]:
    """What the program and Weft say; the program says the same without Weft."""
    plain = execute([program, *words], cwd=folder, env=mpi.environment, timeout=60)
    line: list[str | Path] = [*WEFT, "run", "--out", folder / "run", *options, "--", program, *words]
    done = execute(line, cwd=folder, env=mpi.environment, timeout=120)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done.stdout + done.stderr
    assert plain.returncode == 0
    if "no such memory" in plain.stdout:
        pytest.skip(f"the kernel has no memory of the kind {words[0]}")
    return done.stdout, done.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_device_hurts_no_function(mpich: Installed, device: Path, tmp_path: Path, mode: str) -> None:
    output, said = recorded(mpich, tmp_path, device, mode, options=("--whole-buffers", "--hash-messages"))
    assert int(output.split()[0]) > 150
    assert "nothing found" in said
    assert said.count("buffers that the recorder cannot read") == MODES[mode] or mode == "gone"


@pytest.mark.cases(1)
@pytest.mark.parametrize("options", [(), ("--whole-buffers", "--hash-messages"), ("--level", "outcomes")])
def test_nor_with_types_that_have_gaps(
    mpich: Installed, device: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    output, said = recorded(mpich, tmp_path, device, "none", "gaps", options=options)
    assert int(output.split()[0]) > 100
    assert "nothing found" in said or "outcomes" in options


@pytest.mark.matrix
def test_nor_with_open_mpi(debian_openmpi: Installed, tmp_path: Path) -> None:
    program = with_device(debian_openmpi, tmp_path)
    _, said = recorded(debian_openmpi, tmp_path, program, "none", options=("--hash-messages",))
    assert "nothing found" in said
