"""Tasks that give their place away in several ways: each writes down where it stands before it does."""

import asyncio

TASKS = 5
stands = [0] * TASKS


def seen() -> None:
    """Where the debugger stops, in one task: the others stand where they are."""


async def below(mine: int) -> int:
    mine += 1
    await asyncio.sleep(0)
    return mine


async def task(k: int, queue: asyncio.Queue[int], lock: asyncio.Lock) -> int:
    mine = k
    for _ in range(5):
        stands[k] = 23
        await asyncio.sleep(0.001)
        mine += 1
        seen()
        stands[k] = 28
        async with asyncio.timeout(60):
            await queue.get()
            mine += 1
        seen()
        stands[k] = 32
        await lock.acquire()
        mine += 1
        seen()
        await asyncio.sleep(0.001 * k)
        lock.release()
    stands[k] = 0
    return mine


async def main() -> None:
    queue, lock = asyncio.Queue[int](), asyncio.Lock()
    tasks = [asyncio.create_task(task(k, queue, lock), name=f"number{k}") for k in range(TASKS)]
    while not all(one.done() for one in tasks):
        queue.put_nowait(1)
        await asyncio.sleep(0.0005)
    print("sum", sum(await asyncio.gather(*tasks)))


asyncio.run(main())
