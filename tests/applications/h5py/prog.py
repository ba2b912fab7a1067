"""Each rank writes its row of one dataset, collectively, and reads its neighbour's."""

from h5py import _debian_h5py_mpi as h5py
from mpi4py import MPI

comm = MPI.COMM_WORLD
with h5py.File("rows.h5", "w", driver="mpio", comm=comm) as file:
    rows = file.create_dataset("rows", (comm.size, 100), dtype="i8")
    with rows.collective:
        rows[comm.rank] = range(comm.rank, comm.rank + 100)
comm.Barrier()
with h5py.File("rows.h5", "r", driver="mpio", comm=comm) as file:
    total = comm.reduce(int(file["rows"][(comm.rank + 1) % comm.size].sum()))
if comm.rank == 0:
    print("sum", total)
