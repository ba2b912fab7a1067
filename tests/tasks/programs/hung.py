"""Programs that come to stand still, and their twins that do not (`fixed`): one function each."""

import asyncio
import socket
import subprocess
import sys
import threading
import time

FIXED = "fixed" in sys.argv


class Pool:
    """Places for few, as pools of connections have."""

    def __init__(self, places: int) -> None:
        self.free = asyncio.Semaphore(places)

    async def query(self, depth: int) -> None:
        """Take a place, and for each depth another one within."""
        async with self.free:
            await asyncio.sleep(0)
            if depth:
                await self.query(depth - 1)


async def take(jobs: asyncio.Queue) -> None:
    """A consumer."""
    while await jobs.get() is not None:
        pass


async def give(jobs: asyncio.Queue) -> None:
    """A producer that forgets to say that it was the last."""
    for number in range(3):
        await jobs.put(number)
    if FIXED:
        await jobs.put(None)


async def queue() -> None:
    jobs = asyncio.Queue()
    consumer = asyncio.create_task(take(jobs), name="consumer")
    await asyncio.create_task(give(jobs), name="producer")
    await consumer


async def pool() -> None:
    await asyncio.create_task(Pool(2 if FIXED else 1).query(1), name="nested")


async def event() -> None:
    ready = asyncio.Event()
    one = asyncio.create_task(ready.wait(), name="one")
    if FIXED:
        ready.set()
    await one


async def keep(lock: asyncio.Lock) -> None:
    """Take a lock, and come to an end with it."""
    await lock.acquire()
    if FIXED:
        lock.release()


async def lock() -> None:
    guard = asyncio.Lock()
    await asyncio.create_task(keep(guard), name="keeper")
    async with guard:
        pass


async def thread() -> None:
    """No loop has anything to do, but a thread has."""
    await asyncio.to_thread(time.sleep, 1)


async def foreign() -> None:
    """The same with a thread of no pool."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    threading.Timer(1, loop.call_soon_threadsafe, [ready.set]).start()
    await ready.wait()


async def child() -> None:
    """The same with another process."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(1)")
    await process.wait()


async def open_socket() -> None:
    """The same with a connection whose other end is in a process that is not asyncio's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    code = f"import os, time; time.sleep(1); os.write({theirs.fileno()}, b'x')"
    with subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()]):
        await asyncio.get_running_loop().sock_recv(ours, 1)
    ours.close()
    theirs.close()


async def served_for_ever() -> None:
    """A server that nobody asks: it is not hung."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    await server.serve_forever()


asyncio.run(globals()[sys.argv[1]]())
