"""What `weft report` costs on synthetic runs (traces.py) of 1 to 100 million events and 8 to 4,096 ranks.

    python benchmarks/analysis.py [--events 10e6] [--ranks 64] [--pattern halo,pool] [--repeat 3] [--quick]

Each run is written through the real writer and analysed in a process of its own, so that the memory shown (high-water
mark, the mapped record included) is that of the analysis. Repetitions are taken in turn; times are processor seconds of
all cores together, the median of the repetitions: pairing sends with receives, `match` (which reads the operations out
of the record too), the dearest analysis, and all that `weft report` does,
for which the time on the wall is shown too.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from traces import PATTERNS, write

import weft
from weft import match as matching
from weft.report import AnalysisContext, run_analyses
from weft.report.registry import ANALYSES

ADVERSARIES = {"flood": 1001, "pending": 8, "comms": 8}
"""Patterns that are hard for a careless analysis, and the ranks that make them so."""


def measure(path: Path) -> dict[str, Any]:
    """Processor seconds of each part of a report of the run."""
    trace = weft.open(path)
    seconds = {"pair": _pairing(trace)}
    ground = AnalysisContext(trace)
    for part in ("match", "order"):
        start = time.process_time()
        getattr(ground, part)
        seconds[part] = time.process_time() - start
    found = 0
    for analysis in ANALYSES:
        start = time.process_time()
        report = run_analyses(trace, (analysis,), ground)
        seconds[analysis.name] = time.process_time() - start
        found += len(report.findings)
        if report.failures:
            raise RuntimeError(report.failures[0].details)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"events": trace.event_count, "seconds": seconds, "peak": peak, "found": found}


def _pairing(trace: weft.Trace) -> float:
    """Processor seconds of pairing sends with receives, once the operations have been read out of the record."""
    operations = matching.extract_operations(trace)
    start = time.process_time()
    matching.pair_posts(trace.share, operations.sends, operations.recvs, operations.probes)
    return time.process_time() - start


def whole(path: str) -> None:
    """Print the seconds on the wall and of the processors that a report takes, and the memory, as JSON."""
    wall, start = time.perf_counter(), time.process_time()
    report = run_analyses(weft.open(path))
    seconds = time.perf_counter() - wall, time.process_time() - start
    if report.failures:
        raise RuntimeError(report.failures[0].details)
    print(json.dumps([*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))


def _child(call: str, *given: object) -> str:
    program = f"import json; from analysis import *; {call}(*{given!r})"
    command = [sys.executable, "-c", program.replace("PosixPath", "Path")]
    done = subprocess.run(command, cwd=Path(__file__).parent, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def show(path: str) -> None:
    """Print a measurement as JSON."""
    print(json.dumps(measure(Path(path))))


def make(path: str, pattern: str, ranks: int, events: int) -> None:
    """Write a run."""
    write(Path(path), pattern, ranks, events)


def one(pattern: str, ranks: int, events: int, repeat: int) -> None:
    """Print one line of the table."""
    folder = tempfile.mkdtemp(prefix="weft-bench-")
    try:
        _child("make", folder, pattern, ranks, events)
        runs = [json.loads(_child("show", folder)) for _ in range(repeat)]
        reports = [json.loads(_child("whole", folder)) for _ in range(repeat)]
    finally:
        shutil.rmtree(folder)
    parts = {name: statistics.median(r["seconds"][name] for r in runs) for name in runs[0]["seconds"]}
    wall, total = (statistics.median(r[i] for r in reports) for i in (0, 1))
    dearest = max(parts.items(), key=lambda item: item[1])
    count, peak = runs[0]["events"] / 1e6, max(r[2] for r in reports)
    print(
        f"| {pattern:10} | {ranks:>5} | {count:>7.2f} | {parts['pair']:>6.2f} "
        f"| {parts['match']:>6.2f} | {total:>6.2f} | {wall:>6.2f} "
        f"| {total / count:>9.2f} | {peak:>6.2f} | {dearest[0]} {dearest[1]:.2f} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="10e6")
    parser.add_argument("--ranks", default="64")
    parser.add_argument("--pattern", default=",".join(p for p in PATTERNS if p not in ADVERSARIES))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="1 million events once, and the adversaries: under 2 minutes"
    )
    given = parser.parse_args()
    if given.quick:
        given.events, given.repeat = "1e6", 1
    print(
        "| pattern    | ranks | million | pair   | match  | all    | wall   | s/million | GB     | dearest |",
        flush=True,
    )
    print(
        "|------------|-------|---------|--------|--------|--------|--------|-----------|--------|---------|",
        flush=True,
    )
    for pattern in given.pattern.split(","):
        for events in given.events.split(","):
            for ranks in given.ranks.split(","):
                one(pattern, int(ranks), int(float(events)), given.repeat)
    if given.quick:
        for pattern, ranks in ADVERSARIES.items():
            one(pattern, ranks, 1_000_000 if pattern != "comms" else 100_000, 1)


if __name__ == "__main__":
    main()
