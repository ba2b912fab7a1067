"""Rank 1 waits in a receive from rank 2, all others are in a barrier; they never go on."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


def exchange(step: int) -> None:
    neighbour = rank + 1
    if rank == 1:
        comm.recv(source=neighbour, tag=step)
    comm.Barrier()


exchange(7)
