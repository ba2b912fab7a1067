"""Find calls of Fortran without their last argument, `ierror`: `mpif.h` lets a compiler accept them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from weft import sources
from weft.sources.call_arguments import find_call_arguments
from weft.sources.statement import is_fortran, normalize_fortran
from weft.trace import Event, Rank

_OTHER_ARGUMENTS: Final = {"MPI_Init": 1, "MPI_Init_thread": 3}
"""How many arguments Fortran has where C's `argc` and `argv` are missing."""
_OTHER_BINDING: Final = re.compile(r"\bmpi_f08\b", re.IGNORECASE)
_INCLUDES: Final = re.compile(r"^\s*(?:#\s*)?include\s*['\"<]mpif\.h", re.IGNORECASE | re.MULTILINE)


def find_calls_without_ierror(rank: Rank) -> Iterator[int]:
    """Yield the first call of each line of a rank that gives one argument too few, in files that include `mpif.h`. MPI
    then writes the error code to whatever address stands there (MPI-4.1, 19.1.6).
    """
    kept = sources.sources_of(rank.trace)
    files = {file for file in kept.own if is_fortran(file) and _includes_header(kept, file)}
    if not files:
        return
    sites, first = np.unique(rank.events["site"], return_index=True)
    for site, index in zip(sites.tolist(), first.tolist(), strict=True):
        if rank.site(site).file in files and _lacks_ierror(kept, rank.event(index)):
            yield index


def _includes_header(kept: sources.Sources, file: str) -> bool:
    """Return whether a file includes `mpif.h` and does not use `mpi_f08`, where the argument is optional."""
    found = kept.lines(file, 1)
    text = "\n".join(found[1]) if found is not None else ""
    return bool(_INCLUDES.search(text)) and not _OTHER_BINDING.search(text)


def _lacks_ierror(kept: sources.Sources, event: Event) -> bool:
    """Return whether the statement of a call gives it one argument too few."""
    file, name = event.site.file or "", event.function.base
    statement = kept.statement(file, event.site.line)
    if statement is None:
        return False
    lines = normalize_fortran(statement.lines, file)
    given = find_call_arguments(lines, name.lower())
    wanted = _OTHER_ARGUMENTS.get(name, len(event.function.parameters) + 1)
    is_call = re.search(rf"\bcall\s+{re.escape(name.lower())}\b", "\n".join(lines))
    return bool(given and is_call and len(given) == wanted - 1)
