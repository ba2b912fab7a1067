"""Damages what Weft reads, at random, and reads it: `make fuzz`, or `python tests/safety/fuzz.py CASES [SEED]`.

Each case is a process of its own with 1 GB beyond what it begins with, and 10 seconds (more on a machine that has more
to do than processors). It must end in a status that the pages name or in an error that is told: no traceback,
no analysis that failed, no hang, no crash.

What a case does follows from its number and the commit: the cases are SEED, SEED + 1, ...; `--case N` does one again.
Inputs of those that failed are kept in build/fuzz, beside what was said.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not os.environ.get("OMP_NUM_THREADS"):
    os.environ["OMP_NUM_THREADS"] = "1"

from fuzzed import files, runs, talk
from fuzzed.runs import Act, Seeds

import weft

SECONDS = 10.0
MEMORY = 1 << 30
RESERVED = 3 << 30
"""Bytes of addresses beyond those that a case begins with: allocators reserve some of which they never use."""
KEPT = Path(__file__).parents[2] / "build" / "fuzz"
MOST_KEPT = 40
ALONE = ("inprocess", "startup", "entry", "gdb", "__main__", "plugin", "weft.numba", "generate")
"""Parts of the names of modules that are for processes of their own."""
OTHERS = (
    "numpy.lib.recfunctions",
    "pyarrow.parquet",
    "pyarrow.csv",
    "_otf2",
    "otf2",
    "tree_sitter_c",
    "pygments.lexers",
)
"""What else cases import when they need it."""
SHOWN = 4000
Make = Callable[[Seeds, Path, random.Random], Act]

KINDS: list[tuple[str, Make]] = [
    ("records", runs.of_records), ("json", runs.of_json), ("hosts", talk.of_hosts), ("packs", runs.of_packs),
    ("records", runs.of_records), ("others", runs.of_others), ("cores", files.of_cores), ("editors", talk.of_editors),
    ("records", runs.of_records), ("json", runs.of_json), ("configurations", files.of_configurations),
    ("packs", runs.of_packs), ("records", runs.of_records), ("directives", files.of_directives),
    ("browsers", talk.of_browsers), ("host packs", files.of_host_packs), ("records", runs.of_records),
    ("json", runs.of_json), ("others", runs.of_others), ("records", runs.of_records), ("pvm", runs.of_pvm),
    ("schedules", files.of_schedules), ("watchers", talk.of_watchers),
]  # fmt: skip
"""By the last digits of a case's number."""


@dataclass
class Case:
    """A case that runs, in a process of its own."""

    number: int
    folder: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def kind(self) -> str:
        """What is damaged."""
        return KINDS[self.number % len(KINDS)][0]

    def said(self, name: str) -> str:
        """What was written to a stream."""
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""


@dataclass
class Tally:
    """What came of all cases."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, 0)
    largest: tuple[int, int] = (0, 0)


# One case


def do(case: Case, seeds: Seeds, watched: bool) -> None:
    """Damage and read, in a process that was forked for it; it ends here. `watched`: by AddressSanitizer."""
    status = 70
    try:
        _to_files(case.folder)
        work = case.folder / "input"
        work.mkdir()
        act = KINDS[case.number % len(KINDS)][1](seeds, work, random.Random(case.number))
        if watched:
            act = lambda: runs.analyse(work / "run")  # noqa: E731
        _tell_failures()
        _limit(watched)
        os.chdir(work)
        outcome = act()
        sys.stdout.flush()
        (case.folder / "outcome").write_text(str(outcome))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _to_files(folder: Path) -> None:
    """Have all that this process writes go to files."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def _limit(watched: bool) -> None:
    """Hold this process to its time and memory. The second alarm is for one that cannot even tell of the first."""
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # others take their part of the processors
    seconds = busy * SECONDS * (6 if watched else 1)
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds, exit=True)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 5)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not watched:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + RESERVED, resource.RLIM_INFINITY))


def _tell_failures() -> None:
    """Have an analysis that fails be a fault of the case, in whatever form the command tells of it."""
    from weft.errors import TraceError
    from weft.report.failure import Failure

    def of(analysis: str, error: Exception) -> Failure:
        if isinstance(error, TraceError):  # which names the damage
            return Failure(analysis, str(error), damaged=True)
        text = "".join(traceback.format_exception(error))
        os.write(2, f"the analysis {analysis} failed\n{text}".encode(errors="replace"))
        return Failure(analysis, str(error))

    Failure.from_exception = of  # type: ignore[method-assign]


