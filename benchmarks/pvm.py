"""What recording and replay of PVM cost: the ring of dbxR-II, processor time of whole programs, bytes a receive.

    python benchmarks/pvm.py [--repeat 9] [--rings 10] [--program "PATH ARGS"]... [--count "PATH ARGS"]...

Without and with the recorder a program runs on a virtual machine of its own (`weft.launch.pvm`), in turn; the
processor time is that of the daemon and of all tasks together. Instructions of `--count` are those of all tasks, by
callgrind: they do not vary where the program sends the same messages each time.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from weft.launch.pvm import machine
from weft.pvm import recorder
from weft.trace.layout import LogKind, StreamKind
from weft.trace.outcome_log import decode_outcomes
from weft.trace.rankfile import RankFile

PROGRAMS = Path(__file__).parent / "programs" / "pvm"
LEVELS = ("outcomes", "trace")
TASKS = (2, 4, 6)
ROUNDS = 50
POOL = ("2", "1000", "200000")
"""Workers, tasks, steps of one: about a millisecond."""


def start(
    command: list[str], folder: Path, level: str, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program on a virtual machine of its own, recorded at a level ("": not)."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "ranks").mkdir(parents=True)
    given = {"WEFT_INTERNAL_LEVEL": level, machine.PRELOAD: str(recorder.build_recorder().path)} if level else {}
    return subprocess.run(
        [sys.executable, "-m", "weft.launch.pvm", *command], capture_output=True, text=True,
        env={**os.environ, "WEFT_INTERNAL_RUN": str(folder), **given, **(more or {})}, timeout=600,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def run(command: list[str], folder: Path, level: str) -> tuple[str, float]:
    """What a program prints, and the processor seconds that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = start(command, folder, level)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def rings(programs: Path, folder: Path, times: int) -> Iterator[str]:
    """The ring: the least of each of its three times in ms without the recorder, with it, and replayed."""
    yield row(["tasks", "", "PVM is there", "spawn", f"{ROUNDS} rounds"])
    yield row(["---"] * 5)
    cli = [sys.executable, "-m", "weft"]
    for tasks in TASKS:
        command = [str(programs / "ring"), str(tasks), str(ROUNDS)]
        took: dict[str, list[list[float]]] = {}
        subprocess.run([*cli, "run", "--out", folder / "kept", "--", *command], capture_output=True, check=True)
        for _ in range(times):
            for level in ("", *LEVELS):
                took.setdefault(level or "plain", []).append(
                    [*map(float, run(command, folder / "run", level)[0].split())]
                )
            for name, options in (("replay", []), ("replay --sequential", ["--sequential"])):
                again = [*cli, "replay", folder / "kept", *options, "--out", folder / "again"]
                done = subprocess.run(again, capture_output=True, text=True, check=True)
                took.setdefault(name, []).append([*map(float, done.stdout.split())])
                shutil.rmtree(folder / "again")
        shutil.rmtree(folder / "kept")
        for mode, rows in took.items():
            least = [min(column) for column in zip(*rows, strict=True)]  # other work on the machine only adds
            yield row([str(tasks), mode, *(f"{ms:.1f}" for ms in least)])


def costs(commands: list[list[str]], folder: Path, repeat: int) -> Iterator[str]:
    """Processor time of whole programs, and what the recorder adds."""
    yield row(["program", "plain, s", *(f"`{level}` adds" for level in LEVELS), "bytes a receive of any task"])
    yield row(["---"] * 5)
    for command in commands:
        took: dict[str, list[float]] = {level: [] for level in ("", *LEVELS)}
        bytes_ = 0.0
        for _ in range(repeat):
            for level, seconds in took.items():
                seconds.append(run(command, folder / "run", level)[1])
                if level == "outcomes":
                    bytes_ = bytes_a_receive(folder / "run")
        plain = statistics.median(took[""])
        added = [
            statistics.median((one - other) / other * 100 for one, other in zip(took[level], took[""], strict=True))
            for level in LEVELS
        ]
        name = " ".join([Path(command[0]).name, *command[1:]])
        yield row([name, f"{plain:.2f}", *(f"{more:+.1f} %" for more in added), f"{bytes_:.2f}"])


