"""What `weft check` of an OpenMP program costs: processor time and memory beside the plain program, in turn.

    python benchmarks/openmp.py [--repeat 3]

Jacobi, a product of matrices, quicksort with tasks and a product with a sparse matrix, plain (-O2, one thread), checked
(compilation apart) and under gcc's thread sanitizer (one thread, -O2).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from check import Measured, run
from weft.check.front_end import Request
from weft.check.openmp.program import build

PROGRAMS = Path(__file__).parent / "programs" / "openmp"
CASES = {
    "jacobi": ("2000", "20"), "product": ("700",), "quicksort": ("3000000",), "csr": ("300000", "40"),
}  # fmt: skip
ONE = {"OMP_NUM_THREADS": "1", "TSAN_OPTIONS": "report_bugs=0"}


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """A program as its user compiles it."""
    made = folder / f"{source.stem}-{len(flags)}"
    subprocess.run(["gcc", "-O2", "-g", "-fopenmp", *flags, str(source), "-o", str(made)], check=True)
    return made


def times(program: Path, words: tuple[str, ...], repeat: int) -> Measured:
    """The median of several runs."""
    runs = [run([str(program), *words], ONE | {"WEFT_CHECK_FINDINGS": os.devnull}) for _ in range(repeat)]
    return Measured(
        statistics.median(one.wall for one in runs), statistics.median(one.cpu for one in runs),
        max(one.memory for one in runs),
    )  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print(f"{'program':<10} {'plain, s':>9} {'checked':>9} {'times':>6} {'memory':>7} {'TSan':>6} {'memory':>7}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stem, words in CASES.items():
            source = PROGRAMS / f"{stem}.c"
            plain = times(compiled(source, folder), words, repeat)
            sanitized = times(compiled(source, folder, "-fsanitize=thread"), words, repeat)
            checked = times(build(Request((source,)), folder).path, words, repeat)
            print(
                f"{stem:<10} {plain.cpu:>9.2f} {checked.cpu:>9.2f} {checked.cpu / plain.cpu:>6.1f} "
                f"{checked.memory / plain.memory:>7.1f} {sanitized.cpu / plain.cpu:>6.1f} "
                f"{sanitized.memory / plain.memory:>7.1f}"
            )


if __name__ == "__main__":
    main()
