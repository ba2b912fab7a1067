"""Rank 0 waits for a message that is never sent."""

from mpi4py import MPI

comm = MPI.COMM_WORLD


def take() -> int:
    return comm.recv(
        source=1,  # which is in the barrier
        tag=99,
    )


if comm.rank == 0:
    take()
comm.Barrier()
