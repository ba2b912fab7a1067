"""Records the calls of a built run that complete requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.trace.builder.calls import RankCalls
from weft.trace.builder.handles import (
    Request,
)


class Completions(RankCalls):
    """Records a rank's starts, waits and tests."""

    def start(self, request: Request, **kw: Any) -> int:
        """Record a call of MPI_Start."""
        return self.call("MPI_Start", request=request, **kw)

    def startall(self, requests: Sequence[Request], **kw: Any) -> int:
        """Record a call of MPI_Startall."""
        return self.call("MPI_Startall", count=len(requests), array_of_requests=requests, **kw)

    def wait(self, request: Request, **kw: Any) -> int:
        """Record a call of MPI_Wait."""
        return self.call("MPI_Wait", request=request, status=request.status, **kw)

    def test(self, request: Request, flag: bool = True, polls: int = 1, **kw: Any) -> int:
        """Record a call of MPI_Test. With flag=False, record `polls` failed calls."""
        status = request.status if flag else None
        return self.call("MPI_Test", request=request, flag=flag, status=status, polls=0 if flag else polls, **kw)

    def waitall(self, requests: Sequence[Request], **kw: Any) -> int:
        """Record a call of MPI_Waitall."""
        return self.call(
            "MPI_Waitall", count=len(requests), array_of_requests=requests,
            array_of_statuses=[r.status for r in requests], **kw,
        )  # fmt: skip

    def testall(self, requests: Sequence[Request], flag: bool = True, polls: int = 1, **kw: Any) -> int:
        """Record a call of MPI_Testall."""
        return self.call(
            "MPI_Testall", array_of_requests=requests, flag=flag, polls=0 if flag else polls,
            array_of_statuses=[r.status for r in requests] if flag else [], **kw,
        )  # fmt: skip

    def waitany(self, requests: Sequence[Request], index: int = 0, **kw: Any) -> int:
        """Record a call of MPI_Waitany that completes the request with this index."""
        return self.call(
            "MPI_Waitany", count=len(requests), array_of_requests=requests, index=index,
            status=requests[index].status if 0 <= index < len(requests) else None, **kw,
        )  # fmt: skip

    def testany(self, requests: Sequence[Request], index: int | None = 0, polls: int = 1, **kw: Any) -> int:
        """Record a call of MPI_Testany that completes the request with this index, or none of them (None)."""
        if index is None:
            return self.call("MPI_Testany", array_of_requests=requests, index=-32766, flag=False, polls=polls, **kw)
        status = requests[index].status
        return self.call("MPI_Testany", array_of_requests=requests, index=index, flag=True, status=status, **kw)

    def waitsome(self, requests: Sequence[Request], indices: Sequence[int], **kw: Any) -> int:
        """Record a call of MPI_Waitsome that completes the requests with these indices."""
        return self.call(
            "MPI_Waitsome", incount=len(requests), array_of_requests=requests, outcount=len(indices),
            array_of_indices=indices, array_of_statuses=[requests[i].status for i in indices], **kw,
        )  # fmt: skip

    def testsome(self, requests: Sequence[Request], indices: Sequence[int], polls: int = 1, **kw: Any) -> int:
        """Record a call of MPI_Testsome that completes the requests with these indices. Without indices, record `polls`
        failed calls.
        """
        return self.call(
            "MPI_Testsome", array_of_requests=requests, outcount=len(indices), array_of_indices=indices,
            array_of_statuses=[requests[i].status for i in indices], polls=0 if indices else polls, **kw,
        )  # fmt: skip

    def cancel(self, request: Request, **kw: Any) -> int:
        """Record a call of MPI_Cancel."""
        return self.call("MPI_Cancel", request=request, **kw)

    def request_free(self, request: Request, **kw: Any) -> int:
        """Record a call of MPI_Request_free."""
        return self.call("MPI_Request_free", request=request, **kw)
