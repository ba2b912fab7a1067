"""The processes that make one report together. mpi4py carries their messages; there is no other scheduler.

A worker that waits for others sleeps in between, as an MPI that polls would take the cores of those that work.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError

PATIENCE: Final = 0.002
"""The longest sleep (s) between two looks at what is awaited."""

ARRIVAL: Final = 0.1
"""The time (s) from a line to MPI_Abort. Without it MPICH's launcher loses 6 lines of 100."""

REMEDY: Final = "report the run with one process instead: weft report RUN"

_Told = TypeVar("_Told")


class Team:
    """The workers: this one is `rank` of `size`."""

    def __init__(self, mpi: Any) -> None:
        self._mpi, self._comm = mpi, mpi.COMM_WORLD
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()

    @property
    def is_first(self) -> bool:
        """Return whether this is the worker that prints."""
        return self.rank == 0

    def all_gather(self, mine: _Told) -> list[_Told]:
        """Return the object of every worker, in their order."""
        parts = self.all_gather_rows(np.frombuffer(pickle.dumps(mine), np.uint8))
        return [pickle.loads(part.tobytes()) for part in parts]

    def gather_objects(self, mine: _Told) -> list[_Told]:
        """Return at the first worker the objects of all workers, in their order; empty at the others."""
        data = np.frombuffer(pickle.dumps(mine), np.uint8)
        sizes = self.all_gather_numbers(len(data))
        into = np.empty(int(sizes.sum()) if self.is_first else 0, np.uint8)
        self.gather_rows(data, sizes, into)
        return [pickle.loads(part.tobytes()) for part in _parts(into, sizes)] if self.is_first else []

    def all_gather_rows(self, mine: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the arrays of all workers, in their order, at every worker."""
        sizes = self.all_gather_numbers(len(mine))
        into, kind = np.empty(int(sizes.sum()), mine.dtype), self._row_type(mine)
        self._wait_for(
            self._comm.Iallgatherv([np.ascontiguousarray(mine), kind], [into, (sizes, _starts(sizes)), kind])
        )
        kind.Free()
        return _parts(into, sizes)

    def gather_rows(self, mine: NDArray[Any], sizes: NDArray[np.int64], into: NDArray[Any]) -> None:
        """Collect the arrays of all workers in `into` of the first one. `sizes`: the length of each worker's array."""
        kind = self._row_type(mine)
        to = [into, (sizes, _starts(sizes)), kind] if self.is_first else None
        self._wait_for(self._comm.Igatherv([np.ascontiguousarray(mine), kind], to, root=0))
        kind.Free()

    def exchange_rows(self, parts: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Send part k to worker k, and return the parts that all workers have sent to this one, in their order."""
        sizes = np.array([len(part) for part in parts], np.int64)
        coming = np.empty(self.size, np.int64)
        self._wait_for(self._comm.Ialltoall([sizes, self._mpi.INT64_T], [coming, self._mpi.INT64_T]))
        out = np.concatenate(parts)
        into, kind = np.empty(int(coming.sum()), out.dtype), self._row_type(out)
        self._wait_for(
            self._comm.Ialltoallv([out, (sizes, _starts(sizes)), kind], [into, (coming, _starts(coming)), kind])
        )
        kind.Free()
        return _parts(into, coming)

    def all_gather_numbers(self, mine: int) -> NDArray[np.int64]:
        """Return the numbers that the workers give, in their order, at every worker."""
        sizes = np.empty(self.size, np.int64)
        one = np.array([mine], np.int64)
        self._wait_for(self._comm.Iallgather([one, self._mpi.INT64_T], [sizes, self._mpi.INT64_T]))
        return sizes

    def _row_type(self, rows: NDArray[Any]) -> Any:
        """Return an MPI datatype of one row: counts are of rows, which stay below 2^31."""
        return self._mpi.BYTE.Create_contiguous(rows.dtype.itemsize).Commit()

    def _wait_for(self, request: Any) -> None:
        """Wait until an MPI request is complete, sleeping between tests so that the core stays free."""
        pause = 0.0
        while not request.Test():
            time.sleep(pause)
            pause = min(PATIENCE, pause + PATIENCE / 20)

    def wait(self) -> None:
        """Return when every worker has called it."""
        self._wait_for(self._comm.Ibarrier())

    def abort(self, error: BaseException | str, status: int) -> NoReturn:
        """Print that this worker failed, and end all workers, which would wait for it for ever. Does not return."""
        what = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        host = self._mpi.Get_processor_name()
        print(f"weft: error: worker {self.rank} of {self.size} (on {host}) failed: {what}; {REMEDY}", file=sys.stderr)
        sys.stderr.flush()
        time.sleep(ARRIVAL)
        self._comm.Abort(status)
        raise SystemExit(status)


class SingleWorker:
    """A process that reports alone, as the only worker."""

    rank: Final = 0
    size: Final = 1
    is_first: Final = True

    def all_gather(self, mine: _Told) -> list[_Told]:
        """Return the object of the only worker."""
        return [mine]

    def gather_objects(self, mine: _Told) -> list[_Told]:
        """Return the object of the only worker."""
        return [mine]


def join_team(size: int) -> Team:
    """Return the team of workers that this process belongs to. `size`: how many processes the launcher started.

    WeftError if mpi4py is missing, or its MPI is not the launcher's.
    """
    try:
        from mpi4py import MPI  # only a report of several processes needs it
    except (ImportError, RuntimeError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WeftError(
            f"this report was started as {size} processes, which needs mpi4py ({why}): pip install mpi4py, or {REMEDY}"
        ) from None
    made = Team(MPI)
    if made.size != size:
        library = MPI.Get_library_version().split(",")[0].splitlines()[0]
        raise WeftError(
            f"this report was started as {size} processes, and mpi4py's MPI ({library}) sees {made.size}: it is not the"
            f" launcher's MPI. Start it with the mpiexec of mpi4py's MPI, or {REMEDY}"
        )
    return made


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(sizes) - sizes


def _parts(rows: NDArray[Any], sizes: NDArray[np.int64]) -> list[NDArray[Any]]:
    return np.split(rows, np.cumsum(sizes)[:-1])
