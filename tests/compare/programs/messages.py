"""A ring of arrays and objects; with the argument `fault` rank 1 changes one of them in step 2."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
held, got = np.arange(64.0) + rank, np.zeros(64)


def exchange(step):
    comm.Sendrecv(held, (rank + 1) % size, step, got, (rank - 1) % size, step)


for step in range(4):
    if sys.argv[1:] == ["fault"] and rank == 1 and step == 2:
        held[40] += 1e-9
    exchange(step)
    held = (held + got) / 2
    note = comm.sendrecv({"step": step, "sum": float(held.sum())}, (rank + 1) % size, source=(rank - 1) % size)
