"""What was damaged, by chance or intent, is refused or read in part; never worse. `make fuzz` does 10,000 cases."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz.py")


def fuzz(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run cases as `make fuzz` does."""
    command = [sys.executable, str(FUZZ), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)


def kinds(said: str) -> dict[str, set[str]]:
    """What came of the cases of each kind."""
    found: dict[str, set[str]] = {}
    for kind, outcome in re.findall(r"^(\w[\w ]*?) {2,}(\w[\w ]*?) +\d+$", said, re.MULTILINE):
        found.setdefault(kind, set()).add(outcome)
    return found


@pytest.mark.timeout(260)
def test_what_is_damaged_ends_in_a_clear_error_or_a_stated_partial_read() -> None:
    done = fuzz("160", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = kinds(done.stdout)
    assert found.keys() == {
        "records", "packs", "json", "others", "cores", "configurations", "directives", "host packs", "editors", "hosts",
        "browsers",
    }  # fmt: skip
    assert all("refused" in found[kind] for kind in ("cores", "configurations", "directives")), "the cases do damage"
    assert {"0", "1"} <= found["records"], "and do not damage everything"


FAULTS: dict[str, tuple[str, str]] = {
    "raises an error": ("{}['x']", "Traceback (most recent call last)"),
    "hangs": ("time.sleep(60)", "more than 0.5 s"),
    "takes all memory": ("bytearray(4 << 30)", "Traceback (most recent call last)"),
    "grows beyond its budget": ("len(bytes(1) * ((1 << 30) + (64 << 20)))", "MB more"),
    "crashes": ("ctypes.string_at(0)", "ended by SIGSEGV"),
    "ends": ("os._exit(3)", "status 3"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.timeout(100)
def test_a_case_that_is_worse_is_told_with_what_does_it_again(fault: str, tmp_path: Path) -> None:
    does, told = FAULTS[fault]
    program = f"""
import ctypes, os, sys, time
sys.path.insert(0, {str(FUZZ.parent)!r})
import fuzz
fuzz.KINDS, fuzz.SECONDS = [("faulty", lambda *_: lambda: {does})], {0.5 if fault == "hangs" else 10}
fuzz.KEPT = fuzz.Path({str(tmp_path)!r})
fuzz.runs.make = fuzz.Seeds
sys.argv = ["fuzz.py", "--case", "7"]
sys.exit(fuzz.main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1, done.stderr
    first = next(line for line in done.stdout.splitlines() if line.startswith("case 7 (faulty): "))
    assert first.endswith(told)
    assert "again: python tests/safety/fuzz.py --case 7" in done.stdout
    assert (tmp_path / "case-7" / "input").is_dir()
