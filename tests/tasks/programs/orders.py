"""Programs whose tasks take their turns by chance: each prints the order in which they did. One function each."""

import asyncio
import random
import sys

OUT = []


def chance():
    """A wait of any length."""
    return asyncio.sleep(random.random() / 100)


async def several(work, count=4):
    """So many tasks of one function, all at once."""
    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(work(n), name=f"task{n}")


async def sleeps():
    async def work(n):
        for i in range(4):
            await chance()
            OUT.append(f"{n}.{i}")

    await several(work)


async def locked():
    lock = asyncio.Lock()

    async def work(n):
        for i in range(3):
            await chance()
            async with lock:
                await asyncio.sleep(0)
                OUT.append(f"{n}.{i}")

    await several(work)


async def queued():
    queue = asyncio.Queue(2)

    async def give(n):
        for i in range(3):
            await chance()
            await queue.put(f"{n}.{i}")

    async def take():
        while (got := await queue.get()) is not None:
            OUT.append(got)

    taker = asyncio.create_task(take())
    await several(give, 3)
    await queue.put(None)
    await taker


async def threaded():
    async def work(n):
        for i in range(3):
            await asyncio.to_thread(random.random)
            OUT.append(f"{n}.{i}")

    await several(work)


async def timed():
    async def work(n):
        for i in range(4):
            try:
                await asyncio.wait_for(asyncio.sleep(random.random() / 50), 0.01)
                OUT.append(f"{n}.{i}")
            except TimeoutError:
                OUT.append(f"{n}!")

    await several(work, 3)


async def served():
    """A server and its clients, over the loopback."""

    async def answer(reader, writer):
        await chance()
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(n):
        for i in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{n}.{i}\n".encode())
            OUT.append((await reader.readline()).decode().strip())
            writer.close()
            await writer.wait_closed()

    await several(ask, 3)
    server.close()
    await server.wait_closed()


async def first():
    """Whoever comes first, again and again."""
    left = {asyncio.create_task(chance(), name=str(n)) for n in range(6)}
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        OUT.append("+".join(sorted(task.get_name() for task in done)))


async def cancelled():
    async def work(n):
        try:
            for i in range(50):
                await chance()
                OUT.append(f"{n}.{i}")
        except asyncio.CancelledError:
            OUT.append(f"{n}x")

    tasks = [asyncio.create_task(work(n)) for n in range(3)]
    await asyncio.sleep(0.03)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks)


async def limited():
    """Three at a time, by a semaphore."""
    free = asyncio.Semaphore(3)

    async def work(n):
        async with free:
            await chance()
            OUT.append(str(n))

    await several(work, 9)


async def told():
    """A condition, whose waiters come by turns."""
    changed = asyncio.Condition()
    left = []

    async def give(n):
        for i in range(3):
            await chance()
            async with changed:
                left.append(f"{n}.{i}")
                changed.notify()

    async def take(n):
        for _ in range(3):
            async with changed:
                await changed.wait_for(lambda: left)
                OUT.append(f"{n}<{left.pop()}")

    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(give(n))
            group.create_task(take(n))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
    print(" ".join(OUT))
