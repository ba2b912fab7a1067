"""What a call costs that comes a way which it has not come before: 100,000 paths, few and many mappings of memory.

    python benchmarks/paths.py [--repeat 3]

Nanoseconds of processor time that the first call of each path takes longer with the recorder than its second; above
LIMIT the status is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from capture import execute, one, prepare, recording

LIMIT = 2000.0
WHERE = ("stack", "fixed", "heap", "mapped")
MAPPINGS = ("60", "6000")


def main() -> int:
    """Prints a line for each place of the buffer and number of mappings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (3)")
    options = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="weft-paths-") as name:
        folder = Path(name)
        mpi = prepare("MPICH", Path(sys.executable).parent, folder, {})
        for where in WHERE:
            for mappings in MAPPINGS:
                costs = []
                for _ in range(options.repeat):
                    printed = execute(
                        mpi, one(mpi, "paths", [where, mappings]), recording(mpi, folder / "run", "trace")
                    )
                    first, second = map(float, printed.split())
                    costs.append(first - second)
                worst = max(worst, statistics.median(costs))
                print(f"{where}, {mappings} mappings: {statistics.median(costs):.0f} ns a new path", flush=True)
    return int(worst > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
