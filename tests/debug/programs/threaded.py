"""Each rank squares numbers in two threads: one that has waited since the start, and one that is started later."""

import sys
import threading

from mpi4py import MPI

if "hooked" in sys.argv:
    threading.settrace(lambda frame, event, argument: None)

comm = MPI.COMM_WORLD
late = threading.Event()
squares = {}


def wait_and_square():
    late.wait()
    value = comm.rank + 10
    squares["early"] = value * value


def square(number):
    value = number + comm.rank
    squares[number] = value * value
    return value


early = threading.Thread(target=wait_and_square, name="early bird")
early.start()
comm.Barrier()
worker = threading.Thread(target=square, args=(3,), name="worker")
worker.start()
worker.join()
comm.Barrier()
late.set()
early.join()
total = comm.allreduce(sum(squares.values()))
if comm.rank == 0:
    print("total", total)
