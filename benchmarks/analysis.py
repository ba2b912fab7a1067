"""How long match, order and races take on synthetic runs of 1 to 100 million events and 8 to 1,024 ranks.

    python benchmarks/analysis.py [--events 10e6] [--ranks 8,64,1024] [--pattern halo,pool,mixed] [--repeat 3]

The runs are written through the real writer and read through the real reader. Patterns:
  halo   every rank sends to both neighbours and receives by name; nothing can race
  pool   rank 0 of each 64 receives from any of the others: every receive races
  mixed  nonblocking neighbours with Waitall, a wildcard among them, an allreduce every step

Prints seconds, the best of the repetitions (cpu: of all cores together, for match and for all three, which other work
on the machine disturbs least), and the memory's high-water mark.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.match import match
from weft.order import order
from weft.races import detect
from weft.trace.builder import Builder, RankBuilder
from weft.trace.layout import EVENT, Events, Flag
from weft.trace.tails import Status, encode_tail

GROUP = 64


def _events(b: Builder, names: list[str], rows: int, **columns: object) -> Events:
    """`rows` repetitions of a block of calls."""
    block = len(names)
    events = np.zeros(rows * block, EVENT)
    events["enter"] = 10**9 + np.arange(len(events), dtype=np.uint64) * 1000
    events["duration"] = 400
    events["flags"] = Flag.CLOSED
    events["comm"] = 2
    events["count"] = 1
    events["function"] = np.tile([b.functions[n].id for n in names], rows)
    for name, values in columns.items():
        events[name] = values if isinstance(values, np.ndarray) else np.tile(values, rows)
    return events


def halo(b: Builder, r: RankBuilder, ranks: int, n: int) -> Iterator[Events]:
    """Send left and right, receive from both: 4 events a step."""
    left, right = (r.rank - 1) % ranks, (r.rank + 1) % ranks
    names = ["MPI_Send", "MPI_Send", "MPI_Recv", "MPI_Recv"]
    yield _events(b, names, n // 4, peer=[right, left, left, right], tag=[0, 1, 0, 1])


def pool(b: Builder, r: RankBuilder, ranks: int, n: int) -> Iterator[Events]:
    """Groups of up to 64 ranks: the first receives from any what the others send it."""
    size = min(GROUP, ranks)
    first = r.rank // size * size
    if r.rank != first:
        yield _events(b, ["MPI_Send"], n, peer=[first], tag=[3])
        return
    total = n * (size - 1)
    sources = first + 1 + np.arange(total, dtype=np.int64) % (size - 1)
    events = _events(b, ["MPI_Recv"], total, peer=sources, tag=[3])
    events["flags"] |= np.uint8(Flag.ANY_SOURCE)
    yield events


def mixed(b: Builder, r: RankBuilder, ranks: int, n: int) -> Iterator[Events]:
    """Irecv (one of any source), Isend to both sides, Waitall, Allreduce: 6 events a step."""
    left, right = (r.rank - 1) % ranks, (r.rank + 1) % ranks
    names = ["MPI_Irecv", "MPI_Irecv", "MPI_Isend", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce"]
    waitall = b.functions["MPI_Waitall"]
    steps = n // 6
    done = 0
    while done < steps:
        rows = min(steps - done, 20000)
        events = _events(b, names, rows, peer=[left, -1, right, left, 0, 0], tag=[0, 1, 0, 1, 0, 4])
        ids = 256 + (done + np.arange(rows))[:, None] * 4 + np.arange(4)
        objects = np.zeros((rows, 6), np.uint32)
        objects[:, :4] = ids
        events["object"] = objects.ravel()
        events["flags"][1::6] |= np.uint8(Flag.ANY_SOURCE)
        events["flags"][4::6] |= np.uint8(Flag.HAS_TAIL)
        statuses = [Status(left, 0, 4), Status(right, 1, 4), None, None]
        tails, places = bytearray(), np.empty(rows, np.uint32)
        start = r.append_tails(b"")
        for k in range(rows):
            if len(tails) % 2:
                tails += b"\0"
            places[k] = start + len(tails) // 2
            values = {"array_of_requests": ids[k].tolist(), "array_of_statuses": statuses}
            tails += encode_tail(waitall, int(Flag.CLOSED), values)
        r.append_tails(bytes(tails))
        events["result"][4::6] = places
        yield events
        done += rows


PATTERNS: dict[str, Callable[[Builder, RankBuilder, int, int], Iterator[Events]]] = {
    "halo": halo, "pool": pool, "mixed": mixed,
}  # fmt: skip


def write(path: Path, pattern: str, ranks: int, events: int) -> Path:
    """A synthetic run of about this many events."""
    b = Builder(ranks=ranks, path=path)
    each = events // ranks
    if pattern == "pool":
        size = min(GROUP, ranks)
        each = events // ranks * size // (2 * (size - 1))
    for r in b.ranks:
        for part in PATTERNS[pattern](b, r, ranks, each):
            r.append(part)
    return b.write()


def best(repeat: int, what: Callable[[], Any]) -> tuple[float, float, Any]:
    """Least seconds of several runs, by the clock and of all cores together, and the last result."""
    least = cpu = float("inf")
    result: Any = None
    for _ in range(repeat):
        result = None
        start, used = time.perf_counter(), time.process_time()
        result = what()
        least, cpu = min(least, time.perf_counter() - start), min(cpu, time.process_time() - used)
    return least, cpu, result


def measure(path: Path, pattern: str, ranks: int, repeat: int) -> None:
    """Print one line of the table."""
    trace = weft.open(path)
    count = sum(len(rank.events) for rank in trace.ranks)
    for rank in trace.ranks:
        rank.events["enter"].max(initial=0)
    of_match, cpu_match, m = best(repeat, lambda: match(trace))
    of_order, cpu_order, o = best(repeat, lambda: order(trace, m))
    of_races, cpu_races, races = best(repeat, lambda: detect(m, o))
    assert o.left_out == 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    total, cpu = of_match + of_order + of_races, cpu_match + cpu_order + cpu_races
    times = (of_match, of_order, of_races, total, cpu_match, cpu)
    cells = "".join(f"{seconds:>9.2f}" for seconds in times)
    print(f"{pattern:7}{ranks:>6}{count / 1e6:>9.1f} M{cells}{peak:>8.1f} GB{len(races):>10}", flush=True)


def one(pattern: str, ranks: int, events: int, repeat: int) -> None:
    """Write and measure a run, each in a process of its own, so that the memory shown is that of the analysis."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        for call, *given in (("write", pattern, ranks, events), ("measure", pattern, ranks, repeat)):
            program = f"from analysis import *; {call}(Path({folder!r}), *{tuple(given)!r})"
            subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, check=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1e6,10e6")
    parser.add_argument("--ranks", default="8,64,1024")
    parser.add_argument("--pattern", default=",".join(PATTERNS))
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    heads = "".join(f"{h:>9}" for h in ("match s", "order s", "races s", "all s", "cpu m.", "cpu all"))
    print(f"{'pattern':7}{'ranks':>6}{'events':>11}{heads}{'peak':>11}{'races':>10}", flush=True)
    for pattern in given.pattern.split(","):
        for events in given.events.split(","):
            for ranks in given.ranks.split(","):
                one(pattern, int(ranks), int(float(events)), given.repeat)


if __name__ == "__main__":
    main()
