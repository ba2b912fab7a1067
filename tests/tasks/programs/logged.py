"""A random tree of tasks that keeps a log of its own: parents, what has begun, what each waits for and at which line.

It runs until it is ended. tests/tasks/stops.py compares the log with the table at random stops.
"""

import asyncio
import itertools
import json
import random
import sys
from pathlib import Path

LOG = {}
numbers = itertools.count(1)
dice = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)


def tell(path):
    Path(path).write_text(json.dumps(LOG))


def started():
    pass


def entry(name, parent):
    LOG[name] = {"parent": parent, "begun": False, "ended": False, "wait": "", "for": [], "one": False, "line": 0}


class Waits:
    """What a task waits for from here to there, in its log; the wait is on the line after."""

    def __init__(self, name, kind, others=(), one=False):
        self.log = LOG[name]
        self.kind, self.others, self.one = kind, others, one

    def __enter__(self):
        line = sys._getframe(1).f_lineno + 1
        self.log.update(wait=self.kind, line=line, one=self.one, **{"for": [t.get_name() for t in self.others]})

    def __exit__(self, *_):
        self.log.update(wait="", one=False, **{"for": []})


def make(parent, depth, shared):
    name = f"t{next(numbers)}"
    entry(name, parent)
    return asyncio.create_task(work(name, depth, shared), name=name)


async def spend(name):
    with Waits(name, "sleep"):
        await asyncio.sleep(dice.choice([0.0005, 0.002]))


async def work(name, depth, shared):
    LOG[name]["begun"] = True
    _, event = shared
    if dice.random() < 0.5:
        await spend(name)
    if dice.random() < 0.2:
        with Waits(name, "event"):
            await event.wait()
    if depth:
        await children(name, depth, shared)
    if dice.random() < 0.3:
        await spend(name)
    LOG[name]["ended"] = True


async def children(name, depth, shared):
    made = [make(name, depth - 1, shared) for _ in range(dice.randrange(1, 4))]
    way = dice.randrange(6)
    if way == 0:
        for child in made:
            with Waits(name, "await", [child]):
                await child
    elif way == 1:
        with Waits(name, "gather", made):
            await asyncio.gather(*made)
    elif way == 2:
        with Waits(name, "wait", made):
            await asyncio.wait(made)
    elif way == 3:
        with Waits(name, "wait", made, one=True):
            await asyncio.wait(made, return_when=asyncio.FIRST_COMPLETED)
        with Waits(name, "gather", made):
            await asyncio.gather(*made)
    elif way == 4:
        for child in made:
            with Waits(name, "shield", [child]):
                await asyncio.shield(child)
    else:
        await grouped(name, depth, shared)
        with Waits(name, "gather", made):
            await asyncio.gather(*made)


async def grouped(name, depth, shared):
    members, line = [], sys._getframe().f_lineno + 1
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            child = f"t{next(numbers)}"
            entry(child, name)
            members.append(group.create_task(work(child, depth - 1, shared), name=child))
        at_end = Waits(name, "group", members)
        at_end.__enter__()
        LOG[name]["line"] = line
    at_end.__exit__()


async def main():
    asyncio.current_task().set_name("main")
    entry("main", None)
    LOG["main"]["begun"] = True
    started()
    shared = asyncio.Lock(), asyncio.Event()
    while True:
        made = [make("main", 3, shared) for _ in range(6)]
        with Waits("main", "sleep"):
            await asyncio.sleep(0.004)
        shared[1].set()
        with Waits("main", "gather", made):
            await asyncio.gather(*made)
        shared[1].clear()
        for name in [n for n, e in LOG.items() if e["ended"]]:
            del LOG[name]


asyncio.run(main())
