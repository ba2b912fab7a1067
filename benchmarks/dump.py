"""What `weft dump` costs on a synthetic run (traces.py): calls a second of processor time, of all forms.

    python benchmarks/dump.py [--events 1e6] [--ranks 16] [--pattern halo,mixed] [--repeat 3]

Each dump runs in a process of its own and writes to a file; its time is what that process spent on the processor, user
and system, Python's start included: the least of the repetitions. Text and JSON lines have a limit; ends with status 1
where one is missed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from traces import PATTERNS, write

import weft

LIMIT = 500_000
"""Calls a second that text and JSON lines must reach."""
FORMS = {"text": LIMIT, "json": LIMIT, "csv": 0, "parquet": 0}


def seconds(run: Path, form: str, to: Path) -> float:
    """Processor seconds of one dump."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "weft.cli.main", "dump", run, "--format", form, "-o", to]
    subprocess.run(command, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure, print the table, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=float, default=1e6, help="calls of the run (1e6)")
    parser.add_argument("--ranks", type=int, default=16, help="its ranks (16)")
    parser.add_argument("--pattern", default="halo,mixed", help=f"by comma: {', '.join(PATTERNS)}")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions, in turn (3)")
    options = parser.parse_args()
    missed = False
    print("| calls | form | processor s | calls a second | wanted |\n|---|---|---|---|---|")
    for pattern in options.pattern.split(","):
        with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
            folder = Path(name)
            run = write(folder / "run", pattern, options.ranks, int(options.events))
            count = weft.open(run).event_count
            turns = [{form: seconds(run, form, folder / "out") for form in FORMS} for _ in range(options.repeat)]
            for form, limit in FORMS.items():
                least = min(turn[form] for turn in turns)
                rate = count / least
                missed |= rate < limit
                wanted = f"{limit:,}: {'ok' if rate >= limit else 'MISSED'}" if limit else ""
                print(f"| {count:,} ({pattern}) | {form} | {least:.2f} | {rate:,.0f} | {wanted} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
