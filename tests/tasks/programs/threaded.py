"""Threads and works of pools beside tasks: at work, and in each kind of circle. `python threaded.py WHAT [fixed]`."""

import asyncio
import inspect
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

FIXED = sys.argv[2:] == ["fixed"]
WHAT = sys.argv[1]
FINISHED = threading.Event()
inner, outer = threading.Lock(), threading.RLock()


def load(n):
    double = 2 * n
    time.sleep(0 if FIXED else 20)
    return double


async def through(pool):
    return await asyncio.get_running_loop().run_in_executor(pool, load, 3)


async def at_work():
    """A task in to_thread(), two at a pool of one thread, and a thread of its own."""
    pool = ThreadPoolExecutor(1)
    threading.Thread(target=load, args=(4,), name="feeder", daemon=True).start()
    reader = asyncio.create_task(asyncio.to_thread(load, 1), name="reader")
    first = asyncio.create_task(through(pool), name="first")
    await asyncio.sleep(0.1)
    second = asyncio.create_task(through(pool), name="second")
    await asyncio.sleep(0.2)
    print("at work", flush=True)
    await asyncio.gather(reader, first, second)


async def asks(guard):
    async with guard:
        return 1


def calls_back(coroutine, loop):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


async def lock_of_a_loop():
    """A task has a lock, its thread wants what another task gives, which waits for the lock."""
    guard = asyncio.Lock()
    async with guard:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(calls_back, asyncio.sleep(0) if FIXED else asks(guard), loop)


async def loop_held_up():
    """A task holds its loop up with a work that calls the loop back."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(calls_back, asyncio.sleep(0), loop)
        if FIXED:
            await asyncio.wrap_future(future)
        future.result()


async def keeps(seconds):
    with inner:
        await asyncio.sleep(seconds)


async def lock_over_await():
    """A lock of threads is kept over an await, and another task of the loop asks for it."""
    keeper = asyncio.create_task(keeps(0.01), name="keeper")
    await asyncio.sleep(0)
    if FIXED:
        await keeper
    with inner:
        await keeper


def submits(pool, depth):
    return pool.submit(submits, pool, depth - 1).result() if depth else 0


def nested():
    """A work waits for another one of its pool, whose threads are all at work."""
    with ThreadPoolExecutor(2 if FIXED else 1) as pool:
        pool.submit(submits, pool, 1).result()


def holds_inner(ready):
    with inner:
        ready.wait()
        with outer:
            pass


def crossed():
    """Two threads, two locks, one of each kind."""
    ready = threading.Barrier(1 if FIXED else 2)
    threads = [threading.Thread(target=holds_inner, args=(ready,), name="one")]
    threads[0].start()
    if FIXED:
        threads[0].join()
    with outer:
        ready.wait()
        inner.acquire()
        inner.release()
    threads[0].join()


def takes(jobs):
    return jobs.get()


def no_producer():
    """A thread waits at a queue that nobody fills, and the main thread for that thread."""
    jobs = queue.Queue()
    thread = threading.Thread(target=takes, args=(jobs,), name="taker")
    thread.start()
    if FIXED:
        jobs.put(1)
    thread.join()


async def no_answer():
    """A work of a pool waits for an event that nobody sets."""
    ready = threading.Event()
    if FIXED:
        ready.set()
    await asyncio.to_thread(ready.wait)


def leaf():
    with inner:
        time.sleep(0.0002)


def branch(pool):
    return len([one.result() for one in as_completed([pool.submit(leaf) for _ in range(3)])])


def owns():
    while not FINISHED.is_set():
        with outer, inner:
            time.sleep(0.0002)


async def works(guard, pools):
    loop = asyncio.get_running_loop()
    while not FINISHED.is_set():
        await asyncio.to_thread(calls_back, asks(guard), loop)
        await loop.run_in_executor(pools[0], branch, pools[1])
        await asyncio.wait([loop.run_in_executor(pools[1], leaf) for _ in range(3)])
        with inner:
            pass


async def handed_on():
    """Locks, results and works of two pools go from hand to hand, for so many seconds."""
    threading.Timer(float(sys.argv[2]), FINISHED.set).start()
    threading.Thread(target=owns).start()
    guard, pools = asyncio.Lock(), (ThreadPoolExecutor(3), ThreadPoolExecutor(2))
    await asyncio.gather(*[works(guard, pools) for _ in range(6)])


print("begun", flush=True)
found = globals()[WHAT]
if inspect.iscoroutinefunction(found):
    asyncio.run(found())
else:
    found()
