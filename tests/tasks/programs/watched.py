"""Tasks that change what others have: a list of the module, an attribute, a local that lives across suspensions."""

import asyncio
import sys

counts = [0]


class Stock:
    left = 5


async def seller(stock, n):
    for _ in range(n):
        await asyncio.sleep(0)
        stock.left -= 1
    return n


async def counter(n):
    mine = 0
    for _ in range(n):
        mine += 1
        await asyncio.sleep(0)
        counts[0] += 1
    raise LookupError(mine)


async def main():
    stock = Stock()
    sellers = [asyncio.create_task(seller(stock, n), name=f"seller {n}") for n in (1, 2)]
    one = asyncio.create_task(counter(2), name="counter")
    await asyncio.gather(*sellers)
    try:
        await one
    except LookupError as error:
        print("sold", 5 - stock.left, "counted", counts[0], error)
    return 0


sys.exit(asyncio.run(main()))
