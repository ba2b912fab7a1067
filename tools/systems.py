"""Tries Weft in roots of other Debians, and writes what came of it into docs/systems.md.

    python tools/systems.py [SUITE...] [--tests tests/cli,tests/races] [--wheel dist/NAME.whl]

In each: `make demo`, `make test` (or, with --tests, those rooms only, which the page says), and the wheel in an empty
environment. Roots are those of tools/systems.sh. The status is the number of steps that failed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from page_table import PageTable

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "systems.md"
TABLE = PageTable(
    "tools/systems.py",
    "| system | versions | date, commit | `make demo` | tests | wheel |\n|---|---|---|---|---|---|\n",
)
SUITES = ("bookworm", "trixie", "sid")
VERSIONS = """
python3 --version; gcc -dumpfullversion | sed 's/^/gcc /'; gdb --version 2>/dev/null | sed -n '1s/.* /gdb /p'
ldd --version | sed -n '1s/.* /glibc /p'
.venv/bin/python -c 'import numpy, mpi4py; print("NumPy", numpy.__version__); print("mpi4py", mpi4py.__version__)'
"""
WHEEL = """
rm -rf /root/empty && python3 -m venv /root/empty && mkdir /root/empty/work && cd /root/empty/work
/root/empty/bin/python -m pip install --quiet /root/*.whl mpich mpi4py && PATH=/root/empty/bin:$PATH weft demo
"""


def run(suite: str, command: str, log: Path) -> tuple[int, str]:
    """Run a command in the root of a suite: its status, and what it printed, which is kept in a log."""
    with log.open("w") as out:
        words = ["bash", str(ROOT / "tools/systems.sh"), suite, command]
        status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    return status, log.read_text(errors="replace")


def minutes(seconds: float) -> str:
    """A length of time as people say it."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def demo_came_right(said: str) -> bool:
    """Whether a demo found its deadlock, and nothing in the corrected twin."""
    return "[deadlock]" in said and "nothing found" in said


def counts(said: str) -> str:
    """What pytest counted, of its last line."""
    found = re.findall(r"^=* ?((?:\d+ \w+,? ?)+)in [\d.]+s", said, re.MULTILINE)
    return found[-1].strip() if found else "ended before its tests"


def try_suite(suite: str, rooms: str, wheel: Path | None, logs: Path) -> tuple[str, int]:
    """The row of one system, and how many of its steps failed."""
    commit = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], text=True, cwd=ROOT).strip()
    failed = 0
    cells = []
    status, said = run(suite, "make demo", logs / f"{suite}-demo.log")
    right = status == 0 and demo_came_right(said)
    failed += not right
    cells.append("right" if right else f"failed ({status})")
    began = time.monotonic()
    some = f"make debian recorders && .venv/bin/python -m pytest -q -m 'not matrix' {rooms.replace(',', ' ')}"
    status, said = run(suite, some if rooms else "make test", logs / f"{suite}-test.log")
    failed += status != 0
    of = f"{rooms.replace(',', ', ')}: " if rooms else ""
    cells.append(f"{of}{counts(said)} ({minutes(time.monotonic() - began)})")
    cells.append("not tried" if wheel is None else "")
    if wheel is not None:
        folder = Path(
            subprocess.check_output(["bash", str(ROOT / "tools/systems.sh"), "--root", suite], text=True).strip()
        )
        for old in (folder / "root").glob("*.whl"):
            old.unlink()
        shutil.copy(wheel, folder / "root")
        status, said = run(suite, WHEEL, logs / f"{suite}-wheel.log")
        right = status == 0 and demo_came_right(said)
        failed += not right
        cells[-1] = "right" if right else f"failed ({status})"
    _, said = run(suite, VERSIONS, logs / f"{suite}-versions.log")
    versions = ", ".join(said.split("\n")).strip(", ")
    return f"| Debian {suite} | {versions} | {date.today()}, {commit} | {' | '.join(cells)} |\n", failed


def main() -> int:
    """Try each system, and write its row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="SUITE")
    parser.add_argument("--tests", default="", help="rooms instead of all tests")
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    logs = ROOT / "build" / "systems"
    logs.mkdir(parents=True, exist_ok=True)
    failed = 0
    for suite in options.suites:
        row, failures = try_suite(suite, options.tests, options.wheel, logs)
        failed += failures
        PAGE.write_text(TABLE.replace_rows(PAGE.read_text(), [row]))
        print(row, end="", flush=True)
    print(f"{failed} steps failed; what each printed is in {logs.relative_to(ROOT)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
