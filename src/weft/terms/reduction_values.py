"""Read what each process brought to a reduction and got from it, and compute the reduction again in the order of ranks.

Error bounds are Higham's (Accuracy and Stability of Numerical Algorithms, 2002, 4.2): 2·n·ε·Σ|x| for a sum, 2·n·ε·|x|
for a product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import Match
from weft.mpi.meaning import find_meaning
from weft.terms.datatype_sizes import machine_type
from weft.trace import Datatype, Event, Rank, Trace
from weft.trace.layout import HashSide

Numbers = NDArray[Any]
PREFIX: Final = {"Scan": 1, "Exscan": 0}
"""Reductions of the lower ranks, by how many of a rank's own numbers are part of its result."""
KINS: Final = frozenset(("Allreduce", "Reduce", *PREFIX))
"""The reductions whose results are computed again, by their blocking function."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a member of a reduction brought and got; None if its contents were not recorded."""

    event: Event
    brought: Numbers | None
    got: Numbers | None


def read_contributions(trace: Trace, match: Match, instance: int) -> list[Contribution] | None:
    """Return what each member contributed to a reduction, in the order of ranks. None if some contribution was not
    recorded. `instance`: the collective's number in the match.
    """
    collectives, instances = match.collectives, match.instances
    events = [collectives.id(int(row)) for row in instances.parts(instance)]
    size = len(trace.communicators[int(instances.comm[instance])].members)
    parts = [_read_contribution(trace.ranks[rank], event) for rank, event in events]
    return parts if len(parts) == size and all(part.brought is not None for part in parts) else None


def blocking_name(name: str) -> str:
    """Return the blocking form of a function, without `MPI_`: Allreduce for Iallreduce."""
    row = find_meaning(name)
    return row.kin if row else ""


def _read_contribution(rank: Rank, event: int) -> Contribution:
    """Return the values that a rank gave to a reduction and the values that it received, as far as they were
    recorded.
    """
    hashed, made = rank.message_hashes, rank.event(event)
    first, end = np.searchsorted(hashed.rows["event"], [event, event + 1])
    sides: dict[HashSide, Numbers | None] = {}
    for row in range(first, end):
        if hashed.at[row] >= 0:
            sides[HashSide(int(hashed.rows["side"][row]))] = as_numbers(made, hashed.content_of(row))
    return Contribution(made, sides.get(HashSide.SENT), sides.get(HashSide.RECEIVED))


def numpy_type(datatype: Datatype | None) -> np.dtype[Any] | None:
    """Return the numpy type of a datatype's elements, None if that is not known."""
    kind = machine_type(datatype.name) if datatype is not None else ""
    return np.dtype(kind) if kind[:1] in tuple("iufc") and kind[1:].isdigit() else None


def as_numbers(event: Event, content: NDArray[np.uint8] | None) -> Numbers | None:
    """Return recorded bytes as an array of numbers of the call's datatype. None if the bytes or the type are
    not known.
    """
    dtype = numpy_type(event.datatype)
    if content is None or dtype is None:
        return None
    return content[: len(content) // dtype.itemsize * dtype.itemsize].view(dtype)


# ---- operations ----

Combined = tuple[Numbers, Any]
"""A result, and how far another order of the same numbers may be from it."""


def _add_in_order(brought: Numbers) -> Combined:
    """Return the sum of the contributions in the order of ranks, and a bound of its rounding error. The first dimension
    of `brought` is the ranks.
    """
    total = brought[0].copy()
    for one in brought[1:]:
        total = total + one
    return total, _error_unit(brought) * np.abs(brought.astype(_wide_type(brought))).sum(0)


def _multiply_in_order(brought: Numbers) -> Combined:
    """Return the product of the contributions in the order of ranks, and a bound of its rounding error. The first
    dimension of `brought` is the ranks.
    """
    total = brought[0].copy()
    for one in brought[1:]:
        total = total * one
    return total, _error_unit(brought) * np.abs(total)


def _error_unit(brought: Numbers) -> float:
    return 2 * len(brought) * float(np.finfo(brought.dtype).eps) if brought.dtype.kind in "fc" else 0.0


def _wide_type(brought: Numbers) -> np.dtype[Any]:
    return np.result_type(brought.dtype, np.float64) if brought.dtype.kind in "fc" else np.dtype(np.float64)


def _without_error(function: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Combined]:
    return lambda brought: (function(brought), 0)


_OPERATIONS: Final[dict[str, Callable[[Numbers], Combined]]] = {
    "MPI_SUM": _add_in_order,
    "MPI_PROD": _multiply_in_order,
    "MPI_MAX": _without_error(lambda x: x.max(0)),
    "MPI_MIN": _without_error(lambda x: x.min(0)),
    "MPI_BAND": _without_error(np.bitwise_and.reduce),
    "MPI_BOR": _without_error(np.bitwise_or.reduce),
    "MPI_BXOR": _without_error(np.bitwise_xor.reduce),
    "MPI_LAND": _without_error(lambda x: np.all(x != 0, 0)),
    "MPI_LOR": _without_error(lambda x: np.any(x != 0, 0)),
    "MPI_LXOR": _without_error(lambda x: np.logical_xor.reduce(x != 0, 0)),
}


def operation_name(event: Event) -> str:
    """Return the name of a reduction's operation."""
    return event.rank.object_name("OP", event.tag)


def combine_contributions(parts: list[Contribution], name: str) -> Combined | None:
    """Return the result of a reduction of all contributions in the order of ranks, and a bound of its rounding error.
    None if they cannot be combined. `name`: the operation.
    """
    brought = [part.brought for part in parts if part.brought is not None]
    return combine_numbers(np.stack(brought), name) if len({(x.dtype, len(x)) for x in brought}) == 1 else None


def combine_numbers(brought: Numbers, operation: str) -> Combined | None:
    """Return the result of a reduction, and a bound of its rounding error. The first dimension of `brought` is the
    ranks. `operation`: such as MPI_SUM; None if Weft does not know it for this type.
    """
    kind = brought.dtype.kind
    if operation not in _OPERATIONS:
        return None
    if (operation.startswith("MPI_B") and kind not in "iu") or (
        kind == "c" and operation not in ("MPI_SUM", "MPI_PROD")
    ):
        return None
    with np.errstate(all="ignore"):
        return _OPERATIONS[operation](brought)
