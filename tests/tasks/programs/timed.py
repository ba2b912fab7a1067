"""Two tasks wait for each other, but one of them only for a while: no deadlock."""

import asyncio


async def waits(other):
    try:
        async with asyncio.timeout(0.6):
            await other
    except TimeoutError:
        return


async def main():
    loop = asyncio.get_running_loop()
    promise = loop.create_future()

    async def second():
        await (await promise)

    two = asyncio.create_task(second(), name="two")
    one = asyncio.create_task(waits(asyncio.shield(two)), name="one")
    promise.set_result(one)
    await asyncio.gather(one, two)


asyncio.run(main())
