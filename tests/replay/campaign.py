"""Records a program and replays it many times under changing load: is every replay the same?

    python tests/replay/campaign.py                          # every program, 20 replays each
    python tests/replay/campaign.py --replays 200            # the figure of docs/performance.md
    python tests/replay/campaign.py --venv .venv-openmpi --replays 50 --programs pool sums
    python tests/replay/campaign.py --level outcomes --programs counter spin lock

A replay is the same when the program's output is and when each thread's events are: function, communicator, peer,
tag, count, datatype, request, flags and error, failed polls aside where --polls is not given. Also prints how many
different outputs plain runs gave.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import weft
from weft.trace import Rank
from weft.trace.layout import Events, Flag
from weft.trace.rank import Thread

HERE = Path(__file__).parent / "programs"
PROGRAMS = {
    "pool": ("pool.c", 4, ["40"]), "halo": ("halo.c", 4, ["20"]), "balance": ("balance.c", 4, ["30"]),
    "futures": ("futures.py", 3, []), "pickled": ("pickled.py", 4, []), "threads": ("threads.c", 3, ["40"]),
    "sums": ("sums.c", 4, ["20"]),
    **{name: ("windows.c", 4, [name, "15"]) for name in ("counter", "requested", "spin", "lock", "fence")},
    **{f"{name}-py": ("windows.py", 4, [name, "15"]) for name in ("counter", "spin", "lock")},
}  # fmt: skip
POLLS = (
    "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe", "MPI_Request_get_status",
)  # fmt: skip
KEPT = ("function", "comm", "peer", "tag", "count", "datatype", "object", "error")


def environment() -> dict[str, str]:
    """One thread a rank; Open MPI may run as root and on few cores."""
    return os.environ | {
        "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }  # fmt: skip


class Burners:
    """Busy processes beside what runs in the `with` block."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def compile_c(venv: Path, source: str, folder: Path) -> str:
    """A program of this folder, built with the MPI of an environment."""
    program = str(folder / Path(source).stem)
    words = [str(venv / "bin" / "mpicc"), "-g", "-O1", "-o", program, str(HERE / source), "-lpthread"]
    subprocess.run(words, check=True, timeout=120)
    return program


def streams(run: Path) -> list[bytes]:
    """What every thread did, as bytes that are equal for equal replays."""
    found = []
    for rank in weft.open(run).ranks:
        lives = [life for thread in rank.threads for life in thread_lives(rank, thread)]
        found += [calls(rank, events, several=len(lives) > 1) for _, events in sorted(lives, key=lambda life: life[0])]
    return found


def thread_lives(rank: Rank, thread: Thread) -> list[tuple[int, Events]]:
    """The threads that had a slot one after the other: ordinal of creation and events."""
    begun = sorted((d.first_event, d.made) for d in rank.definitions.threads if d.slot == thread.slot) or [(0, 0)]
    ends = [first for first, _ in begun[1:]] + [len(thread.events)]
    return [(made, thread.events[first:end]) for (first, made), end in zip(begun, ends, strict=True)]


def calls(rank: Rank, events: Events, *, several: bool) -> bytes:
    """What a thread of a rank did, `several` beside each other or one behind the other."""
    polls = rank.trace.functions.mask(POLLS)[events["function"]]
    failed = polls & (events["flags"] & (Flag.TRUE | Flag.CLOSED) == Flag.CLOSED) & (events["count"] > 0)
    kept = events[~failed]
    rows = [np.ascontiguousarray(kept[name]).tobytes() for name in KEPT]
    if several:  # ids of objects are given in the order in which threads ask for them
        rows[KEPT.index("object")] = b""
    return b"".join([*rows, (kept["flags"] & ~np.uint8(Flag.BUFFER_CHANGED)).tobytes()])


def campaign(
    name: str,
    venv: Path,
    replays: int,
    folder: Path,
    *,
    plain_runs: int = 5,
    loads: tuple[int, ...] = (0, 0, 1, 2, 3),
    level: str = "trace",
) -> tuple[int, int, int]:
    """Record and replay one program: replays that were the same, replays, different outputs of plain runs."""
    source, ranks, arguments = PROGRAMS[name]
    weft_command = str(venv / "bin" / "weft")
    if source.endswith(".c"):
        program = [compile_c(venv, source, folder)]
    else:
        program = [str(venv / "bin" / "python"), str(HERE / source)]
    program += arguments

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, capture_output=True, text=True, timeout=120, cwd=folder, env=environment(), check=False
        )

    mpiexec = [str(venv / "bin" / "mpiexec"), "-n", str(ranks), *program]
    plain = {run(*mpiexec).stdout for _ in range(plain_runs)}
    run_folder = str(folder / name) + ".run"
    recorded = run(weft_command, "run", "--out", run_folder, "--level", level, "-n", str(ranks), "--", *program)
    if recorded.returncode:
        raise SystemExit(f"{name}: recording ended with {recorded.returncode}\n{recorded.stderr}")
    expected = streams(folder / f"{name}.run") if level == "trace" else []
    same = 0
    for k in range(replays):
        out = folder / f"{name}.replay"
        with Burners(random.choice(loads)):
            again = run(weft_command, "replay", run_folder, "--out", str(out))
        found = streams(out) if out.exists() else []
        expected = expected or found  # a record of level outcomes has no events
        alike = bool(found) and found == expected
        if again.stdout == recorded.stdout and alike and again.returncode == 0:
            same += 1
        else:
            output = "same" if again.stdout == recorded.stdout else "differs"
            print(f"{name}, replay {k}: status {again.returncode}, output {output}, events alike: {alike}")
            print(again.stderr[-1500:], flush=True)
        shutil.rmtree(out, ignore_errors=True)
    return same, replays, len(plain)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(sys.executable).parents[1])
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--level", choices=["trace", "outcomes"], default="trace", help="of the record")
    parser.add_argument("--programs", nargs="+", choices=sorted(PROGRAMS), default=list(PROGRAMS))
    arguments = parser.parse_args()
    worse = 0
    for name in arguments.programs:
        with tempfile.TemporaryDirectory(prefix="weft-replay-") as folder:
            same, count, outputs = campaign(
                name, arguments.venv.absolute(), arguments.replays, Path(folder), level=arguments.level
            )
        print(
            f"{name:10} {same} of {count} replays the same; 5 plain runs gave {outputs} different outputs", flush=True
        )
        worse += same != count
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
