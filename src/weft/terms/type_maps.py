"""List the elements of a datatype: its type map (MPI-4.1, 5.1), as runs of equal elements without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from weft.terms.datatype_sizes import basic_type_size, size_in_bytes
from weft.trace import Datatype
from weft.trace.datatypes import PADDED_PAIRS, PAIRS

MOST: Final = 4096
"""Runs of a datatype that are followed; more are not known."""
_DEEPEST: Final = 32


class TypeMapRun(NamedTuple):
    """`times` elements of the basic type `name`, each of `width` bytes, from displacement `at` on."""

    at: int
    name: str
    width: int
    times: int

    @property
    def end(self) -> int:
        """Return the displacement after the last byte."""
        return self.at + self.width * self.times


class _TooMany(Exception):
    """More runs than are followed, or something unknown."""


def type_map(datatype: Datatype | None) -> tuple[TypeMapRun, ...] | None:
    """Return the basic types in one element of a datatype, in the order of its type map. Each run is a basic type
    repeated without gaps. None if they are not known.
    """
    if datatype is None:
        return None
    try:
        return tuple(_merge_runs(_runs_of(datatype, 0)))
    except (_TooMany, IndexError, ValueError):
        return None


def _merge_runs(runs: Iterable[TypeMapRun]) -> Iterator[TypeMapRun]:
    """Yield the runs of basic types. A run that continues the one before it is merged with that. Raises _TooMany for
    more than MOST.
    """
    held: TypeMapRun | None = None
    for many, run in enumerate(runs):
        if many > MOST:
            raise _TooMany
        if held is not None and run.name == held.name and run.at == held.end:
            held = held._replace(times=held.times + run.times)
            continue
        if held is not None:
            yield held
        held = run
    if held is not None:
        yield held


def _runs_of(datatype: Datatype, depth: int) -> Iterator[TypeMapRun]:
    """Yield the runs of basic types in one element of a datatype. Raises _TooMany if they are too many or unknown.
    `depth`: how many datatypes are around this one.
    """
    if depth > _DEEPEST:
        raise _TooMany
    if datatype.signature() == ():
        return
    if datatype.is_predefined and datatype.name in PAIRS:
        runs = list(iterate_pair_runs(datatype.name))
        if sum(run.width * run.times for run in runs) != size_in_bytes(datatype):
            raise _TooMany  # Fortran's kinds are not the usual ones
        yield from runs
        return
    if datatype.is_predefined:
        width = basic_type_size(datatype.name)
        if not width or width != (size_in_bytes(datatype) or width):
            raise _TooMany  # a type that the machine's table does not have
        yield TypeMapRun(0, datatype.name, width, 1)
        return
    for inner, at, times in _inner_blocks(datatype):
        if inner is None:
            raise _TooMany
        yield from _repeat_runs(inner, at, times, depth)


def iterate_pair_runs(name: str) -> Iterator[TypeMapRun]:
    """Yield the runs of basic types in one element of a pair type such as MPI_DOUBLE_INT."""
    place = 0
    for basic, times in PAIRS[name]:
        width = basic_type_size(basic)
        yield TypeMapRun(place, basic, width, times)
        place = PADDED_PAIRS[name].int_offset if name in PADDED_PAIRS else place + times * width


def _repeat_runs(inner: Datatype, at: int, times: int, depth: int) -> Iterator[TypeMapRun]:
    """Yield the runs of basic types in `times` elements of an inner datatype. The first element begins at displacement
    `at`.
    """
    runs = list(_merge_runs(_runs_of(inner, depth + 1)))
    extent = inner.extent if inner.extent is not None else size_in_bytes(inner)
    if extent is None:
        raise _TooMany
    if len(runs) == 1 and runs[0].at == 0 and runs[0].end == extent:
        if times > 0:
            yield runs[0]._replace(at=at, times=runs[0].times * times)
        return
    if times * len(runs) > MOST:
        raise _TooMany
    for k in range(times):
        for run in runs:
            yield run._replace(at=at + k * extent + run.at)


_InnerBlock = tuple[Datatype | None, int, int]


def _inner_blocks(datatype: Datatype) -> Iterator[_InnerBlock]:
    """Yield the blocks of which a derived datatype is made, as (inner datatype, displacement in bytes, number of
    elements).
    """
    definition = datatype.definition
    if definition is None or not datatype.inner:
        raise _TooMany
    name = datatype.combiner.removesuffix("_INTEGER")
    i, a, inner = definition.integers, definition.addresses, datatype.inner
    if name == "STRUCT":
        yield from zip(inner, a, i[1 : 1 + i[0]], strict=True)
        return
    one = inner[0]
    extent = (one.extent if one is not None and one.extent is not None else size_in_bytes(one)) or 0
    yield from ((one, at, times) for at, times in _blocks_of_combiner(name, i, a, extent))


def _blocks_of_combiner(
    name: str, integers: tuple[int, ...], addresses: tuple[int, ...], extent: int
) -> Iterable[tuple[int, int]]:
    """Return the blocks of a datatype with one inner type, as (displacement in bytes, number of elements). `name`: the
    combiner; `integers`, `addresses`: its arguments; `extent`: the inner type's.
    """
    if name in ("DUP", "RESIZED"):
        return [(0, 1)]
    if name == "CONTIGUOUS":
        return [(0, integers[0])]
    if integers and integers[0] > MOST:
        raise _TooMany
    if name in ("VECTOR", "HVECTOR"):
        stride = integers[2] * extent if name == "VECTOR" else addresses[0]
        return [(k * stride, integers[1]) for k in range(integers[0])]
    if name == "INDEXED":
        return [(integers[1 + integers[0] + k] * extent, integers[1 + k]) for k in range(integers[0])]
    if name == "HINDEXED":
        return [(addresses[k], integers[1 + k]) for k in range(integers[0])]
    if name == "INDEXED_BLOCK":
        return [(integers[2 + k] * extent, integers[1]) for k in range(integers[0])]
    if name == "HINDEXED_BLOCK":
        return [(addresses[k], integers[1]) for k in range(integers[0])]
    raise _TooMany
