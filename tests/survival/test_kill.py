"""Killed with SIGKILL at random moments: every run opens, and its last call is the last that the program logged.

About 40 kills in every test run; WEFT_SURVIVAL=1000 makes a thousand of them.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
from survival.conftest import Scene, Start
from survival.log import logs, recorded_calls
from weft.trace.layout import HEADER

KILLS = int(os.environ.get("WEFT_SURVIVAL", "40"))
SEED = int(os.environ.get("WEFT_SURVIVAL_SEED", str(time.time_ns() % 1_000_000)))

slow_when_many = pytest.mark.timeout(max(120, 4 * KILLS))


@pytest.fixture(scope="module")
def moments() -> Iterator[Counter[str]]:
    """Where the kills fell; printed at the end where many were asked for."""
    counted: Counter[str] = Counter()
    yield counted
    if KILLS > 40:
        print(f"\nkills by moment: {dict(counted)}", file=sys.__stderr__)


def where(scene: Scene) -> Iterator[str]:
    """Between which two of a call's moments (survival.log) each process died."""
    trace = weft.open(scene.run)
    recorded = {rank.header.pid: rank for rank in trace.ranks if rank.header is not None}
    for log in logs(scene.logs):
        calls = recorded_calls(recorded[log.pid], log.python) if log.pid in recorded else None
        if calls is None or not log.begun:
            yield "before the first call"
        elif log.begun == log.ended:
            yield "between two calls"
        elif len(calls.call) < log.begun:
            yield "in a call, not yet recorded"
        else:
            yield "in a call, recorded open" if not calls.closed.all() else "in a call, recorded closed"


def kill_at_random(scene: Scene, chance: random.Random, going: float = 0.75) -> None:
    """SIGKILL to a process that is alone: mostly among its calls, else anywhere from its start on."""
    if chance.random() < going:
        scene.wait_for_calls(1)
        time.sleep(chance.uniform(0, 0.02))
    else:
        time.sleep(chance.uniform(0, 0.2))
    scene.process.kill()
    scene.finish()


@slow_when_many
def test_a_c_program_killed_at_any_moment_leaves_all_its_calls(
    alone: Start, mix: list[str], moments: Counter[str]
) -> None:
    chance = random.Random(SEED)
    for k in range(KILLS * 6 // 10):
        scene = alone(mix)
        kill_at_random(scene, chance)
        assert scene.disagreements() == [], f"kill {k} of seed {SEED}"
        moments.update(where(scene))
        forget(scene)


@slow_when_many
def test_a_python_program_killed_at_any_moment_leaves_all_its_calls(
    alone: Start, mix_python: list[str], moments: Counter[str]
) -> None:
    chance = random.Random(SEED + 1)
    for k in range(KILLS // 10):
        scene = alone(mix_python)
        kill_at_random(scene, chance)
        assert scene.disagreements() == [], f"kill {k} of seed {SEED}"
        moments.update(where(scene))
        forget(scene)


@slow_when_many
def test_level_order_keeps_every_wildcard_source_up_to_the_kill(alone: Start, mix: list[str]) -> None:
    chance = random.Random(SEED + 2)
    for k in range(KILLS // 10):
        scene = alone(mix, level="outcomes")
        kill_at_random(scene, chance)
        assert scene.disagreements() == [], f"kill {k} of seed {SEED}"
        forget(scene)


def launcher_of(scene: Scene) -> int:
    """The mpiexec that `weft run` started: its only child that runs a launcher."""
    for child in Path(f"/proc/{scene.process.pid}/task").glob("*/children"):
        for pid in child.read_text().split():
            if b"mpiexec" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
    raise AssertionError("no mpiexec under weft run")


def kill_one_rank(scene: Scene, chance: random.Random) -> None:
    os.kill(chance.choice(scene.written()).pid, signal.SIGKILL)


def kill_all_ranks(scene: Scene, chance: random.Random) -> None:
    for log in scene.written():
        with contextlib.suppress(ProcessLookupError):  # the launcher kills the others when one is gone
            os.kill(log.pid, signal.SIGKILL)


def kill_launcher(scene: Scene, chance: random.Random) -> None:
    os.kill(launcher_of(scene), signal.SIGKILL)


@pytest.mark.cases(2)
@slow_when_many
@pytest.mark.parametrize("kill", [kill_one_rank, kill_all_ranks, kill_launcher])
@pytest.mark.parametrize("level", ["trace", "outcomes"])
def test_a_job_killed_at_any_moment_leaves_all_calls_of_every_rank(
    job: Start, mix: list[str], kill: Callable[[Scene, random.Random], None], level: str, moments: Counter[str]
) -> None:
    chance = random.Random(SEED + 3)
    for k in range(max(1, KILLS // 29)):
        scene = job(mix, level=level)
        scene.wait_for_calls(3)
        time.sleep(chance.uniform(0, 0.1))
        kill(scene, chance)
        status, errors = scene.finish()
        assert status != 0
        assert "Traceback" not in errors
        assert scene.disagreements() == [], f"kill {k} of seed {SEED}"
        if level == "trace":
            moments.update(where(scene))
        forget(scene)


def forget(scene: Scene) -> None:
    """A thousand logs would take some room."""
    for path in scene.logs.iterdir():
        path.unlink()


def last_call_lost(record: Path) -> None:
    """Damage a record as a recorder that writes too late would: the newest event does not count."""
    header = np.memmap(record, HEADER, "r+", shape=(1,))[0]
    events = [c for c in header["chunks"][: header["chunk_count"]] if c["kind"] == 1]
    assert events[-1]["used"] > 2 * 56
    events[-1]["used"] -= 2 * 56


def test_the_comparison_notices_a_lost_call_and_a_wrong_one(alone: Start, mix: list[str]) -> None:
    scene = alone(mix, "50")
    assert scene.finish()[0] == 0
    assert scene.disagreements() == []
    log = next(scene.logs.iterdir())
    whole = log.read_bytes()
    log.write_bytes(whole[:32] + b"\x11" + whole[33:])  # another function for the first call
    assert "call 0 of" in scene.disagreements()[0]
    log.write_bytes(whole)
    last_call_lost(next((scene.run / "ranks").iterdir()))
    assert "does not hold" in scene.disagreements()[0]
