"""What `weft check` costs: time beside the plain program, in turn, and instructions by callgrind.

    python benchmarks/check.py [--repeat 5] [--size 2000] [--steps 20] [--no-instructions] [--program FOLDER]...

Jacobi in C-DVMH and in Fortran-DVM, plain and compiled with -O2, against the checked program (without its compilation).
The children that verify reductions run beside the program: their time is in `CPU`. `-p 2x2`: its instructions beside
those without a grid. `memory`: the most that each held. `compiled`: seconds of processor time to mark and compile the
source, the first time and again from the cache. A stencil, a multiplication and a histogram of Numba's on one thread:
processor time of their calls, which they tell themselves; `compiled`: of a whole run that calls nothing, checked and
plain, which is the start of Python and Numba and what they compile. `--program`: these instead, each a folder with the
sources and headers of a program of C-DVMH; instructions are those of whole runs.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weft.check import mark_sources
from weft.dataparallel.compilation import CompileOptions
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import build_program

PROGRAMS = Path(__file__).parent / "programs" / "check"
SMALL = (300, 2)
"""Size and steps where instructions are counted: callgrind takes fifty times as long."""
SMALL_NUMBA = (1000, 2)
"""The same of Numba's programs: a call costs some 500,000 instructions of Python's, whatever it works on."""
VECTORS = {"GLIBC_TUNABLES": ":".join(f"glibc.cpu.x86_rep_{one}sb_threshold=0x40000000" for one in ("mov", "sto"))}
"""Long copies in the C library's own loop: callgrind counts each byte of `rep movsb`, a single instruction, as one."""

ONE_THREAD = {"NUMBA_NUM_THREADS": "1"}

Both = tuple[list[str], list[str]]
"""The commands of the plain and of the checked program."""


@dataclass(frozen=True)
class Measured:
    """Seconds of one run."""

    wall: float
    cpu: float
    memory: int
    """The most that was held, in KiB."""


def run(command: list[str], environment: dict[str, str]) -> Measured:
    """One run, with the children it waited for."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told")
        began = time.perf_counter()
        subprocess.run(
            [str(launcher()), str(told), *command],
            env=os.environ | environment, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        wall = time.perf_counter() - began
        memory, spent = map(int, told.read_text().split())
    return Measured(wall, spent / 1e6, memory)


@cache
def launcher() -> Path:
    """What starts programs and tells their memory: this process is larger than most of them."""
    made = Path(tempfile.mkdtemp(prefix="weft-bench-")) / "held"
    atexit.register(shutil.rmtree, made.parent)
    subprocess.run(["gcc", "-O1", PROGRAMS / "held.c", "-o", made], check=True)
    return made


def instructions(command: list[str], environment: dict[str, str]) -> int:
    """Instructions of the program itself."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    given = os.environ | VECTORS | environment
    done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=900, check=True)
    return int(re.findall(r"Collected\s*:\s*(\d+)", done.stderr)[-1])  # the children ended before


def compiled(sources: Sequence[str | Path], cache: Path) -> list[float]:
    """Processor seconds of marking and compiling a program: with no object kept, and with those that this left."""
    words = [str(Path(sys.executable).parent / "weft"), "check", "--timeout", "0.01", *map(str, sources)]
    spent = []
    for kept in (False, False, True):  # the first time the runtime is compiled, too
        for one in () if kept else cache.glob("weft/check/objects/*"):
            one.unlink()
        before = os.times()
        subprocess.run(
            words, env=os.environ | {"WEFT_CACHE": str(cache)}, capture_output=True, timeout=300, check=False
        )
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return spent[1:]


