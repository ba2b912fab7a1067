"""What `weft check` of an OpenMP program costs: processor time and memory beside the plain program, in turn.

    python benchmarks/openmp.py [--repeat 3] [NAME ...]

Jacobi, a product of matrices, quicksort with tasks, a product with a sparse matrix, and loops that compute little
(trivial, tiles, regions, swap), plain (-O2, one thread), checked (compilation apart), under gcc's thread sanitizer and,
where clang and libarcher are there, under Archer (one thread). Ratios are those of runs in turn, their median; memory
is the most that any run held. Of loops that compute little, also how the check grows with n, 2n and 4n.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from check import Measured, run
from weft.dataparallel.front_end import CheckRequest
from weft.openmp.build import build_program

PROGRAMS = Path(__file__).parent / "programs" / "openmp"
CASES = {
    "jacobi": ("2000", "20"), "product": ("700",), "quicksort": ("3000000",), "csr": ("300000", "40"),
    "trivial": ("8000000",), "tiles": ("100",), "regions": ("40000",), "swap": ("100000",),
}  # fmt: skip
LINEAR = ("trivial", "tiles", "regions", "swap")
ONE = {"OMP_NUM_THREADS": "1", "WEFT_INTERNAL_CHECK_FINDINGS": os.devnull, "TSAN_OPTIONS": "report_bugs=0"}
QUIET = "report_bugs=0:ignore_noninstrumented_modules=1"


def compiled(source: Path, folder: Path, compiler: str, *flags: str) -> Path:
    """A program as its user compiles it."""
    made = folder / f"{source.stem}-{Path(compiler).name}-{len(flags)}"
    subprocess.run([compiler, "-O2", "-g", "-fopenmp", *flags, str(source), "-o", str(made)], check=True)
    return made


def archer() -> tuple[str, str] | None:
    """The clang and the libarcher of one LLVM."""
    for llvm in sorted(Path("/usr/lib").glob("llvm-*")):
        clang = shutil.which(llvm.name.replace("llvm", "clang"))
        library, sanitizer = llvm / "lib/libarcher.so", "lib/clang/*/lib/linux/libclang_rt.tsan-*"
        if clang and library.exists() and any(llvm.glob(sanitizer)):
            return clang, str(library)
    return None


def programs(stem: str, folder: Path) -> dict[str, tuple[Path, dict[str, str]]]:
    """The ways in which a program runs, plain first, with their environments."""
    source = PROGRAMS / f"{stem}.c"
    ways = {
        "plain": (compiled(source, folder, "gcc"), ONE),
        "checked": (build_program(CheckRequest((source,)), folder).path, ONE),
        "TSan": (compiled(source, folder, "gcc", "-fsanitize=thread"), ONE),
    }
    if found := archer():
        clang, library = found
        environment = ONE | {"OMP_TOOL_LIBRARIES": library, "TSAN_OPTIONS": QUIET}
        ways["Archer"] = (compiled(source, folder, clang, "-fsanitize=thread"), environment)
    return ways


def measured(stem: str, repeat: int, folder: Path) -> dict[str, list[Measured]]:
    """The runs of each way, one way after the other, again and again."""
    ways = programs(stem, folder)
    runs: dict[str, list[Measured]] = {way: [] for way in ways}
    for _ in range(repeat):
        for way, (program, environment) in ways.items():
            runs[way].append(run([str(program), *CASES[stem]], environment))
    return runs


def growth(stem: str, folder: Path) -> list[float]:
    """The processor time of a check of a fourth, a half and all of a program's size."""
    program, environment = build_program(CheckRequest((PROGRAMS / f"{stem}.c",)), folder).path, ONE
    size = int(CASES[stem][0])
    return [run([str(program), str(size // part)], environment).cpu for part in (4, 2, 1)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    repeat = arguments.repeat
    for stem in arguments.names or CASES:
        with tempfile.TemporaryDirectory() as name:
            runs = measured(stem, repeat, Path(name))
        plain = runs.pop("plain")
        memory = max(one.memory for one in plain)
        told = [f"{stem:<10} plain {statistics.median(one.cpu for one in plain):.2f} s"]
        for way, those in runs.items():
            times = statistics.median(one.cpu / other.cpu for one, other in zip(those, plain, strict=True))
            told.append(f"{way} {times:.1f} times, memory {max(one.memory for one in those) / memory:.1f}")
        if stem in LINEAR:
            with tempfile.TemporaryDirectory() as name:
                told.append("checked, n 2n 4n: " + " ".join(f"{cpu:.2f}" for cpu in growth(stem, Path(name))))
        print("   ".join(told), flush=True)


if __name__ == "__main__":
    main()
