"""A replay up to a point runs again what the point needs, and nothing else: held against brute force, really run.

WEFT_REPLAY_PROGRAMS=100 in the environment runs so many random programs (10 without).
"""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from replay.campaign import compile_c, environment
from replay.scripts import MPI_NAMES, Call, Script, edges, past, random_script
from tests_support import WEFT, Installed, execute
from weft.cli.main import main
from weft.cli.run import LEFT_STATUS
from weft.match import match_operations
from weft.order import order_events
from weft.replay import Cuts, make_plans
from weft.trace import Event, Trace
from weft.trace.layout import Flag

PROGRAMS = int(os.environ.get("WEFT_REPLAY_PROGRAMS", "10"))
HERE = Path(__file__).parent
POINTS = 2 if PROGRAMS > 10 else 1
SPACING = 5
"""Of so many programs one is really run with a call less."""
KEPT = frozenset(MPI_NAMES.values())


@pytest.fixture(scope="module")
def script_program(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """script.c, built."""
    program = tmp_path_factory.mktemp("script") / "script"
    source = HERE / "programs" / "script.c"
    execute([mpich.mpicc, "-g", "-O1", "-o", program, source]).check_returncode()
    return program


def asks_on(event: Event) -> bool:
    """Whether it is a poll without an answer: a rank that stands before a poll has asked, and is not told."""
    return event.function.base == "MPI_Iprobe" and not event.flags & Flag.TRUE


def calls(trace: Trace) -> dict[Call, int]:
    """The event of each call of the script, by its line: failed polls and what the interpreter needs left out."""
    found = {}
    for rank in trace.ranks:
        kept = [e for e in rank if e.function.base in KEPT and not e.polls and not asks_on(e)]
        found |= {(rank.rank, line): event.index for line, event in enumerate(kept)}
    return found


class Recorded:
    """A random script, recorded."""

    def __init__(self, seed: int, command: list[str | Path], folder: Path) -> None:
        self.script: Script = random_script(seed)
        self.folder = folder
        file = folder / "script.txt"
        file.write_text(self.script.text())
        self.run = folder / "run"
        words = [*WEFT, "run", "--out", self.run, "-n", str(self.script.ranks), "--", *command, file]
        done = execute(words, env=environment(), cwd=folder)
        assert done.returncode == 0, done.stderr
        self.printed = done.stdout
        self.trace = weft.open(self.run)
        self.calls = calls(self.trace)
        names = {c: self.trace.event(c[0], index).function.base for c, index in self.calls.items()}
        lines = self.script.lines
        assert names == {(r, i): MPI_NAMES[line.op] for r in range(len(lines)) for i, line in enumerate(lines[r])}

    def points(self, rng: random.Random, count: int) -> list[Call]:
        """Points to stop before."""
        return rng.sample([call for call in self.calls if call[1] > 1], count)

    def until(self, point: Call) -> str:
        return f"{point[0]}:{self.calls[point]}"


@pytest.mark.matrix
@pytest.mark.timeout(60 + 30 * PROGRAMS)
@pytest.mark.parametrize("block", range(0, PROGRAMS, 10))
def test_a_replay_runs_again_the_causal_past_of_its_point_and_nothing_else(
    block: int,
    script_program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rerun = total = 0
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    for seed in range(block, min(block + 10, PROGRAMS)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        python: list[str | Path] = [sys.executable, HERE / "programs" / "script.py"]
        recorded = Recorded(seed, python if seed % 5 == 4 else [script_program], folder)
        before = edges(recorded.script, recorded.printed)
        for k, point in enumerate(recorded.points(random.Random(seed), POINTS)):
            out = folder / f"replay{k}"
            status = main(["replay", str(recorded.run), "--out", str(out), "--until", recorded.until(point)])
            assert status == 0, f"script {seed}, until {point}: {capsys.readouterr().err}"
            again = set(calls(weft.open(out)))
            wanted = past(before, point)
            assert again == wanted, f"script {seed}, until {point}: too much {again - wanted}, missing {wanted - again}"
            rerun, total = rerun + len(again), total + len(recorded.calls)
    with capsys.disabled():
        print(f"\n{rerun} of {total} calls were run again")


@pytest.mark.matrix
@pytest.mark.timeout(60 + 30 * PROGRAMS)
@pytest.mark.parametrize("block", range(0, PROGRAMS, 10))
def test_with_one_call_less_on_any_rank_the_point_is_not_reached(
    block: int, script_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.replay.running.STALL", 1.5)
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    for seed in range(block, min(block + 10, PROGRAMS), SPACING):
        folder = tmp_path / str(seed)
        folder.mkdir()
        recorded = Recorded(seed, [script_program], folder)
        lean = edges(recorded.script, recorded.printed, lean=True)
        rng = random.Random(seed)
        for point in recorded.points(rng, len(recorded.calls) // 2):
            needed = past(lean, point)
            if len({rank for rank, _ in needed}) > 1:
                break
        else:
            pytest.fail(f"script {seed}: no point needs another rank")
        other = rng.choice(sorted({rank for rank, _ in needed} - {point[0]}))
        last = max(call for call in needed if call[0] == other)
        trace = recorded.trace
        matched = match_operations(trace)
        steps = make_plans(trace, matched)
        cuts = Cuts(trace, order_events(trace, matched), steps)
        cut = cuts.least_cut_reaching([(point[0], recorded.calls[point])])
        assert cut.goals[other, 0] > steps[other].threads[0].entries_before(recorded.calls[last])
        short = cut.goals | {(other, 0): steps[other].threads[0].entries_before(recorded.calls[last])}
        found = steps, replace(cut, goals=short)
        monkeypatch.setattr("weft.cli.replay.make_plans", lambda *_, found=found: found)
        status = main(["replay", str(recorded.run), "--out", str(folder / "short"), "--until", recorded.until(point)])
        again = set(calls(weft.open(folder / "short")))
        assert last not in again
        assert status == LEFT_STATUS, f"script {seed}, until {point} without {last}: reached all the same"


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_a_large_message_needs_no_receiver(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    venv = Path(request.getfixturevalue(name).mpicc).parents[1]
    program, weft_command = compile_c(venv, "large.c", tmp_path), str(venv / "bin" / "weft")
    execute([weft_command, "run", "--out", "run", "-n", "3", "--", program], cwd=tmp_path, env=environment())
    done = execute([weft_command, "replay", "run", "--until", "2:MPI_Barrier"], cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    assert "rank 1 before event 2: recv(source=0, tag=1) at large.c" in done.stderr
    latest = [weft_command, "replay", "run", "--until", "1:MPI_Recv#6", "--latest"]
    done = execute(latest, cwd=tmp_path, env=environment())
    assert "rank 1 before event 7: recv(source=0, tag=5) at large.c" in done.stderr
    done = execute([weft_command, "replay", "run"], cwd=tmp_path, env=environment())
    assert (done.returncode, "as recorded" in done.stderr) == (0, True), done.stderr
