"""Calls of mpi4py for ever, logged as log.h says: mix.py FOLDER [ROUNDS [ENDING]]."""

import mmap
import os
import sys
from pathlib import Path

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI  # noqa: E402

SEND, RECV, ISEND, IRECV, WAIT, ALLREDUCE, BARRIER = 3, 4, 5, 6, 7, 11, 12
ENTRIES = 1 << 20

path = Path(sys.argv[1]) / f"python-{os.getpid()}.log"
with path.open("xb+") as file:
    file.truncate(24 + 12 * ENTRIES)
    log = memoryview(mmap.mmap(file.fileno(), 0))
counters = log[:24].cast("Q")  # pid, begun, ended: a store of 8 bytes each
numbers = log[24:].cast("i")
counters[0] = os.getpid()


def begin(call: int, tag: int = -1) -> None:
    i = 3 * counters[1]
    numbers[i] = tag
    numbers[i + 1] = -1
    numbers[i + 2] = call
    counters[1] += 1


def end(source: int = -1) -> None:
    if source >= 0:
        numbers[3 * counters[2] + 1] = source
    counters[2] += 1


def one_round(i: int) -> None:
    tag = i & 0x3FFF
    begin(IRECV, tag)
    request = comm.Irecv([into, 4, MPI.INT], left, tag)
    end()
    begin(SEND, tag)
    comm.Send([out, 4, MPI.INT], right, tag)
    end()
    begin(WAIT)
    request.Wait()
    end()
    if i % 3 == 0:
        begin(ISEND, tag)
        request = comm.Isend([out, 4, MPI.INT], right, tag)
        end()
        begin(RECV, tag)
        comm.Recv([into, 4, MPI.INT], MPI.ANY_SOURCE, tag, status)
        end(status.source)
        begin(WAIT)
        request.Wait()
        end()
    if i % 8 == 0:
        begin(ALLREDUCE)
        comm.Allreduce([out, 4, MPI.INT], [into, 4, MPI.INT])
        end()
    if i % 16 == 0:
        begin(BARRIER)
        comm.Barrier()
        end()


rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 0
MPI.Init()
comm, status = MPI.COMM_WORLD, MPI.Status()
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size
out, into = bytearray(16), bytearray(16)
i = 0
while not rounds or i < rounds:
    one_round(i)
    i += 1
if sys.argv[3:] == ["raise"]:
    if rank == size - 1:
        raise RuntimeError("an exception that nobody catches")
    begin(RECV, 0x7001)
    comm.Recv([into, 4, MPI.INT], size - 1, 0x7001)
    end()
