"""Four ranks, one of which is late at every kind of call that waits, and at those that only ask."""

import threading
import time

import numpy as np
from mpi4py import MPI

LATE = 0.03
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
small, got = np.zeros(1), np.zeros(1)
left, right = (rank - 1) % size, (rank + 1) % size


def late(who: int = 3) -> None:
    if rank == who:
        time.sleep(LATE)


late()
comm.Barrier()
late()
comm.Allreduce(small, got)
late()
comm.Bcast(small, root=3)
late()
comm.Reduce(small, got, root=0)
late(0)
comm.Scan(small, got)
comm.Barrier()
late()
comm.Sendrecv(small, right, 1, got, left, 1)
late()
comm.isend({"a": 1}, right, 2)
comm.recv(source=left, tag=2)
late()
request = comm.Isend(small, right, 3)
comm.Probe(left, 3)
comm.Recv(got, left, 3)
request.Wait()
late()
request = comm.Ibarrier()
request.Wait()
late()
request = comm.Ibarrier()
while not request.Test():
    time.sleep(0.001)
late()
persistent = [comm.Recv_init(got, left, 4), comm.Send_init(small, right, 4)]
MPI.Prequest.Startall(persistent)
MPI.Request.Waitall(persistent)
for one in persistent:
    one.Free()
late()
requests = [comm.Irecv(got, left, 5), comm.Isend(small, right, 5)]
MPI.Request.Waitany(requests)
MPI.Request.Waitall(requests)

window = MPI.Win.Create(np.zeros(4), comm=comm)
late()
window.Fence()
window.Put(small, right)
window.Fence()
group = comm.group.Incl([right])
others = comm.group.Incl([left])
late()
window.Post(others)
window.Start(group)
window.Put(small, right)
late(2)
window.Complete()
window.Wait()
window.Lock(right)
window.Put(small, right)
window.Unlock(right)
window.Free()
group.Free()
others.Free()

late()
dup = comm.Dup()


def other_thread() -> None:
    if rank == 3:
        time.sleep(LATE)
    dup.Sendrecv(small, right, 6, np.zeros(1), left, 6)


thread = threading.Thread(target=other_thread)
thread.start()
comm.Sendrecv(small, right, 7, got, left, 7)
thread.join()
dup.Free()
comm.Barrier()
