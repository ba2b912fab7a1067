"""How much of a halo exchange a replay runs again: all steps of its own rank, one less for each rank of distance.

    python tests/replay/halo_table.py                        # 16 ranks, 10 steps, until step 6 of rank 5
    python tests/replay/halo_table.py --ranks 8 --rank 0 --step 4

A rank at distance d from the point needs max(0, t - d) steps, and of the step after them what it sends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import weft
from replay.campaign import compile_c, environment
from weft.match import communicates


class Row(NamedTuple):
    """What one rank ran again."""

    rank: int
    distance: int
    needed: int
    steps: int
    calls: int
    recorded: int


def rows(venv: Path, folder: Path, ranks: int, steps: int, point: tuple[int, int]) -> list[Row]:
    """Record programs/line.c, replay it until rank point[0] has done point[1] steps, and count."""
    rank, step = point

    def execute(*words: str | Path) -> None:
        command = [str(word) for word in (venv / "bin" / "weft", *words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(), check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")

    program = compile_c(venv, "line.c", folder)
    execute("run", "--out", folder / "run", "-n", str(ranks), "--", program, str(steps))
    execute("replay", folder / "run", "--out", folder / "again", "--until", f"{rank}:MPI_Irecv#{2 * step + 1}")
    found = []
    for old, new in zip(weft.open(folder / "run").ranks, weft.open(folder / "again").ranks, strict=True):
        made, recorded = ([e for e in r if communicates(e.function)] for r in (new, old))
        waits = sum(e.function.base == "MPI_Waitall" and not e.open for e in made)
        distance = abs(old.rank - rank)
        found.append(Row(old.rank, distance, max(0, step - distance), waits, len(made), len(recorded)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(sys.executable).parents[1])
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--step", type=int, default=6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-halo-") as folder:
        point = arguments.rank, arguments.step
        table = rows(arguments.venv.absolute(), Path(folder), arguments.ranks, arguments.steps, point)
    print("rank  distance  steps  expected  calls run again")
    for row in table:
        print(f"{row.rank:4} {row.distance:9} {row.steps:6} {row.needed:9} {row.calls:6} of {row.recorded}")
    calls, recorded = sum(row.calls for row in table), sum(row.recorded for row in table)
    print(f" all {'':26} {calls:6} of {recorded} ({calls / recorded:.0%})")
    return 0 if all(row.steps == row.needed for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
