"""A global array whose elements are their numbers, on however many ranks, with ghost cells that hold nothing of it."""

import numpy as np
from mpi4py import MPI

import weft

row = MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size])
first, last = weft.block(13, row.size, row.rank)
u = weft.part(np.full((last - first + 2, 5), -1.0 - row.rank), of="u", halo=(1, 0), comm=row, whole=(13, 5))
u[1:-1] = np.arange(first * 5, last * 5).reshape(-1, 5)
weft.probe("u", u)
row.Free()
