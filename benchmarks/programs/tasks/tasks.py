"""Many short asyncio tasks, each suspended a few times; nobody looks at any of them."""

import asyncio
import sys


async def work(n):
    total = 0
    for i in range(n):
        total += i
        await asyncio.sleep(0)
    return total


async def main(rounds):
    for _ in range(rounds):
        await asyncio.gather(*(work(5) for _ in range(200)))


asyncio.run(main(int(sys.argv[1])))
