"""Programs of Cilk-5 by script: `next` over stolen continuations, the examples of Cilk-5, and what it costs them.

python tests/tasks/cilk5.py stolen [TIMES]     `next` over spawns and syncs whose rest another worker has stolen
python tests/tasks/cilk5.py examples           Cilk-5's own programs with 1 and 2 workers
python tests/tasks/cilk5.py costs              time and instructions beside the same program without Weft

CILK_ROOT names the Cilk-5 that `make cilk5` has built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from weft.tasks import session
from weft.tasks.cilk5.build import build

PROGRAMS = Path(__file__).parent / "programs"
COUNTED = PROGRAMS / "cilk5/counted.c"
ROUNDS = 25
"""Of one run of the program; another run has other workers."""
LINES = ((18, "twice"), (19, "twice"), (20, "x + y"))
"""Where each `next` from the first spawn is to come, and what is asked for there."""


def stolen(times: int) -> int:
    """Follow a task over two spawns and a sync, again and again. How many of those were not stolen, or wrong."""
    steals = right = wrong = kept = 0
    while steals < times:
        with session([str(PROGRAMS / "stolen.cilk"), "--nproc", "2", str(ROUNDS)]) as opened:
            do = opened.do
            do("break 17")
            for turn in range(min(ROUNDS, times - steals)):
                first = do("continue")
                n = 20 + turn % 10
                values = {"twice": 2 * n, "x + y": 3 * n + 2}
                worker, told, task = first["worker"], [], first["task"]
                for line, text in LINES:
                    at = do("next")
                    value = do(f"print {text}")["value"].split(" ")[0]
                    good = (at["why"], at["task"], at["at"]["line"], value) == ("line", task, line, str(values[text]))
                    told.append((good, at["worker"] != worker, at, value))
                    worker = at["worker"]
                stole = told[0][1]
                steals, kept = steals + stole, kept + (not stole)
                if all(good for good, *_ in told):
                    right += stole
                else:
                    wrong += 1
                    print("wrong:", told)
    print(f"stolen continuations: {steals}, of which all lines and values were right: {right}; not stolen: {kept}")
    return wrong + (right != steals) + (steals == 0)


EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "bucket": (["-n", "20000"], []), "cholesky": (["-n", "100", "-z", "300"], ["rand.cilk"]),
    "cilksort": (["-n", "50000", "-c"], []), "ck": (["-b", "3", "-w", "3"], ["rand.cilk"]),
    "fft": (["-n", "4096", "-c"], []),
    "fib": (["18"], []), "game": ([], ["rand.cilk"]), "heat": (["-g", "1", "-nx", "64", "-ny", "64", "-nt", "10"], []),
    "hello": ([], []), "knapsack": (["-f", "knapsack-example1.input"], []), "lu": (["-n", "128", "-c"], []),
    "matmul": (["64"], ["rand.cilk"]), "nfib": (["15"], []), "plu": (["-n", "128", "-c"], []),
    "queens": (["8"], []), "rectmul": (["-x", "64", "-y", "64", "-z", "64", "-c"], []),
    "spacemul": (["-n", "64", "-c"], []), "strassen": (["-n", "128", "-c"], []), "test-errno": ([], []),
    "test-locks": ([], []), "test-void-func": ([], []), "velin": ([], []),
}  # fmt: skip
"""Arguments, and what else is compiled. Not here: rand.cilk and *-lib.cilk, which have no main, kalah, which asks its
player, and testall, which has all of these in one file; nor magic, which crashes without Weft too."""
SAID = re.compile(r"weft-cilk: (\d+) begun, (\d+) ended, (\d+) taken")
WRONG = re.compile(r"(?i)\b(wrong|failed|bad)\b")
TIMES = re.compile(r"(?m)^.*(time|aborts|Work|path|sec|running on| s\b).*$|\d+\.\d+")


def examples() -> int:
    """Each example by one and two workers: its own checks, the same result, as many tasks ended as have begun."""
    root, bad = Path(os.environ["CILK_ROOT"]) / "examples", 0
    os.environ["CILKFLAGS"] = f"-I{root}"
    for name, (arguments, more) in EXAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            parts = [root / f"{name}.cilk", *(root / part for part in more), root / "getoptions.c", COUNTED]
            program, _ = build(parts, Path(folder))
            told = []
            for workers in ("1", "2"):
                done = subprocess.run([program, "--nproc", workers, *arguments], capture_output=True, text=True,
                                      cwd=root, timeout=100, check=False)  # fmt: skip
                found = SAID.search(done.stderr)
                counts = [int(n) for n in found.groups()] if found else [0, 1, 0]
                good = done.returncode == 0 and counts[0] == counts[1] and not WRONG.search(done.stdout + done.stderr)
                told.append((good, counts, TIMES.sub("", done.stdout)))
        fine = all(good for good, *_ in told) and told[0][2] == told[1][2]
        bad += not fine
        print(f"{name:<15} {'right' if fine else 'WRONG'}  tasks {told[0][1][0]}, by two workers {told[1][1][0]}, "
              f"taken {told[1][1][2]}" + ("" if fine else f"  {told}"), flush=True)  # fmt: skip
    print(f"{len(EXAMPLES) - bad} of {len(EXAMPLES)} are right by one and two workers")
    return bad


def seconds(command: list[str], times: int) -> float:
    """The least processor time of several runs."""
    best = []
    for _ in range(times):
        before = os.times()
        subprocess.run(command, capture_output=True, check=True, timeout=100)
        after = os.times()
        best.append(after.children_user - before.children_user)
    return min(best)


def costs(times: int = 5) -> int:
    """Processor time of programs by `cilkc -O2`, and by Weft with the same option."""
    root = Path(os.environ["CILK_ROOT"])
    os.environ["CILKFLAGS"] = f"-O2 -I{root / 'examples'}"
    own = root / "examples"
    rows = {
        "fib, a task each": (own / "fib.cilk", ["34"]),
        "fib, alone below 16": (PROGRAMS / "grain.cilk", ["43"]),
        "queens": (own / "queens.cilk", ["22"]),
        "knapsack": (own / "knapsack.cilk", ["-f", str(own / "knapsack-example2.input")]),
    }
    for name, (source, arguments) in rows.items():
        with tempfile.TemporaryDirectory() as folder:
            parts = [source, root / "examples/getoptions.c"]
            traced, _ = build(parts, Path(folder))
            plain = Path(folder) / "plain"
            subprocess.run([root / "bin/cilkc", "-O2", f"-I{root / 'examples'}", *parts, "-o", plain], check=True,
                           capture_output=True, cwd=folder, timeout=100)  # fmt: skip
            for workers in ("1", "2"):
                ways = [seconds([str(way), "--nproc", workers, *arguments], times) for way in (plain, traced)]
                print(
                    f"| {name} | {workers} | {ways[0]:.2f} | {ways[1]:.2f} | {ways[1] / ways[0] - 1:+.1%} |", flush=True
                )
    return 0


if __name__ == "__main__":
    parts: dict[str, Callable[[], int]] = {"stolen": lambda: stolen(int(sys.argv[2]) if len(sys.argv) > 2 else 200),
                                         "examples": examples, "costs": costs}  # fmt: skip
    raise SystemExit(parts[sys.argv[1]]() > 0)
