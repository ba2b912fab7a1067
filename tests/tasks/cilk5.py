"""Programs of Cilk-5 by script: `next` over stolen continuations, the examples of Cilk-5, and what it costs them.

python tests/tasks/cilk5.py stolen [TIMES]     `next` over spawns and syncs whose rest another worker has stolen
python tests/tasks/cilk5.py examples           Cilk-5's own programs with 1 and 2 workers
python tests/tasks/cilk5.py elisions           tasks begun and ended against the calls of the serial elision
python tests/tasks/cilk5.py costs              instructions beside the same program without Weft
python tests/tasks/cilk5.py times [PAIRS]      processor time beside it, with 1 and 2 workers

CILK_ROOT names the Cilk-5 that `make cilk5` has built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from weft.cilk.cilk5.build import NATIVE, Procedures, add_task_records, build_program, find_cilk
from weft.tasks import session

PROGRAMS = Path(__file__).parent / "programs"
COUNTED = PROGRAMS / "cilk5/counted.c"
GRAINS = PROGRAMS / "grains.cilk"
SMALL, LARGE = {"fib": 30, "queens": 12, "knapsack": 20}, {"fib": 44, "queens": 15, "knapsack": 30}
"""Its parts, for counting and for timing."""
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


UNEVEN = ("ck", "game", "knapsack", "queens", "fft")
"""Those that give up work which others have made needless, and one whose procedures are static: not counted by name."""
ALONE = """\
#define Cilk_user_critical_path 0
#define Cilk_user_work 0
#define cilk_main main
#define Cilk_alloca(size) __builtin_alloca(size)
#define Self 0
"""
"""What the serial elision has no runtime for."""


def examples() -> int:
    """Each example by one and two workers: its own checks, the same result, as many tasks ended as have begun."""
    root, bad = Path(os.environ["CILK_ROOT"]) / "examples", 0
    os.environ["CILKFLAGS"] = f"-I{root}"
    for name, (arguments, more) in EXAMPLES.items():
        with tempfile.TemporaryDirectory() as folder:
            parts = [root / f"{name}.cilk", *(root / part for part in more), root / "getoptions.c", COUNTED]
            program, _ = build_program(parts, Path(folder))
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


def elided(parts: list[Path], folder: Path) -> Path:
    """The serial elision of a program by cilk2c itself, which counts the calls of its procedures at its end."""
    cilk, known, made = find_cilk(), Procedures(), []
    own = Path(os.environ["CILK_ROOT"]) / "examples"
    for part in parts:
        expanded, target = folder / f"{part.stem}.cilki", folder / f"{part.stem}.c"
        run = partial(subprocess.run, check=True, capture_output=True, timeout=100)
        run(["gcc", "-E", "-xc", "-include", cilk.headers / "cilk.h", f"-I{NATIVE / 'first'}", f"-I{cilk.headers}",
             f"-I{own}", "-D__CILK__", "-D__CILK2C__", "-D__REENTRANT", part, "-o", expanded])  # fmt: skip
        run([cilk.compiler, expanded, "-o", target])
        add_task_records(target.read_text("latin-1"), known)
        run([cilk.compiler, "-elide", expanded, "-o", target])
        text = target.read_text("latin-1").replace("_cilk_ws->context->Cilk_RO_params->active_size", "1")
        target.write_text(ALONE + text, "latin-1")
        made.append(target)
    os.environ["WEFT_NAMES"] = f":main:{':'.join(known.scopes)}:"
    run(["gcc", "-w", "-rdynamic", "-finstrument-functions", f"-I{cilk.headers}", f"-I{own}", *made,
         own / "getoptions.c", PROGRAMS / "cilk5/elided.c", "-o", folder / "elided",
         *(f"-L{place}" for place in cilk.libraries), f"-Wl,-rpath,{cilk.libraries[0]}", "-lcilk", "-lm", "-ldl",
         "-pthread"])  # fmt: skip
    return folder / "elided"


def elisions() -> int:
    """The tasks that each example has begun and ended, against the calls in its serial elision."""
    root, bad, same = Path(os.environ["CILK_ROOT"]) / "examples", 0, 0
    os.environ["CILKFLAGS"] = f"-I{root}"
    for name, (arguments, more) in EXAMPLES.items():
        if name in UNEVEN:
            continue
        with tempfile.TemporaryDirectory() as folder:
            parts = [root / f"{part}" for part in (f"{name}.cilk", *more)]
            ways = [
                elided(parts, Path(folder)),
                build_program([*parts, root / "getoptions.c", COUNTED], Path(folder))[0],
            ]
            told = [subprocess.run([way, *arguments], capture_output=True, text=True, cwd=root, timeout=100,
                                   check=False).stderr for way in ways]  # fmt: skip
        counts = [int(n) for text in told for n in re.findall(r"(\d+) (?:calls|begun|ended)", text)]
        same, bad = same + (len(set(counts)) == 1), bad + (len(counts) != 3 or len(set(counts)) > 1)
        print(f"{name:<15} calls, begun, ended: {counts}", flush=True)
    print(f"{same} of {same + bad} have begun and ended as many tasks as their serial elision makes calls")
    return bad


def instructions(command: list[str], folder: Path) -> int:
    """What a program runs, of one worker."""
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}"]
    done = subprocess.run([*tool, *command], capture_output=True, text=True, check=True, timeout=100)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def costs() -> int:
    """Instructions of programs by `cilkc -O2`, and by Weft with the same option, one worker."""
    own = Path(os.environ["CILK_ROOT"]) / "examples"
    rows = {
        "fib(22), a task for every call": (own / "fib.cilk", ["22"]),
        "n-queens(16), a task for every place": (own / "queens.cilk", ["16"]),
        "knapsack, example 1": (own / "knapsack.cilk", ["-f", str(own / "knapsack-example1.input")]),
    }
    rows |= {f"{name}({n}), with a cut-off": (GRAINS, [name, str(n)]) for name, n in SMALL.items()}
    for name, (source, arguments) in rows.items():
        with tempfile.TemporaryDirectory() as folder:
            both = built([source, own / "getoptions.c"], Path(folder))
            ways = [instructions([str(way), *arguments], Path(folder)) for way in both]
            print(f"| {name} | {ways[0]:,} | {ways[1] / ways[0] - 1:+.2%} |", flush=True)
    return 0


def built(parts: list[Path], folder: Path) -> tuple[Path, Path]:
    """A program by `cilkc -O2`, and by Weft with the same option."""
    root = Path(os.environ["CILK_ROOT"])
    own = root / "examples"
    os.environ["CILKFLAGS"] = f"-O2 -I{own}"
    plain = folder / "plain"
    subprocess.run([root / "bin/cilkc", "-O2", f"-I{own}", *parts, "-o", plain], check=True,
                   capture_output=True, cwd=folder, timeout=100)  # fmt: skip
    return plain, build_program(parts, folder)[0]


def processor_time(command: list[str]) -> float:
    """Seconds of all workers together."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def times(pairs: int) -> int:
    """Processor time of programs with tasks of a sane size by `cilkc -O2` and by Weft, in turn; medians of pairs."""
    with tempfile.TemporaryDirectory() as folder:
        both = built([GRAINS], Path(folder))
        for name, n in LARGE.items():
            for workers in ("1", "2"):
                lines = [[str(way), "--nproc", workers, name, str(n)] for way in both]
                told = [[processor_time(line) for line in lines] for _ in range(pairs)]
                ratios = [traced / plain - 1 for plain, traced in told]
                print(f"| {name}({n}), --nproc {workers} | {median(plain for plain, _ in told):.2f} s "
                      f"| {median(ratios):+.1%} | {min(ratios):+.1%} to {max(ratios):+.1%} |", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    parts: dict[str, Callable[[], int]] = {
        "stolen": lambda: stolen(count or 200), "examples": examples, "elisions": elisions, "costs": costs,
        "times": lambda: times(count or 9),
    }  # fmt: skip
    raise SystemExit(parts[sys.argv[1]]() > 0)
