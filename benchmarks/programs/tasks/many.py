"""`many.py KIND N`: N asyncio tasks that live at once, each suspended three calls deep, or not begun."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable

KIND, COUNT = sys.argv[1], int(sys.argv[2])


def reached() -> None:
    """All of them are there."""


async def inner(thing: Awaitable[object]) -> object:
    """Where they are suspended."""
    return await thing


async def middle(thing: Awaitable[object]) -> object:
    """On the way there."""
    return await inner(thing)


async def outer(thing: Awaitable[object]) -> object:
    """A task."""
    return await middle(thing)


async def main() -> None:
    """Make them, let them come to their awaits, and end all."""
    loop = asyncio.get_running_loop()
    event, lock, last = asyncio.Event(), asyncio.Lock(), loop.create_future()
    await lock.acquire()
    tasks: list[asyncio.Task[object]] = []
    for _ in range(COUNT):
        before: Awaitable[object] = tasks[-1] if tasks and len(tasks) % 2 else last
        waits: dict[str, Awaitable[object]] = {"future": loop.create_future(), "new": last, "task": before}
        if KIND == "sleep":
            waits["sleep"] = asyncio.sleep(1000)
        elif KIND in ("event", "lock"):
            waits |= {KIND: event.wait() if KIND == "event" else lock.acquire()}
        elif KIND == "timeout":
            waits["timeout"] = asyncio.wait_for(last, 1000)
        tasks.append(asyncio.create_task(outer(waits[KIND])))
    if KIND != "new":
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    reached()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


asyncio.run(main())
