"""Programs that log their own calls, recorded alone (the recorder preloaded by hand) or under `weft run`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import weft
from survival import log
from tests_support import WEFT, Installed, execute
from weft.mpi import shim

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 60.0
"""Seconds that a job may take to end after it was killed, or to get going."""


@pytest.fixture(scope="session")
def recorder(mpich: Installed) -> shim.BuiltRecorder:
    """The recorder for MPICH."""
    return shim.build_shim(mpich.mpicc)


@pytest.fixture(scope="session")
def mix(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The C program that mixes calls."""
    target = tmp_path_factory.mktemp("survival") / "mix"
    done = execute([mpich.mpicc, "-g", "-O1", "-o", target, PROGRAMS / "mix.c"])
    assert done.returncode == 0, done.stderr
    return [str(target)]


@pytest.fixture(scope="session")
def mix_python() -> list[str]:
    """Its like with mpi4py."""
    return [sys.executable, str(PROGRAMS / "mix.py")]


@dataclass
class Scene:
    """One run of a logging program: where it is recorded, where it logs, and the process that was started."""

    run: Path
    logs: Path
    process: subprocess.Popen[str]
    words: Sequence[str] = field(default=())

    def written(self) -> list[log.Log]:
        """What the processes have logged by now."""
        return log.logs(self.logs)

    def wait_for_calls(self, processes: int, calls: int = 4) -> None:
        """Wait until so many processes have made so many calls each."""
        limit = time.monotonic() + PATIENCE
        while sum(one.begun > calls for one in self.written()) < processes:
            assert time.monotonic() < limit, "the program does not get going"
            assert self.process.poll() is None, f"the program has ended: {self.process.communicate()}"
            time.sleep(0.002)

    def finish(self) -> tuple[int, str]:
        """Wait for the end; returns status and standard error."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def disagreements(self) -> list[str]:
        """What the record has wrong."""
        return log.check(weft.open(self.run), self.logs)

    def close(self) -> None:
        """End what is left of it."""
        for one in self.written():
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


Start = Callable[..., Scene]


def launch(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, before: Callable[[], None] | None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, start_new_session=True, preexec_fn=before,  # noqa: PLW1509
    )  # fmt: skip


@pytest.fixture
def alone(recorder: shim.BuiltRecorder, tmp_path: Path) -> Iterator[Start]:
    """Start a program as a single process with the recorder in it, as `weft run` would."""
    scenes: list[Scene] = []

    def start(
        program: Sequence[str],
        *arguments: str,
        level: str = "trace",
        run: Path | None = None,
        before: Callable[[], None] | None = None,
    ) -> Scene:
        folder = tmp_path / f"scene-{len(scenes)}"
        run = run or folder / "run"
        logs = folder / "logs"
        logs.mkdir(parents=True)
        (run / "ranks").mkdir(parents=True)
        shutil.copyfile(recorder.functions_json_path, run / "functions.json")
        (run / "run.json").write_text(json.dumps({"schema": "weft-run/1", "level": level, "ranks": None}))
        recording = {"LD_PRELOAD": str(recorder.path), "WEFT_INTERNAL_RUN": str(run), "WEFT_INTERNAL_LEVEL": level}
        scenes.append(Scene(run, logs, launch([*program, str(logs), *arguments], recording, folder, before)))
        return scenes[-1]

    yield start
    for scene in scenes:
        scene.close()


@pytest.fixture
def job(recorder: shim.BuiltRecorder, tmp_path: Path) -> Iterator[Start]:
    """Start a program on some ranks under `weft run`."""
    scenes: list[Scene] = []

    def start(
        program: Sequence[str],
        *arguments: str,
        ranks: int = 3,
        level: str = "trace",
        run: Path | None = None,
        before: Callable[[], None] | None = None,
    ) -> Scene:
        folder = tmp_path / f"job-{len(scenes)}"
        logs = folder / "logs"
        logs.mkdir(parents=True)
        run = run or folder / "run"
        words = [
            *WEFT,
            "run",
            "-n",
            str(ranks),
            "--out",
            str(run),
            "--level",
            level,
            "--",
            *program,
            str(logs),
            *arguments,
        ]
        scenes.append(Scene(run, logs, launch(words, {}, folder, before)))
        return scenes[-1]

    yield start
    for scene in scenes:
        scene.close()
