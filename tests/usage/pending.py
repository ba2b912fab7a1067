"""NumPy buffers that are the MPI's: `pending.py right` leaves them alone, `wrong` changes one element in their middle.

Rank 0 changes what it sends (line A to line B), and what it receives into, before either is complete.
"""

import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
wrong = sys.argv[1] == "wrong"

for n in (1_000, 200_000):
    out, room = np.full(n, 1.0), np.zeros(n)
    for _ in range(2):
        if comm.rank == 0:
            request = comm.Isend(out, 1)  # BUG send
            comm.Barrier()
            if wrong:
                out[n // 2 + 7] += 1
            comm.Barrier()
            request.Wait()  # BUG send
            request = comm.Irecv(room, 1)  # BUG receive
            comm.Barrier()
            if wrong:
                room[n // 2 + 7] = -1
            comm.Barrier()
            request.Wait()  # BUG receive
        else:
            comm.Barrier()
            comm.Barrier()
            comm.Recv(room, 0)
            comm.Barrier()
            comm.Barrier()
            time.sleep(0.2)  # what the message overwrites before the other asks for it leaves no trace
            comm.Send(out, 0)
