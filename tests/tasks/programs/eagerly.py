"""Two ranks, each with a task that begins eagerly: each message by a tag of its own."""

import asyncio

from mpi4py import MPI

comm = MPI.COMM_WORLD


def say(tag):
    request = comm.irecv(source=1 - comm.rank, tag=tag)
    comm.send(tag, dest=1 - comm.rank, tag=tag)
    request.wait()


async def child():
    say(10)
    await asyncio.sleep(0)
    say(11)


async def main():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    say(1)
    task = asyncio.create_task(child(), name="eager")
    say(2)
    await task
    say(3)


say(0)
asyncio.run(main())
say(4)
