"""mpi4py.futures with 20 tasks: which worker did which task."""

import os
import time

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor


def task(number: int) -> tuple[int, int]:
    """Sleeps a little; says who it was."""
    time.sleep((os.getpid() * 31 + number * 7919) % 997 / 5e5)
    return number, MPI.COMM_WORLD.rank


with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
    if executor is not None:
        print(*(f"{number}:{rank}" for number, rank in executor.map(task, range(20))))
