"""A gather whose child awaits the parent; `fixed` does not."""

import asyncio
import sys

FIXED = "fixed" in sys.argv


async def child(parent):
    await asyncio.sleep(0.01)
    if not FIXED:
        await parent


async def parent():
    me = asyncio.current_task()
    await asyncio.gather(child(me), asyncio.sleep(0.02))


async def main():
    await asyncio.create_task(parent(), name="parent")


asyncio.run(main())
