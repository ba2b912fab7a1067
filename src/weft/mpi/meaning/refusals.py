"""List the functions of the standard without a row, each family with its reason: the recorder passes them through."""

from __future__ import annotations

import re
from typing import Final

_FAMILIES: Final = (
    (r"MPI_T_.*", "tools interface: no communication, and tools must not trace tools"),
    (r"MPI_\w+_(f2c|c2f|f082c|c2f08|f2f08|f082f|fromint|toint)", "handle conversion: no effect outside its arguments"),
    (r"MPI_(Get_version|Abi_get_version)", "mpi4py looks for it in the global scope to tell one ABI from another"),
    (r"MPI_Abi_\w+", "describes the ABI: no communication, and called before MPI is initialised"),
    (r"MPI_Pcontrol", "takes a variable number of arguments, which C cannot hand on"),
    (r"MPI_Aint_(add|diff)", "arithmetic on its arguments"),
    (r"MPI_Status_(get|set)_(source|tag|error)", "reads or writes a field of its argument"),
    (r"MPI_\w+_f90", "Fortran's entry to a function that is recorded under its own name or is arithmetic"),
)


def why_refused(name: str) -> str | None:
    """Return why Weft does not take a function of MPI into account. None for functions that it does, and for other
    names.
    """
    return next((why for pattern, why in _FAMILIES if re.fullmatch(pattern, name)), None)
