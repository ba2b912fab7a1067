# ruff: noqa: E501, E402 - a call and what it passed stand on one line
"""The mpi4py program of the matrix: each call on a line of its own, written down with what it passed.

A line of LOG/<pid>.jsonl is {"line": ..., "calls": [[function, {argument: value}], ...]}: what the standard's calls
behind one call of mpi4py are to be. Handles stand as names; a name that MPI does not know is bound by its first use.
"""

import json
import os
import sys
from pathlib import Path

_BEGUN = sys._getframe().f_lineno + 1
from mpi4py import MPI  # isort: skip

import numpy as np

log = (Path(os.environ["MATRIX_LOG"]) / f"{os.getpid()}.jsonl").open("w")


def write(line, calls):
    print(json.dumps({"line": line, "calls": calls}), file=log, flush=True)


def did(result, *calls, **arguments):
    """Write down the MPI calls that the call just made stands for: name and arguments, or pairs of them."""
    pairs = [[calls[0], arguments]] if isinstance(calls[0], str) else [list(call) for call in calls]
    write(sys._getframe(1).f_lineno, pairs)
    return result


def at(array):
    """Return the address of an array's data."""
    return int(array.ctypes.data)


W, I = MPI.COMM_WORLD, "MPI_INT"  # noqa: E741
write(_BEGUN, [["MPI_Init_thread", {"required": 3}]])
rank = W.rank
size = W.size
after, before = (rank + 1) % size, (rank - 1) % size
out, got, many = np.arange(4, dtype="i") + rank, np.zeros(4, dtype="i"), np.zeros(12, dtype="i")
world = {"comm": "MPI_COMM_WORLD"}


def sends(tag, count=4, dest=None):
    return {"buf": at(out), "count": count, "datatype": I, "dest": after if dest is None else dest, "tag": tag, **world}


def receives(tag, source=None, array=got):
    return {
        "buf": at(array),
        "count": array.size,
        "datatype": I,
        "source": before if source is None else source,
        "tag": tag,
        **world,
    }


# fmt: off
def point_to_point():
    status = MPI.Status()
    if rank == 0:
        did(W.Send(out, after, 7), "MPI_Send", **sends(7))
        did(W.Recv(got, MPI.ANY_SOURCE, 7, status), "MPI_Recv", **receives(7, -1), status=[before, 7, 16])
    else:
        did(W.Recv(got, before, MPI.ANY_TAG, status), "MPI_Recv", **receives(-1), status=[before, 7, 16])
        did(W.Send(out, after, 7), "MPI_Send", **sends(7))
    did(status.Get_count(MPI.INT), "MPI_Get_count", count=4, datatype=I)
    if rank == 0:
        did(W.Ssend([out, 2, MPI.INT], 1, 8), "MPI_Ssend", **sends(8, 2))
    elif rank == 1:
        did(W.Recv(got, 0, 8), "MPI_Recv", **receives(8), status=[0, 8, 8])
    r = did(W.Irecv(got, before, 9), "MPI_Irecv", **receives(9), request="r1")
    s = did(W.Isend(out, after, 9), "MPI_Isend", **sends(9), request="s1")
    did(r.Wait(status), "MPI_Wait", request="r1", status=[before, 9, 16])
    did(s.Wait(), "MPI_Wait", request="s1")
    r = did(W.Irecv(got, before, 10), "MPI_Irecv", **receives(10), request="r2")
    s = did(W.Issend(out, after, 10), "MPI_Issend", **sends(10), request="s2")
    did(MPI.Request.Waitall([r, s]), "MPI_Waitall", count=2, array_of_requests=["r2", "s2"])
    space = MPI.Alloc_mem(4096)
    did(MPI.Attach_buffer(space), "MPI_Buffer_attach", size=4096)
    did(W.Bsend(out, after, 11), "MPI_Bsend", **sends(11))
    did(W.Recv(got, before, 11), "MPI_Recv", **receives(11), status=[before, 11, 16])
    did(MPI.Detach_buffer(), "MPI_Buffer_detach", size=4096)
    MPI.Free_mem(space)
    r = did(W.Irecv(got, before, 12), "MPI_Irecv", **receives(12), request="r3")
    did(W.Barrier(), "MPI_Barrier", **world)
    did(W.Rsend(out, after, 12), "MPI_Rsend", **sends(12))
    did(r.Wait(), "MPI_Wait", request="r3", status=[before, 12, 16])
    did(W.Sendrecv(out, after, 13, got, before, 13), "MPI_Sendrecv", sendbuf=at(out), sendcount=4, sendtype=I, dest=after, sendtag=13, recvbuf=at(got), recvcount=4, recvtype=I, source=before, recvtag=13, **world)
    did(W.Sendrecv_replace(got, after, 14, before, 14), "MPI_Sendrecv_replace", buf=at(got), count=4, datatype=I, dest=after, sendtag=14, source=before, recvtag=14, **world)
    r = did(W.Send_init(out, after, 15), "MPI_Send_init", **sends(15), request="p1")
    q = did(W.Recv_init(got, before, 15), "MPI_Recv_init", **receives(15), request="p2")
    did(MPI.Prequest.Startall([r, q]), "MPI_Startall", count=2, array_of_requests=["p1", "p2"])
    did(q.Wait(), "MPI_Wait", request="p2", status=[before, 15, 16])
    did(r.Wait(), "MPI_Wait", request="p1")
    did(r.Free(), "MPI_Request_free", request="p1")
    did(q.Free(), "MPI_Request_free", request="p2")
    s = did(W.Isend(out, after, 16), "MPI_Isend", **sends(16), request="s4")
    did(W.Probe(before, 16, status), "MPI_Probe", source=before, tag=16, **world, status=[before, 16, 16])
    m = did(W.Mprobe(before, MPI.ANY_TAG, status), "MPI_Mprobe", source=before, tag=-1, **world, status=[before, 16, 16])
    did(m.Recv(got), "MPI_Mrecv", buf=at(got), count=4, datatype=I, status=[before, 16, 16])
    did(s.Wait(), "MPI_Wait", request="s4")


