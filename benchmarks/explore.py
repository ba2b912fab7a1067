"""What `weft explore` finds in programs of which one order deadlocks, in how many runs, and what other searches take.

    python benchmarks/explore.py [--budget 900] [--only crooked,tasks] [--write]

Plain enumeration runs each order of the ranks' sends, receives and barriers that the program allows. It is counted, not
run: for each outcome that the exploration ran, the orders of its calls that keep to what is before what (MPI's order
of each rank, each message sent before it is received). --write puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from capture import write

import weft
from weft.match import NONE, match_operations

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
PROGRAMS = {"crooked": 3, "pipeline": 4, "tasks": 4, "orders": 7}
EXPECTED = {"crooked": 2, "pipeline": 20, "tasks": 162, "orders": 720}
"""Outcomes, counted by hand: 6!/(3! 3!) orders of two streams; 27 first answers times 6 last ones; 6!."""


def orders(run: Path) -> int:
    """How many orders of the sends and receives of a run keep to the order of each rank and of each message."""
    trace = weft.open(run)
    found = match_operations(trace)
    calls: list[list[tuple[int, int] | None]] = []
    place: dict[tuple[int, int], int] = {}
    for rank in range(len(trace.ranks)):
        mine = [(int(e), ("send", k)) for k, e in _rows(found.sends, rank)]
        mine += [(int(e), ("recv", k)) for k, e in _rows(found.recvs, rank)]
        calls.append([])
        for at, (_, (kind, k)) in enumerate(sorted(mine)):
            if kind == "send":
                place[rank, k] = at
            partner = int(found.recvs.partner[k]) if kind == "recv" else NONE
            calls[-1].append((found.sends.rank_of(partner), partner) if partner != NONE else None)

    @cache
    def ways(state: tuple[int, ...]) -> int:
        total = 0
        for rank, at in enumerate(state):
            if at == len(calls[rank]):
                continue
            needs = calls[rank][at]
            if needs is None or state[needs[0]] > place[needs]:
                total += ways((*state[:rank], at + 1, *state[rank + 1 :]))
        return total or 1

    return ways((0,) * len(calls))


def _rows(posts: Any, rank: int) -> list[tuple[int, int]]:
    part = posts.of_rank(rank)
    return [(k, int(posts.event[k])) for k in range(part.start, part.stop)]


def execute(command: list[str | Path], folder: Path) -> None:
    """Run a command that must end within two minutes, in a folder; how it ends is looked at elsewhere."""
    subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)


def row(name: str, program: Path, folder: Path, budget: int) -> list[str]:
    """One program: outcomes, runs, time, the run in which the deadlock came out, and plain enumeration."""
    ranks = PROGRAMS[name]
    while True:  # a record that does not deadlock, as most do
        execute([BIN / "weft", "run", "--out", folder / name, "-n", str(ranks), "--", program, name], folder)
        if weft.open(folder / name).run["ended"] != "deadlock":
            break
        shutil.rmtree(folder / name)
    begun = time.monotonic()
    done = subprocess.run(
        [BIN / "weft", "explore", folder / name, "--budget", str(budget), "--format", "json"],
        capture_output=True, text=True, timeout=budget + 300, check=False,
    )  # fmt: skip
    spent = time.monotonic() - begun
    told = json.loads(done.stdout)
    outcomes = told["outcomes"]
    found = next((one["number"] for one in outcomes if one["status"] == 3), None)
    plain = sum(orders(folder / one["run"]) for one in outcomes)
    whole = "all" if told["ended"] == "all" and len(outcomes) == EXPECTED[name] else f"of {EXPECTED[name]}"
    runs = len(outcomes) - 1 + len(told["unreached"])
    return [f"{name}, {ranks} ranks", f"{len(outcomes)} ({whole})", str(runs), "-" if found is None else str(found),
            f"{spent:.0f}", f"{plain:,}"]  # fmt: skip


def main() -> None:
    """Print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=900)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        execute([BIN / "mpicc", "-g", "-O1", "-o", folder / "program", HERE / "programs" / "orders.c"], folder)
        lines = [
            "| program | outcomes | runs | the deadlock is outcome | s | plain enumeration |",
            "|---|---|---|---|---|---|",
        ]
        for name in args.only.split(","):
            lines.append("| " + " | ".join(row(name, folder / "program", folder, args.budget)) + " |")
            print(lines[-1], flush=True)
    print("\n".join(lines))
    if args.write:
        write("explore", "\n".join(lines))


if __name__ == "__main__":
    main()
