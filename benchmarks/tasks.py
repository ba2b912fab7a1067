"""What `weft tasks` costs a program whose tasks nobody traces: instructions by callgrind, one thread; CPU time in turn.

python benchmarks/tasks.py [--runtime FILE] [--python FILE]... [--quick] [--only cost|calls|many] [--count N]

What a task costs is taken from two sizes of fib without a cut-off, so that the start of the tool is not in it. The
programs with a cut-off have a sane grain: some ten thousand instructions a task; the table shows it.

`many`: how long `tasks` takes with 100,000 live ones, on the wall, program and debugger together.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from weft import inprocess as inside
from weft.mpi.shim import build_shim
from weft.tasks import Session, session
from weft.tasks.runtime import find_birth_library, recording_environment, tool_environment

PROGRAMS = Path(__file__).parent / "programs" / "tasks"
TOOL_HEADERS = Path(__file__).parents[1] / "src" / "weft" / "tasks" / "native"
CASES = (("fib, cut-off 9", "fib", 30, 9), ("n-queens, cut-off 3", "queens", 10, 3),
         ("knapsack, cut-off 7", "knapsack", 25, 7))  # fmt: skip
TIMED = (("fib(41), cut-off 9", "fib", 41, 9), ("fib(32), no cut-off", "fib", 32, 1000),
         ("n-queens(13), cut-off 3", "queens", 13, 3), ("knapsack(32), cut-off 7", "knapsack", 32, 7))  # fmt: skip
"""The cases where time is measured, about a second each: callgrind takes fifty times as long."""
THREADS = (1, 2, 4, 8)
STEPS = 6
"""Steps of a task of programs/tasks/tasks.py: its begin, and one after each of five suspensions."""
TASKS = {20: 21890, 5: 14}
"""Tasks of fib without a cut-off: every call but the first."""


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


def tasks_of(command: list[str]) -> int:
    """How many tasks a program makes, by its own count."""
    done = subprocess.run([*command, "count"], capture_output=True, text=True, check=True, timeout=100)
    return int(done.stdout.split()[-1])


def cpu(command: list[str], environment: dict[str, str]) -> float:
    """CPU seconds of a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def openmp(runtime: str, folder: Path, quick: bool) -> None:
    """The table of OpenMP."""
    program, empty = build(folder)
    ours = tool_environment(runtime) | {"OMP_NUM_THREADS": "1"}
    bare = {key: value for key, value in ours.items() if not key.startswith("OMP_TOOL")}
    every = (bare, bare | {"OMP_TOOL_LIBRARIES": str(empty)}, ours)
    many, few = ([instructions([str(program), "fib", str(size), "1000"], e) for e in every] for size in TASKS)
    plain, callbacks, table = ((m - f) / (TASKS[20] - TASKS[5]) for m, f in zip(many, few, strict=True))
    print(
        f"fib(20), no cut-off, instructions a task: plain {plain:.0f}, with empty callbacks {callbacks - plain:+.0f},"
    )
    print(f"with the table {table - callbacks:+.1f} above those; the start of the tool: {few[2] - few[0]:,}")
    print(f"{'':24}{'plain':>14}{'tasks':>8}{'a task':>10}{'with the table':>16}{'over plain':>12}")
    for name, which, size, cutoff in CASES[: 1 if quick else None]:
        command = [str(program), which, str(size), str(cutoff)]
        counts = [instructions(command, e) for e in (bare, ours)]
        tasks = tasks_of(command)
        share = 100 * (counts[1] / counts[0] - 1)
        print(f"{name:24}{counts[0]:14,}{tasks:8,}{counts[0] // tasks:10,}{counts[1]:16,}{share:11.2f}%")
    for threads in THREADS:
        for name, which, size, cutoff in TIMED:
            command = [str(program), which, str(size), str(cutoff)]
            several = {"OMP_NUM_THREADS": str(threads)}
            runs = [lambda c=command, e=e | several: cpu(c, e) for e in (bare, ours)]
            rows = turns(runs, 3 if quick else 11)
            plain, table = map(min, zip(*rows, strict=True))
            least, median = table / plain - 1, statistics.median(b / a for a, b in rows) - 1
            print(f"{name}, {threads} threads: {plain:.3f} s of CPU, with the table {table:.3f} s, "
                  f"{100 * least:+.1f} %; median of pairs {100 * median:+.1f} %", flush=True)  # fmt: skip


def calls(folder: Path) -> None:
    """What `weft run --tasks` adds in a recorded rank: to a task of OpenMP (two switches), to a step of asyncio."""
    mpicc = str(Path(sys.executable).parent / "mpicc")
    program = folder / "calls"
    subprocess.run([mpicc, "-O2", "-fopenmp", PROGRAMS / "calls.c", "-o", program], check=True)
    shim = str(build_shim(mpicc).path)
    recorder = {"LD_PRELOAD": shim, "WEFT_INTERNAL_LEVEL": "trace", "OMP_NUM_THREADS": "1"} | SAME

    def counted(command: list[str], more: dict[str, str]) -> int:
        with tempfile.TemporaryDirectory(dir=folder) as run:
            for name in ("ranks", "tasks"):
                Path(run, name).mkdir()
            environment = recorder | {"WEFT_INTERNAL_RUN": run} | more
            tasks = {"WEFT_INTERNAL_TASKS": run} if "WEFT_INTERNAL_TASKS" in more else {}
            return instructions(command, environment | tasks)

    started = recording_environment([[sys.executable]], folder)
    python = [sys.executable, str(PROGRAMS / "recorded.py")]
    for unit, command, (many, few), number, bare, ours in (
        (
            "task of OpenMP",
            [str(program)],
            (20, 5),
            TASKS[20] - TASKS[5],
            tool_environment(""),
            tool_environment("") | {"WEFT_INTERNAL_TASKS": ""},
        ),
        ("step of asyncio", python, (25, 5), 20 * 200 * STEPS, {}, started),
    ):
        for what, rest in (("no call of MPI", []), ("one call of MPI", ["calls"])):
            without, with_ = (
                (counted([*command, str(many), *rest], more) - counted([*command, str(few), *rest], more)) / number
                for more in (bare, ours)
            )
            print(f"a {unit} with {what}: {without:.0f} instructions, {with_ - without:+.1f} with --tasks", flush=True)


