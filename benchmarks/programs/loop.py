"""One kind of mpi4py call in a loop, a process alone: loop.py KIND ITERATIONS. Prints the loop's CPU time in ns."""

import sys
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
out, into = [bytearray(16), 4, MPI.INT], [bytearray(16), 4, MPI.INT]
message = {"step": 1, "values": [1.5, 2.5]}


def buffers() -> None:
    request = comm.Irecv(into, 0, 1)
    comm.Send(out, 0, 1)
    request.Wait()


def pickled() -> None:
    request = comm.isend(message, 0, 1)
    comm.recv(source=0, tag=1)
    request.wait()


once = {"buffers": buffers, "pickled": pickled}[sys.argv[1]]
once()
start = time.process_time_ns()
for _ in range(int(sys.argv[2])):
    once()
print(time.process_time_ns() - start)
