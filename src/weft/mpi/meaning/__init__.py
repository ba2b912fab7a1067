"""State once what each function of MPI, and of PVM, means: all rooms that tell one function from another ask here.

`find_meaning(name)` is one function's meaning; `functions_with(Act.SEND, …)` are the names of those that do something.
words.py holds the
words, rows.py and local.py the table, refusals.py what has no row and why. The source of the recorder, the numbers that
C reads and the page of coverage are generated from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from weft.mpi.meaning import pvm
from weft.mpi.meaning.refusals import why_refused
from weft.mpi.meaning.rows import all_rows
from weft.mpi.meaning.words import (
    Access,
    Act,
    Form,
    InPlace,
    Leaves,
    Many,
    Meaning,
    Mode,
    Over,
    Share,
    Sync,
    Trait,
    Waits,
)

__all__ = [
    "Access",
    "Act",
    "Form",
    "InPlace",
    "Leaves",
    "Many",
    "Meaning",
    "Mode",
    "Over",
    "Share",
    "Sync",
    "Trait",
    "Waits",
    "all_meanings",
    "base_name",
    "find_meaning",
    "functions_with",
    "meanings_with",
    "names_of",
    "why_refused",
]  # fmt: skip


@cache
def all_meanings() -> dict[str, Meaning]:
    """Return all rows by name."""
    return {row.name: row for row in (*all_rows(), *pvm.rows())}


@cache
def _meanings_by_act() -> dict[Act, tuple[Meaning, ...]]:
    """Return the meanings of all functions, grouped by what the functions do (send, receive, wait ...)."""
    found: dict[Act, list[Meaning]] = {act: [] for act in Act}
    for row in all_meanings().values():
        found[row.act].append(row)
    return {act: tuple(of_act) for act, of_act in found.items()}


def base_name(name: str) -> str:
    """Return a function's name as in the table: Send for `MPI_Send_c`."""
    return name.removeprefix("MPI_").removesuffix("_c")


def full_name(name: str) -> str:
    """Return a name of the table as records have it: MPI_Send for Send."""
    return name if name.startswith("pvm_") else f"MPI_{name}"


def find_meaning(name: str) -> Meaning | None:
    """Return the meaning of a function, large-count form or not; None if it has no row."""
    return all_meanings().get(base_name(name))


def meanings_with(*acts: Act) -> tuple[Meaning, ...]:
    """Return the rows of all functions that do one of these."""
    return tuple(row for act in acts for row in _meanings_by_act()[act])


def names_of(found: Iterable[Meaning]) -> frozenset[str]:
    """Return the names of some rows."""
    return frozenset(row.name for row in found)


def functions_with(*acts: Act, where: Callable[[Meaning], bool] | None = None) -> frozenset[str]:
    """Return the names of the functions that do one of `acts`, and for which `where` holds."""
    found = meanings_with(*acts)
    return names_of(filter(where, found) if where else found)
