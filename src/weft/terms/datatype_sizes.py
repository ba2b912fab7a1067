"""Look up basic types: what each is to the machine, and how many bytes it takes if the record does not tell."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.terms.argument_columns import Ints, sorted_distinct
from weft.trace import Datatype, Rank

# Names of one machine type in C and Fortran: the standard tells them apart, a program that mixes them is portable to
# every machine on which they have one size. x86-64 and AArch64 Linux; the number is the size in bytes.
_KINDS: Final = {
    "i1": "CHAR SIGNED_CHAR INT8_T INTEGER1 CHARACTER", "u1": "UNSIGNED_CHAR UINT8_T C_BOOL CXX_BOOL LOGICAL1",
    "i2": "SHORT INT16_T INTEGER2", "u2": "UNSIGNED_SHORT UINT16_T", "i4": "INT INT32_T INTEGER INTEGER4",
    "u4": "UNSIGNED UINT32_T", "i8": "LONG LONG_LONG INT64_T INTEGER8 AINT OFFSET COUNT",
    "u8": "UNSIGNED_LONG UNSIGNED_LONG_LONG UINT64_T", "f4": "FLOAT REAL REAL4", "f8": "DOUBLE DOUBLE_PRECISION REAL8",
    "c8": "C_COMPLEX COMPLEX COMPLEX8 CXX_FLOAT_COMPLEX",
    "c16": "C_DOUBLE_COMPLEX DOUBLE_COMPLEX COMPLEX16 CXX_DOUBLE_COMPLEX",
}  # fmt: skip
_KIND_OF: Final = {f"MPI_{name}": kind for kind, names in _KINDS.items() for name in names.split()}
_OTHERS: Final = {"MPI_BYTE": 1, "MPI_PACKED": 1, "MPI_WCHAR": 4, "MPI_LONG_DOUBLE": 16, "MPI_LOGICAL": 4}


def machine_type(name: str) -> str:
    """Return the name of the machine's type for a basic type, such as `i4` for MPI_INT."""
    return _KIND_OF.get(name, name)


def size_in_bytes(datatype: Datatype | None) -> int | None:
    """Return the size of a datatype in bytes; None if it is not known."""
    if datatype is None:
        return None
    if datatype.size is None and datatype.is_predefined:
        kind = _KIND_OF.get(datatype.name, "")
        return int(kind[1:]) if kind else _OTHERS.get(datatype.name)
    return datatype.size


def basic_type_size(name: str) -> int:
    """Return the bytes of a basic type by its name, 0 if they are not known."""
    kind = _KIND_OF.get(name, "")
    return int(kind[1:]) if kind else _OTHERS.get(name, 0)


def gapless_size(datatype: Datatype | None) -> int:
    """Return the size in bytes of a datatype that uses every byte between its first and its last; 0 for any other."""
    size = size_in_bytes(datatype)
    if datatype is None or not size:
        return 0
    if datatype.extent is None:
        return size if datatype.is_predefined else 0
    return size if datatype.extent == size and not datatype.lb else 0


def gapless_sizes(rank: Rank, datatypes: Ints) -> Ints:
    """Return the size in bytes of each datatype of a column of ids. It is 0 for datatypes with gaps and for invalid
    ids.
    """
    size = np.zeros(len(datatypes), np.int64)
    for id in sorted_distinct(datatypes).tolist():
        size[datatypes == id] = gapless_size(rank.datatype(id)) if id > 1 else 0
    return size
