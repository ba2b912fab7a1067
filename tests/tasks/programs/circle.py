"""Three awaits in a circle; `fixed` breaks it."""

import asyncio
import sys

FIXED = "fixed" in sys.argv
tasks = {}


async def member(name, other):
    await asyncio.sleep(0.01)
    if not (FIXED and name == "c"):
        await tasks[other]


async def main():
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        tasks[name] = asyncio.create_task(member(name, other), name=name)
    await asyncio.gather(*tasks.values())


asyncio.run(main())
