"""Replays that wait behind a stop: a way back takes one, none is left behind, none writes beside another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from debug.commands_table import LANGUAGES, Bench, line
from tests_support import Installed
from weft.debug.debugger import Debugger
from weft.replay.control import ControlPage
from weft.tasks.ranks import TaskPrompt

PATIENCE = 120
WRITER = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
log = open("log-%d.txt" % comm.rank, "w")
for turn in range(6):
    comm.Barrier()
    log.write("turn")
    turn += 0  # here
comm.Barrier()
"""


@pytest.fixture(scope="module")
def bench(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(Path(mpich.mpicc).parents[1], tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def opened() -> Iterator[Callable[[Path], TaskPrompt]]:
    """Debug a run; its replays end with the test."""
    begun: list[Debugger] = []

    def start(run: Path) -> TaskPrompt:
        begun.append(Debugger(run, lambda _: ()))
        begun[-1].first()
        return TaskPrompt(begun[-1], as_json=True)

    yield start
    for one in begun:
        if Path(one._home.name).exists():
            one.close()


def waiting(debugger: Debugger) -> list[object]:
    """The replays that wait, when they have come to where they do."""
    until = time.monotonic() + PATIENCE
    while any(one.thread.is_alive() for one in debugger.checkpoints.kept) and time.monotonic() < until:
        time.sleep(0.05)
    return [one.made[0] for one in debugger.checkpoints.kept if one.made is not None]


def of(folder: Path) -> list[str]:
    """The processes that were started for a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found += [entry.name] if str(folder).encode() in (entry / "cmdline").read_bytes() else []
        except OSError:
            continue
    return found


@pytest.mark.matrix
@pytest.mark.parametrize(
    "language", [pytest.param("C", marks=pytest.mark.needs("gdb")), pytest.param("Python", marks=pytest.mark.matrix)]
)
def test_a_line_back_takes_a_replay_that_waits(
    language: str, bench: Bench, opened: Callable[[Path], TaskPrompt]
) -> None:
    assert bench.build(language)
    file = LANGUAGES[language]
    prompt = opened(bench.folder / f"run-{language}")
    debugger = prompt.debugger
    for command in (f"break 0:{file}:{line(file)} if k == 3", "continue", "delete", "rank 0"):
        prompt.answer(command)
    assert not debugger.checkpoints.kept, "nobody has gone back yet"
    prompt.answer("reverse-next")
    first = waiting(debugger)
    assert len(first) == 2
    prompt.answer("reverse-next")
    assert debugger.replica in first
    values = prompt.answer("print k @0")["values"]
    assert values[0]["value"] == "2", values
    assert debugger.describe_thread(0)["at"]["line"] == line(file)
    second = waiting(debugger)
    assert len(second) == 2 and debugger.replica not in second
    home = Path(debugger._home.name)
    assert of(home)
    debugger.close()
    assert not of(home) and not home.exists()


@pytest.mark.matrix
def test_where_a_rank_writes_to_a_file_no_replay_waits_beside_it(
    mpich: Installed, record: Callable[..., object], opened: Callable[[Path], TaskPrompt], tmp_path: Path
) -> None:
    program = tmp_path / "writer.py"
    program.write_text(WRITER)
    made = record("writes", "-n", "2", "--", mpich.python, program)
    prompt = opened(made.run)  # type: ignore[attr-defined]
    for command in ("break 0:writer.py:8", "continue", "continue", "rank 0"):
        prompt.answer(command)
    prompt.answer("reverse-next")
    assert prompt.debugger.describe_thread(0)["at"]["line"] == 7
    assert prompt.debugger.checkpoints.kept == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("moment", ["its replay begins", "its replay stands"])
def test_a_debugger_that_is_killed_leaves_no_replay_behind(moment: str, bench: Bench, tmp_path: Path) -> None:
    assert bench.build("C")
    command = [sys.executable, "-m", "weft.cli.main", "debug", str(bench.folder / "run-C")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as debugger:  # fmt: skip
        until = time.monotonic() + PATIENCE
        while not of(tmp_path) and time.monotonic() < until:
            time.sleep(0.002)
        while moment == "its replay stands" and not parked(tmp_path) and time.monotonic() < until:
            time.sleep(0.05)
        assert of(tmp_path)
        debugger.kill()
    until = time.monotonic() + PATIENCE
    while (of(tmp_path) or list(tmp_path.glob("weft-debug-*"))) and time.monotonic() < until:
        time.sleep(0.1)
    assert not of(tmp_path)
    assert not list(tmp_path.glob("weft-debug-*"))


def parked(folder: Path) -> bool:
    """Whether the ranks of a replay in a debugger's folder have begun."""
    return any(
        ControlPage(page.parent, 0, exists=True).is_parked()
        for page in folder.glob("*/*/run/replay/control-000000.bin")
    )
