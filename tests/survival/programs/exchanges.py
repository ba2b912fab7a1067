"""Sends and receives large messages, nonblocking too."""

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
out = numpy.full(1 << 18, comm.rank + 1, "i")
got = numpy.empty_like(out)
MPI.Request.Waitall([comm.Irecv(got, 1 - comm.rank), comm.Isend(out, 1 - comm.rank)])
total = comm.allreduce(int(got[-1]))
if comm.rank == 0:
    print("sum", total)
