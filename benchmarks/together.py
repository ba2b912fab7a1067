"""What `mpiexec -n N weft report RUN` costs each of its workers, beside a report of one process.

    python benchmarks/together.py [--pattern mixed,halo] [--events 1e6,10e6] [--ranks 64] [--workers 1,2,3,4] [--fit]

Synthetic runs (traces.py), each written through the real writer. By number of workers: processor seconds and resident
memory (high-water mark, the mapped record included) of the first worker and of the dearest of the others, the median of
the repetitions, which are taken in turn; and whether the report was the same as that of one process, byte for byte.
`--fit`: the costs as a sum of parts by ranks, by calls, and by calls of a worker's share, by least squares.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from traces import write

PROGRAM = """
import json, os, resource, sys, time
from pathlib import Path
from weft.cli.main import main
status = main(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_SELF)
rank = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
told = [used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20]
Path(sys.argv[1], rank).write_text(json.dumps(told))
sys.stdout.flush()
sys.exit(0)
"""


def report(run: Path, workers: int) -> tuple[str, float, list[tuple[float, float]]]:
    """The report, seconds on the wall, and what each worker used: processor seconds, GB."""
    with tempfile.TemporaryDirectory() as folder:
        mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        line = [sys.executable, "-c", PROGRAM, folder, "report", str(run), "--format", "text"]
        begun = time.perf_counter()
        done = subprocess.run(
            line if workers == 1 else [mpiexec or "mpiexec", "-n", str(workers), *line],
            check=True, stdout=subprocess.PIPE, text=True, timeout=600,
        )  # fmt: skip
        wall = time.perf_counter() - begun
        used = [tuple(json.loads(Path(folder, str(n)).read_text())) for n in range(workers)]
    return done.stdout, wall, used


Row = tuple[int, int, int, list[float], list[float]]
"""Ranks, calls, workers; processor seconds and GB of each worker."""


def one(pattern: str, ranks: int, events: int, workers: list[int], repeat: int) -> list[Row]:
    """Print the lines of one run; what stands in them."""
    told: list[Row] = []
    folder = Path(tempfile.mkdtemp(prefix="weft-bench-"))
    try:
        write(folder, pattern, ranks, events)
        rows: dict[int, list[tuple[str, float, list[tuple[float, float]]]]] = {count: [] for count in workers}
        for _ in range(repeat):
            for count in workers:
                rows[count].append(report(folder, count))
        texts = {text for found in rows.values() for text, _, _ in found}
        same = "yes" if len(texts) == 1 else "NO"
        for count, found in rows.items():
            parts = [[[used[n][i] for _, _, used in found] for n in range(count)] for i in (0, 1)]
            cpu, memory = ([statistics.median(of) for of in part] for part in parts)
            wall = statistics.median(wall for _, wall, _ in found)
            told.append((ranks, events, count, cpu, memory))
            rest = [f"{max(of[1:]):.2f}" if count > 1 else "" for of in (cpu, memory)]
            print(f"| {pattern:10} | {ranks:>5} | {events / 1e6:>7.2f} | {count:>7} | {cpu[0]:>5.2f} | {rest[0]:>5} "
                  f"| {memory[0]:>5.2f} | {rest[1]:>5} | {wall:>5.2f} | {same:>4} |", flush=True)  # fmt: skip
    finally:
        shutil.rmtree(folder)
    return told


PARTS = ("", " a thousand ranks", " a million calls", " a million calls of its share")


def fit(rows: list[Row], ranks: int = 10_000, calls: float = 1e10) -> None:
    """Print the costs as sums, how far off these are, and what they come to for a large run."""
    shared, alone = [row for row in rows if row[2] > 1], [row for row in rows if row[2] == 1]
    for what, unit, at in (("processor time", "s", 3), ("memory", "GB", 4)):
        for who, which, wanted in (("one process", alone, (0, 1, 2)), ("the first of several", shared, (0, 1, 2, 3)),
                                   ("each other one", shared, (0, 1, 3))):  # fmt: skip
            told = np.array([max(row[at][1:]) if who == "each other one" else row[at][0] for row in which])
            factors = np.linalg.lstsq(np.array([parts(*row[:3], wanted) for row in which]) / told[:, None],
                                      np.ones(len(told)), rcond=None)[0]  # fmt: skip
            off = np.abs(np.array([parts(*row[:3], wanted) for row in which]) @ factors / told - 1)
            said = " + ".join(f"{factor:.3f}{PARTS[part]}" for factor, part in zip(factors, wanted, strict=True))
            print(f"{what} of {who}: {said} {unit}; off by {np.median(off):.0%}, at most {off.max():.0%}")
            for workers in (1,) if which is alone else (16, 256):
                sum_ = parts(ranks, calls, workers, wanted) @ factors
                print(f"  {ranks:,} ranks, {calls:.0e} calls, {workers} workers: {sum_:,.0f} {unit}")


def parts(ranks: int, calls: float, workers: int, wanted: tuple[int, ...]) -> NDArray[np.float64]:
    """What a cost is made of."""
    return np.array([1, ranks / 1e3, calls / 1e6, calls / 1e6 / workers])[list(wanted)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pattern", default="mixed,halo")
    parser.add_argument("--events", default="1e6,10e6")
    parser.add_argument("--ranks", default="64")
    parser.add_argument("--workers", default="1,2,3,4")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--fit", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = []
    print("| pattern    | ranks | million | workers | CPU 0 | other | GB 0  | other | wall  | same |", flush=True)
    print("|------------|-------|---------|---------|-------|-------|-------|-------|-------|------|", flush=True)
    for pattern in given.pattern.split(","):
        for events in given.events.split(","):
            for ranks in given.ranks.split(","):
                rows += one(
                    pattern, int(ranks), int(float(events)), [int(n) for n in given.workers.split(",")], given.repeat
                )
    if given.fit:
        fit(rows)


if __name__ == "__main__":
    main()
