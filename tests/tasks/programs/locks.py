"""Two tasks with crossed locks; `fixed` takes them in one order."""

import asyncio
import sys

FIXED = "fixed" in sys.argv


async def both(first, second):
    async with first:
        await asyncio.sleep(0.01)
        async with second:
            await asyncio.sleep(0)


async def main():
    x, y = asyncio.Lock(), asyncio.Lock()
    async with asyncio.TaskGroup() as group:
        group.create_task(both(x, y), name="one")
        group.create_task(both(*((x, y) if FIXED else (y, x))), name="two")


asyncio.run(main())
