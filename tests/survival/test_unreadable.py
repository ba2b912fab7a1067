"""Memory that the recorder cannot read, or that is gone when it looks: the program goes on as if nobody had looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from survival.conftest import PROGRAMS
from tests_support import WEFT, Installed, execute


def compiled(mpi: Installed, folder: Path, source: Path, *options: str) -> Path:
    program = folder / source.stem
    done = execute([mpi.mpicc, "-g", "-w", "-o", program, source, *options], env=mpi.environment)
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("where", ["mapping", "thread"])
def test_a_guard_that_maps_do_not_show_hurts_nobody(mpich: Installed, tmp_path: Path, where: str) -> None:
    program = compiled(mpich, tmp_path, PROGRAMS / "guards.c", "-lpthread")
    line = [*WEFT, "run", "--out", tmp_path / "run", "--", *mpich.mpiexec, "-n", "2", program, where]
    done = execute(line, cwd=tmp_path, env=mpich.environment, timeout=120)
    if "no guards" in done.stdout:
        pytest.skip("the kernel has no MADV_GUARD_INSTALL (Linux 6.13)")
    assert (done.returncode, done.stdout.count("whole")) == (0, 2), done.stdout + done.stderr
    assert "nothing found" in done.stderr
