"""What a step back and `reverse-continue` cost on a run of 100,000 calls: time on the wall, and of all processors.

    python benchmarks/back.py [--calls 100000] [--steps 12] [--write]

Four ranks of back.c stand in the middle of their run. The first step back starts its replays; the ones behind it find
replays that wait, as a person looks at each stop until two wait again. --write puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from capture import Row, markdown, write

from weft.debug.debugger import Debugger
from weft.tasks.ranks import TaskPrompt, attach_debugger_to_rank, prepare_replay_folder

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
RANKS = 4
AGAIN = "until two wait again"
LIMIT, LIMIT_TO_BREAKPOINT = 1.0, 3.0
"""Seconds that a step back, and that a way back to a breakpoint may take."""
TO_BREAKPOINT = "to the breakpoint before"
HERTZ = os.sysconf("SC_CLK_TCK")


def descendants() -> dict[str, float]:
    """Processor time of this process and its descendants, by process and its start."""
    rows: dict[int, tuple[int, str, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            spent = (int(words[11]) + int(words[12])) / HERTZ
            rows[int(entry.name)] = int(words[1]), f"{entry.name} since {words[19]}", spent
    mine = {os.getpid()}
    while found := {pid for pid, (parent, _, _) in rows.items() if parent in mine and pid not in mine}:
        mine |= found
    return {rows[pid][1]: rows[pid][2] for pid in mine}


class Meter:
    """Looks at the processes again and again, as those that have ended are nowhere to be read."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._seen |= descendants()
            time.sleep(0.1)

    def spent(self) -> float:
        """Seconds so far."""
        self._seen |= descendants()
        return sum(self._seen.values())


def recorded(folder: Path, name: str, ranks: int, rounds: int) -> tuple[Path, int]:
    """A run of so many rounds of one of our programs, and its line at which ranks are to stand."""
    source = HERE / "programs" / name
    line = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if "/* here */" in text)
    compiler, program = "mpicxx" if source.suffix == ".cpp" else "mpicc", folder / source.stem
    subprocess.run([BIN / compiler, "-g", "-O0", "-o", program, source], check=True, timeout=120)
    command = [BIN / "weft", "run", "--out", folder / "run", "-n", str(ranks), program, str(rounds)]
    subprocess.run(command, check=True, timeout=600, stderr=subprocess.DEVNULL)
    return folder / "run", line


Cost = tuple[str, float, float]
"""What, its seconds on the wall, and those of processors."""


def steps(run: Path, line: int, calls: int, count: int) -> Iterator[Cost]:
    """Commands that go back, and behind each what it takes until two replays wait again."""
    debugger = Debugger(run, lambda _: (), hand=attach_debugger_to_rank, prepare=prepare_replay_folder)
    prompt, meter = TaskPrompt(debugger, as_json=True), Meter()
    try:
        debugger.first()
        for command in (f"until 1:{calls // RANKS // 2}", f"break 1:back.c:{line}", "continue", "delete", "rank 1"):
            prompt.answer(command)
        for nth in range(count + count // 3):
            if nth == count:
                prompt.answer(f"break 1:back.c:{line}")
            before, since = meter.spent(), time.monotonic()
            prompt.answer("reverse-next @1" if nth < count else "reverse-continue")
            took = time.monotonic() - since
            stop = debugger.describe_thread(1)["at"]
            place = f"{stop['function']}:{stop['line']}" if nth < count else TO_BREAKPOINT
            yield place, took, (between := meter.spent()) - before
            since = time.monotonic()
            for checkpoint in debugger.checkpoints.kept:
                checkpoint.thread.join()
            yield AGAIN, time.monotonic() - since, meter.spent() - between
    finally:
        debugger.close()


def table(calls: int, count: int) -> Iterator[Row]:
    """Seconds of a step back, and of a way back to a breakpoint, on 4 ranks."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        run, line = recorded(Path(name), "back.c", RANKS, calls // RANKS)
        found = []
        for one in steps(run, line, calls, count):
            found.append(one)
            print(f"  {one[0]:<20} {one[1]:.2f} s, of processors {one[2]:.2f} s", flush=True)
    yield ["step back", "seconds, median", "longest", "of processors, median", "longest"]
    far = [one for one in found if one[0] == TO_BREAKPOINT]
    back = [one for one in found if one[0] not in (AGAIN, TO_BREAKPOINT)]
    waits = [one for one in found if one[0] == AGAIN]
    rows = ("the first", back[:1]), ("each one after it", back[1:]), (TO_BREAKPOINT, far), (AGAIN, waits)
    for title, some in rows:
        wall, spent = sorted(took for _, took, _ in some), sorted(used for _, _, used in some)
        limit = {"each one after it": LIMIT, TO_BREAKPOINT: LIMIT_TO_BREAKPOINT}.get(title, wall[-1])
        over = "" if wall[-1] <= limit else f" **over {limit}**"
        yield [title, f"{statistics.median(wall):.2f}", f"{wall[-1]:.2f}{over}", f"{statistics.median(spent):.2f}",
               f"{spent[-1]:.2f}"]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000, help="calls of the run (default 100000)")
    parser.add_argument("--steps", type=int, default=12, help="steps back (default 12)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    text = markdown(list(table(options.calls, options.steps)))
    print(f"\n{(table.__doc__ or '').splitlines()[0]}\n\n{text}")
    if options.write:
        write("back", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
