"""Each program recorded once and replayed many times: `python tests/pvm/replays.py [--times 100]`, `make test-pvm`.

A replay is the same where all tasks print the same, and each task's calls come out with the same partners, tags and
numbers of polls. Plain runs of the same program, on a virtual machine without the recorder, show that it varies.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.match import communicates
from weft.trace import Rank

PROGRAMS = Path(__file__).parent / "programs"
RUNS = {
    "master and workers, pvm_mcast": ("races", "pool"),
    "farm with pvm_nrecv and pvm_trecv": ("races", "farm"),
    "probes": ("races", "probes"),
    "a group that is joined in any order": ("races", "team"),
    "notices of a task that is killed": ("races", "notices"),
    "two parents that spawn at once": ("races", "parents"),
    "Fortran": ("fortran",),
}
LIMIT = 120.0
"""Seconds for a command, on a machine that may have much else to do."""


def build(source: Path, folder: Path) -> Path:
    """Compile a program of C or Fortran."""
    target = folder / source.stem
    fortran = source.suffix == ".f"
    command = ["gfortran", "-I/usr/include"] if fortran else ["gcc"]
    libraries = (["-lfpvm3"] if fortran else []) + (["-lgpvm3"] if source.stem in ("group", "races", "fortran") else [])
    subprocess.run([*command, "-g", "-O0", "-o", target, source, *libraries, "-lpvm3"], check=True, timeout=LIMIT)
    return target


def printed(stdout: str, stderr: str) -> list[str]:
    """What the tasks printed: lines of different tasks may come in any order."""
    return sorted([*stdout.splitlines(), *re.findall(r"^\[rank .*$", stderr, re.MULTILINE)])


def outcomes(run: Path) -> list[list[tuple[str, int, int, int]]]:
    """Of each rank its calls, with whom each receive was from, and how many polls failed.

    A task that was killed is stopped at its last message: the calls for itself that it made behind that do not count.
    """
    return [calls(rank) for rank in weft.open(run).ranks]


def calls(rank: Rank) -> list[tuple[str, int, int, int]]:
    """Those of one rank."""
    events = [rank.event(i) for i in range(len(rank))]
    while rank.state != "finalized" and events and not communicates(events[-1].function):
        events.pop()
    return [(event.function.name, event.peer, event.tag, event.polls) for event in events]


def execute(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run one command with a limit."""
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False
    )


def plain(program: Path, words: list[str], folder: Path) -> str:
    """What a program prints on a virtual machine of its own without the recorder."""
    run = folder / "plain"
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "weft.launch.pvm", str(program), *words], capture_output=True, text=True, timeout=LIMIT,
        env=os.environ | {"WEFT_INTERNAL_RUN": str(run)}, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.stdout


@dataclass
class Seen:
    """What came of one program."""

    plain: int
    same: int
    seconds: float
    wrong: list[str]


def examine(program: Path, words: list[str], args: argparse.Namespace) -> Seen:
    """Run it plainly, record it, replay it."""
    cli = [sys.executable, "-m", "weft"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        varied = {plain(program, words, folder) for _ in range(args.plain)}
        run, again = folder / "run", folder / "again"
        done = execute([*cli, "run", "--level", args.level, "--out", run, "--", program, *words])
        first = printed(done.stdout, done.stderr)
        held = outcomes(run) if args.level == "trace" else None
        same, wrong, begun = 0, [], time.monotonic()
        for _ in range(args.times):
            shutil.rmtree(again, ignore_errors=True)
            try:
                back = execute([*cli, "replay", run, "--out", again])
            except subprocess.TimeoutExpired as late:
                wrong.append(f"not over after {late.timeout:g} seconds; it said {late.stderr!r}")
                continue
            if back.returncode or "as recorded" not in back.stderr:
                wrong.append(back.stderr.strip().splitlines()[-1] if back.stderr.strip() else "it said nothing")
            elif printed(back.stdout, back.stderr) != first:
                wrong.append("another thing is printed")
            elif (held := held or outcomes(again)) != outcomes(again):
                wrong.append("other outcomes")
            else:
                same += 1
        return Seen(len(varied), same, (time.monotonic() - begun) / max(args.times, 1), wrong)


def main() -> int:
    """Print a row for each program; the status tells whether all replays were the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="replays of each program")
    parser.add_argument("--plain", type=int, default=10, help="plain runs of each program")
    parser.add_argument("--level", default="trace", choices=("trace", "outcomes"))
    parser.add_argument("names", nargs="*", help="of programs, all where none is given")
    args = parser.parse_args()
    good = True
    print(f"| program | outcomes of {args.plain} plain runs | the same of {args.times} replays | seconds each |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for title, (name, *words) in RUNS.items():
            if args.names and not {name, *words} & set(args.names):
                continue
            source = next(PROGRAMS.glob(f"{name}.*"))
            seen = examine(build(source, Path(temporary)), words, args)
            print(f"| {title} | {seen.plain} | {seen.same} | {seen.seconds:.1f} |", flush=True)
            for why in dict.fromkeys(seen.wrong):
                print(f"  {seen.wrong.count(why)} times: {why}", file=sys.stderr, flush=True)
            good &= seen.same == args.times
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
