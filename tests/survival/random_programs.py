"""Runs random programs with Weft and without, and compares: `make harm`.

Or `python tests/survival/random_programs.py CASES [SEED]`. A case is a seed of programs/random.c: threads, parts that
come by dlopen, derived types, one-sided calls, memory of a device and mappings that come and go. It says what it says
without Weft, on its ranks, with the same status; so it does with options of `weft run` that look at memory, and built
by `weft cc`. `1 N` does case N again.

MPICH's launcher kills ranks now and then that have left MPI and are on their way out (docs/commands/run.md). Such a run
is made anew, with Weft and without; how often that was is told of both.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from survival import unreadable
from tests_support import WEFT, execute
from weft.launch.plan import SLEEP_BETWEEN_POLLS
from weft.mpi import shim

PROGRAMS = Path(__file__).parent / "programs"
OPTIONS = ("--hash-messages", "--whole-buffers", "--no-sources", "--watch-findings", "--in-place")
SECONDS = 60.0
ATTEMPTS = 5
KILLED = "=   EXIT CODE: 9"


@dataclass(frozen=True)
class Built:
    """The program as the compiler makes it, and as `weft cc` does; the part that it opens, and the launcher."""

    programs: tuple[Path, Path]
    part: Path
    mpiexec: tuple[str, ...]


@dataclass(frozen=True)
class Said:
    """What a program has printed, rank by rank, and its status."""

    lines: list[str]
    status: int


def built(mpicc: str, mpiexec: tuple[str, ...], folder: Path) -> Built:
    """Compile all that the cases need."""
    exported = shim.probe_library(mpicc).exported
    (folder / "taking.inc").write_text(unreadable.stand_in(exported))
    device, part, programs = folder / "libstandin.so", folder / "part.so", (folder / "plain", folder / "by-weft-cc")
    _compile([mpicc, "-w", "-shared", "-fPIC", "-I", folder, "-o", device, PROGRAMS / "standin.c", "-ldl"])
    _compile([mpicc, "-w", "-g", "-shared", "-fPIC", "-o", part, PROGRAMS / "part.c"])
    for program, first in zip(programs, ([], [*WEFT, "cc"]), strict=True):
        _compile([*first, mpicc, "-w", "-g", "-O1", "-pthread", "-o", program, PROGRAMS / "random.c", device,
                  f"-Wl,-rpath,{folder}", "-ldl"])  # fmt: skip
    return Built(programs, part, mpiexec)


def _compile(words: list[str | Path]) -> None:
    done = execute(words, timeout=120)
    if done.returncode:
        raise SystemExit(done.stderr)


def said(words: list[str | Path], folder: Path) -> tuple[Said, str]:
    """Run a command; return what it said, and its standard error."""
    process = subprocess.Popen([str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    try:
        out, error = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, error = process.communicate()
        return Said(sorted(out.splitlines()), -9), error
    return Said(sorted(out.splitlines()), process.returncode), error


def said_by_ranks(words: list[str | Path], folder: Path, killed: Counter[str]) -> tuple[Said, str]:
    """The same, of a run whose ranks the launcher let come to their end."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder / "run", ignore_errors=True)
        what, error = said(words, folder)
        if KILLED not in what.lines:
            break
        killed["with" if "weft" in words else "without"] += 1
    return what, error


def difference(number: int, made: Built, folder: Path, killed: Counter[str]) -> tuple[str, str]:
    """Run one case; return what differs with Weft, or nothing, and its options."""
    chance = random.Random(number)
    program, ranks = chance.choice(made.programs), chance.randint(1, 3)
    options = [option for option in OPTIONS if chance.random() < 0.3] if chance.random() < 0.8 else ["--level=outcomes"]
    words = [*made.mpiexec, "-n", str(ranks), program, str(number), made.part]
    try:
        plain, error = said_by_ranks(words, folder, killed)
        if len(plain.lines) < ranks:
            return f"without Weft it says {plain}\n{error}", ""
        line = [*WEFT, "run", "--out", folder / "run", *options, "--", *words]
        with_weft, told = said_by_ranks(line, folder, killed)
    finally:
        shutil.rmtree(folder)
    what = " ".join([program.name, "on", str(ranks), *options])
    is_hurt = plain != with_weft or "weft-error" in told or "Traceback" in told
    return f"{plain}\nwith Weft {with_weft}\n{told}" if is_hurt else "", what


def main() -> int:
    """Run the cases; 0 where Weft changed nothing in any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent, help="where mpicc and mpiexec lie")
    args = parser.parse_args()
    hurt, begun, killed = [], time.monotonic(), Counter[str]()
    os.environ |= {"OMP_NUM_THREADS": "1", **SLEEP_BETWEEN_POLLS}
    with (
        tempfile.TemporaryDirectory(prefix="weft-harm-") as name,
        concurrent.futures.ThreadPoolExecutor(args.jobs) as pool,
    ):
        made = built(str(args.bin / "mpicc"), (str(args.bin / "mpiexec"),), Path(name))

        def case(number: int) -> tuple[int, str, str]:
            return number, *difference(number, made, Path(tempfile.mkdtemp(dir=name)), killed)

        for number, differs, what in pool.map(case, range(args.seed, args.seed + args.cases)):
            if differs:
                hurt.append(number)
                print(f"case {number} ({what}): {differs}", flush=True)
    print(f"{args.cases} cases from seed {args.seed} in {time.monotonic() - begun:.0f} s, {len(hurt)} differ: {hurt}")
    print(f"ranks killed by their launcher on their way out, and run anew: {dict(killed)}")
    return 1 if hurt else 0


if __name__ == "__main__":
    sys.exit(main())
