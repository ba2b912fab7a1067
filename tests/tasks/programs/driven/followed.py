"""The coroutine that is followed through real libraries: each of its lines once, in order, whatever others do."""

import asyncio

LOCK = asyncio.Lock()


async def followed(n, wait):
    """Wait by a library's own means, again and again."""
    seen = [n]
    await wait()
    seen.append(2 * n)
    async with LOCK:
        await wait()
        seen.append(3 * n)
    await asyncio.gather(wait(), wait())
    seen.append(4 * n)
    return sum(seen)


async def pipeline(wait, takers=3, jobs=9):
    """Jobs through a queue to tasks that follow them; the sum of what they found."""
    queue, found = asyncio.Queue(2), []

    async def take():
        while (n := await queue.get()) is not None:
            found.append(await followed(n, wait))

    async with asyncio.TaskGroup() as group:
        for i in range(takers):
            group.create_task(take(), name=f"taker{i}")
        for n in range(jobs):
            await queue.put(n)
        for _ in range(takers):
            await queue.put(None)
    return sum(found)
