"""What a process tells of its end, and that it ends as it would without the recorder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from survival.conftest import PROGRAMS
from tests_support import WEFT, Installed, execute
from weft.mpi import shim
from weft.trace import Ending, EndingKind, ExitKind, Trace

Run = Callable[..., tuple[int, str, Trace]]
PYTHON = (sys.executable, str(PROGRAMS / "ends.py"))


@pytest.fixture(scope="session")
def ends(mpich: Installed, recorder: shim.BuiltRecorder, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The C program that ends in many ways."""
    target = tmp_path_factory.mktemp("ends") / "ends"
    done = execute([mpich.mpicc, "-g", "-O1", "-w", "-o", target, PROGRAMS / "ends.c"])
    assert done.returncode == 0, done.stderr
    return str(target)


@pytest.fixture
def record(tmp_path: Path, recorder: shim.BuiltRecorder) -> Run:
    """Record a single process; returns its status, all that was printed, and the run."""

    def run(*program: str) -> tuple[int, str, Trace]:
        done = execute([*WEFT, "run", "--out", tmp_path / "run", "--", *program], cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr, weft.open(tmp_path / "run")

    return run


def told(trace: Trace, *kinds: EndingKind) -> list[Ending]:
    return [ending for ending in trace.ranks[0].endings if not kinds or ending.kind in kinds]


FAULTS = [
    ("segv", signal.SIGSEGV, "fault", 16), ("fpe", signal.SIGFPE, "end", None), ("nowhere", signal.SIGSEGV, "end", 0),
    ("assert", signal.SIGABRT, "end", 0), ("overflow", signal.SIGSEGV, "deeper", None),
]  # fmt: skip


@pytest.mark.cases(4)
@pytest.mark.parametrize(("how", "number", "function", "address"), FAULTS, ids=[row[0] for row in FAULTS])
def test_a_crash_is_told_with_its_place(  # noqa: PLR0917
    ends: str, record: Run, how: str, number: int, function: str, address: int | None
) -> None:
    status, _, trace = record(ends, how)
    assert status == 128 + number == 128 - execute([ends, how]).returncode
    first = told(trace)[0]
    assert (first.kind, first.code, first.name) == (EndingKind.SIGNAL, number, signal.Signals(number).name)
    assert first.site is not None
    assert (first.site.function, Path(first.site.file or "").name) == (function, "ends.c")
    assert address is None or first.address == address
    assert "rank == 99" in first.text if how == "assert" else not first.text


def test_a_crash_is_told_of_every_thread(ends: str, record: Run) -> None:
    _, _, trace = record(ends, "threads")
    crashed, *others = told(trace, EndingKind.SIGNAL)
    assert crashed.site is not None
    assert crashed.site.function == "fault"
    assert any("sleeps" in [site.function for site in other.native] for other in others)
    assert len({one.tid for one in [crashed, *others]}) == 1 + len(others)


def test_a_handler_of_the_programs_own_ends_it_as_ever(ends: str, record: Run) -> None:
    status, _, trace = record(ends, "handler")
    assert status == 42
    assert [(one.kind, one.code) for one in told(trace)] == [(EndingKind.SIGNAL, 11), (EndingKind.EXIT, 42)]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("how", "status"), [("got-over", 0), ("over-exit", 3)])
def test_a_fault_that_the_program_gets_over_is_not_told(ends: str, record: Run, how: str, status: int) -> None:
    got, _, trace = record(ends, how)
    assert got == status
    assert not told(trace, EndingKind.SIGNAL)


def test_a_child_that_crashes_tells_nothing(ends: str, record: Run) -> None:
    status, text, trace = record(ends, "child")
    assert status == 0
    assert "child 11" in text
    assert not told(trace)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("how", "status", "kind", "function"),
    [("exit", 4, ExitKind.EXIT, "end"), ("at-once", 6, ExitKind.AT_ONCE, "end"), ("return", 5, ExitKind.RETURN, None)],
)
def test_an_exit_is_told_with_its_status_and_how(  # noqa: PLR0917
    ends: str, record: Run, how: str, status: int, kind: ExitKind, function: str | None
) -> None:
    got, _, trace = record(ends, how)
    assert got == status
    (ending,) = told(trace)
    assert (ending.kind, ending.code, ending.how) == (EndingKind.EXIT, status, kind)
    assert (ending.site.function if ending.site else None) == function


