"""What each process brought to a reduction and got from it, and the same computed again in the order of ranks.

Bounds are Higham's (Accuracy and Stability of Numerical Algorithms, 2002, 4.2): 2·n·ε·Σ|x| for a sum, 2·n·ε·|x| for a
product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Match
from weft.mpi.meaning import of
from weft.plain import dataclass
from weft.terms.sizes import kind_of
from weft.trace import Event, Trace
from weft.trace.layout import HashSide

Numbers = NDArray[Any]
PREFIX: Final = {"Scan": 1, "Exscan": 0}
"""Reductions of the lower ranks, by how many of a rank's own numbers are part of its result."""
_KINS: Final = frozenset(("Allreduce", "Reduce", *PREFIX))


@dataclass(frozen=True, slots=True)
class Part:
    """What a member of a reduction brought and got; None where that is not kept."""

    event: Event
    brought: Numbers | None
    got: Numbers | None


def reductions(trace: Trace, match: Match, only: int | None = None) -> Iterator[list[Part]]:
    """The members of each reduction of which all contributions are kept, in the order of ranks.

    `only`: of this instance alone.
    """
    kept = [_kept(trace, rank) for rank in range(len(trace.ranks))]
    if not any(kept):
        return
    functions = {f.id for f in trace.functions if kin(f.name) in _KINS}
    collectives, instances = match.collectives, match.instances
    chosen = np.isin(collectives.function, list(functions))
    for instance in np.unique(collectives.instance[chosen]).tolist() if only is None else [only]:
        members = [collectives.id(int(row)) for row in instances.parts(instance)]
        size = len(trace.communicators[int(instances.comm[instance])].members)
        parts = [kept[rank].get(event) for rank, event in members]
        whole = [part for part in parts if part is not None and part.brought is not None]
        if len(whole) == size == len(members):
            yield whole


def kin(name: str) -> str:
    """The blocking function of which a function is a form, without MPI_."""
    row = of(name)
    return row.kin if row else ""


def _kept(trace: Trace, rank: int) -> dict[int, Part]:
    """By event what a rank brought and got."""
    one, found = trace.ranks[rank], dict[int, Part]()
    for row in np.flatnonzero(one.hashed.at >= 0).tolist():
        event, side = int(one.hashed.rows["event"][row]), int(one.hashed.rows["side"][row])
        these = numbers(one.event(event), one.hashed.kept(row))
        part = found.get(event) or Part(one.event(event), None, None)
        brought, got = (these, part.got) if side == HashSide.SENT else (part.brought, these)
        found[event] = Part(part.event, brought, got)
    return found


def numbers(event: Event, content: NDArray[np.uint8] | None) -> Numbers | None:
    """Bytes as the numbers that they are, None where the type is not known."""
    datatype = event.rank.datatype(event.datatype_id)
    kind = kind_of(datatype.name) if datatype is not None else ""
    if content is None or kind[:1] not in tuple("iufc") or not kind[1:].isdigit():
        return None
    dtype = np.dtype(kind)
    return content[: len(content) // dtype.itemsize * dtype.itemsize].view(dtype)


# ---- operations ----

Combined = tuple[Numbers, Any]
"""A result, and how far another order of the same numbers may lie from it."""


def _sum(brought: Numbers) -> Combined:
    total = brought[0].copy()
    for one in brought[1:]:
        total = total + one
    return total, _unit(brought) * np.abs(brought.astype(_wide(brought))).sum(0)


def _product(brought: Numbers) -> Combined:
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
    """What members brought, combined in the order of ranks; None where that cannot be done."""
    brought = [part.brought for part in parts if part.brought is not None]
    if name not in _OPERATIONS or len({(x.dtype, len(x)) for x in brought}) != 1:
        return None
    kind = brought[0].dtype.kind
    if (name.startswith("MPI_B") and kind not in "iu") or (kind == "c" and name not in ("MPI_SUM", "MPI_PROD")):
        return None
    with np.errstate(all="ignore"):
        return _OPERATIONS[name](np.stack(brought))
