"""Building programs with `weft cc` and running them, for the tests of this room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from tests_support import WEFT, Installed, execute
from weft.base.event_id import EventId
from weft.evidence import Met

OfMet = TypeVar("OfMet", bound=Met)

NOTES = {"late-sender", "late-receiver", "wait-at-collective", "imbalance", "wait-at-epoch"}


def built(mpi: Installed, folder: Path, source: Path, *words: str, compiler: str = "") -> Path:
    """The program of a source, with hooks."""
    program = folder / source.stem
    if not program.exists():
        line = [*WEFT, "cc", compiler or mpi.mpicc, "-g", "-O1", *words, "-o", program, source]
        done = execute(line, env=mpi.environment, timeout=120, cwd=folder)
        assert done.returncode == 0, done.stderr
    return program


def run(
    mpi: Installed, folder: Path, program: Path, mode: str, threads: int = 1, *, ranks: int = 2
) -> list[dict[str, Any]]:
    """The findings of a run of two ranks that are no notes on time."""
    command = [*WEFT, "run", "--out", folder / f"run-{mode}", "--report", folder / f"{mode}.json", "--"]
    environment = {**mpi.environment, "OMP_NUM_THREADS": str(threads)}
    done = execute([*command, *mpi.mpiexec, "-n", str(ranks), program, mode], cwd=folder, env=environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads((folder / f"{mode}.json").read_text())["findings"]
    return [finding for finding in findings if finding["kind"] not in NOTES]


def met(kind: type[OfMet], told: dict[str, Any]) -> OfMet:
    """The evidence of an access, from the report's JSON."""
    return kind(**{key: EventId(*value) if isinstance(value, list) else value for key, value in told.items()})
