"""Two ranks whose asyncio tasks speak by MPI, with others in between; with an argument, one waits for ever."""

import asyncio
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
tag = 8 if rank == 1 and sys.argv[1:] else 7


async def doubled(value: int) -> int:
    """Be suspended on the way."""
    await asyncio.sleep(0)
    return value * 2


async def serve() -> int:
    """What the other rank sends, doubled."""
    comm.send(rank + 1, dest=1 - rank, tag=7)
    part = comm.recv(source=1 - rank, tag=tag)
    twice = await doubled(part)
    if twice:
        twice += 1
    return twice


async def count() -> int:
    """Another task."""
    n = 0
    for _ in range(3):
        await asyncio.sleep(0)
        n += 1
    return n


async def main() -> None:
    """Two tasks, and their join."""
    server = asyncio.create_task(serve(), name="server")
    counter = asyncio.create_task(count(), name="counter")
    got = await server
    n = await counter
    comm.Barrier()
    print(f"rank {rank}: {got} {n}", flush=True)


asyncio.run(main())
