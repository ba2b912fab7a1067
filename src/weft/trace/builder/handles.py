"""What calls of a built run are about: communicators, requests and datatypes, and their predefined ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.base.lazy import dataclass
from weft.trace import layout
from weft.trace.layout import (
    ANY_SOURCE,
)
from weft.trace.tails import Status

ANY: Final = ANY_SOURCE
WORLD: Final = layout.ID_WORLD
SELF: Final = layout.ID_SELF
PROC_NULL: Final = layout.PROC_NULL
NO_REQUEST: Final = 1
EPOCH_NS: Final = 1_000_000_000
STEP_NS: Final = 1000

# x86-64 Linux. Only what synthetic traces need to agree with.
SIZES: Final[dict[str, int]] = {
    "MPI_CHAR": 1, "MPI_SIGNED_CHAR": 1, "MPI_UNSIGNED_CHAR": 1, "MPI_BYTE": 1, "MPI_PACKED": 1, "MPI_C_BOOL": 1,
    "MPI_INT8_T": 1, "MPI_UINT8_T": 1, "MPI_SHORT": 2, "MPI_UNSIGNED_SHORT": 2, "MPI_INT16_T": 2, "MPI_UINT16_T": 2,
    "MPI_INT": 4, "MPI_UNSIGNED": 4, "MPI_FLOAT": 4, "MPI_INT32_T": 4, "MPI_UINT32_T": 4, "MPI_INTEGER": 4,
    "MPI_REAL": 4, "MPI_LOGICAL": 4, "MPI_WCHAR": 4, "MPI_CHARACTER": 1, "MPI_LONG": 8, "MPI_LONG_LONG": 8,
    "MPI_UNSIGNED_LONG": 8, "MPI_UNSIGNED_LONG_LONG": 8, "MPI_DOUBLE": 8, "MPI_INT64_T": 8, "MPI_UINT64_T": 8,
    "MPI_AINT": 8, "MPI_COUNT": 8, "MPI_OFFSET": 8, "MPI_DOUBLE_PRECISION": 8, "MPI_COMPLEX": 8, "MPI_C_COMPLEX": 8,
    "MPI_LONG_DOUBLE": 16, "MPI_C_DOUBLE_COMPLEX": 16, "MPI_DOUBLE_COMPLEX": 16, "MPI_FLOAT_INT": 8,
    "MPI_DOUBLE_INT": 12, "MPI_2INT": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Comm:
    """A communicator that the builder made: the id that each rank has for it. `members` are rank indices."""

    ids: Mapping[int, int]
    members: tuple[int, ...]
    remote: tuple[int, ...] = ()

    def rank_of(self, index: int) -> int:
        """Return the rank in this communicator of the process with this rank index."""
        return (self.members if index in self.members else self.remote).index(index)


@dataclass
class Request:
    """A request. `status` is what its completion will return, None for a send."""

    id: int
    function: str
    status: Status | None = None
    persistent: bool = False


@dataclass(frozen=True)
class Type:
    """A derived datatype of one rank."""

    id: int
    size: int
    extent: int


Handle = Comm | Type | Request | int | str
