"""The kernels keep to their memory, whatever they are given to read (AddressSanitizer, UBSan: tools/sanitize.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = os.environ.get("WEFT_SANITIZE_CASES", "20")
OVERRUN = """
import numpy as np
from weft.native.headers.scan import kernel
every = np.ones(65536, np.uint8)
kernel().weft_find_function_rows(np.zeros(1000, np.uint16), 1000, every, np.zeros(10, np.int64))
print("not noticed")
"""

pytestmark = pytest.mark.needs("cc")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which Python finds kernels that are watched."""
    spec = spec_from_file_location("sanitize", ROOT / "tools" / "sanitize.py")
    assert spec is not None and spec.loader is not None
    sanitize = module_from_spec(spec)
    spec.loader.exec_module(sanitize)
    made: dict[str, str] = sanitize.copy(tmp_path_factory.mktemp("sanitized"))
    return made


def python(watched: dict[str, str], *command: str | Path) -> subprocess.CompletedProcess[str]:
    """A Python program with these kernels."""
    return subprocess.run(
        [sys.executable, *command], env=watched, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_the_analyses_of_damaged_runs_keep_to_their_memory(watched: dict[str, str]) -> None:
    fuzz = ROOT / "tests" / "safety" / "fuzz.py"
    done = python(watched, fuzz, CASES, "--only", "records,packs", "--watched", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "partial" in done.stdout


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_kernel_that_writes_behind_an_array_is_noticed(watched: dict[str, str]) -> None:
    done = python(watched, "-c", OVERRUN)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr and "scan.c" in done.stderr
    assert "not noticed" not in done.stdout


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_what_probes_call_keeps_to_its_memory(watched: dict[str, str], tmp_path: Path) -> None:
    done = python(watched, Path(__file__).with_name("probed.py"), tmp_path, "30", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runtime error" not in done.stderr and len(done.stdout.splitlines()) == 8, done.stdout
