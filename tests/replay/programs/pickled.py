"""Pickled recv(ANY_SOURCE): a list of what came from whom, in order, and a sum that depends on it."""

import os
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    total, names = 0.0, []
    for _ in range(30 * (comm.size - 1)):
        status = MPI.Status()
        message = comm.recv(source=MPI.ANY_SOURCE, tag=3, status=status)
        total = total / 1.0000001 + message["value"]
        names.append(f"{status.source}.{message['i']}")
    print(total.hex(), *names)
else:
    for i in range(30):
        time.sleep((os.getpid() * 31 + i * 7919) % 997 / 2e6)
        comm.send({"value": 1.0 / (comm.rank * 31 + i), "i": i}, dest=0, tag=3)
