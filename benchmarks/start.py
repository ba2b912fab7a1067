"""What a user pays before anything is recorded: the recorder's building, and `weft run` on a program of three calls.

Processor time of Weft and all its children, the least of some runs in turn, as other work on the machine only adds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LIMITS = {"first use": 6.0, "every use, C": 0.25, "every use, mpi4py": 0.25}
C = "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }\n"
PYTHON = "from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\n"
BIN = Path(sys.executable).parent


def spent(command: list[str], environment: dict[str, str], folder: Path) -> float:
    """Processor seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_use(folder: Path) -> float:
    """Building the recorder into an empty cache."""
    build = "import sys; from weft.mpi import shim; shim.build_shim(sys.argv[1])"

    def once() -> float:
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "WEFT_CACHE": cache}
            return spent([sys.executable, "-c", build, str(BIN / "mpicc")], environment, folder)

    return min(once() for _ in range(3))


def every_use(folder: Path, program: list[str]) -> float:
    """What `weft run` takes more than mpiexec."""
    plain = [str(BIN / "mpiexec"), "-n", "2", *program]
    recorded = [sys.executable, "-m", "weft", "run", "--", *plain]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = [(spent(plain, environment, folder), spent(recorded, environment, folder)) for _ in range(7)]
    return min(with_weft for _, with_weft in times[1:]) - min(without for without, _ in times[1:])


def main() -> None:
    """Print a row for each, with its limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "three.c").write_text(C)
        (folder / "three.py").write_text(PYTHON)
        subprocess.run([BIN / "mpicc", "-o", folder / "three", folder / "three.c"], check=True, timeout=60)
        rows: dict[str, Callable[[], float]] = {
            "first use": lambda: first_use(folder),
            "every use, C": lambda: every_use(folder, [str(folder / "three")]),
            "every use, mpi4py": lambda: every_use(folder, [sys.executable, "three.py"]),
        }
        print("| what | CPU, s | limit, s | |\n|---|---|---|---|")
        for what, measure in rows.items():
            seconds = measure()
            verdict = "ok" if seconds <= LIMITS[what] else "over"
            print(f"| {what} | {seconds:.2f} | {LIMITS[what]:.2f} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
