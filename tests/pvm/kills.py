"""Running programs of PVM killed at random moments: `python tests/pvm/kills.py [--times 200]`, `make test-pvm`.

Whoever is killed, master, child or daemon, each record can be read up to its last call, and no process is left running
and no file of the virtual machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import weft
from pvm.replays import PROGRAMS, build
from tests_support import WEFT


def relatives(*named: Path) -> list[int]:
    """Processes that have to do with a run or its virtual machine: their environment or what they map names it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            known = (process / "environ").read_bytes() + (process / "maps").read_bytes()
            if any(str(one).encode() in known for one in named):
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def lines_of(*named: Path) -> dict[int, bytes]:
    """The command lines of those processes."""
    found = {}
    for pid in relatives(*named):
        with contextlib.suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return found


def machine_of(run: Path) -> Path:
    """Where the virtual machine of a run keeps its files."""
    return Path((run / "pvm/folder.txt").read_text())


def victim(run: Path, folder: Path, who: str, weft_run: int) -> int:
    """The process that is to be killed."""
    if who == "weft run":
        return weft_run
    lines = lines_of(run, folder)
    patterns = {
        "machine": rb"launch\.pvm",
        "daemon": rb"pvmd",
        "server": rb"pvmgs",
        "master": rb"^\S*busy $",
        "child": rb"^\S*busy $",
    }
    fitting = sorted(pid for pid, line in lines.items() if re.search(patterns[who], line))
    return fitting[0] if who != "child" else fitting[-1]


@dataclass
class Killed:
    """Who was killed in a run."""

    folder: Path
    """Where its virtual machine kept its files."""
    records: int
    """How many tasks had a record by then."""


def kill(program: Path, run: Path, who: str, number: int, after: float) -> Killed:
    """Start a program, kill a part of it, and wait until nothing is left. AssertionError where something stays."""
    process = subprocess.Popen(
        [*WEFT, "run", "--out", str(run), "--", str(program)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # noqa: PLW1509 - one thread
    )  # fmt: skip
    try:
        wait_until("four tasks have a record", lambda: started(process, run))
        folder = machine_of(run)
        assert folder.is_dir()
        time.sleep(after)
        os.kill(victim(run, folder, who, process.pid), number)
        wait_until("weft run has ended", lambda: process.poll() is not None, lambda: lines_of(run, folder))
        wait_until("nothing is left running", lambda: not relatives(run, folder), lambda: lines_of(run, folder))
        wait_until("its folder is gone", lambda: not folder.exists(), lambda: sorted(folder.rglob("*")))
    finally:
        process.kill()
        process.wait()
    return Killed(folder, len(list((run / "ranks").glob("*.weft"))))


def started(process: subprocess.Popen[bytes], run: Path) -> bool:
    """Whether all tasks have begun. AssertionError where the run has ended before."""
    assert process.poll() is None, f"weft run ended with status {process.returncode} before anybody was killed"
    return len(list((run / "ranks").glob("*.weft"))) == 4


def wait_until(
    what: str, holds: Callable[[], bool], instead: Callable[[], object] = lambda: "", limit: float = 60.0
) -> None:
    """Wait for something to hold. AssertionError with what is there `instead` where it does not come."""
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, f"after {limit:g} seconds it does not hold that {what}: {instead()}"
        time.sleep(0.05)


def main() -> int:
    """Kill as often as asked; the status tells whether all held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    args = parser.parse_args()
    chance, kills, calls, failures = random.Random(), Counter[str](), 0, []
    with tempfile.TemporaryDirectory() as temporary:
        program = build(PROGRAMS / "busy.c", Path(temporary))
        for attempt in range(args.times):
            who = ("master", "child", "daemon")[attempt % 3]
            run = Path(temporary) / f"run-{attempt}"
            try:
                killed = kill(program, run, who, signal.SIGKILL, chance.uniform(0, 0.15))
                ranks = weft.open(run).ranks
                assert len(ranks) == killed.records == 4, f"{len(ranks)} of {killed.records} records are read"
                calls += sum(map(len, ranks))
                assert all(len(rank) and rank.event(len(rank) - 1).function.name for rank in ranks), "a record is empty"
            except (AssertionError, OSError, subprocess.TimeoutExpired, weft.errors.WeftError) as error:
                failures.append(f"{who}: {error}")
            kills[who] += 1
    print(f"killed: {dict(kills)}; {calls} calls recorded; {len(failures)} failed", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
