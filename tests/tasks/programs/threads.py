"""Two threads, each with a loop and tasks of its own."""

import asyncio
import threading


async def work(n):
    total = 0
    for i in range(n):
        total += i
        await asyncio.sleep(0.001)
    return total


async def main(name):
    task = asyncio.create_task(work(20), name=name)
    print(await task)


other = threading.Thread(target=lambda: asyncio.run(main("second")))
other.start()
asyncio.run(main("first"))
other.join()
