"""Nothing but asyncio: queue, lock, gather, sleeps."""

import asyncio

from followed import pipeline


async def wait():
    await asyncio.sleep(0.001)


print(asyncio.run(pipeline(wait)))
