"""What `weft tasks` costs a program whose tasks nobody traces: instructions by callgrind, one thread; CPU time in turn.

python benchmarks/tasks.py [--runtime FILE] [--quick]
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from weft.tasks import session
from weft.tasks.runtime import settings

PROGRAMS = Path(__file__).parent / "programs" / "tasks"
TOOL_HEADERS = Path(__file__).parents[1] / "src" / "weft" / "native" / "tasks"
CASES = (("fib, no cut-off", "fib", 20, 1000), ("fib, cut-off 9", "fib", 25, 9),
         ("n-queens, cut-off 3", "queens", 9, 3), ("knapsack, cut-off 7", "knapsack", 22, 7))  # fmt: skip
LONGER = {"fib": 9, "queens": 2, "knapsack": 4}
"""How much larger a case is where time is measured: callgrind takes fifty times as long."""
FIB_TASKS = 21890
"""Tasks of fib(20) without a cut-off: every call but the first."""


def build(folder: Path) -> tuple[Path, Path]:
    """The program and the tool with empty callbacks."""
    program, empty = folder / "tasks", folder / "empty.so"
    subprocess.run(["gcc", "-O2", "-fopenmp", PROGRAMS / "tasks.c", "-o", program], check=True)
    command = ["gcc", "-O2", "-fPIC", "-shared", "-I", TOOL_HEADERS, PROGRAMS / "empty_tool.c", "-o", empty]
    subprocess.run(command, check=True)
    return program, empty


def instructions(command: list[str], environment: dict[str, str]) -> int:
    """Instructions of a run."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, timeout=500, check=True)
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    assert found
    return int(found[1])


def cpu(command: list[str], environment: dict[str, str]) -> float:
    """CPU seconds of a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def openmp(runtime: str, folder: Path, quick: bool) -> None:
    """The table of OpenMP."""
    program, empty = build(folder)
    ours = settings(runtime) | {"OMP_NUM_THREADS": "1"}
    bare = {key: value for key, value in ours.items() if not key.startswith("OMP_TOOL")}
    print(f"{'':24}{'plain':>14}{'empty callbacks':>18}{'the table':>14}{'over plain':>12}")
    for name, which, size, cutoff in CASES[: 2 if quick else None]:
        command = [str(program), which, str(size), str(cutoff)]
        counts = [instructions(command, e) for e in (bare, bare | {"OMP_TOOL_LIBRARIES": str(empty)}, ours)]
        print(f"{name:24}{counts[0]:14,}{counts[1]:18,}{counts[2]:14,}{100 * (counts[2] / counts[0] - 1):11.2f}%")
        if cutoff == 1000:
            print(f"{'':24}a task: {(counts[2] - counts[1]) / FIB_TASKS:.0f} instructions above empty callbacks")
    for threads in (1, 2):
        for name, which, size, cutoff in CASES[1:]:
            command = [str(program), which, str(size + LONGER[which]), str(cutoff)]
            several = {"OMP_NUM_THREADS": str(threads)}
            runs = [lambda c=command, e=e | several: cpu(c, e) for e in (bare, ours)]
            plain, table = in_turn(runs, 3 if quick else 9)
            share = 100 * (table / plain - 1)
            print(f"{name}, {threads} threads: {plain:.3f} s of CPU, with the table {table:.3f} s ({share:+.1f} %)")


def in_turn(runs: list[Callable[[], float]], times: int) -> list[float]:
    """The least of each, run in turn, so that a slow spell of the machine hits all."""
    found = [[run() for run in runs] for _ in range(times)]
    return [min(column) for column in zip(*found, strict=True)]


def watched(rounds: str) -> float:
    """CPU seconds of the asyncio program under `weft tasks`, by its own account."""
    with session([str(PROGRAMS / "tasks.py"), rounds]) as s:
        pid = s.backend.program.pid  # type: ignore[attr-defined]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert s.do("continue")["why"] == "ended", pid
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def asyncio_(quick: bool) -> None:
    """The lines of asyncio: the cost of a round, from two sizes of the program, so that its start does not count."""
    program = str(PROGRAMS / "tasks.py")
    few, many = "20", "220"
    found = in_turn([lambda: cpu([sys.executable, program, few], {}), lambda: cpu([sys.executable, program, many], {}),
                     lambda: watched(few), lambda: watched(many)], 3 if quick else 9)  # fmt: skip
    plain, under = found[1] - found[0], found[3] - found[2]
    share = 100 * (under / plain - 1)
    print(f"asyncio, untraced tasks: {plain:.3f} s of CPU, under weft tasks {under:.3f} s ({share:+.1f} %)")


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    asyncio_(options.quick)
    if shutil.which("valgrind") and shutil.which("gcc"):
        with tempfile.TemporaryDirectory() as folder:
            openmp(options.runtime, Path(folder), options.quick)


if __name__ == "__main__":
    main()
