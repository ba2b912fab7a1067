"""As windows.c, through mpi4py: windows.py MODE ROUNDS."""

import os
import sys
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
mode, rounds = sys.argv[1], int(sys.argv[2])
win = MPI.Win.Allocate(32 if rank == 0 else 0, 8, comm=comm)
memory = np.frombuffer(win, dtype="i8")
memory[:] = 0
comm.Barrier()
said: list[int] = []


def pause(round_: int) -> None:
    time.sleep((os.getpid() * 7919 + round_ * 104729) % 300 * 1e-6)


def counter() -> None:
    one, got = np.ones(1, "i8"), np.empty(1, "i8")
    win.Lock_all()
    while True:
        win.Fetch_and_op(one, got, 0)
        win.Flush(0)
        if got[0] >= rounds:
            break
        said.append(int(got[0]))
        pause(int(got[0]))
    win.Unlock_all()


def guarded() -> None:
    seen = np.empty(3, "i8")
    win.Get(seen, 0, target=(1, 3, MPI.LONG))
    win.Flush(0)
    said.extend(seen[:2].tolist())
    if seen[0] % 2:
        pause(int(seen[0]))
    seen[:] = seen[0] + 1, rank, seen[2] * 3 + rank
    win.Put(seen, 0, target=(1, 3, MPI.LONG))
    win.Flush(0)


def spin() -> None:
    mine, none, was = np.full(1, rank + 1, "i8"), np.zeros(1, "i8"), np.empty(1, "i8")
    win.Lock_all()
    for i in range(rounds):
        tries, owners = 0, 0
        while True:
            win.Compare_and_swap(mine, none, was, 0, 0)
            win.Flush(0)
            tries += 1
            owners = owners * 3 + int(was[0])
            if not was[0]:
                break
            time.sleep(2e-5)
        said.extend((tries, owners))
        guarded()
        win.Accumulate(none, 0, target=(0, 1, MPI.LONG), op=MPI.REPLACE)
        win.Flush(0)
        pause(i)
    win.Unlock_all()


def lock() -> None:
    for i in range(rounds):
        win.Lock(0, MPI.LOCK_EXCLUSIVE)
        guarded()
        win.Unlock(0)
        pause(i)


{"counter": counter, "spin": spin, "lock": lock}[mode]()
for line in comm.gather(said) or []:
    print(*line)
comm.Barrier()
if rank == 0:
    print("left:", memory.tolist())
win.Free()
