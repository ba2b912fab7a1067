"""Killed after any instruction whatever: the program runs instruction by instruction, and after each one that changed
its record or its log, both are held against each other as they would be found after a SIGKILL at that point.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import weft
from survival.conftest import PROGRAMS
from survival.log import check, read_log
from tests_support import execute
from weft.mpi import shim

FROM, TO = "86", "91"  # rounds of the mixture in which the events' first chunk (292 events) comes to its end


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that runs another by single steps."""
    target = tmp_path_factory.mktemp("step") / "step"
    done = execute(["cc", "-O2", "-o", target, PROGRAMS / "step.c"])
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.cases(1)
@pytest.mark.needs("ptrace")
@pytest.mark.parametrize("level", ["trace", "outcomes"])
def test_after_every_single_instruction_the_record_holds_all_calls(
    step: Path, mix: list[str], recorder: shim.BuiltRecorder, tmp_path: Path, level: str
) -> None:
    run, logs, kept = tmp_path / "run", tmp_path / "logs", tmp_path / "kept"
    for folder in (run / "ranks", logs, kept):
        folder.mkdir(parents=True)
    recording = {"STEP_PRELOAD": str(recorder.path), "WEFT_INTERNAL_RUN": str(run), "WEFT_INTERNAL_LEVEL": level}
    done = execute([step, run / "ranks", logs, kept, *mix, logs, "1000", "finalize", FROM, TO], env=recording)
    assert int(done.stdout) > 10_000
    shutil.copyfile(recorder.functions_json_path, run / "functions.json")
    (run / "run.json").write_text(json.dumps({"schema": "weft-run/1", "level": level}))
    (record,), (log,) = (run / "ranks").iterdir(), logs.iterdir()
    moments: Counter[tuple[int, int]] = Counter()
    chunks = set()
    for n in range(len(list(kept.glob("*.weft")))):
        shutil.copyfile(kept / f"{n}.weft", record)
        shutil.copyfile(kept / f"{n}.log", log)
        trace = weft.open(run)
        assert check(trace, logs) == [], f"snapshot {n} of {kept}"
        written = read_log(log)
        moments[written.begun - written.ended, trace.event_count - written.begun] += 1
        header = trace.ranks[0].header
        assert header is not None
        chunks.add(header.chunk_count)
    if level == "trace":
        assert len(chunks) > 1, "no chunk was added while it was watched"
        assert len(moments) >= 3  # in a call not yet recorded, in a recorded one, between two
