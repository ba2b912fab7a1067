"""Calls that wait for nobody, again and again from one place. Prints a hash of what MPI.Wtime gave."""

from mpi4py import MPI

world = MPI.COMM_WORLD
times = []
for _ in range(1000):
    times.append(MPI.Wtime())
for _ in range(7):
    world.Get_size()
for _ in range(8):
    MPI.INT.Get_size()
world.Barrier()
print(f"rank {world.rank}: {hash(tuple(times)):x}\n", end="", flush=True)
