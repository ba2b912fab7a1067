"""Does what a script says, one call of MPI a line: the same as script.c."""

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

MOST = 40000
world = MPI.COMM_WORLD
rank = world.rank
comms = [world, MPI.COMM_NULL]
requests: list[MPI.Request] = []
buffers: list[np.ndarray | None] = []
plain, result, status = np.zeros(MOST, "i"), np.zeros(64, "i"), MPI.Status()
message, found, got, line = MPI.MESSAGE_NULL, (0, 0), [], 0

for text in Path(sys.argv[1]).read_text().splitlines():
    whose, op, *numbers = text.split()
    if int(whose) != rank:
        continue
    a = [int(number) for number in numbers] + [0] * (5 - len(numbers))
    comm = comms[a[0]]
    source, tag = MPI.ANY_SOURCE if a[1] < 0 else a[1], MPI.ANY_TAG if a[2] < 0 else a[2]
    if op == "split":
        comms[1] = world.Split(1 if a[1] else MPI.UNDEFINED, -rank)
    elif op in ("send", "ssend"):
        plain[0] = a[4]
        (comm.Send if op == "send" else comm.Ssend)(plain[: a[3]], a[1], a[2])
    elif op == "isend":
        data = np.zeros(a[3], "i")
        data[0] = a[4]
        requests.append(comm.Isend(data, a[1], a[2]))
        buffers.append(None)
    elif op == "recv":
        comm.Recv(plain, source, tag)
        got.append((rank, line, -1, plain[0]))
    elif op == "irecv":
        buffers.append(np.zeros(MOST, "i"))
        requests.append(comm.Irecv(buffers[-1], source, tag))
    elif op == "waitany":
        which = MPI.Request.Waitany(requests)
        if which >= 0 and buffers[which] is not None:
            got.append((rank, line, which, buffers[which][0]))
    elif op == "waitall":
        pending = [i for i, r in enumerate(requests) if r != MPI.REQUEST_NULL and buffers[i] is not None]
        MPI.Request.Waitall(requests)
        got += [(rank, line, i, buffers[i][0]) for i in pending]
        requests, buffers = [], []
    elif op in ("probe", "poll"):
        if op == "probe":
            comm.Probe(source, tag, status)
        else:
            while not comm.Iprobe(source, tag, status):
                pass
        found = status.source, status.tag
    elif op == "take":
        comm.Recv(plain, *found)
        got.append((rank, line, -1, plain[0]))
    elif op == "mprobe":
        message = comm.Mprobe(source, tag)
    elif op == "mrecv":
        message.Recv(plain)
        got.append((rank, line, -1, plain[0]))
    elif op == "barrier":
        comm.Barrier()
    elif op == "bcast":
        comm.Bcast(plain[:2], a[1])
    elif op == "allreduce":
        comm.Allreduce(plain[:1], result[:1], MPI.MAX)
    elif op == "reduce":
        comm.Reduce(plain[:1], result[:1], MPI.MAX, a[1])
    elif op == "gather":
        comm.Gather(plain[:1], result[: comm.size], a[1])
    elif op == "scan":
        comm.Scan(plain[:1], result[:1], MPI.MAX)
    else:
        raise SystemExit(f"no such call: {op}")
    line += 1
sys.stdout.write("".join(" ".join(map(str, row)) + "\n" for row in got))