def turns(runs: list[Callable[[], float]], times: int) -> list[list[float]]:
    """All of them in turn, again and again, so that a slow spell of the machine hits all."""
    return [[run() for run in runs] for _ in range(times)]


def in_turn(runs: list[Callable[[], float]], times: int) -> list[float]:
    """The least of each."""
    return [min(column) for column in zip(*turns(runs, times), strict=True)]


def watched(python: str, rounds: str) -> float:
    """CPU seconds of the asyncio program under `weft tasks`, by its own account."""
    with session([python, str(PROGRAMS / "tasks.py"), rounds]) as s:
        pid = s.backend.program.pid  # type: ignore[attr-defined]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert s.do("continue")["why"] == "ended", pid
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def asyncio_(python: str, quick: bool) -> None:
    """The lines of asyncio: the cost of a round, from two sizes of the program, so that its start does not count."""
    program = str(PROGRAMS / "tasks.py")
    few, many = "20", "220"
    found = in_turn([lambda: cpu([python, program, few], {}), lambda: cpu([python, program, many], {}),
                     lambda: watched(python, few), lambda: watched(python, many)], 3 if quick else 9)  # fmt: skip
    plain, under = found[1] - found[0], found[3] - found[2]
    share = 100 * (under / plain - 1)
    print(f"asyncio on {python}, untraced tasks: {plain:.3f} s of CPU, under weft tasks {under:.3f} s ({share:+.1f} %)")
    if library := find_birth_library():
        source = Path(inside.__file__).parent / "births.py"
        command = [python, str(PROGRAMS / "born.py"), str(source)]
        plain, noted = (
            instructions([*command, part, program, "25"], SAME) - instructions([*command, part, program, "5"], SAME)
            for part in ("-", library)
        )
        print(f"{'':8}instructions of 4,000 tasks: {plain:,}, with their births noted {noted:,} "
              f"({100 * (noted / plain - 1):+.2f} %)")  # fmt: skip


SAME = {"PYTHONHASHSEED": "0"}
"""So that two runs of Python have the same instructions."""

SUSPENDED = ("future", "task", "event", "sleep", "lock", "timeout", "new")
"""What the tasks of programs/tasks/many.py wait for."""


def table_of(s: Session, times: int) -> list[float]:
    """Seconds for the table itself; for `tasks` as people see it; for all of it as JSON: the median of each."""
    found = []
    for _ in range(times):
        at = [time.perf_counter()]
        s.backend.tasks()
        at.append(time.perf_counter())
        s.console.json = False
        s.console.render_answer(s.do("tasks"))
        at.append(time.perf_counter())
        s.console.json = True
        json.dumps(s.do("tasks"))
        at.append(time.perf_counter())
        found.append([after - before for before, after in pairwise(at)])
    return [statistics.median(column) for column in zip(*found, strict=True)]


def many(pythons: list[str], runtime: str, count: int, quick: bool) -> None:
    """The lines of many tasks."""
    times = 1 if quick else 5
    print(f"{count:,} tasks, seconds: the table for the first time; the table; `tasks` for people; for --format json")

    def told(name: str, s: Session) -> None:
        s.do("break reached")
        assert s.do("continue")["why"] == "breakpoint"
        begun = time.perf_counter()
        s.backend.tasks()
        first = time.perf_counter() - begun
        print(f"{name:28}{first:8.2f}" + "".join(f"{seconds:8.2f}" for seconds in table_of(s, times)), flush=True)

    for python in pythons:
        for kind in SUSPENDED:
            with session([python, str(PROGRAMS / "many.py"), kind, str(count)]) as s:
                told(f"{Path(python).name} {kind}", s)
    if shutil.which("gcc"):
        os.environ["KMP_ENABLE_TASK_THROTTLING"] = "0"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(__file__).parents[1] / "tests" / "tasks" / "programs" / "many.c"
            program = Path(folder, "many")
            subprocess.run(["gcc", "-g", "-fopenmp", source, "-o", program], check=True)
            with session([str(program), str(count)], runtime=runtime) as s:
                told("OpenMP, not begun", s)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="")
    parser.add_argument("--python", action="append")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("cost", "calls", "many"))
    parser.add_argument("--count", type=int, default=100_000)
    options = parser.parse_args()
    if options.only in (None, "calls") and shutil.which("valgrind"):
        with tempfile.TemporaryDirectory() as folder:
            calls(Path(folder))
    if options.only in (None, "many"):
        many(options.python or [sys.executable], options.runtime, options.count, options.quick)
    if options.only not in (None, "cost"):
        return
    for python in options.python or [sys.executable]:
        asyncio_(python, options.quick)
    if shutil.which("valgrind") and shutil.which("gcc"):
        with tempfile.TemporaryDirectory() as folder:
            openmp(options.runtime, Path(folder), options.quick)


if __name__ == "__main__":
    main()
