"""Dynamic load balancing by probe: idle ranks ask for work of any length, the owner sends parts of what is left."""

import numpy as np
from mpi4py import MPI

ASK, PART, DONE, RESULT = 1, 2, 3, 4
ITEMS = 3000

comm = MPI.COMM_WORLD
status = MPI.Status()


def owner() -> None:
    work = np.arange(ITEMS, dtype="d")
    results = np.zeros(ITEMS)
    at, busy = 0, comm.size - 1
    while busy:
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        source = status.Get_source()
        if status.Get_tag() == RESULT:
            part = np.empty(status.Get_count(MPI.DOUBLE))
            comm.Recv(part, source, RESULT)
            first = int(part[0])
            results[first : first + len(part) - 1] = part[1:]
            continue
        speed = np.empty(1, "i")
        comm.Recv(speed, source, ASK)
        n = min(ITEMS - at, 10 * int(speed[0]))
        comm.Send(work[at : at + n], source, PART if n else DONE)
        at += n
        busy -= n == 0
    assert np.array_equal(results, np.sqrt(work)), "wrong result"
    print("items", ITEMS)


def helper() -> None:
    speed = np.array([1 + comm.rank], "i")
    while True:
        comm.Send(speed, 0, ASK)
        comm.Probe(0, MPI.ANY_TAG, status)
        part = np.empty(status.Get_count(MPI.DOUBLE))
        comm.Recv(part, 0, status.Get_tag(), status)
        if status.Get_tag() == DONE:
            return
        comm.Send(np.concatenate([part[:1], np.sqrt(part)]), 0, RESULT)


if comm.rank == 0:
    owner()
else:
    helper()