def pickled():
    thing = {"rank": rank, "list": [1, 2, 3]}
    if rank == 0:
        did(W.send(thing, 1, 20), "MPI_Send", datatype="MPI_BYTE", dest=1, tag=20, **world)
        did(W.ssend(thing, 1, 21), "MPI_Ssend", datatype="MPI_BYTE", dest=1, tag=21, **world)
    elif rank == 1:
        did(W.recv(source=0, tag=20), ("MPI_Mprobe", {"source": 0, "tag": 20, **world}), ("MPI_Mrecv", {"datatype": "MPI_BYTE"}))
        did(W.recv(source=MPI.ANY_SOURCE, tag=21), ("MPI_Mprobe", {"source": -1, "tag": 21, **world}), ("MPI_Mrecv", {"datatype": "MPI_BYTE"}))
    r = did(W.isend(thing, after, 22), "MPI_Isend", datatype="MPI_BYTE", dest=after, tag=22, **world, request="o1")
    did(W.recv(None, before, 22), ("MPI_Mprobe", {"source": before, "tag": 22}), ("MPI_Mrecv", {"datatype": "MPI_BYTE"}))
    did(r.wait(), "MPI_Wait", request="o1")
    did(W.bcast(thing, 0), ("MPI_Bcast", {"count": 1, "root": 0}), ("MPI_Bcast", {"datatype": "MPI_BYTE", "root": 0}))
    did(W.gather(thing, 1), ("MPI_Gather", {"root": 1, **world}), ("MPI_Gatherv", {"sendtype": "MPI_BYTE", "root": 1, **world}))
    did(W.scatter([thing] * size if rank == 2 else None, 2), ("MPI_Scatter", {"root": 2}), ("MPI_Scatterv", {"recvtype": "MPI_BYTE", "root": 2}))
    did(W.allgather(thing), ("MPI_Allgather", {}), ("MPI_Allgatherv", {"sendtype": "MPI_BYTE"}))
    did(W.alltoall([thing] * size), ("MPI_Alltoall", {}), ("MPI_Alltoallv", {"sendtype": "MPI_BYTE"}))
    did(W.barrier(), "MPI_Barrier", **world)


