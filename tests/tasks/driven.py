"""Follow one coroutine line by line through libraries at work: servers and clients on loopback, a pool of connections.

PYTHON tests/tasks/driven.py [--runs 200] [--only web|uvloop|served|base|events]... [--python PYTHON] [--postgres BIN]

PYTHON has Weft; --python is one that has aiohttp, httpx, uvicorn, uvloop and psycopg_pool. For `base` a PostgreSQL is
started from --postgres (Debian's: /usr/lib/postgresql/15/bin). Each run stops a coroutine in a random task at a random
visit and follows it by `next` to its end: each of its lines once, in order, no line of another task, then its own value
and the program's right result. Prints each run that was not.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError
from weft.tasks import Session, session

PROGRAMS = Path(__file__).parent / "programs" / "driven"
SOURCE = (PROGRAMS / "followed.py").read_text().splitlines()
FIRST = SOURCE.index("    seen = [n]") + 1
LINES = [FIRST + i for i in (0, 1, 2, 3, 4, 5, 3, 6, 7, 8)]
"""What `next` shows: the end of `async with` is told at its line again."""
WAYS = {"web": ["web.py"], "uvloop": ["web.py", "uvloop"], "served": ["served.py"], "base": ["base.py"],
        "events": ["events.py"]}  # fmt: skip


def once(command: list[str], rng: random.Random) -> str:
    """One run; what was wrong, nothing if it was right."""
    with session(command) as s:
        s.do("break followed")
        stop = {}
        for _ in range(rng.randrange(1, 10)):
            stop = s.do("continue")
        if stop["why"] != "breakpoint":
            return f"no breakpoint: {stop}"
        s.do("delete")
        return followed(s, stop["task"], int(s.do("print n")["value"]))


def followed(s: Session, task: int, n: int) -> str:
    """From the first line to the return, and the program's end."""
    seen = [FIRST]
    while seen[-1] != LINES[-1]:
        stop = s.do("next")
        if stop["task"] != task or stop["why"] != "line" or len(seen) > len(LINES):
            return f"after {seen}: {stop}"
        seen.append(stop["at"]["line"])
    value = s.do("print n, sum(seen)")["value"]
    if seen != LINES or value != str((n, 10 * n)):
        return f"{seen}, {value} for {n}"
    if (told := s.do("tasks")["tasks"]) == [] or [row["id"] for row in told if row["focus"]] != [task]:
        return f"the table has lost task {task}: {told}"
    end = s.do("continue")
    output = s.output()
    return "" if (end["why"], end["code"], output) == ("ended", 0, "360\n") else f"{end}, {output!r}"


@contextmanager
def postgres(binaries: str) -> Iterator[str]:
    """A PostgreSQL of its own, and how to connect to it."""
    folder = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    user = "postgres" if os.getuid() == 0 else None
    try:
        if user:
            shutil.chown(folder, user)
        make = [f"{binaries}/initdb", "-A", "trust", "-U", "weft", str(folder / "data")]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd=folder, user=user)
        server = [f"{binaries}/postgres", "-D", str(folder / "data"), "-k", str(folder), "-h", ""]
        process = subprocess.Popen(server, stderr=subprocess.DEVNULL, cwd=folder, user=user)
        try:
            until = time.monotonic() + 20
            while not list(folder.glob(".s.PGSQL.*[0-9]")) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.5)
            yield f"host={folder} user=weft dbname=postgres"
        finally:
            process.terminate()
            process.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def campaign(name: str, command: list[str], runs: int, rng: random.Random) -> int:
    """So many runs, told in one line; how many were not right."""
    begun, wrong = time.monotonic(), 0
    for run in range(1, runs + 1):
        try:
            told = once(command, rng)
        except WeftError as error:
            told = f"error: {error}"
        if told:
            wrong += 1
            print(f"{name}, run {run}: {told}", flush=True)
    print(f"{name}: {runs - wrong} of {runs} right, {time.monotonic() - begun:.0f} s", flush=True)
    return wrong


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", action="append", choices=WAYS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--postgres", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, wrong = random.Random(options.seed), 0
    for name in options.only or WAYS:
        command = [options.python, str(PROGRAMS / WAYS[name][0]), *WAYS[name][1:]]
        if name == "base":
            with postgres(options.postgres) as address:
                wrong += campaign(name, [*command, address], options.runs, rng)
        else:
            wrong += campaign(name, command, options.runs, rng)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
