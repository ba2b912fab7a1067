"""Rank 0 collects pickled values from whoever comes, and weighs them by their turn."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def collect(n):
    parts = []
    for _ in range(n):
        part = comm.recv(source=MPI.ANY_SOURCE, tag=7)
        weight = len(parts) + 1
        parts.append(part["value"] * weight)
    return parts


if rank == 0:
    total = sum(collect(size - 1))
    print("total", total)
else:
    value = rank * 10.0
    comm.send({"value": value, "from": rank}, dest=0, tag=7)
comm.Barrier()
