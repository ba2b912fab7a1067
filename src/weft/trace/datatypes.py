"""Datatypes: what basic elements an MPI datatype moves, in which order (its type signature, MPI-4.1 section 5.1)."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from weft.trace.definitions import DatatypeDefinition, Definitions
from weft.trace.functions import FunctionTable
from weft.trace.layout import ID_DYNAMIC, Def

Signature = tuple[tuple[str, int], ...]

MAX_RUNS: Final = 65536
MAX_DEPTH: Final = 100
MAX_COUNT: Final = 2**63 - 1
_CACHED_RUNS: Final = 256


class PaddedPair(NamedTuple):
    """Where the int of a pair type begins, and the bytes from one element to the next."""

    int_offset: int
    extent: int


PADDED_PAIRS: Final = {
    "MPI_SHORT_INT": PaddedPair(4, 8), "MPI_LONG_INT": PaddedPair(8, 16), "MPI_DOUBLE_INT": PaddedPair(8, 16),
    "MPI_LONG_DOUBLE_INT": PaddedPair(16, 32),
}  # fmt: skip
"""The pair types that lie in memory with gaps, as C's structures do on x86-64 and AArch64 Linux."""

# MPI-4.1, 6.9.4: the pair types have the signature of their struct.
PAIRS: Final[dict[str, Signature]] = {
    "MPI_FLOAT_INT": (("MPI_FLOAT", 1), ("MPI_INT", 1)),
    "MPI_DOUBLE_INT": (("MPI_DOUBLE", 1), ("MPI_INT", 1)),
    "MPI_LONG_INT": (("MPI_LONG", 1), ("MPI_INT", 1)),
    "MPI_2INT": (("MPI_INT", 2),),
    "MPI_SHORT_INT": (("MPI_SHORT", 1), ("MPI_INT", 1)),
    "MPI_LONG_DOUBLE_INT": (("MPI_LONG_DOUBLE", 1), ("MPI_INT", 1)),
    "MPI_2REAL": (("MPI_REAL", 2),),
    "MPI_2DOUBLE_PRECISION": (("MPI_DOUBLE_PRECISION", 2),),
    "MPI_2INTEGER": (("MPI_INTEGER", 2),),
    "MPI_LB": (),
    "MPI_UB": (),
}


class TooLarge(ValueError):
    """A signature with more runs, depth or elements than Weft holds."""


def concatenate_signatures(parts: Iterable[Signature]) -> Signature:
    """Return one signature (runs of basic types) made of several, in order. Where two parts meet in the same type, they
    become one run. TooLarge beyond the limits.
    """
    runs: list[tuple[str, int]] = []
    for part in parts:
        if part and runs and runs[-1][0] == part[0][0]:
            runs[-1] = (part[0][0], runs[-1][1] + part[0][1])
            runs.extend(part[1:])
        else:
            runs.extend(part)
        if len(runs) > MAX_RUNS or any(count > MAX_COUNT for _, count in (runs[-1:] + runs[:1])):
            raise TooLarge
    return tuple(runs)


def repeat_signature(signature: Signature, times: int) -> Signature:
    """Return a signature (runs of basic types) repeated `times` times. TooLarge beyond the limits."""
    if times <= 0 or not signature:
        return ()
    (first, n), (last, m) = signature[0], signature[-1]
    if len(signature) == 1:
        return concatenate_signatures([((first, n * times),)])
    if len(signature) * times > 2 * MAX_RUNS:
        raise TooLarge
    if first != last:
        return concatenate_signatures([signature * times])
    middle = signature[1:-1]
    return concatenate_signatures([signature[:1], middle, (((first, m + n), *middle) * (times - 1)), signature[-1:]])


class Datatype:
    """A datatype of one process. `size`, `lb`, `extent` in bytes, None where they are not known.

    `is_large`: its signature was asked for, and is too much to hold.
    """

    __slots__ = ("_catalogue", "_signature", "combiner", "definition", "extent", "id", "is_large", "lb", "name", "size")

    def __init__(self, catalogue: Datatypes, id: int, name: str, definition: DatatypeDefinition | None) -> None:
        self._catalogue = catalogue
        self._signature: Signature | bool | None = False
        self.is_large = False
        self.id = id
        self.name = name
        self.definition = definition
        functions = catalogue.functions
        self.size: int | None
        self.lb: int | None
        self.extent: int | None
        if definition is None:
            self.size = functions.datatype_sizes.get(id)
            self.extent = self.size if name not in PADDED_PAIRS else PADDED_PAIRS[name].extent
            self.lb = None if self.size is None else 0
            self.combiner = "NAMED"
        else:
            self.size, self.lb, self.extent = definition.size, definition.lb, definition.extent
            n = definition.combiner
            self.combiner = functions.combiners[n] if n < len(functions.combiners) else f"combiner {n}"

    def __repr__(self) -> str:
        return f"<Datatype {self.name}>"

    @property
    def is_predefined(self) -> bool:
        """Return whether MPI itself defines the datatype."""
        return self.definition is None

    @property
    def inner(self) -> list[Datatype | None]:
        """Return the datatypes that this one was made of."""
        return [self._catalogue.get(id) for id in self.definition.types] if self.definition else []

    def signature(self) -> Signature | None:
        """Return the basic types of the datatype in order, as runs (name of the type, count). None if they are unknown
        or make more than 65,536 runs.
        """
        if not isinstance(self._signature, bool):
            return self._signature
        try:
            signature = self._catalogue.signature(self, 0)
        except TooLarge:
            signature, self.is_large = None, True
        if signature is None or len(signature) <= _CACHED_RUNS:
            self._signature = signature
        return signature

    def repeated_signature(self) -> tuple[Signature | None, int]:
        """Return a signature and how many times it must be repeated to give the signature of this datatype. (None, 1)
        if an inner datatype is unknown.
        """
        of, times = self, 1
        for _ in range(MAX_DEPTH):
            signature = of.signature()
            if signature is not None or of.definition is None or len(of.definition.types) != 1:
                return signature, times
            inner = self._catalogue.get(of.definition.types[0])
            if inner is None:
                break
            times *= self._catalogue.count_inner_elements(of.combiner, of.definition)
            of = inner
        return None, 1


