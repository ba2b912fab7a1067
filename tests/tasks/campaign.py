"""One task traced from its first line to its last and on to the join, again and again, on every runtime that is here.

python tests/tasks/campaign.py [--runs 200] [--only untied|gcc|gfortran|asyncio]... [--runtime FILE]...
    [--python FILE]...

Right is a run where each source line of the task came exactly once per execution, in order, no line of another task
came between, the join came next, and the program wrote what it should. Prints each run that was not, and what it saw.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests_support import clang
from weft.errors import WeftError
from weft.tasks import Session, session
from weft.tasks.runtime import find_runtimes

PROGRAMS = Path(__file__).parent / "programs"
UNTIED = [18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30]
TIED = {"gcc": [18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29], "gfortran": [9, 10]}
TRACED = [33, 34, 35, 34, 36, 37, 36, 37, 36, 38, 39, 40, 39, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 49, 51, 52, 53,
          54]  # fmt: skip
"""What Python executes of `traced` after its first line; `async with` and `async for` come back to their line."""
SOURCES = {"untied": "migrate.c", "gcc": "migrate.c", "gfortran": "tied.f90"}
PLACES = {"untied": "migrate.c:18", "gcc": "migrate.c:18", "gfortran": "tied.f90:9"}
Run = tuple[bool, int, Any]
"""Whether a run was right, on how many threads its task was seen, and what was seen."""


def run_to(s: Session, place: str) -> dict[str, Any]:
    """Run to a place that is then none any more."""
    s.do(f"break {place}")
    stop = s.do("continue")
    s.do("delete")
    return stop


def traced(s: Session, place: str) -> tuple[list[int], dict[str, Any], set[int]]:
    """The lines of one task from a place to its end, the stop after that, and the threads it ran on."""
    stop = run_to(s, place)
    task, lines, workers = stop["task"], [], set()
    while stop["task"] == task and stop["why"] in ("breakpoint", "line"):
        lines.append(stop["at"]["line"])
        workers.add(stop["worker"])
        stop = s.do("next")
    return lines, stop, workers


def openmp(program: Path, which: str, runtime: str) -> Run:
    """One run of a native program."""
    with session([str(program)], runtime=runtime) as s:
        lines, stop, workers = traced(s, PLACES[which])
        if stop["why"] == "interrupted":
            raise KeyboardInterrupt
        ended = stop if stop["why"] == "ended" else s.do("continue")
        written = s.output()
    right = lines == TIED.get(which, UNTIED) and stop["why"] == "joined" and ended["why"] == "ended"
    right = right and ("r=17" in written or "16" in written)
    return right, len(workers), (lines, stop["why"], ended["why"], written)


def asyncio_(python: str) -> Run:
    """One run of the asyncio program, whose task is suspended in every way there is."""
    with session([python, str(PROGRAMS / "twisted.py")]) as s:
        s.do("break traced")
        task = s.do("continue")["task"]
        lines, stop = [], s.do("next")
        while stop["task"] == task:
            lines.append(stop["at"]["line"])
            stop = s.do("next")
        joined = stop["why"], stop["at"]["line"] if stop["at"] else 0
        ended = s.do("continue")["why"]
        written = s.output()
    right = lines == TRACED and joined == ("joined", 61) and ended == "ended" and written == "value 2221\n"
    return right, 1, (lines, joined, ended, written)


def campaign(name: str, runs: int, once: Callable[[], Run]) -> int:
    """Many runs, told in one line; how many were not right."""
    begun = time.monotonic()
    right = moved = 0
    done = 0  # Ctrl-C goes on to the next campaign
    for number in range(runs):
        try:
            good, threads, seen = once()
        except KeyboardInterrupt:
            break
        except (WeftError, AssertionError) as error:
            good, threads, seen = False, 0, f"{type(error).__name__}: {error}"
        done += 1
        right += good
        moved += threads > 1
        if not good:
            print(f"{name}, run {number}: {seen}", flush=True)
    took = time.monotonic() - begun
    print(f"{name}: {right} of {done} right, {moved} with a change of thread, {took:.0f} s", flush=True)
    return done - right


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", action="append", choices=("untied", "gcc", "gfortran", "asyncio"))
    parser.add_argument("--runtime", action="append")
    parser.add_argument("--python", action="append")
    options = parser.parse_args()
    wrong = 0
    which = options.only or ["untied", "gcc", "gfortran", "asyncio"]
    with tempfile.TemporaryDirectory() as folder:
        for kind in [kind for kind in which if kind != "asyncio"]:
            program = Path(folder, kind)
            compiler = clang() if kind == "untied" else kind
            command = [compiler, "-g", "-O0", "-fopenmp", str(PROGRAMS / SOURCES[kind]), "-o", str(program)]
            subprocess.run(command, check=True, cwd=folder, timeout=60)
            for runtime in options.runtime or [str(next(find_runtimes()))]:
                name = f"{kind} on {Path(runtime).resolve()}"
                wrong += campaign(name, options.runs, lambda p=program, k=kind, r=runtime: openmp(p, k, r))  # type: ignore[misc]
    for python in (options.python or [sys.executable]) if "asyncio" in which else ():
        wrong += campaign(f"asyncio on {python}", options.runs, lambda p=python: asyncio_(p))  # type: ignore[misc]
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