def instructions(pool: Path, folder: Path) -> Iterator[str]:
    """Instructions of the master of a pool for one task, by callgrind: those of many tasks less those of few."""
    few, many = 100, 600
    counted = {}
    for level in ("", *LEVELS):
        totals = []
        for tasks in (few, many):
            words = [
                "valgrind",
                "--tool=callgrind",
                "--callgrind-out-file=/dev/null",
                str(pool),
                "2",
                str(tasks),
                "1000",
            ]
            done = start(words, folder / "run", level)
            total = re.search(r"Collected : (\d+)", done.stderr)
            if total is None:
                raise SystemExit(f"callgrind failed: {done.stderr}")
            totals.append(int(total[1]))
        counted[level] = (totals[1] - totals[0]) / (many - few)
    more = [f"+{counted[level] - counted['']:,.0f}" for level in LEVELS]
    yield row(["instructions of the master for a task", f"{counted['']:,.0f}", *more, ""])


def counts(commands: list[list[str]], folder: Path) -> Iterator[str]:
    """Instructions of all tasks of whole programs, and what the recorder adds."""
    for command in commands:
        counted = {level: counted_of(command, folder, level) for level in ("", *LEVELS)}
        more = [f"{(counted[level] - counted['']) / counted[''] * 100:+.3f} %" for level in LEVELS]
        name = " ".join([Path(command[0]).name, *command[1:]])
        yield row([f"{name}: millions of instructions", f"{counted[''] / 1e6:,.1f}", *more, ""])


def counted_of(command: list[str], folder: Path, level: str) -> int:
    """Those of one run. Programs beside the one that is started are counted where it spawns them by their name."""
    logs, beside = folder / "logs", folder / "home/pvm3/bin/LINUX64"
    for place in (logs, beside):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={logs}/%p"]
    for program in Path(command[0]).absolute().parent.iterdir():
        if program.is_file() and os.access(program, os.X_OK):
            script = beside / program.name
            script.write_text(f'#!/bin/sh\nexec {" ".join(counting)} {program} "$@"\n')
            script.chmod(0o755)
    done = start([*counting, *command], folder / "run", level, {"HOME": str(folder / "home")})
    totals = [re.search(r"Collected : (\d+)", log.read_text()) for log in logs.iterdir()]
    if done.returncode or not totals or None in totals:
        raise SystemExit(f"callgrind failed: {done.stderr}")
    return sum(int(total[1]) for total in totals if total)


def bytes_a_receive(folder: Path) -> float:
    """Bytes of the log, by the messages that were taken or seen without a name, or by a poll."""
    nibbles = messages = 0
    for path in (folder / "ranks").glob("*.weft"):
        file = RankFile(path)
        for slot in file.threads():
            length = file.nibbles(slot)
            kinds = [kind for kind, _ in decode_outcomes(file.stream(StreamKind.OUTCOMES, slot), length)]
            nibbles += length
            messages += sum(kinds.count(kind) for kind in (LogKind.SOURCE, LogKind.DONE))
            messages += kinds.count(LogKind.TAKEN) // 2
    return nibbles / 2 / max(messages, 1)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--rings", type=int, default=10)
    parser.add_argument("--program", action="append", default=[], help="another program, with its arguments")
    parser.add_argument("--count", action="append", default=[], help="a program whose instructions are counted")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for source in PROGRAMS.glob("*.c"):
            subprocess.run(["gcc", "-O2", "-o", folder / source.stem, source, "-lpvm3"], check=True)
        for line in rings(folder, folder, args.rings) if args.rings else ():
            print(line, flush=True)
        commands = [[str(folder / "pool"), *POOL], *(program.split() for program in args.program)]
        for line in costs(commands, folder, args.repeat) if args.repeat else ():
            print(line, flush=True)
        for line in counts([program.split() for program in args.count], folder):
            print(line, flush=True)
        for line in instructions(folder / "pool", folder) if args.repeat and shutil.which("valgrind") else ():
            print(line, flush=True)


if __name__ == "__main__":
    main()
