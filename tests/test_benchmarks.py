"""The benchmarks can be started: what they measure takes minutes, and is no test."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests_support import Installed

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
COMMANDS = sorted(path for path in BENCHMARKS.glob("*.py") if "argparse" in path.read_text())


@pytest.mark.cases(2)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda path: path.stem)
def test_a_benchmark_says_how_it_is_used(command: Path) -> None:
    done = subprocess.run([sys.executable, command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", sorted((BENCHMARKS / "programs").glob("*.c")), ids=lambda path: path.stem)
def test_a_program_of_the_recorders_benchmark_compiles(source: Path, mpich: Installed, tmp_path: Path) -> None:
    command = runpy.run_path(str(BENCHMARKS / "capture.py"))["compiled"](mpich.mpicc, source, tmp_path / source.stem)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