def test_abort_and_calls_outside_of_mpi_and_signals_are_told(ends: str, record: Run, tmp_path: Path) -> None:
    wanted = {
        "abort": (EndingKind.ABORT, 9, "MPI_Abort"), "before": (EndingKind.NOT_INITIALISED, 0, "MPI_Comm_rank"),
        "after": (EndingKind.FINALISED, 0, "MPI_Barrier"), "term": (EndingKind.WARNED, 15, "SIGTERM"),
    }  # fmt: skip
    for how, ending in wanted.items():
        status, _, trace = record(ends, how)
        assert status == (execute([ends, how]).returncode + 256) % 256 or how == "term", how
        found = trace.ranks[-1].endings  # a process that MPI told nothing does not know its rank
        assert [(one.kind, one.code, one.name) for one in found[:1]] == [ending], how
        assert found[0].native, how
        (tmp_path / "run").rename(tmp_path / how)


def test_a_finalize_on_the_way_out_is_marked_and_the_programs_own_is_not(
    ends: str, record: Run, tmp_path: Path
) -> None:
    for program, leaving in (
        ((ends, "atexit"), True), ((ends, ""), False), ((*PYTHON, ""), True), ((*PYTHON, "finalize"), False)
    ):  # fmt: skip
        _, _, trace = record(*program)
        (last,) = [event for event in trace.ranks[0] if event.function.name == "MPI_Finalize"]
        assert last.is_finalize_at_exit == leaving, program
        assert not told(trace), program
        (tmp_path / "run").rename(tmp_path / f"{program[0][-6:].replace('/', '')}-{program[-1]}")


PYTHONS = [
    ("exception", 1, EndingKind.EXCEPTION, "KeyError", ""), ("cause", 1, EndingKind.EXCEPTION, "RuntimeError", ""),
    ("exit", 3, EndingKind.EXIT, "sys.exit", ""), ("at-once", 5, EndingKind.EXIT, "_exit", ""),
    ("abort", 7, EndingKind.EXCEPTION, "KeyError", ""),
    ("thread", 0, EndingKind.EXCEPTION, "ZeroDivisionError", "helper"),
    ("task", 0, EndingKind.EXCEPTION, "ValueError", "task worker-7"),
    ("mpi", 1, EndingKind.EXCEPTION, "mpi4py.MPI.Exception", ""),
    ("segv", 139, EndingKind.SIGNAL, "SIGSEGV", ""),
]  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize(("how", "status", "kind", "name", "who"), PYTHONS, ids=[row[0] for row in PYTHONS])
def test_a_python_program_tells_why_it_ended_and_where(  # noqa: PLR0917
    record: Run, how: str, status: int, kind: EndingKind, name: str, who: str
) -> None:
    got, text, trace = record(*PYTHON, how)
    assert got == status, text
    first = told(trace)[0]
    assert (first.kind, first.name, first.who) == (kind, name, who)
    assert any(Path(site.file or "").name == "ends.py" for site in first.python)
    if kind is EndingKind.EXCEPTION and how != "abort":
        assert first.traceback.strip().splitlines()[-1] in text
        assert ("direct cause" in first.traceback) == (how == "cause")
    if how == "abort":
        assert [one.kind for one in told(trace)] == [EndingKind.EXCEPTION, EndingKind.ABORT]


def test_what_a_python_program_catches_is_not_told(record: Run) -> None:
    status, _, trace = record(*PYTHON, "caught")
    assert status == 0
    assert not told(trace)


@pytest.mark.cases(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_knows_where_each_rank_was(ends: str, tmp_path: Path, number: int) -> None:
    words = [*WEFT, "run", "-n", "2", "--out", str(tmp_path / "run"), "--", ends, "loop"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        limit = time.monotonic() + 40
        while time.monotonic() < limit and not looping(tmp_path / "run"):
            time.sleep(0.1)
        process.send_signal(number)
        text, _ = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + number, text
    trace = weft.open(tmp_path / "run")
    assert (trace.run["ended"], trace.run["interrupted_by"]) == ("interrupted", signal.Signals(number).name)
    for rank in trace.ranks:
        where = [one for one in rank.endings if one.kind is EndingKind.WHERE]
        assert [one.site.function for one in where if one.site] == ["main"]
    assert "deadlock" not in text


def looping(run: Path) -> bool:
    try:
        return all(len(rank) == 3 for rank in weft.open(run).ranks) and len(weft.open(run).ranks) == 2
    except weft.errors.WeftError:
        return False