def prepared(name: str, compiler: str, size: int, steps: int, folder: Path) -> Both:
    """The plain and the checked program."""
    text = (PROGRAMS / name).read_text().replace("@SIZE@", str(size)).replace("@STEPS@", str(steps))
    source = folder / name
    source.write_text(text)
    plain = folder / f"{source.stem}-plain-{size}"
    other = source.with_suffix(".c" if compiler == "gcc" else ".f90")
    other.write_text(text)
    subprocess.run([compiler, "-O2", "-w", str(other), "-o", str(plain), "-lm"], check=True)
    marked, texts = mark_sources([source])
    room = folder / f"{source.stem}-{size}"
    room.mkdir(exist_ok=True)
    program = build_program(marked, room)
    found = folder / "findings.jsonl"
    found.unlink(missing_ok=True)
    run([str(program)], {"WEFT_INTERNAL_CHECK_FINDINGS": str(found)})
    assert read_findings(found, texts) == [], "the benchmark's program is right"
    return [str(plain)], [str(program)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--no-instructions", action="store_true")
    parser.add_argument("--program", action="append", default=[], type=Path, metavar="FOLDER")
    args = parser.parse_args()
    print(f"Jacobi {args.size}², {args.steps} steps; medians of {args.repeat} in turn; seconds")
    print(f"{'':46}{'':8}{f'instructions, {SMALL[0]}²':>23}{'compiled, CPU':>17}")
    print(f"{'':14}{'plain':>8}{'checked':>9}{'times':>7}{'CPU':>8}{'memory':>8}"
          f"{'times':>14}{'-p 2x2':>9}{'first':>11}{'again':>6}")  # fmt: skip
    for program in args.program:
        with tempfile.TemporaryDirectory() as held:
            program_row(program, args, Path(held))
    if args.program:
        return 0
    for name, compiler in (("jacobi.cdv", "gcc"), ("jacobi.fdv", "gfortran")):
        if not shutil.which(compiler):
            print(f"{name}: no {compiler}")
            continue
        with tempfile.TemporaryDirectory() as held:
            row(name, compiler, args, Path(held))
    for kernel in ("stencil.py", "product.py", "histogram.py"):
        with tempfile.TemporaryDirectory() as held:
            numba_row(kernel, args, Path(held))
    return 0


def told(command: list[str]) -> str:
    """What a program of Numba's says, on one thread."""
    return subprocess.run(
        command, env=os.environ | VECTORS | ONE_THREAD, capture_output=True, text=True, check=True, timeout=900
    ).stdout


def numba_row(kernel: str, args: argparse.Namespace, folder: Path) -> None:
    """The line of a program of Numba's: its instructions, too, are those of its calls alone."""
    program = str(PROGRAMS / kernel)
    weft = str(Path(sys.executable).parent / "weft")
    plain, checked = [sys.executable, program], [weft, "check", program]
    case = [str(args.size), str(5 * args.steps)]  # as long as Jacobi
    runs = [[float(told([*command, *case]).split()[0]) for command in (plain, checked)] for _ in range(args.repeat)]
    bare, full = (statistics.median(column) for column in zip(*runs, strict=True))
    times = statistics.median(two / one for one, two in runs)
    whole = [run([*command, *case], ONE_THREAD) for command in (plain, checked)]
    idle = [run([*command, *case[:1], "0"], ONE_THREAD).cpu for command in (checked, plain)]
    text = f"{kernel:14}{bare:8.2f}{full:9.2f}{times:7.1f}{full:8.2f}{whole[1].memory / whole[0].memory:8.1f}"
    if not args.no_instructions and shutil.which("valgrind") and Path("/usr/include/valgrind").exists():
        library = str(folder / "counted.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", PROGRAMS / "counted.c", "-o", library], check=True)
        few, more = (counted([*command, *map(str, SMALL_NUMBA), library], folder) for command in (plain, checked))
        text += f"{more / few:14.1f}"
    print(f"{text:76}{idle[0]:12.2f}{idle[1]:6.2f}", flush=True)


def counted(command: list[str], folder: Path) -> int:
    """Instructions between the program's own marks, in whichever of its processes they are."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no",
             "--trace-children=yes", f"--log-file={folder}/%p.log"]  # fmt: skip
    told([*words, *command])
    logs = list(folder.glob("*.log"))
    found = [int(count) for log in logs for count in re.findall(r"Collected\s*:\s*(\d+)", log.read_text())]
    for log in logs:
        log.unlink()
    return max(found)


def row(name: str, compiler: str, args: argparse.Namespace, folder: Path) -> None:
    """The line of one program of ours."""
    both = prepared(name, compiler, args.size, args.steps, folder)
    line(name, both, lambda: prepared(name, compiler, *SMALL, folder), [folder / name], args)


def program_row(program: Path, args: argparse.Namespace, folder: Path) -> None:
    """The line of a program in a folder."""
    sources = sorted(path.resolve() for path in program.glob("*.c"))
    plain = folder / "plain"
    subprocess.run(["gcc", "-O2", "-w", *map(str, sources), "-o", str(plain), "-lm"], check=True)
    include = (program.resolve(),)
    options = CompileOptions(include=include, link=("-lm",))
    checked = build_program(mark_sources(sources, options)[0], folder, options)
    both = [str(plain)], [str(checked)]
    line(program.name, both, lambda: both, [f"-I{program.resolve()}", *sources], args)


def line(
    name: str, both: Both, counted_ones: Callable[[], Both], sources: Sequence[str | Path], args: argparse.Namespace
) -> None:
    """Measure a plain and a checked program, and those whose instructions are counted."""
    plain, checked = both
    environment = {"WEFT_INTERNAL_CHECK_FINDINGS": os.devnull}
    runs = [(run(plain, {}), run(checked, environment)) for _ in range(args.repeat)]
    bare = statistics.median(one.wall for one, _ in runs)
    full = statistics.median(two.wall for _, two in runs)
    text = f"{name:14}{bare:8.2f}{full:9.2f}{full / bare:7.1f}"
    text += f"{statistics.median(two.cpu for _, two in runs):8.2f}"
    text += f"{max(two.memory for _, two in runs) / max(one.memory for one, _ in runs):8.1f}"
    if not args.no_instructions and shutil.which("valgrind"):
        few, more = counted_ones()
        count = instructions(more, environment)
        grid = instructions(more, environment | {"WEFT_INTERNAL_CHECK_GRID": "2x2"})
        text += f"{count / instructions(few, {}):14.1f}{grid / count:9.2f}"
    else:
        text += f"{'':23}"
    with tempfile.TemporaryDirectory() as cache:
        first, again = compiled(sources, Path(cache))
    print(f"{text}{first:11.2f}{again:6.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
