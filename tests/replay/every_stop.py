"""Stops before every event of every rank of programs that poll, probe and thread: is each reached, and when?

    python tests/replay/every_stop.py                               # each event once, MPICH
    python tests/replay/every_stop.py --times 3 --venv .venv-openmpi
    python tests/replay/every_stop.py --run RUN                     # of a run that was recorded before
    python tests/replay/every_stop.py --every 5                     # of each rank every fifth event

A stop is right when `weft replay --break RANK:EVENT` ends within 10 seconds with status 0, names where every rank
stands, and either has the rank before that event or says why it lies elsewhere; and when it says the same each time.
Each stop is a line on the terminal and one of JSON in FOLDER (--keep, build/every-stop), beside the run itself: the
same command goes on where it ended. --again begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import weft
from replay.campaign import compile_c, environment
from weft.base.words import rank_words

LIMIT = 10.0
PROGRAMS = {"polls": (4, []), "halo": (4, ["3"]), "threads": (3, ["4"]), "balance": (4, ["4"]), "pool": (4, ["6"])}


def stands(said: str, rank: int) -> list[int]:
    """The events that the threads of a rank stand before, as `weft replay` says."""
    found = []
    for line in said.splitlines():
        told = re.match(r"weft:   ranks? ([\d, and-]+?) (?:thread \d+ )?before event (\d+):", line)
        if told is not None and rank in _ranks(told[1]):
            found.append(int(told[2]))
    return found


def _ranks(words: str) -> set[int]:
    """`0`, `1 and 3`, `1-3`, `0, 1 and 3` as numbers."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", words):
        found |= set(range(int(first), int(last or first) + 1))
    return found


class Tried(NamedTuple):
    """One stop: what is wrong with it (None: nothing), what was said of it, and how long it took."""

    problem: str | None
    said: str
    seconds: float


def stop(command: str, run: Path, rank: int, event: int, out: Path) -> Tried:
    """Stop a replay before one event."""
    shutil.rmtree(out, ignore_errors=True)
    words = [command, "replay", str(run), "--break", f"{rank}:{event}", "--out", str(out), "--timeout", "60"]
    begun = time.monotonic()
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=150, env=environment(), check=False, stdin=subprocess.DEVNULL
    )
    took = time.monotonic() - begun
    told = (line for line in done.stderr.splitlines() if line.startswith("weft:"))
    said = "\n".join(line for line in told if not line.startswith("weft: building the recorder"))  # the first time
    if done.returncode:
        return Tried(f"status {done.returncode}", said, took)
    if event not in stands(said, rank) and f"event {event} of {rank_words([rank])}," not in said:
        return Tried("stops elsewhere without a word", said, took)
    return Tried(None, said, took)


@dataclass
class Campaign:
    """Every stop of a run so many times. `log`: a line of JSON for each that is done."""

    command: str
    run: Path
    times: int
    every: int
    log: Path
    done: list[dict[str, Any]] = field(default_factory=list)

    def all(self) -> None:
        """Try those that are left."""
        known = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        wanted = [
            (rank.index, event) for rank in weft.open(self.run).ranks for event in range(0, len(rank), self.every)
        ]
        self.done = [one for one in known if one["times"] >= self.times and (one["rank"], one["event"]) in wanted]
        left = [stop for stop in wanted if stop not in {(one["rank"], one["event"]) for one in self.done}]
        with tempfile.TemporaryDirectory() as folder, self.log.open("a") as log:
            for rank, event in left:
                one = self.tried(rank, event, Path(folder) / "replay")
                self.done.append(one)
                print(json.dumps(one), file=log, flush=True)
                after = " ".join(f"{seconds:.1f}" for seconds in one["seconds"])
                print(
                    f"  {len(self.done)} of {len(wanted)}: {rank}:{event} {one['problem'] or 'right'}, {after} s",
                    flush=True,
                )
                if one["problem"]:
                    print(one["said"], flush=True)

    def tried(self, rank: int, event: int, out: Path) -> dict[str, Any]:
        """One stop, so many times."""
        tries = [stop(self.command, self.run, rank, event, out) for _ in range(self.times)]
        problem = next((one.problem for one in tries if one.problem), None)
        if problem is None and len({one.said for one in tries}) > 1:
            problem = "says something else each time"
        seconds = [round(one.seconds, 2) for one in tries]
        return {"rank": rank, "event": event, "times": self.times, "seconds": seconds, "problem": problem,
                "said": next((one.said for one in tries if one.problem), tries[0].said)}  # fmt: skip

    def told(self, name: str) -> str:
        """The line that sums it up."""
        right = [one for one in self.done if not one["problem"]]
        seconds = sorted(second for one in self.done for second in one["seconds"])
        late = sum(max(one["seconds"]) > LIMIT for one in right)
        after = f", {late} of them after more than {LIMIT:.0f} s" if late else ""
        took = f"median {statistics.median(seconds):.1f} s, longest {seconds[-1]:.1f} s" if seconds else "none"
        load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        return f"{name}: {len(right)} of {len(self.done)} stops are right{after}; {took} (load {load})"

    @property
    def good(self) -> bool:
        """Whether each stop was right and in time."""
        return not any(one["problem"] or max(one["seconds"]) > LIMIT for one in self.done)


def recorded(command: str, venv: Path, name: str, folder: Path) -> Path:
    """The run of one of our programs, made where it is not there yet."""
    run, (size, words) = folder / f"run-{name}", PROGRAMS[name]
    if not (run / "run.json").exists():
        program = compile_c(venv, f"{name}.c", folder)
        line = [command, "run", "--out", str(run), "-n", str(size), "--", program, *words]
        subprocess.run(line, check=False, timeout=120, env=environment(), capture_output=True)
    return run


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(sys.prefix))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--run", type=Path, help="a recorded run, instead of programs of ours")
    parser.add_argument("--keep", type=Path, default=Path("build/every-stop"), metavar="FOLDER")
    parser.add_argument("--again", action="store_true", help="forget what was tried before")
    args = parser.parse_args()
    command = str(args.venv.absolute() / "bin" / "weft")
    folder = args.keep.absolute() / args.venv.absolute().name
    folder.mkdir(parents=True, exist_ok=True)
    good = True
    for name in [args.run.name] if args.run else args.programs:
        run, log = args.run or recorded(command, args.venv, name, folder), folder / f"{name}.jsonl"
        if args.again:
            log.unlink(missing_ok=True)
        campaign = Campaign(command, run, args.times, args.every, log)
        campaign.all()
        print(campaign.told(name), flush=True)
        good = good and campaign.good
    return not good


if __name__ == "__main__":
    raise SystemExit(main())
