"""What threads of a rank do to memory that other threads' calls have, and what orders them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built, run

from tests_support import Installed, execute

SOURCE = Path(__file__).parent / "hybrid.c"
OF_C, OF_CPP = (SOURCE.with_name(name) for name in ("threads.c", "threads.cpp"))


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def of_mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Installed, Path]:
    return request.getfixturevalue(request.param), tmp_path_factory.mktemp(f"hybrid-{request.param}")


@pytest.mark.cases(1)
def test_threads_that_keep_apart_are_not_alarmed(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, "-fopenmp"), "right", threads=2)
    assert [finding["message"] for finding in found] == []


@pytest.mark.cases(1)
def test_each_access_of_another_thread_is_found_at_its_line(of_mpi: tuple[Installed, Path]) -> None:
    mpi, folder = of_mpi
    found = run(mpi, folder, built(mpi, folder, SOURCE, "-fopenmp"), "wrong", threads=2)
    bugs = set()
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        bugs |= {(number, kind) for kind in re.findall(r"BUG ([a-z-]+)", line)}
    assert {(site["line"], f["kind"]) for f in found for site in f["sites"][:2]} >= bugs
    assert {f["sites"][0]["line"] for f in found} <= {line for line, _ in bugs}


def build_threads(mpi: Installed, folder: Path, source: Path) -> Path:
    target = folder / source.name
    target.mkdir(exist_ok=True)
    compiler = str(Path(mpi.mpicc).with_name("mpicxx")) if source is OF_CPP else mpi.mpicc
    return built(mpi, target, source, "-fopenmp" if source is OF_C else "-pthread", compiler=compiler)


@pytest.mark.cases(2)
@pytest.mark.parametrize("source", [OF_C, OF_CPP], ids=["OpenMP and POSIX", "C++"])
def test_threads_that_wait_for_each_other_are_ordered(of_mpi: tuple[Installed, Path], source: Path) -> None:
    mpi, folder = of_mpi
    program = build_threads(mpi, folder, source)
    assert [finding["message"] for finding in run(mpi, program.parent, program, "right", threads=2)] == []


@pytest.mark.cases(2)
@pytest.mark.parametrize("source", [OF_C, OF_CPP], ids=["OpenMP and POSIX", "C++"])
def test_threads_that_only_the_clock_keeps_apart_race(of_mpi: tuple[Installed, Path], source: Path) -> None:
    mpi, folder = of_mpi
    program = build_threads(mpi, folder, source)
    found = run(mpi, program.parent, program, "wrong", threads=2)
    lines = {number for number, line in enumerate(source.read_text().splitlines(), 1) if "BUG" in line}
    assert {finding["sites"][0]["line"] for finding in found} == lines
    assert {finding["kind"] for finding in found} == {"rma-race"}


@pytest.mark.cases(1)
@pytest.mark.parametrize("hooks", [True, False], ids=["weft cc", "plain"])
def test_calls_of_threads_that_take_turns_do_not_race(of_mpi: tuple[Installed, Path], hooks: bool) -> None:
    mpi, folder = of_mpi
    source, target = SOURCE.with_name("thread_calls.c"), folder / f"calls-{hooks}"
    target.mkdir()
    program = target / source.stem
    if hooks:
        built(mpi, target, source, "-fopenmp")
    else:
        line = [mpi.mpicc, "-g", "-O2", "-fopenmp", "-o", program, source]
        assert execute(line, env=mpi.environment, timeout=120).returncode == 0
    assert [finding["message"] for finding in run(mpi, target, program, "right", threads=2, ranks=3)] == []
