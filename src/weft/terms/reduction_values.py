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
from weft.mpi.meaning import of
from weft.terms.datatype_sizes import kind_of
from weft.trace import Datatype, Event, Rank, Trace
from weft.trace.layout import HashSide

Numbers = NDArray[Any]
PREFIX: Final = {"Scan": 1, "Exscan": 0}
"""Reductions of the lower ranks, by how many of a rank's own numbers are part of its result."""
KINS: Final = frozenset(("Allreduce", "Reduce", *PREFIX))
"""The reductions whose results are computed again, by their blocking function."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a member of a reduction brought and got; None if its contents were not recorded."""

    event: Event
    brought: Numbers | None
    got: Numbers | None


def members(trace: Trace, match: Match, instance: int) -> list[Part] | None:
    """Return the members of a reduction in the order of ranks; None if not all contributions were recorded."""
    collectives, instances = match.collectives, match.instances
    events = [collectives.id(int(row)) for row in instances.parts(instance)]
    size = len(trace.communicators[int(instances.comm[instance])].members)
    parts = [_part(trace.ranks[rank], event) for rank, event in events]
    return parts if len(parts) == size and all(part.brought is not None for part in parts) else None


def kin(name: str) -> str:
    """The blocking function of which a function is a form, without MPI_."""
    row = of(name)
    return row.kin if row else ""


def _part(rank: Rank, event: int) -> Part:
    """Return what a rank brought to a call and got from it."""
    hashed, made = rank.hashed, rank.event(event)
    first, end = np.searchsorted(hashed.rows["event"], [event, event + 1])
    sides: dict[HashSide, Numbers | None] = {}
    for row in range(first, end):
        if hashed.at[row] >= 0:
            sides[HashSide(int(hashed.rows["side"][row]))] = numbers(made, hashed.kept(row))
    return Part(made, sides.get(HashSide.SENT), sides.get(HashSide.RECEIVED))


def kind_of_numbers(datatype: Datatype | None) -> np.dtype[Any] | None:
    """What a datatype's elements are as numbers, None where that is not known."""
    kind = kind_of(datatype.name) if datatype is not None else ""
    return np.dtype(kind) if kind[:1] in tuple("iufc") and kind[1:].isdigit() else None


def numbers(event: Event, content: NDArray[np.uint8] | None) -> Numbers | None:
    """Interpret bytes as numbers of the call's datatype; None if the type is not known."""
    dtype = kind_of_numbers(event.datatype)
    if content is None or dtype is None:
        return None
    return content[: len(content) // dtype.itemsize * dtype.itemsize].view(dtype)


# ---- operations ----

Combined = tuple[Numbers, Any]
"""A result, and how far another order of the same numbers may lie from it."""


def _sum(brought: Numbers) -> Combined:
    """Add the contributions in the order of ranks."""
    total = brought[0].copy()
    for one in brought[1:]:
        total = total + one
    return total, _unit(brought) * np.abs(brought.astype(_wide(brought))).sum(0)


def _product(brought: Numbers) -> Combined:
    """Multiply the contributions in the order of ranks."""
    total = brought[0].copy()
    for one in brought[1:]:
        total = total * one
    return total, _unit(brought) * np.abs(total)


def _unit(brought: Numbers) -> float:
    return 2 * len(brought) * float(np.finfo(brought.dtype).eps) if brought.dtype.kind in "fc" else 0.0


def _wide(brought: Numbers) -> np.dtype[Any]:
    return np.result_type(brought.dtype, np.float64) if brought.dtype.kind in "fc" else np.dtype(np.float64)


def _exact(function: Callable[[Numbers], Numbers]) -> Callable[[Numbers], Combined]:
    return lambda brought: (function(brought), 0)


_OPERATIONS: Final[dict[str, Callable[[Numbers], Combined]]] = {
    "MPI_SUM": _sum,
    "MPI_PROD": _product,
    "MPI_MAX": _exact(lambda x: x.max(0)),
    "MPI_MIN": _exact(lambda x: x.min(0)),
    "MPI_BAND": _exact(np.bitwise_and.reduce),
    "MPI_BOR": _exact(np.bitwise_or.reduce),
    "MPI_BXOR": _exact(np.bitwise_xor.reduce),
    "MPI_LAND": _exact(lambda x: np.all(x != 0, 0)),
    "MPI_LOR": _exact(lambda x: np.any(x != 0, 0)),
    "MPI_LXOR": _exact(lambda x: np.logical_xor.reduce(x != 0, 0)),
}


def operation(event: Event) -> str:
    """The operation of a reduction by its name."""
    return event.rank.object_name("OP", event.tag)


def combined(parts: list[Part], name: str) -> Combined | None:
    """Combine what members brought in the order of ranks; None if that cannot be done. `name`: the operation."""
    brought = [part.brought for part in parts if part.brought is not None]
    return combine(np.stack(brought), name) if len({(x.dtype, len(x)) for x in brought}) == 1 else None


def combine(brought: Numbers, name: str) -> Combined | None:
    """Combine an array whose first dimension is the ranks with an operation; None if the operation is unknown for its
    type.
    """
    kind = brought.dtype.kind
    if name not in _OPERATIONS:
        return None
    if (name.startswith("MPI_B") and kind not in "iu") or (kind == "c" and name not in ("MPI_SUM", "MPI_PROD")):
        return None
    with np.errstate(all="ignore"):
        return _OPERATIONS[name](brought)