class Datatypes:
    """The datatypes of one process, by id."""

    def __init__(self, functions: FunctionTable, definitions: Definitions) -> None:
        self.functions = functions
        self._definitions = definitions
        self._known: dict[int, Datatype] = {}

    def get(self, id: int) -> Datatype | None:
        """Return the datatype with an id, None for an id that nothing defines."""
        if id not in self._known:
            predefined = self.functions.object_name("DATATYPE", id)
            definition = self._definitions.get(Def.DATATYPE, id) if predefined is None else None
            if predefined is None and definition is None:
                return None
            own = self._definitions.names.get((2, id))
            self._known[id] = Datatype(self, id, own or predefined or f"datatype {id - ID_DYNAMIC}", definition)
        return self._known[id]

    def signature(self, datatype: Datatype, depth: int) -> Signature | None:
        """Return the basic types of a datatype in order, as runs (type, count). None if a part is unknown; TooLarge
        beyond the limits. `depth`: how many datatypes are around this one.
        """
        if not isinstance(datatype._signature, bool):
            return datatype._signature
        if depth > MAX_DEPTH:
            raise TooLarge
        if datatype.definition is None:
            name = self.functions.object_name("DATATYPE", datatype.id) or datatype.name
            return PAIRS.get(name, ((name, 1),))
        try:
            signature = self._derive_signature(datatype, datatype.definition, depth)
        except TooLarge:  # kept, so that what is made of it is not worked out again and again
            signature, datatype.is_large = None, True
        if datatype.is_large or (signature is not None and len(signature) <= _CACHED_RUNS):
            datatype._signature = signature
        return signature

    def _derive_signature(self, datatype: Datatype, definition: DatatypeDefinition, depth: int) -> Signature | None:
        """Return the signature of a derived datatype, made from the signatures of its inner types. None if one of these
        is unknown.
        """
        if datatype.combiner in ("F90_REAL", "F90_COMPLEX", "F90_INTEGER"):
            return ((f"MPI_{datatype.combiner}({','.join(map(str, definition.integers[:2]))})", 1),)
        if datatype.combiner == "VALUE_INDEX":
            blocks = [1] * len(definition.types)
        elif datatype.combiner in ("STRUCT", "STRUCT_INTEGER"):
            blocks = list(definition.integers[1 : 1 + len(definition.types)])
        elif len(definition.types) == 1:
            blocks = [self.count_inner_elements(datatype.combiner, definition)]
        else:
            return None
        if len(blocks) != len(definition.types):
            return None
        parts: list[Signature] = []
        runs = 0
        for id, times in zip(definition.types, blocks, strict=True):
            if times <= 0:
                continue
            child = self.get(id)
            inner = self.signature(child, depth + 1) if child is not None and id != definition.id else None
            if inner is None and child is not None and child.is_large:
                raise TooLarge
            if inner is None:
                return None
            parts.append(repeat_signature(inner, times))
            runs += len(parts[-1])
            if runs > 2 * MAX_RUNS:
                raise TooLarge
        return concatenate_signatures(parts)

    def count_inner_elements(self, combiner: str, definition: DatatypeDefinition) -> int:
        """Return how many elements of its inner datatype a derived datatype has. It must have only one inner
        datatype.
        """
        count = _COUNTS.get(combiner)
        n = count(definition.integers) if count else None
        if n is None or not 0 <= n <= MAX_COUNT:
            child = self.get(definition.types[0])
            n = definition.size // child.size if child is not None and child.size else 0
        return n


def _first_integer(i: tuple[int, ...]) -> int | None:
    return i[0] if i else None


def _count_times_block_length(i: tuple[int, ...]) -> int | None:
    return i[0] * i[1] if len(i) > 1 else None


def _sum_of_block_lengths(i: tuple[int, ...]) -> int | None:
    return sum(i[1 : 1 + i[0]]) if i and 0 <= i[0] < len(i) else None


# How many inner elements there are, computed from the integers (and large counts) of MPI_Type_get_contents (MPI-4.1,
# 5.1.13). SUBARRAY
# and DARRAY are not here: their order differs between the forms, and their size tells as well.
_COUNTS: Final[dict[str, Callable[[tuple[int, ...]], int | None]]] = {
    "DUP": lambda i: 1,
    "RESIZED": lambda i: 1,
    "CONTIGUOUS": _first_integer,
    "VECTOR": _count_times_block_length,
    "HVECTOR": _count_times_block_length,
    "HVECTOR_INTEGER": _count_times_block_length,
    "INDEXED": _sum_of_block_lengths,
    "HINDEXED": _sum_of_block_lengths,
    "HINDEXED_INTEGER": _sum_of_block_lengths,
    "INDEXED_BLOCK": _count_times_block_length,
    "HINDEXED_BLOCK": _count_times_block_length,
}
