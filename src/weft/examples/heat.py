"""Heat flows through a rod whose right end is kept at 100 degrees. Each rank owns a piece of the rod.

It hangs in its first step on every number of ranks above one, and prints nothing. `weft demo` shows why;
heat_fixed.py is the same program with the one wrong word put right.
"""

import numpy as np
from mpi4py import MPI

CELLS, STEPS = 64, 200
TO_LEFT, TO_RIGHT = 1, 2

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def exchange(rod):
    """Give each neighbour my cell beside it, and take its own into my halo."""
    if rank > 0:
        world.Send(rod[1:2], dest=rank - 1, tag=TO_LEFT)
    if rank < size - 1:
        world.Recv(rod[-1:], source=rank + 1, tag=TO_LEFT)
        world.Send(rod[-2:-1], dest=rank + 1, tag=TO_RIGHT)
    if rank > 0:
        world.Recv(rod[:1], source=rank - 1, tag=TO_LEFT)


def main():
    rod = np.zeros(CELLS + 2)
    for _ in range(STEPS):
        exchange(rod)
        if rank == size - 1:
            rod[-1] = 100.0
        rod[1:-1] += 0.25 * (rod[:-2] - 2 * rod[1:-1] + rod[2:])
    hottest = world.reduce(float(rod[1:-1].max()), MPI.MAX)
    if rank == 0:
        print(f"hottest cell after {STEPS} steps: {hottest:.1f} degrees")


main()
