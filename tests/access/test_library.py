"""library.c and library.f90: what the libraries of C and Fortran do with a buffer, in place of the program, is seen."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, run

from machine import need
from tests_support import Installed

HERE = Path(__file__).parent


def program(name: str, request: pytest.FixtureRequest) -> tuple[Installed, dict[str, str]]:
    """The MPI, and the compiler where it is not that MPI's own."""
    if name == "library.c":
        return request.getfixturevalue("mpich"), {}
    return request.getfixturevalue("debian_openmpi"), {"compiler": need("mpif90.openmpi")}


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["library.c", "library.f90"])
def test_what_a_library_loads_and_stores_is_told_while_the_buffer_is_pending(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    mpi, options = program(name, request)
    binary = built(mpi, tmp_path, HERE / name, **options)
    assert [f["message"] for f in run(mpi, tmp_path, binary, "late")] == []
    told: dict[int, set[str]] = defaultdict(set)
    for finding in run(mpi, tmp_path, binary, "early"):
        done = re.match(r"rank 1 (load|store)s ", finding["message"])
        assert done and finding["kind"] == "buffer-reuse", finding["message"]
        told[finding["sites"][0]["line"]].add(done[1].upper())
    lines = enumerate((HERE / name).read_text().splitlines(), 1)
    marked = {number: set(found) for number, line in lines if (found := re.findall(r"\b(LOAD|STORE)\b", line))}
    if name == "library.c":
        compared = next(n for n, line in enumerate((HERE / name).read_text().splitlines(), 1) if "rising(" in line)
        assert told.pop(compared) == {"LOAD"}
    assert told == marked
