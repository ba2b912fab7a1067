"""A run that was damaged, by chance or with intent, is refused or read in part; never worse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = int(os.environ.get("WEFT_FUZZ_CASES", "200"))


@pytest.mark.timeout(60 + CASES)
def test_a_damaged_run_ends_in_a_clear_error_or_a_stated_partial_read() -> None:
    seed = os.environ.get("WEFT_FUZZ_SEED", "0")
    program = Path(__file__).with_name("fuzz.py")
    done = subprocess.run([sys.executable, str(program), str(CASES), seed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "truncate               partial" in done.stdout  # the cases do damage
    assert "packs                  partial" in done.stdout


@pytest.mark.timeout(60 + CASES)
def test_a_damaged_run_is_exported_and_drawn_as_far_as_it_can_be_read() -> None:
    program = Path(__file__).with_name("fuzz.py")
    command = [sys.executable, str(program), str(CASES // 5), "1000", "shown"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "slots                  partial" in done.stdout or "chunks                 partial" in done.stdout
