"""Rank 1 waits in a receive from rank 0, which sleeps until a file is there: `stands.py FILE [SECONDS]`."""

import sys
import time
from pathlib import Path

from mpi4py import MPI

import weft

comm = MPI.COMM_WORLD
if len(sys.argv) > 2:
    weft.watchdog(float(sys.argv[2]))


def step() -> None:
    if comm.Get_rank() == 0:
        while not Path(sys.argv[1]).exists():
            time.sleep(0.05)
        comm.send("go", dest=1, tag=3)
    elif comm.Get_rank() == 1:
        comm.recv(source=0, tag=3)
    comm.Barrier()


step()
if comm.Get_rank() == 0:
    print("through")