def collectives():
    counts, starts, ones = [1, 2, 1], [0, 1, 3], [1, 1, 1]
    did(W.Bcast(got, 1), "MPI_Bcast", buffer=at(got), count=4, datatype=I, root=1, **world)
    did(W.Gather([out, 2, MPI.INT], [many, 2, MPI.INT] if rank == 2 else None, 2), "MPI_Gather", sendbuf=at(out), sendcount=2, sendtype=I, root=2, **world)
    did(W.Gatherv([out, counts[rank], MPI.INT], [many, counts, starts, MPI.INT] if rank == 0 else None, 0), "MPI_Gatherv", sendcount=counts[rank], recvcounts=counts if rank == 0 else [], displs=starts if rank == 0 else [], root=0)
    did(W.Scatter([out, 1, MPI.INT] if rank == 1 else None, [got, 1, MPI.INT], 1), "MPI_Scatter", recvbuf=at(got), recvcount=1, recvtype=I, root=1)
    did(W.Allgather([out, 1, MPI.INT], [many, 1, MPI.INT]), "MPI_Allgather", sendbuf=at(out), sendcount=1, recvbuf=at(many), recvcount=1, recvtype=I)
    did(W.Allgatherv([out, counts[rank], MPI.INT], [many, counts, starts, MPI.INT]), "MPI_Allgatherv", sendcount=counts[rank], recvcounts=counts, displs=starts, recvtype=I)
    did(W.Alltoall([out, 1, MPI.INT], [many, 1, MPI.INT]), "MPI_Alltoall", sendbuf=at(out), sendcount=1, recvcount=1)
    did(W.Alltoallv([out, ones, [0, 1, 2], MPI.INT], [many, ones, [0, 2, 4], MPI.INT]), "MPI_Alltoallv", sendcounts=ones, sdispls=[0, 1, 2], recvcounts=ones, rdispls=[0, 2, 4], sendtype=I)
    did(W.Alltoallw([out, ones, [0, 4, 8], [MPI.INT] * 3], [many, ones, [0, 8, 16], [MPI.INT] * 3]), "MPI_Alltoallw", sendcounts=ones, sdispls=[0, 4, 8], sendtypes=[I] * 3, rdispls=[0, 8, 16])
    did(W.Reduce(out, got, MPI.SUM, 1), "MPI_Reduce", sendbuf=at(out), count=4, datatype=I, op="MPI_SUM", root=1)
    did(W.Allreduce(MPI.IN_PLACE, got, MPI.MAX), "MPI_Allreduce", sendbuf=2**64 - 1, recvbuf=at(got), count=4, datatype=I, op="MPI_MAX")
    did(W.Scan(out, got, MPI.SUM), "MPI_Scan", sendbuf=at(out), recvbuf=at(got), count=4, op="MPI_SUM")
    did(W.Exscan(out, got, MPI.SUM), "MPI_Exscan", sendbuf=at(out), recvbuf=at(got), count=4)
    did(W.Reduce_scatter(out, many[: counts[rank]], counts, MPI.SUM), "MPI_Reduce_scatter", recvcounts=counts, op="MPI_SUM")
    r = did(W.Ibarrier(), "MPI_Ibarrier", **world, request="c1")
    did(r.Wait(), "MPI_Wait", request="c1")
    r = did(W.Iallreduce(out, got, MPI.SUM), "MPI_Iallreduce", count=4, op="MPI_SUM", request="c2")
    did(r.Wait(), "MPI_Wait", request="c2")
    r = did(W.Igatherv([out, counts[rank], MPI.INT], [many, counts, starts, MPI.INT] if rank == 1 else None, 1), "MPI_Igatherv", sendcount=counts[rank], recvcounts=counts if rank == 1 else [], root=1, request="c3")
    did(r.Wait(), "MPI_Wait", request="c3")


def datatypes():
    line = did(MPI.INT.Create_contiguous(2), "MPI_Type_contiguous", count=2, oldtype=I, newtype="line")
    did(line.Commit(), "MPI_Type_commit", datatype="line")
    column = did(MPI.INT.Create_vector(2, 1, 2), "MPI_Type_vector", count=2, blocklength=1, stride=2, oldtype=I, newtype="column")
    did(column.Commit(), "MPI_Type_commit", datatype="column")
    did(W.Sendrecv([out, 1, column], after, 30, [got, 1, line], before, 30), "MPI_Sendrecv", sendcount=1, sendtype="column", recvcount=1, recvtype="line", dest=after, source=before)
    record = did(MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]), "MPI_Type_create_struct", count=2, array_of_blocklengths=[1, 1], array_of_displacements=[0, 8], array_of_types=[I, "MPI_DOUBLE"], newtype="record")
    other = did(column.Create_resized(0, 4), "MPI_Type_create_resized", oldtype="column", lb=0, extent=4, newtype="resized")
    block = did(MPI.INT.Create_subarray([4, 6], [2, 3], [1, 2]), "MPI_Type_create_subarray", ndims=2, array_of_sizes=[4, 6], array_of_subsizes=[2, 3], array_of_starts=[1, 2], oldtype=I, newtype="block")
    did(line.Free(), "MPI_Type_free", datatype="line")
    did(column.Free(), "MPI_Type_free", datatype="column")
    did(record.Free(), "MPI_Type_free", datatype="record")
    did(other.Free(), "MPI_Type_free", datatype="resized")
    did(block.Free(), "MPI_Type_free", datatype="block")


