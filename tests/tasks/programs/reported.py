"""Programs that hang as public reports tell of theirs, written anew, and their twins that do not (`fixed`)."""

import asyncio
import contextlib
import queue
import socket
import sys
import threading
import urllib.request

FIXED = "fixed" in sys.argv


class Store:
    """A client that asks for its region under the lock under which it makes requests (hlf20010508/miniopy-async#17)."""

    def __init__(self):
        self.lock, self.region = asyncio.Lock(), ""

    async def find_region(self):
        if FIXED:
            self.region = "here"
            return
        async with self.lock:
            self.region = "here"

    async def request(self):
        async with self.lock:
            if not self.region:
                await self.find_region()


async def lock_in_lock():
    await asyncio.create_task(Store().request(), name="request")


class Inverter:
    """A client whose task that writes has died, and whose queue fills up (dewet22/givenergy-modbus#54)."""

    def __init__(self):
        self.frames = asyncio.Queue(maxsize=2)
        self.writer = asyncio.create_task(self.write(), name="writer")
        self.beat = asyncio.create_task(self.keep_alive(), name="beat")

    async def keep_alive(self):
        while True:
            await asyncio.sleep(0.05)

    async def write(self):
        while True:
            await self.frames.get()
            if not FIXED:
                raise ConnectionResetError("maintenance")

    async def send(self):
        for number in range(5):
            await self.frames.put(number)


async def dead_writer():
    inverter = Inverter()
    await asyncio.create_task(inverter.send(), name="sender")
    inverter.beat.cancel()
    inverter.writer.cancel()


async def nested_jobs():
    """Jobs wait for jobs of their own, and all places for jobs are taken by those that wait (taskiq#280)."""
    places, jobs = asyncio.Semaphore(8 if FIXED else 2), asyncio.Queue()

    async def inner():
        return 1

    async def outer():
        result = asyncio.get_running_loop().create_future()
        jobs.put_nowait((inner, result))
        return await result

    async def run(function, result):
        result.set_result(await function())
        places.release()

    async def listen():
        running = set()
        while True:
            await places.acquire()
            running.add(asyncio.create_task(run(*await jobs.get())))

    listener = asyncio.create_task(listen(), name="listener")
    results = [asyncio.get_running_loop().create_future() for _ in range(4)]
    for result in results:
        jobs.put_nowait((outer, result))
    await asyncio.gather(*results)
    listener.cancel()


async def blocked_executor():
    """asyncio.run waits for a thread that waits for a line nobody types any more (jaredrhod/backtalk#24)."""
    typed = queue.Queue()
    line = asyncio.get_running_loop().run_in_executor(None, typed.get)
    await asyncio.sleep(0.1)
    if FIXED:
        typed.put("quit")
    else:
        line.cancel()


async def skipped_task_done():
    """An item that failed was never reported as done (golemfactory/yapapi#243)."""
    calls = asyncio.Queue()

    async def work():
        while True:
            number = await calls.get()
            try:
                _ = 1 / number
            except ZeroDivisionError:
                if not FIXED:
                    continue
            calls.task_done()

    worker = asyncio.create_task(work(), name="worker")
    for number in (1, 0, 2):
        calls.put_nowait(number)
    await calls.join()
    worker.cancel()


async def silent_server():
    """A coroutine asks a server that does not answer, by a library that blocks (mozilla-services/telescope#1088)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=0.2 if FIXED else 60)


async def full_pipe():
    """A child process writes more than its pipe holds, and nobody reads (bytedance/SandboxFusion#53)."""
    code = "print('x' * 1000000)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    if FIXED:
        await child.communicate()
    await child.wait()


async def ignored_timeout():
    """A reader takes its cancellation for the end of one wait (python/cpython#87555)."""
    lines = asyncio.Queue()

    async def read():
        while True:
            try:
                await asyncio.wait_for(lines.get(), 30)
            except asyncio.TimeoutError:
                continue
            except asyncio.CancelledError:
                if FIXED:
                    return

    reader = asyncio.create_task(read(), name="reader")
    await asyncio.sleep(0.1)
    reader.cancel()
    await asyncio.gather(reader)


async def lock_of_threads():
    """Two coroutines of one loop share a lock of threading's (MagicStack/uvloop#559)."""
    held = threading.Lock()

    async def receive():
        with held:
            await asyncio.sleep(0.2)

    async def close():
        await asyncio.sleep(0 if not FIXED else 0.4)
        held.acquire()
        held.release()

    receiver = asyncio.create_task(receive(), name="receiver")
    await asyncio.gather(receiver, asyncio.create_task(close(), name="closer"))


async def open_connection():
    """A server that closes waits for a connection that stays open (Server.wait_closed, from Python 3.12 on)."""

    async def serve(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.1)
    if FIXED:
        writer.close()
    server.close()
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
