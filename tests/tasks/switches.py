"""Switch to a task that others lie on, or that lies on the heap, and `next`: it is to land on that task's next line.

python tests/tasks/switches.py [--runs 200] [--only middle|heap|asyncio|cilk]... [--runtime FILE]... [--seed N]

Each run stops a program at a random moment in one task and switches to another one, chosen at random. Where that one
stands is known by the program's own word: its innermost frame, or what it has written down. Right is: the same task, at
the line that follows in the source, with its own values. Prints each run that was not, and what it saw. CILK_ROOT
names the Cilk-5 of `cilk`.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests_support import clang
from weft.errors import WeftError
from weft.tasks import Session, session
from weft.tasks.runtime import find_runtimes

PROGRAMS = Path(__file__).parent / "programs"


def after(name: str, pattern: str) -> dict[int, int]:
    """The line of each statement that matches, and that of the statement behind it: no directive, no brace."""
    lines = (PROGRAMS / name).read_text().splitlines()
    found = {}
    for number, text in enumerate(lines, 1):
        if re.search(pattern, text):
            then = (n for n in range(number + 1, len(lines) + 1) if not re.fullmatch(r"\s*([{}]|#.*)?", lines[n - 1]))
            found[number] = next(then)
    return found


GROUPED = after("buried.c", r"grouped = called")
WAITS = after("buried.c", r"taskwait") | {line - 1: then for line, then in GROUPED.items()}
"""Where a buried task's innermost frame stands, and where it goes on. A group's wait is told at its last directive."""
YIELDS = after("heaped.c", r"stands.*__LINE__")
SPAWNS = after("fib.cilk", r"spawn fib\(n -|^ *sync")
AWAITS = after("apart.py", r"await asyncio.sleep\(0.001\)|queue.get|lock.acquire")
Seen = tuple[bool, str, Any]
"""Whether it was right, what kind of place it was, and what was seen."""


def stopped(s: Session, place: str, rng: random.Random, most: int) -> bool:
    """Run to one of the first visits of a place, at random; False where the program ended before."""
    s.do(f"break {place}")
    for _ in range(rng.randrange(1, most)):
        if s.do("continue")["why"] != "breakpoint":
            return False
    s.do("delete")
    return True


def landed(s: Session, task: Mapping[str, Any], line: int | None) -> Seen:
    """Switch to a task and let it come on by a line."""
    s.do(f"task {task['id']}")
    stop = s.do("next")
    at = stop["at"]["line"] if stop["at"] else None
    right = (stop["why"], stop["task"], at) == ("line", task["id"], line)
    return right, f"{task['state']} at {line}", (task["id"], stop["why"], stop["task"], at, f"not {line}")


def middle(program: Path, runtime: str, rng: random.Random) -> Seen | None:
    """A task that waits below others on a worker's stack."""
    with session([str(program)], runtime=runtime) as s:
        if not stopped(s, "deepest", rng, 3):
            return None
        buried = [row for row in s.do("tasks")["tasks"] if row["state"] == "middle" and row["created"]]
        rng.shuffle(buried)
        for row in buried:
            frame = next(iter(s.do(f"where {row['id']}")["frames"]), None)
            if frame is None or frame["line"] not in WAITS or frame["function"] == "main":
                continue
            s.do(f"task {row['id']}")
            depth = value(s, "depth")
            seen = landed(s, row, WAITS[frame["line"]])
            if seen[0] and depth != value(s, "depth"):
                return False, seen[1], ("another's frame", depth, value(s, "depth"))
            return seen
    return None


def value(s: Session, name: str) -> str | None:
    """A variable of the task; None where it has no such one: clang gives a task what it uses."""
    with suppress(WeftError):
        return str(s.do(f"print {name}")["value"])
    return None


def heap(program: Path, runtime: str, rng: random.Random) -> Seen | None:
    """An untied task that gave its place back."""
    with session([str(program)], runtime=runtime) as s:
        if not stopped(s, "seen", rng, 12):
            return None
        rows = s.do("tasks")["tasks"]
        first = min(row["id"] for row in rows if row["created"] and row["state"] in ("heap", "new", "top"))
        stands = [int(word) for word in re.findall(r"\d+", s.do("print stands")["value"])]
        placed = [row for row in rows if row["state"] == "heap" and stands[(row["id"] - first) % 6] in YIELDS]
        if len(stands) != 6 or first != 3 or not placed:
            return None
        row = rng.choice(placed)
        return landed(s, row, YIELDS[stands[row["id"] - first]])


