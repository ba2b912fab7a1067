"""Two processes by multiprocessing, each with a loop; `python forks.py fork|spawn|forkserver [SECONDS]`."""

import asyncio
import multiprocessing
import sys


async def waits(n):
    double = 2 * n
    await asyncio.sleep(20)
    return double


def child(n):
    asyncio.run(waits(n))


async def main():
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=child, args=(n,), name=f"child{n}") for n in range(2)]
    for one in children:
        one.start()
    print("begun", flush=True)
    await asyncio.sleep(float(sys.argv[2]) if sys.argv[2:] else 2)
    print("made", flush=True)
    for one in children:
        one.kill()
        one.join()
    print("gone", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
