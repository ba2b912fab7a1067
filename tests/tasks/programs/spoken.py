"""Each asyncio task sends itself messages by MPI between its awaits, with tags of its own.

Arguments: tasks a rank; then `hang` where one task receives what nobody sends.
"""

import asyncio
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()


def exchange(tag: int) -> None:
    """A message to oneself."""
    request = comm.irecv(source=rank, tag=tag)
    comm.send(tag, dest=rank, tag=tag)
    assert request.wait() == tag


async def child(tag: int) -> None:
    """Speak, be suspended, speak."""
    exchange(tag)
    await asyncio.sleep(0)
    exchange(tag + 1)


async def parent(k: int) -> None:
    """Two children, and speech of its own in between."""
    exchange(10000 + 10 * k)
    await asyncio.sleep(0.001 * (k % 3))
    first = asyncio.create_task(child(10001 + 10 * k), name=f"child of {k}")
    exchange(10003 + 10 * k)
    await first
    exchange(10004 + 10 * k)
    asyncio.get_running_loop().call_soon(exchange, 50000 + k)  # in no task
    async with asyncio.TaskGroup() as group:
        group.create_task(child(10005 + 10 * k))
    exchange(10007 + 10 * k)


async def main(n: int) -> None:
    """All of them."""
    exchange(1000)
    await asyncio.gather(*[asyncio.create_task(parent(k), name=f"parent {k}") for k in range(n)])
    exchange(1001)
    if sys.argv[2:] == ["hang"]:
        last = asyncio.create_task(stand(), name="last")
        await last


async def stand() -> None:
    """Receive what nobody sends."""
    comm.recv(source=1 - rank, tag=77)


exchange(1)
asyncio.run(main(int(sys.argv[1])))
exchange(2)
