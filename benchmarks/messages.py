"""What hashes of messages cost: a halo exchange with and without them, and how fast large messages are hashed.

    python benchmarks/messages.py [--side 500] [--steps 2000] [--repeat 6] [--ranks 2]

Processor time of the ranks inside of `weft run`, the least of the repetitions. Ranks that wait are busy: where others
use the machine, one rank that sends to itself tells what the hashes cost. Status 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HALO = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define A(i, j) a[(size_t)(i) * (n + 2) + (j)]
#define B(i, j) b[(size_t)(i) * (n + 2) + (j)]
int main(int argc, char **argv) {
    int rank, size, n = atoi(argv[1]), steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t all = (size_t)(n + 2) * (n + 2);
    double *a = calloc(all, 8), *b = calloc(all, 8), *t;
    for (size_t i = 0; i < all; i++) a[i] = i % 7;
    MPI_Datatype column;
    MPI_Type_vector(n, 1, n + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int l = (rank + size - 1) % size, r = (rank + 1) % size;
    for (int s = 0; s < steps; s++) {
        MPI_Request q[8];
        MPI_Irecv(&A(0, 1), n, MPI_DOUBLE, l, 1, MPI_COMM_WORLD, q);
        MPI_Irecv(&A(n + 1, 1), n, MPI_DOUBLE, r, 2, MPI_COMM_WORLD, q + 1);
        MPI_Irecv(&A(1, 0), 1, column, l, 3, MPI_COMM_WORLD, q + 2);
        MPI_Irecv(&A(1, n + 1), 1, column, r, 4, MPI_COMM_WORLD, q + 3);
        MPI_Isend(&A(n, 1), n, MPI_DOUBLE, r, 1, MPI_COMM_WORLD, q + 4);
        MPI_Isend(&A(1, 1), n, MPI_DOUBLE, l, 2, MPI_COMM_WORLD, q + 5);
        MPI_Isend(&A(1, n), 1, column, r, 3, MPI_COMM_WORLD, q + 6);
        MPI_Isend(&A(1, 1), 1, column, l, 4, MPI_COMM_WORLD, q + 7);
        MPI_Waitall(8, q, MPI_STATUSES_IGNORE);
        for (int i = 1; i <= n && argc < 4; i++)
            for (int j = 1; j <= n; j++) B(i, j) = 0.25 * (A(i - 1, j) + A(i + 1, j) + A(i, j - 1) + A(i, j + 1));
        if (argc < 4) t = a, a = b, b = t;
    }
    for (int s = 0; argc > 3 && s < 20; s++) /* all of it in one message */
        MPI_Sendrecv(a, (int)all, MPI_DOUBLE, r, 5, b, (int)all, MPI_DOUBLE, l, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    MPI_Type_free(&column);
    MPI_Finalize();
    printf("%.4f\n", now.tv_sec + now.tv_nsec * 1e-9);
}
"""
COST, SPEED = 1.05, 2e9
"""Times the processor time without hashes; bytes a second."""


def processor(folder: Path, words: list[str], ranks: int, *, hashed: bool) -> float:
    """Processor seconds of all ranks together."""
    option = ["--hash-messages"] if hashed else []
    command = [sys.executable, "-m", "weft.cli.main", "run", *option, "-n", str(ranks), "--", "./halo", *words]
    done = subprocess.run(command, cwd=folder, check=True, timeout=600, capture_output=True, text=True)
    return sum(map(float, done.stdout.split()))


def least(folder: Path, words: list[str], options: argparse.Namespace) -> tuple[float, float]:
    """Without and with hashes, in turns."""
    found = [
        [processor(folder, words, options.ranks, hashed=hashed) for hashed in (False, True)]
        for _ in range(options.repeat)
    ]
    return min(one for one, _ in found), min(two for _, two in found)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=500)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        folder = Path(name)
        (folder / "halo.c").write_text(HALO)
        mpicc = str(Path(sys.executable).with_name("mpicc"))
        subprocess.run([mpicc, "-O2", "-o", "halo", "halo.c"], cwd=folder, check=True, timeout=60)
        plain, hashed = least(folder, [str(options.side), str(options.steps)], options)
        side = 2000
        without, with_ = least(folder, [str(side), "0", "large"], options)
    speed = 2 * options.ranks * 20 * (side + 2) ** 2 * 8 / max(with_ - without, 1e-9)
    print("| hashes of messages | | wanted |\n|---|---|---|")
    print(f"| halo exchange, {options.side} x {options.side} a rank | {hashed / plain:.3f} | {COST} |")
    print(f"| messages of 32 MB | {speed / 1e9:.1f} GB/s | {SPEED / 1e9:.0f} GB/s |")
    return int(hashed / plain > COST or speed < SPEED)


if __name__ == "__main__":
    sys.exit(main())
