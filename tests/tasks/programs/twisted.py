"""One task through every way that asyncio suspends; others run between. Prints nothing but its result."""

import asyncio


async def noise(n):
    x = 0
    for _ in range(n):
        x += 1
        await asyncio.sleep(0)
    return x


async def numbers():
    for i in range(2):
        await asyncio.sleep(0)
        yield i


def plain(a):
    b = a + 1
    return b


async def helper(n):
    await asyncio.sleep(0.001)
    m = plain(n)
    return m


async def traced(lock):
    a = 1
    a += await helper(a)
    async with lock:
        a += 1
    async for i in numbers():
        a += i
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
    except TimeoutError:
        a += 100
    try:
        await asyncio.wait_for(asyncio.sleep(5), 0.01)
    except asyncio.TimeoutError:
        a += 1000
    got = await asyncio.gather(noise(2), noise(3))
    a += sum(got)
    async with asyncio.TaskGroup() as group:
        group.create_task(noise(1))
    await asyncio.wait([asyncio.ensure_future(noise(1))])
    await asyncio.shield(asyncio.ensure_future(noise(1)))
    a += await asyncio.to_thread(plain, a)
    return a


async def main():
    lock = asyncio.Lock()
    others = [asyncio.create_task(noise(30)) for _ in range(5)]
    one = asyncio.create_task(traced(lock), name="traced")
    value = await one
    await asyncio.gather(*others)
    print("value", value)


asyncio.run(main())
