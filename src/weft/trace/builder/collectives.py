"""Collective operations of a built run, and its begin and end."""

from __future__ import annotations

from typing import Any

from weft.trace import layout
from weft.trace.builder.calls import RankCalls
from weft.trace.builder.handles import (
    WORLD,
    Handle,
    Request,
)


class Collective(RankCalls):
    """Records a rank's calls of collective operations."""

    def barrier(self, comm: Handle = WORLD, **kw: Any) -> int:
        """Record a call of MPI_Barrier."""
        return self.call("MPI_Barrier", comm=comm, **kw)

    def ibarrier(self, comm: Handle = WORLD, **kw: object) -> Request:
        """Record a call of MPI_Ibarrier."""
        return self._call_nonblocking("MPI_Ibarrier", comm=comm, **kw)

    def bcast(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """Record a call of MPI_Bcast."""
        kw = {"buffer": 0x1000, **kw}
        return self.call("MPI_Bcast", count=count, datatype=datatype, root=root, comm=comm, **kw)

    def reduce(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", op: Handle = "MPI_SUM",
        comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Reduce."""
        kw = {"sendbuf": 0x1000, "recvbuf": 0x2000, **kw}
        return self.call("MPI_Reduce", count=count, datatype=datatype, op=op, root=root, comm=comm, **kw)

    def allreduce(
        self, *, count: int = 1, datatype: Handle = "MPI_INT", op: Handle = "MPI_SUM", comm: Handle = WORLD,
        function: str = "MPI_Allreduce", **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Allreduce."""
        kw = {"sendbuf": 0x1000, "recvbuf": 0x2000, **kw}
        return self.call(function, count=count, datatype=datatype, op=op, comm=comm, **kw)

    def scan(self, **kw: Any) -> int:
        """Record a call of MPI_Scan."""
        return self.allreduce(function="MPI_Scan", **kw)

    def exscan(self, **kw: Any) -> int:
        """Record a call of MPI_Exscan."""
        return self.allreduce(function="MPI_Exscan", **kw)

    def iallreduce(self, **kw: object) -> Request:
        """Record a call of MPI_Iallreduce."""
        arguments = {"count": 1, "datatype": "MPI_INT", "op": "MPI_SUM", "comm": WORLD, "sendbuf": 0x1000, **kw}
        return self._call_nonblocking("MPI_Iallreduce", **arguments)

    def ibcast(self, root: int = 0, **kw: object) -> Request:
        """Record a call of MPI_Ibcast."""
        arguments = {"count": 1, "datatype": "MPI_INT", "comm": WORLD, "buffer": 0x1000, **kw}
        return self._call_nonblocking("MPI_Ibcast", root=root, **arguments)

    def _call_nonblocking(self, name: str, **kw: Any) -> Request:
        """Record a call that makes a request, and return the request."""
        request = Request(self.new_id("REQUEST"), name)
        self.call(name, request=request, **kw)
        return request

    def _call_with_two_buffers(
        self, name: str, root: int | None, kw: dict[str, object], *, count: int, datatype: Handle, comm: Handle
    ) -> int:
        """Record a collective with a send and a receive buffer of `count` elements each."""
        arguments: dict[str, Any] = {
            "sendbuf": 0x1000, "sendcount": count, "sendtype": datatype, "recvbuf": 0x2000, "recvcount": count,
            "recvtype": datatype, "comm": comm, **kw,
        }  # fmt: skip
        if root is not None:
            arguments["root"] = root
        return self.call(name, **arguments)

    def gather(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """Record a call of MPI_Gather."""
        return self._call_with_two_buffers("MPI_Gather", root, kw, count=count, datatype=datatype, comm=comm)

    def scatter(
        self, root: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: Any
    ) -> int:
        """Record a call of MPI_Scatter."""
        return self._call_with_two_buffers("MPI_Scatter", root, kw, count=count, datatype=datatype, comm=comm)

    def allgather(self, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: object) -> int:
        """Record a call of MPI_Allgather."""
        return self._call_with_two_buffers("MPI_Allgather", None, kw, count=count, datatype=datatype, comm=comm)

    def alltoall(self, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD, **kw: object) -> int:
        """Record a call of MPI_Alltoall."""
        return self._call_with_two_buffers("MPI_Alltoall", None, kw, count=count, datatype=datatype, comm=comm)

    def init(self, **kw: Any) -> int:
        """Record a call of MPI_Init."""
        return self.call("MPI_Init", **kw)

    def finalize(self, *, leaving: bool = False, **kw: Any) -> int:
        """Record a call of MPI_Finalize. `leaving`: exit() or a similar function called it, not the program."""
        index = self.call("MPI_Finalize", **kw)
        rows = self._streams[kw.get("thread", 0)].rows
        rows[-1] = (*rows[-1][:-1], layout.LEAVING if leaving else 0)
        return index