def communicators():
    dup = did(W.Dup(), "MPI_Comm_dup", **world, newcomm="dup")
    part = did(dup.Split(rank == 2, -rank), "MPI_Comm_split", comm="dup", color=int(rank == 2), key=-rank, newcomm="part")
    did(part.Bcast(got, 0), "MPI_Bcast", count=4, root=0, comm="part")
    inter = did(part.Create_intercomm(0, W, 1 if rank == 2 else 2, 71), "MPI_Intercomm_create", local_comm="part", local_leader=0, peer_comm="MPI_COMM_WORLD", remote_leader=1 if rank == 2 else 2, tag=71, newintercomm="inter")
    merged = did(inter.Merge(rank == 2), "MPI_Intercomm_merge", intercomm="inter", high=int(rank == 2), newintracomm="merged")
    did(merged.Barrier(), "MPI_Barrier", comm="merged")
    did(merged.Free(), "MPI_Comm_free", comm="merged")
    did(inter.Free(), "MPI_Comm_free", comm="inter")
    did(part.Free(), "MPI_Comm_free", comm="part")
    everyone = did(W.Get_group(), "MPI_Comm_group", **world, group="everyone")
    ends = did(everyone.Incl([0, 2]), "MPI_Group_incl", group="everyone", n=2, ranks=[0, 2], newgroup="ends")
    if rank != 1:
        pair = did(W.Create_group(ends, 73), "MPI_Comm_create_group", **world, group="ends", tag=73, newcomm="pair")
        did(pair.Free(), "MPI_Comm_free", comm="pair")
    did(ends.Free(), "MPI_Group_free", group="ends")
    did(everyone.Free(), "MPI_Group_free", group="everyone")
    cart = did(W.Create_cart([size], [True]), "MPI_Cart_create", comm_old="MPI_COMM_WORLD", ndims=1, dims=[size], periods=[1], reorder=0, comm_cart="cart")
    did(cart.Neighbor_allgather([out, 1, MPI.INT], [many, 1, MPI.INT]), "MPI_Neighbor_allgather", sendcount=1, recvcount=1, comm="cart")
    did(cart.Free(), "MPI_Comm_free", comm="cart")
    ring = did(W.Create_dist_graph_adjacent([before], [after]), "MPI_Dist_graph_create_adjacent", indegree=1, sources=[before], outdegree=1, destinations=[after], comm_dist_graph="ring")
    did(ring.Neighbor_alltoallv([out, [1], [0], MPI.INT], [many, [1], [0], MPI.INT]), "MPI_Neighbor_alltoallv", sendcounts=[1], recvcounts=[1], rdispls=[0], comm="ring")
    did(ring.Free(), "MPI_Comm_free", comm="ring")
    did(dup.Free(), "MPI_Comm_free", comm="dup")


def one_sided():
    cells = np.zeros(8, dtype="i")
    win = did(MPI.Win.Create(cells, 4, MPI.INFO_NULL, W), "MPI_Win_create", base=at(cells), size=32, disp_unit=4, **world, win="win")
    did(win.Fence(), "MPI_Win_fence", win="win")
    did(win.Put([out, 1, MPI.INT], after, [rank, 1, MPI.INT]), "MPI_Put", origin_addr=at(out), origin_count=1, target_rank=after, target_disp=rank, target_count=1, win="win")
    did(win.Fence(), "MPI_Win_fence", win="win")
    did(win.Lock(0, MPI.LOCK_EXCLUSIVE), "MPI_Win_lock", lock_type=1, rank=0, win="win")
    did(win.Fetch_and_op([out, 1, MPI.INT], [got, 1, MPI.INT], 0, 5, MPI.SUM), "MPI_Fetch_and_op", origin_addr=at(out), result_addr=at(got), target_rank=0, target_disp=5, op="MPI_SUM", win="win")
    did(win.Accumulate([out, 1, MPI.INT], 0, [6, 1, MPI.INT], MPI.SUM), "MPI_Accumulate", target_rank=0, target_disp=6, op="MPI_SUM", win="win")
    did(win.Unlock(0), "MPI_Win_unlock", rank=0, win="win")
    did(win.Free(), "MPI_Win_free", win="win")


def files(path):
    file = did(MPI.File.Open(W, path, MPI.MODE_CREATE | MPI.MODE_RDWR), "MPI_File_open", **world, filename=path, fh="file")
    did(file.Write_at_all(16 * rank, out), "MPI_File_write_at_all", fh="file", offset=16 * rank, buf=at(out), count=4, datatype=I)
    did(file.Sync(), "MPI_File_sync", fh="file")
    did(W.Barrier(), "MPI_Barrier", **world)
    did(file.Read_at(16 * after, got), "MPI_File_read_at", fh="file", offset=16 * after, buf=at(got), count=4, datatype=I)
    did(file.Close(), "MPI_File_close", fh="file")
    if rank == 0:
        did(MPI.File.Delete(path), "MPI_File_delete", filename=path)
# fmt: on


point_to_point()
pickled()
collectives()
datatypes()
communicators()
one_sided()
files(sys.argv[1] if len(sys.argv) > 1 else "cells.dat")
