"""Ranks 1 and up send to rank 0, which takes from anyone: objects, arrays, a request."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for way in range(3):
    if comm.rank:
        comm.send(comm.rank, 0, way) if way == 0 else comm.Send(np.array([comm.rank]), 0, way)
    for _ in range(1, comm.size if comm.rank == 0 else 1):
        data = np.zeros(1, int)
        if way == 0:
            comm.recv(tag=way)
        elif way == 1:
            comm.Recv(data, tag=way)
        else:
            comm.Irecv(data, tag=way).Wait()
    comm.Barrier()