def cilk(workers: int, rng: random.Random) -> Seen | None:
    """A task of Cilk-5 beneath its children in a worker's stack, or at a sync on the heap."""
    with session([str(PROGRAMS / "fib.cilk"), "--nproc", str(workers), "9"]) as s:
        if not stopped(s, "fib.cilk:9", rng, 20):
            return None
        rows = [row for row in s.do("tasks")["tasks"] if row["state"] in ("middle", "heap")]
        placed = [row for row in rows if row["at"] and row["at"]["function"] == "fib" and row["at"]["line"] in SPAWNS]
        if not placed:
            return None
        row = rng.choice(placed)
        s.do(f"task {row['id']}")
        n = kept(s)
        seen = landed(s, row, SPAWNS[row["at"]["line"]])
        return seen if not seen[0] or kept(s) == n else (False, seen[1], ("another's frame", n, kept(s)))


def kept(s: Session) -> str:
    """Its `n`, without the word that another worker has taken the task up since."""
    return (value(s, "n") or "").split(" ")[0]


def asyncio_(python: str, rng: random.Random) -> Seen | None:
    """A coroutine that awaits."""
    with session([python, str(PROGRAMS / "apart.py")]) as s:
        if not stopped(s, "seen", rng, 40):
            return None
        rows = [row for row in s.do("tasks")["tasks"] if row["state"] == "heap" and "number" in (row["name"] or "")]
        stands = [int(word) for word in re.findall(r"\d+", s.do("print stands")["value"])]
        placed = [row for row in rows if row["at"]["line"] in AWAITS]  # else it stands at the sleep behind
        if not placed:
            return None
        row = rng.choice(placed)
        return landed(s, row, AWAITS.get(stands[int(row["name"].removeprefix("number"))]))


def campaign(name: str, runs: int, once: Callable[[], Seen | None]) -> int:
    """So many switches, told in one line; how many were not right."""
    begun, wrong, done, tries = time.monotonic(), 0, 0, 0
    kinds = Counter[str]()
    while done < runs and tries < 4 * runs + 10:
        tries += 1
        try:
            seen = once()
        except WeftError as error:
            seen = False, "error", str(error)
        if seen is None:
            continue
        done += 1
        wrong += not seen[0]
        kinds[seen[1]] += 1
        if not seen[0]:
            print(f"{name}, switch {done}: {seen[1]}: {seen[2]}", flush=True)
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    print(f"{name}: {done - wrong} of {done} right ({told}), {time.monotonic() - begun:.0f} s", flush=True)
    return wrong + (done < runs)


def build(folder: Path, name: str, compiler: str) -> Path:
    """One of the programs by a compiler."""
    target = folder / f"{name}-{compiler}"
    command = [compiler, "-g", "-O0", "-fopenmp", str(PROGRAMS / f"{name}.c"), "-o", str(target)]
    subprocess.run(command, check=True, cwd=folder, timeout=60)
    return target


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", action="append", choices=("middle", "heap", "asyncio", "cilk"))
    parser.add_argument("--runtime", action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    which = options.only or ["middle", "heap", "asyncio", "cilk"]
    rng, wrong = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        native = [
            ("middle", middle, "buried", "gcc"),
            ("middle", middle, "buried", clang()),
            ("heap", heap, "heaped", clang()),
        ]
        for kind, once, source, compiler in native:
            for runtime in options.runtime or [str(next(find_runtimes()))]:
                if kind in which:
                    program = build(Path(folder), source, compiler)
                    name = f"{kind}, {compiler}, on {Path(runtime).name}"
                    wrong += campaign(name, options.runs, lambda p=program, o=once, r=runtime: o(p, r, rng))  # type: ignore[misc]
        if "asyncio" in which:
            wrong += campaign("asyncio", options.runs, lambda: asyncio_(sys.executable, rng))
        for workers in (1, 2) if "cilk" in which else ():
            wrong += campaign(f"Cilk-5, {workers} of its workers", options.runs, lambda w=workers: cilk(w, rng))  # type: ignore[misc]
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
