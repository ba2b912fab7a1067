"""A pool of tasks that never end by themselves, at a known place each, for the table against a log."""

import asyncio
import sys

N = int(sys.argv[1])


async def sleeper(event):
    await event.wait()


async def parent(event, n):
    children = [asyncio.create_task(sleeper(event)) for _ in range(n)]
    await asyncio.wait(children)


async def main():
    event = asyncio.Event()
    parents = [asyncio.create_task(parent(event, 99)) for _ in range(N // 100)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ready = True
    event.set()
    await asyncio.gather(*parents)
    return ready


asyncio.run(main())
