"""Three levels of fork and join, each task with work of its own between suspensions."""

import asyncio


async def leaf(n):
    a = n
    await asyncio.sleep(0)
    a += 1
    await asyncio.sleep(0.001)
    a += 2
    return a


async def middle(n):
    b = n
    child = asyncio.create_task(leaf(n * 10))
    b += 1
    got = await child
    b += got
    return b


async def top():
    c = 0
    one = asyncio.create_task(middle(1), name="one")
    two = asyncio.create_task(middle(2), name="two")
    c += await one
    c += await two
    return c


async def main():
    task = asyncio.create_task(top())
    total = await task
    print("total", total)


asyncio.run(main())
