"""What watching arrays with ghost cells costs: `halo.py MPIEXEC`, or as the program that is measured.

Jacobi's method on blocks of n × n, with and without `weft run`, in turn; processor time a step, the least of five. In
numpy, then in C (programs/ghosts.c), there with `weft cc` alone, too.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (256, 512, 1024)
TURNS = 5
WEFT = [sys.executable, "-m", "weft.cli.main"]


def program(n: int, steps: int) -> None:
    """Jacobi's method; prints the microseconds of a step."""
    # Only the measured program needs them.
    import numpy as np
    from mpi4py import MPI

    import weft

    cart = MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size])
    low, high = cart.Shift(0, 1)
    u = weft.part(np.random.default_rng(cart.rank).random((n + 2, n + 2)), halo=(1, 0), comm=cart, of="u")
    v = weft.part(np.zeros((n + 2, n + 2)), halo=(1, 0), comm=cart, of="v")
    for count in (3, steps):
        begun = time.process_time()
        for _ in range(count):
            cart.Sendrecv(u[-2], high, 1, u[0], low, 1)
            cart.Sendrecv(u[1], low, 2, u[-1], high, 2)
            v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            u, v = v, u
    print((time.process_time() - begun) / steps * 1e6)


def measured(command: list[str], *, watched: bool) -> float:
    """Microseconds of a step of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        line = [*([*WEFT, "run", "--out", str(Path(folder) / "run"), "--"] * watched), *command]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout.split()[0])


def least(*runs: tuple[list[str], bool]) -> list[float]:
    """Of several runs in turn the least of each."""
    turns = [[measured(command, watched=watched) for command, watched in runs] for _ in range(TURNS)]
    return [min(column) for column in zip(*turns, strict=True)]


def arrays(mpiexec: str) -> None:
    """A row for each size of arrays of numpy."""
    print("| block | plain | under `weft run` | times |\n|---|---|---|---|")
    for n in SIZES:
        command = [mpiexec, "-n", "1", sys.executable, __file__, str(n), str(100_000 // n)]
        plain, watched = least((command, False), (command, True))
        print(f"| {n} × {n} | {plain:,.0f} µs | {watched:,.0f} µs | {watched / plain:.1f} |")


def compiled(mpiexec: str) -> None:
    """The same in C, with ghost rows only, and with columns too."""
    source, mpicc = Path(__file__).parent / "programs" / "ghosts.c", str(Path(mpiexec).with_name("mpicc"))
    flags = subprocess.run([*WEFT, "probes", "--cflags"], capture_output=True, text=True, check=True).stdout.split()
    print("\n| block | ghosts | plain | with `weft cc` | times | under `weft run` | times |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        made = [str(Path(folder) / name) for name in ("plain", "hooks")]
        for program, before in zip(made, ([], [*WEFT, "cc"]), strict=True):
            subprocess.run([*before, mpicc, "-g", "-O2", *flags, "-o", program, str(source)], check=True)
        for n, wide in itertools.product(SIZES, (0, 1)):
            words = [str(n), str(200_000 // n), str(wide)]
            plain, hooks = ([mpiexec, "-n", "1", program, *words] for program in made)
            times = least((plain, False), (hooks, False), (hooks, True))
            each = " | ".join(f"{one:,.0f} µs | {one / times[0]:.1f}" for one in times[1:])
            print(f"| {n} × {n} | {'rows and columns' if wide else 'rows'} | {times[0]:,.0f} µs | {each} |")


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        program(int(sys.argv[1]), int(sys.argv[2]))
    else:
        arrays(sys.argv[1])
        compiled(sys.argv[1])
