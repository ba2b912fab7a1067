import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
N = 24


def sweep(a, step):
    up, down = comm.rank - 1, comm.rank + 1
    up = up if up >= 0 else MPI.PROC_NULL
    down = down if down < comm.size else MPI.PROC_NULL
    comm.Sendrecv(a[1], up, recvbuf=a[-1], source=down)
    comm.Sendrecv(a[-2], down, recvbuf=a[0], source=up)
    b = a.copy()
    b[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4
    if len(sys.argv) > 1 and step == 2 and comm.rank == comm.size - 1:
        b[2, 5] *= 1.001
    total = comm.allreduce(b[1:-1].sum())
    return b, total


rows = N // comm.size
first = comm.rank * rows
a = np.zeros((rows + 2, N))
a[1:-1] = (first + np.arange(1, rows + 1)[:, None]) * 0.5 + np.arange(N)
for step in range(4):
    a, total = sweep(a, step)
if comm.rank == 0:
    print(total)
