"""What `weft cc` costs: processor time and memory of the ranks, plain, with hooks, and with hooks under `weft run`.

    python benchmarks/access.py [--repeat 5] [--quick] [--lulesh FOLDER]

programs/halo.c exchanges its edges by one-sided calls, with 1 and 2 ranks. FOLDER holds the sources of LULESH 2.0
(github.com/LLNL/LULESH), of which the repository has none. The least of --repeat runs taken in turn, all ranks together
for time, the largest rank for memory. Fails where hooks cost more than 3 times the time or 2 times the memory.

A second table, without bounds: programs/exchange.c plain, under `weft run` and under `weft run --whole-buffers`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "programs"
BIN = Path(sys.executable).parent
WEFT = [sys.executable, "-m", "weft"]
MOST_TIME, MOST_MEMORY = 3.0, 2.0
OPTIONS = ("-O3", "-g")


@dataclass(frozen=True)
class Case:
    """A program's words and ranks, and how many times the plain time it may take."""

    title: str
    words: str
    ranks: int
    most: float = MOST_TIME


HALO = [
    Case("halo, windows apart, 1 rank", "1000 200 apart", 1),
    Case("halo, windows apart, 2 ranks", "1000 200 apart", 2),
    Case("halo, windows of ghost rows, 1 rank", "1000 200 edges", 1),
    Case("halo, windows of all the grid, 1 rank", "1000 40 whole", 1, float("inf")),
]
"""Where windows lie over all that the program works on, time has no bound here: it is told."""
WHOLE = {
    "messages of 8 KB, each after 200 sweeps": "1000 2000 200",
    "messages of 8 MB, each after 4 sweeps": "1000000 60 4",
    "messages of 8 MB and nothing else": "1000000 60 0",
}
LULESH = [
    Case("LULESH, -s 30 -i 60, 1 rank", "-s 30 -i 60 -q", 1),
    Case("LULESH, -s 12 -i 60, 8 ranks", "-s 12 -i 60 -q", 8),
]


def build(folder: Path, name: str, compiler: str, sources: Sequence[Path]) -> list[Path]:
    """The program without and with hooks."""
    made = [folder / f"{name}-plain", folder / f"{name}-hooks"]
    for program, before in zip(made, ([], [*WEFT, "cc"]), strict=True):
        line = [*before, BIN / compiler, *OPTIONS, "-w", "-DUSE_MPI=1", "-o", program, *sources, "-lm"]
        subprocess.run(line, check=True, cwd=folder)
    return made


def measure(
    folder: Path, command: Sequence[str | Path], ranks: int, *, weft: bool, options: Sequence[str] = ()
) -> tuple[float, float]:
    """Seconds of processor time of all ranks, and MiB of the largest."""
    told = folder / "told"
    told.unlink(missing_ok=True)
    line = [BIN / "mpiexec", "-n", str(ranks), folder / "measured", told, *command]
    with tempfile.TemporaryDirectory(dir=folder) as run:
        before = [*WEFT, "run", *options, "--out", Path(run) / "run", "--"] if weft else []
        subprocess.run(
            [*before, *line], check=True, cwd=folder, timeout=300, capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    rows = [line.split() for line in told.read_text().splitlines()]
    return sum(float(seconds) for seconds, _ in rows), max(int(kib) for _, kib in rows) / 1024


def row(folder: Path, case: Case, programs: Sequence[Path], repeat: int) -> bool:
    """Measure one case and print its row; whether it stays within its bounds."""
    plain, hooks = programs
    ways = ((plain, False), (plain, True), (hooks, False), (hooks, True))
    turns = [[measure(folder, [p, *case.words.split()], case.ranks, weft=weft) for p, weft in ways]
             for _ in range(repeat)]  # fmt: skip
    seconds, memory = ([min(turn[k][unit] for turn in turns) for k in range(len(ways))] for unit in (0, 1))
    times, room = seconds[3] / seconds[0], memory[3] / memory[0]
    print(f"{case.title:<44}" + "".join(f"{s:8.2f} s" for s in seconds) + f"{times:7.2f}x  "
          + "".join(f"{m:7.1f} MiB" for m in memory) + f"{room:6.2f}x", flush=True)  # fmt: skip
    return times <= case.most and room <= MOST_MEMORY


def whole_buffers(folder: Path, repeat: int) -> None:
    """Measure what looking at all of each pending buffer costs, and print the table."""
    program = folder / "exchange"
    subprocess.run([BIN / "mpicc", *OPTIONS, "-o", program, HERE / "exchange.c"], check=True)
    ways: tuple[tuple[bool, tuple[str, ...]], ...] = ((False, ()), (True, ()), (True, ("--whole-buffers",)))
    print(f"\n{'':<44}" + "".join(f"{head:>20}" for head in ("plain", "run", "run --whole-buffers")))
    for title, words in WHOLE.items():
        turns = [[measure(folder, [program, *words.split()], 2, weft=weft, options=options) for weft, options in ways]
                 for _ in range(repeat)]  # fmt: skip
        least = [[min(turn[k][unit] for turn in turns) for unit in (0, 1)] for k in range(len(ways))]
        print(f"{title:<44}" + "".join(f"{s:8.2f} s {m:6.1f} MiB" for s, m in least), flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case, taken in turn")
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--lulesh", type=Path, help="the sources of LULESH 2.0")
    options = parser.parse_args()
    repeat = 1 if options.quick else options.repeat
    heads = ("plain", "run", "cc", "cc, run")
    print(f"{'':<44}" + "".join(f"{head:>10}" for head in heads) + f"{'':10}" + "".join(f"{h:>11}" for h in heads))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        subprocess.run(["cc", "-O2", "-o", folder / "measured", HERE / "measured.c"], check=True)
        made = build(folder, "halo", "mpicc", [HERE / "halo.c"])
        good = [row(folder, case, made, repeat) for case in HALO]
        if options.lulesh:
            made = build(folder, "lulesh", "mpicxx", sorted(options.lulesh.resolve().glob("lulesh*.cc")))
            good += [row(folder, case, made, repeat) for case in LULESH]
        whole_buffers(folder, repeat)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
