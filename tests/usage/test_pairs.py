"""MPI's pair types, such as MPI_DOUBLE_INT, are compared with the memory that they are taken from."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests_support import WEFT, Installed, execute
from weft.report import analyse


def found(mpich: Installed, folder: Path, case: str, level: str) -> list[str]:
    """Return the errors of programs/pairs.c."""
    execute([mpich.mpicc, "-g", level, "-o", folder / "pairs", Path(__file__).with_name("pairs.c")]).check_returncode()
    execute([*WEFT, "run", "--out", "run", "-n", "2", "--", "./pairs", case], cwd=folder)
    errors = [one for one in analyse(weft.open(folder / "run")) if one.severity == "error"]
    return [f"{one.kind}: {one.message}" for one in errors]


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_structures_that_fit_their_pair_types_are_silent(mpich: Installed, tmp_path: Path, level: str) -> None:
    assert found(mpich, tmp_path, "right", level) == []


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("long", "buffer-overrun: rank 0 reads 12 bytes in send(dest=1, tag=0) at pairs.c:35, but `total`"),
        ("six", "buffer-overrun: rank 0 reads 60 bytes in reduce(root=0) at pairs.c:38, but `six`"),
        ("doubles", "type-mismatch: rank 0 takes `doubles` as MPI_DOUBLE_INT in bcast(root=0) at pairs.c:39"),
    ],
)
def test_memory_that_is_no_pair_is_named(mpich: Installed, tmp_path: Path, case: str, said: str) -> None:
    assert any(text.startswith(said) for text in found(mpich, tmp_path, case, "-O2"))
