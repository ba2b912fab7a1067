"""Ends as it is told."""

import asyncio
import gc
import os
import sys
import threading

from mpi4py import MPI

how = sys.argv[1]


async def fails() -> None:
    raise ValueError("in a task")


async def forgets() -> None:
    task = asyncio.create_task(fails(), name="worker-7")
    await asyncio.sleep(0.01)
    del task
    gc.collect()


def work() -> None:
    if how == "exception":
        {}["missing"]
    if how == "cause":
        try:
            {}["missing"]
        except KeyError as error:
            raise RuntimeError("no such thing") from error
    if how == "exit":
        sys.exit(3)
    if how == "at-once":
        os._exit(5)
    if how == "abort":
        sys.excepthook = lambda *_: MPI.COMM_WORLD.Abort(7)
        {}["missing"]
    if how == "thread":
        thread = threading.Thread(target=lambda: 1 // 0, name="helper")
        thread.start()
        thread.join()
    if how == "task":
        asyncio.run(forgets())
    if how == "mpi":
        MPI.COMM_WORLD.send(1, dest=99)
    if how == "segv":
        import ctypes

        ctypes.string_at(0)
    if how == "caught":
        for raised in (SystemExit(4), KeyError("x")):
            try:
                raise raised
            except BaseException:
                pass
    if how == "finalize":
        MPI.Finalize()


work()
