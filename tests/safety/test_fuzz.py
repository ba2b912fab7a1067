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
    done = fuzz("80", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    found = kinds(done.stdout)
    assert found.keys() == {
        "records", "packs", "json", "others", "cores", "configurations", "directives", "host packs", "editors", "hosts",
        "browsers", "pvm", "schedules", "watchers",
    }  # fmt: skip
    assert all("refused" in found[kind] for kind in ("cores", "configurations", "directives")), "the cases do damage"
    assert {"0", "1"} <= found["records"], "and do not damage everything"


FAULTS = {
    "raises an error": ("{}['x']", "Traceback (most recent call last)"),
    "hangs": ("time.sleep(60)", "more than 6 s"),
    "takes all memory": ("bytearray(4 << 30)", "Traceback (most recent call last)"),
    "grows beyond its budget": ("len(bytes(1) * (100 << 20))", "MB more"),
    "crashes": ("ctypes.string_at(0)", "ended by SIGSEGV"),
    "ends": ("os._exit(3)", "status 3"),
    "warns": ("warnings.warn('x')", "Warning:"),
}
PROGRAM = f"""
import ctypes, os, sys, time, warnings
sys.path.insert(0, {str(FUZZ.parent)!r})
import fuzz
from pathlib import Path
faults = {{name: eval("lambda: " + does) for name, (does, _) in {FAULTS!r}.items()}} | {{"ends well": lambda: "read"}}
fuzz.KINDS = [(name, lambda *_, act=act: act) for name, act in faults.items()]
fuzz.SECONDS, fuzz.KEPT, fuzz.warm, fuzz.runs.make = 6, Path(sys.argv[1]), lambda: None, fuzz.Seeds
os.getloadavg, fuzz.MEMORY = lambda: (0, 0, 0), 64 << 20
sys.argv = ["fuzz.py", str(len(faults)), "--jobs", "8"]
sys.exit(fuzz.main())
"""


@pytest.mark.timeout(100)
def test_each_case_that_is_worse_is_told_with_what_does_it_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1, done.stderr
    told = dict(re.findall(r"^case \d+ \(([\w ]+)\): (.*)$", done.stdout, re.MULTILINE))
    assert told.keys() == FAULTS.keys()
    for number, (name, (_, why)) in enumerate(FAULTS.items()):
        assert told[name].endswith(why)
        assert f"again: python tests/safety/fuzz.py --case {number}\n" in done.stdout
        assert (tmp_path / f"case-{number}" / "input").is_dir()
    assert "8 cases from seed 0 in " in done.stdout and ", 7 failed" in done.stdout