def fault(case: Case, status: int, bytes_grown: int) -> str:
    """Why a case is one that must not be; empty where it is not."""
    code = os.waitstatus_to_exitcode(status)
    said = case.said("stderr")
    if "Timeout (" in said or code == -signal.SIGALRM:
        return f"more than {SECONDS:g} s"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    for text in ("Traceback (most recent call last)", "AddressSanitizer", "runtime error:", "Warning:"):
        if text in said:
            return text
    if code:
        return f"status {code}"
    return f"{bytes_grown >> 20} MB more" if bytes_grown > MEMORY else ""


# All cases


def warm() -> None:
    """Import here what cases import, so that none of them has to."""
    found = [module.name for module in pkgutil.walk_packages(weft.__path__, "weft.")]
    wanted = [name for name in found if not any(part in name for part in ALONE)]
    for name in [*wanted, *OTHERS]:
        with suppress(Exception):  # of packages that are not there
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def started(number: int, seeds: Seeds, root: Path, watched: bool) -> tuple[int, Case]:
    """Begin a case; its process."""
    case = Case(number, root / f"case-{number}")
    case.folder.mkdir()
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        os.setsid()
        do(case, seeds, watched)
    return pid, case


def ended(running: dict[int, Case], tally: Tally) -> None:
    """Wait for a case to end, and judge it."""
    pid, status, used = os.wait4(-1, 0)
    case = running.pop(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it may have started
    grown = (used.ru_maxrss << 10) - own_memory()
    tally.slowest = max(tally.slowest, (time.monotonic() - case.began, case.number))
    tally.largest = max(tally.largest, (grown, case.number))
    if why := fault(case, status, grown):
        tally.failed.append(case.number)
        keep(case, why, first=len(tally.failed) <= MOST_KEPT)
        tally.outcomes[case.kind, "FAILED"] += 1
    else:
        tally.outcomes[case.kind, case.said("outcome")] += 1
    shutil.rmtree(case.folder, ignore_errors=True)


def own_memory() -> int:
    """Bytes that a case begins with."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def keep(case: Case, why: str, *, first: bool) -> None:
    """Say what failed and how to do it again; keep its input."""
    print(f"\ncase {case.number} ({case.kind}): {why}", flush=True)
    if not first:
        return
    print(case.said("stderr")[-SHOWN:].rstrip())
    target = KEPT / f"case-{case.number}"
    shutil.rmtree(target, ignore_errors=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.copytree(case.folder, target, symlinks=True, ignore=_no_pipes)
    print(f"its input is kept in {target}; again: python tests/safety/fuzz.py --case {case.number}", flush=True)


def _no_pipes(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if Path(folder, name).is_fifo()}


def numbered(args: argparse.Namespace) -> Iterator[int]:
    """The cases that are asked for."""
    if args.case is not None:
        return iter([args.case])
    wanted = set(args.only.split(",")) if args.only else {name for name, _ in KINDS}
    unknown = wanted - {name for name, _ in KINDS}
    if unknown:
        raise SystemExit(f"--only: there are {', '.join(dict(KINDS))}")
    every = range(args.seed, args.seed + args.cases)
    return (number for number in every if KINDS[number % len(KINDS)][0] in wanted)


def parsed() -> Any:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=int, nargs="?", default=1000)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--case", type=int, help="this case only")
    parser.add_argument("--only", help=f"of {', '.join(dict(KINDS))}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--watched", action="store_true", help="analyses alone, for AddressSanitizer: no limit of memory"
    )
    return parser.parse_args()


def main() -> int:
    """Run the cases; 0 where all ended well."""
    args = parsed()
    root = Path(tempfile.mkdtemp(prefix="weft-fuzz-"))
    tally, running = Tally(), dict[int, Case]()
    began = time.monotonic()
    try:
        (root / "seeds").mkdir()
        seeds = runs.make(root / "seeds")
        if args.case is None:
            warm()
        for number in numbered(args):
            pid, case = started(number, seeds, root, args.watched)
            running[pid] = case
            if len(running) >= args.jobs:
                ended(running, tally)
        while running:
            ended(running, tally)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    report(args, tally, time.monotonic() - began)
    return 1 if tally.failed else 0


def report(args: Any, tally: Tally, seconds: float) -> None:
    """Say what came of it."""
    for (name, outcome), count in sorted(tally.outcomes.items()):
        print(f"{name:16} {outcome:12} {count}")
    number = sum(tally.outcomes.values())
    print(f"{number} cases from seed {args.seed} in {seconds:.0f} s, {len(tally.failed)} failed")
    print(f"slowest {tally.slowest[0]:.1f} s (case {tally.slowest[1]})")
    print(f"largest {max(tally.largest[0], 0) >> 20} MB more (case {tally.largest[1]})")
    if tally.failed:
        print(f"failed: {' '.join(map(str, sorted(tally.failed)))}")


if __name__ == "__main__":
    sys.exit(main())
