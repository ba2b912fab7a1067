"""What watching arrays with ghost cells costs: `halo.py MPIEXEC`, or as the program that is measured.

Jacobi's method on blocks of n × n, with and without `weft run`, in turn; processor time a step, the least of five.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (256, 512, 1024)
TURNS = 5


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


def measured(mpiexec: str, n: int, *, watched: bool) -> float:
    """Microseconds of a step of rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        weft = [sys.executable, "-m", "weft.cli.main", "run", "--out", str(Path(folder) / "run"), "--"] * watched
        line = [*weft, mpiexec, "-n", "1", sys.executable, __file__, str(n), str(100_000 // n)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout.split()[0])


def main(mpiexec: str) -> None:
    """A row for each size."""
    print("| block | plain | under `weft run` | times |\n|---|---|---|---|")
    for n in SIZES:
        pairs = [(measured(mpiexec, n, watched=False), measured(mpiexec, n, watched=True)) for _ in range(TURNS)]
        plain, watched = (min(column) for column in zip(*pairs, strict=True))
        print(f"| {n} × {n} | {plain:,.0f} µs | {watched:,.0f} µs | {watched / plain:.1f} |")


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        program(int(sys.argv[1]), int(sys.argv[2]))
    else:
        main(sys.argv[1])
