"""Each rank adds up squares, then all add theirs: the same program as squares.c, squares.cpp and squares.f90."""

from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
me = comm.rank


def square(k):
    return k * k


def add(n):
    total = 0
    for k in range(1, n + 1):
        total += square(k)  # here
    return total


comm.Barrier()
mine, every = array("i", [add(4 + me)]), array("i", [0])
comm.Allreduce(mine, every)
if me == 0:
    print("all", every[0])
