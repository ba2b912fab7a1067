"""Programs that hang or are held up, and their twins that are not (`fixed`): one function each."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time

FIXED = "fixed" in sys.argv


def in_loop(loop, function, *arguments):
    """Call a function that ends a wait, as another thread may or as it must not."""
    if FIXED:
        loop.call_soon_threadsafe(function, *arguments)
    else:
        function(*arguments)


async def queue_from_thread():
    """A thread puts an item into a queue of the loop."""
    lines, loop = asyncio.Queue(), asyncio.get_running_loop()

    def read():
        time.sleep(0.3)
        in_loop(loop, lines.put_nowait, "a line")

    threading.Thread(target=read, daemon=True).start()
    await lines.get()


async def future_from_thread():
    """The callback of another thread's future completes one of the loop."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def reply():
        in_loop(loop, answer.set_result, 7)

    threading.Timer(0.3, reply).start()
    await answer


async def callback_from_thread():
    """A thread gives the loop a callback by `call_soon`."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def finish():
        time.sleep(0.3)
        (loop.call_soon_threadsafe if FIXED else loop.call_soon)(done.set)

    threading.Thread(target=finish, daemon=True).start()
    await done.wait()


async def dead_consumer():
    """The only consumer of a queue dies at an item; its task is held by nobody."""
    jobs = asyncio.Queue()

    async def consume():
        while True:
            item = await jobs.get()
            try:
                _ = 10 / (item - 1)
            except ZeroDivisionError:
                if not FIXED:
                    raise
            jobs.task_done()

    asyncio.get_running_loop().create_task(consume(), name="consumer")
    for item in range(3):
        jobs.put_nowait(item)
    await jobs.join()


async def dead_setter():
    """The task that would set an event dies before it does."""
    ready = asyncio.Event()

    async def connect():
        if not FIXED:
            raise OSError("no route to host")
        ready.set()

    connection = asyncio.create_task(connect(), name="connection")
    await ready.wait()
    del connection


async def dead_callback():
    """The callback that would complete a future dies."""
    loop = asyncio.get_running_loop()
    reply = loop.create_future()

    def on_data(text):
        reply.set_result(int(text))

    loop.call_later(0.05, on_data, "7" if FIXED else "seven")
    await reply


async def beat():
    """What goes on in any case, so that the program is not still."""
    while True:
        await asyncio.sleep(0.05)


async def suppressed_cancel():
    """A worker suppresses its cancellation, and a group cannot end."""

    async def fail():
        await asyncio.sleep(0.1)
        raise ValueError("bad page")

    async def poll():
        for _ in range(2 if FIXED else 1000):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.2 if FIXED else 100)

    async with asyncio.TaskGroup() as group:
        group.create_task(poll(), name="poller")
        group.create_task(fail(), name="failer")


async def base_exception():
    """A worker catches BaseException, and asyncio.run cannot end."""

    async def listen(messages):
        while True:
            try:
                await messages.get()
            except BaseException:
                if FIXED:
                    raise

    asyncio.get_running_loop().listener = asyncio.create_task(listen(asyncio.Queue()), name="listener")
    await asyncio.sleep(0.1)


async def slow_cleanup():
    """A worker that was cancelled takes long to clean up."""

    async def work():
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0.01 if FIXED else 100)

    task = asyncio.create_task(work(), name="worker")
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])


async def sleeping_callback():
    """A timer's callback sleeps, and a task cannot beat."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    beats = asyncio.create_task(beat())

    def poll():
        if not FIXED:
            time.sleep(30)
        done.set()

    loop.call_later(0.1, poll)
    await done.wait()
    beats.cancel()


async def child_process():
    """A coroutine waits for a child process without `await`."""
    beats = asyncio.create_task(beat())
    await asyncio.sleep(0.1)
    if FIXED:
        child = await asyncio.create_subprocess_exec("sleep", "0.1")
        await child.wait()
    else:
        subprocess.run(["sleep", "30"], check=False)
    beats.cancel()


async def long_loop():
    """A coroutine computes for long."""
    beats = asyncio.create_task(beat())
    end = time.monotonic() + (0.1 if FIXED else 30)
    while time.monotonic() < end:
        pass
    beats.cancel()


async def crossed():
    """Callers hold all places of a semaphore while they wait for others that need one; something else goes on."""
    places = asyncio.Semaphore(8 if FIXED else 2)
    beats = asyncio.create_task(beat())

    async def part():
        async with places:
            await asyncio.sleep(0.01)

    async def whole():
        async with places:
            await asyncio.gather(part(), part())

    await asyncio.gather(whole(), whole())
    beats.cancel()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
