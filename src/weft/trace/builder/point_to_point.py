"""Sends, receives and probes of a built run."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from typing import Any

from weft.trace import layout
from weft.trace.builder.calls import RankCalls
from weft.trace.builder.handles import (
    ANY,
    WORLD,
    Handle,
    Request,
)
from weft.trace.layout import (
    ANY_SOURCE,
    ANY_TAG,
)
from weft.trace.tails import Status


class PointToPoint(RankCalls):
    """Records a rank's sends, receives and probes."""

    def _message_arguments(
        self, kw: dict[str, object], comm: Handle, datatype: Handle, count: int, buffer: int | None
    ) -> dict[str, Any]:
        """Return the arguments that describe a message, with an address if none is given."""
        address = 0x10000 + 0x1000 * self.index if buffer is None else buffer
        return {"buf": address, "count": count, "datatype": datatype, "comm": comm, **kw}

    def _receive_status(
        self, source: int, tag: int, *, got: int | None, got_tag: int | None, received: int | None,
        datatype: Handle = 0, count: int = 0, open: bool = False, cancelled: bool = False,
    ) -> Status | None:  # fmt: skip
        """Return the status of a receive or probe; None for a wildcard receive that has not returned.

        `got` and `got_tag`: source and tag of the message that a wildcard received; `received`: its bytes, by default
        `count` elements.
        """
        if source == layout.PROC_NULL:
            return Status(layout.PROC_NULL, ANY_TAG, 0)
        if (got is None and source == ANY_SOURCE) or (got_tag is None and tag == ANY_TAG):
            if open:
                return None
            if got is None and source == ANY_SOURCE:
                raise TypeError("a wildcard receive that returned needs got=source (and got_tag=)")
            got_tag = 0
        size = self.count_bytes(datatype, count) if received is None else received
        return Status(source if got is None else got, tag if got_tag is None else got_tag, size, cancelled)

    def send(
        self, dest: int, tag: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, function: str = "MPI_Send", **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Send."""
        return self.call(function, dest=dest, tag=tag, **self._message_arguments(kw, comm, datatype, count, buffer))

    def ssend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """Record a call of MPI_Ssend."""
        return self.send(dest, tag, function="MPI_Ssend", **kw)

    def bsend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """Record a call of MPI_Bsend."""
        return self.send(dest, tag, function="MPI_Bsend", **kw)

    def rsend(self, dest: int, tag: int = 0, **kw: Any) -> int:
        """Record a call of MPI_Rsend."""
        return self.send(dest, tag, function="MPI_Rsend", **kw)

    def isend(
        self, dest: int, tag: int = 0, *, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, function: str = "MPI_Isend", **kw: Any,
    ) -> Request:  # fmt: skip
        """Record a call of MPI_Isend."""
        request = Request(self.new_id("REQUEST"), function, persistent=function.endswith("_init"))
        message = self._message_arguments(kw, comm, datatype, count, buffer)
        self.call(function, dest=dest, tag=tag, request=request, **message)
        return request

    def issend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Issend."""
        return self.isend(dest, tag, function="MPI_Issend", **kw)

    def ibsend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Ibsend."""
        return self.isend(dest, tag, function="MPI_Ibsend", **kw)

    def irsend(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Irsend."""
        return self.isend(dest, tag, function="MPI_Irsend", **kw)

    def send_init(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Send_init."""
        return self.isend(dest, tag, function="MPI_Send_init", **kw)

    def ssend_init(self, dest: int, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Ssend_init."""
        return self.isend(dest, tag, function="MPI_Ssend_init", **kw)

    def recv(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Recv.

        `got`, `got_tag`: source and tag of the message that a wildcard received; `received`: its bytes, by default
        `count` elements.
        """
        status = self._receive_status(
            source,
            tag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=datatype,
            count=count,
            open=kw.get("open", False),
        )
        return self.call(
            "MPI_Recv",
            source=source,
            tag=tag,
            status=status,
            **self._message_arguments(kw, comm, datatype, count, buffer),
        )

    def irecv(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT", comm: Handle = WORLD,
        buffer: int | None = None, cancelled: bool = False, function: str = "MPI_Irecv", **kw: Any,
    ) -> Request:  # fmt: skip
        """Record a call of MPI_Irecv, and return its request. `got`, `got_tag`, `received`: source, tag and bytes of
        the message, for the call that completes the request.
        """
        request = Request(self.new_id("REQUEST"), function, persistent=function.endswith("_init"))
        request.status = self._receive_status(
            source,
            tag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=datatype,
            count=count,
            open=True,
            cancelled=cancelled,
        )
        message = self._message_arguments(kw, comm, datatype, count, buffer)
        self.call(function, source=source, tag=tag, request=request, **message)
        return request

    def recv_init(self, source: int = ANY, tag: int = 0, **kw: Any) -> Request:
        """Record a call of MPI_Recv_init. Set request.status before a completion to say what a wildcard received."""
        return self.irecv(source, tag, function="MPI_Recv_init", **kw)

    def sendrecv(
        self, dest: int, source: int, *, sendtag: int = 0, recvtag: int = 0, got: int | None = None,
        got_tag: int | None = None, received: int | None = None, count: int = 1, datatype: Handle = "MPI_INT",
        recvcount: int | None = None, recvtype: Handle | None = None, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Sendrecv."""
        many = count if recvcount is None else recvcount
        kind = datatype if recvtype is None else recvtype
        status = self._receive_status(
            source,
            recvtag,
            got=got,
            got_tag=got_tag,
            received=received,
            datatype=kind,
            count=many,
            open=kw.get("open", False),
        )
        return self.call(
            "MPI_Sendrecv", status=status, sendbuf=0x1000, sendcount=count, sendtype=datatype, dest=dest,
            sendtag=sendtag,
            recvbuf=0x2000, recvcount=many, recvtype=kind, source=source, recvtag=recvtag, comm=comm, **kw,
        )  # fmt: skip

    def probe(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Probe."""
        status = self._receive_status(
            source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False)
        )
        return self.call("MPI_Probe", source=source, tag=tag, comm=comm, status=status, **kw)

    def iprobe(
        self, source: int = ANY, tag: int = 0, *, flag: bool = True, polls: int = 1, got: int | None = None,
        got_tag: int | None = None, received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> int:  # fmt: skip
        """Record a call of MPI_Iprobe. With flag=False, record `polls` failed calls."""
        status = (
            self._receive_status(source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False))
            if flag
            else None
        )
        return self.call(
            "MPI_Iprobe", source=source, tag=tag, comm=comm, status=status, flag=flag, polls=0 if flag else polls, **kw
        )

    def mprobe(
        self, source: int = ANY, tag: int = 0, *, got: int | None = None, got_tag: int | None = None,
        received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> Request:  # fmt: skip
        """Record a call of MPI_Mprobe, and return the message, for mrecv."""
        status = self._receive_status(
            source, tag, got=got, got_tag=got_tag, received=received, open=kw.get("open", False)
        )
        message = Request(self.new_id("MESSAGE"), "MPI_Mprobe", status)
        self.call("MPI_Mprobe", source=source, tag=tag, comm=comm, status=status, message=message, **kw)
        return message

    def improbe(
        self, source: int = ANY, tag: int = 0, *, flag: bool = True, polls: int = 1, got: int | None = None,
        got_tag: int | None = None, received: int = 4, comm: Handle = WORLD, **kw: Any,
    ) -> Request | None:  # fmt: skip
        """Record a call of MPI_Improbe, and return the message; None with flag=False."""
        if not flag:
            self.call("MPI_Improbe", source=source, tag=tag, comm=comm, flag=False, polls=polls, **kw)
            return None
        status = self._receive_status(source, tag, got=got, got_tag=got_tag, received=received)
        message = Request(self.new_id("MESSAGE"), "MPI_Improbe", status)
        self.call("MPI_Improbe", source=source, tag=tag, comm=comm, status=status, message=message, flag=True, **kw)
        return message

    def mrecv(self, message: Request, *, count: int = 1, datatype: Handle = "MPI_INT", **kw: Any) -> int:
        """Record a call of MPI_Mrecv for a message of mprobe."""
        kw = {"buf": 0x1000, **kw}
        return self.call("MPI_Mrecv", count=count, datatype=datatype, message=message, status=message.status, **kw)

    def imrecv(self, message: Request, *, count: int = 1, datatype: Handle = "MPI_INT", **kw: Any) -> Request:
        """Record a call of MPI_Imrecv for a message of mprobe."""
        request = Request(self.new_id("REQUEST"), "MPI_Imrecv", message.status)
        self.call(
            "MPI_Imrecv", count=count, datatype=datatype, message=message, request=request, **{"buf": 0x1000, **kw}
        )
        return request
