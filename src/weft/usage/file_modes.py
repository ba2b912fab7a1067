"""Find file modes that contradict each other, and calls that the mode of their file does not allow (MPI-4.1,
14.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from weft.terms.argument_columns import decode_columns, integer_column, sorted_distinct
from weft.terms.calls import masks_of
from weft.trace import Rank
from weft.trace.functions import FunctionTable
from weft.trace.layout import ID_DYNAMIC, ID_NULL

CREATE, READ_ONLY, WRITE_ONLY, BOTH, EXCLUSIVE, SEQUENTIAL = 1, 2, 4, 8, 64, 256
"""MPI_MODE_CREATE, _RDONLY, _WRONLY, _RDWR, _EXCL and _SEQUENTIAL in MPICH, its kin and Open MPI."""
_SAME: Final = ("mpich", "openmpi")
"""The interfaces that have these numbers; the standard's own (MPI-5.0, 20) has others."""

Told = tuple[int, str, str]
"""An event, the parameter that is wrong, and what is wrong with it, as an object of `gives MPI_File_open`."""


def find_wrong_file_calls(rank: Rank) -> Iterator[Told]:
    """Yield calls that the mode in which their file was opened does not allow, calls on MPI_FILE_NULL, and invalid
    modes.

    Each result is (event index, parameter, what is wrong).
    """
    functions = rank.trace.functions
    which = masks_of(functions).where(rank, _file_function_names(functions))
    if not len(which):
        return
    facts = rank.trace.run.get("mpi")
    known = isinstance(facts, dict) and facts.get("abi") in _SAME
    if known:
        yield from _check_open_modes(rank)
    by_function = rank.events["function"][which]
    for id in sorted_distinct(by_function).tolist():
        function = functions[id]
        place = function.slot.get("object")
        if place is None or place.handle != "FILE" or place.direction == "out":
            continue
        rows = which[by_function == id]
        files = rank.events["object"][rows]
        for row in rows[files == ID_NULL].tolist():
            if "errhandler" not in function.name:  # that of MPI_FILE_NULL is the one of files that are not open
                yield row, "fh", "MPI_FILE_NULL"
        for file in sorted_distinct(files[files >= ID_DYNAMIC]).tolist() if known else ():
            opened = rank.definitions.file(file)
            why = _explain_forbidden_call(function.name, opened.amode) if opened is not None else None
            if why is not None:
                yield from ((row, "fh", why) for row in rows[files == file].tolist())


@cache
def _file_function_names(functions: FunctionTable) -> frozenset[str]:
    return frozenset(f.name.removeprefix("MPI_") for f in functions if f.name.startswith("MPI_File_"))


def _check_open_modes(rank: Rank) -> Iterator[Told]:
    """Yield calls of MPI_File_open whose mode is invalid, as `(event index, parameter, what is wrong)`."""
    opens = masks_of(rank.trace.functions).where(rank, frozenset(("File_open",)))
    for events, found in decode_columns(rank, opens, frozenset(("amode",))):
        for row, mode in zip(events.tolist(), integer_column(found, "amode").tolist(), strict=True):
            ways = [name for bit, name in _WAYS.items() if mode & bit]
            if len(ways) != 1:
                yield (
                    row,
                    "amode",
                    f"an amode with {' and '.join(ways) or 'none of MPI_MODE_RDONLY, _WRONLY and _RDWR'}",
                )
            elif mode & READ_ONLY and mode & (CREATE | EXCLUSIVE):
                yield row, "amode", f"MPI_MODE_RDONLY with MPI_MODE_{'CREATE' if mode & CREATE else 'EXCL'}"
            elif mode & BOTH and mode & SEQUENTIAL:
                yield row, "amode", "MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL"


_WAYS: Final = {READ_ONLY: "MPI_MODE_RDONLY", WRITE_ONLY: "MPI_MODE_WRONLY", BOTH: "MPI_MODE_RDWR"}


def _explain_forbidden_call(name: str, mode: int) -> str | None:
    """Return in words why the function `name` may not be called on a file that was opened with `mode`, MPI's bits; None
    if it may.
    """
    doing = name.removeprefix("MPI_File_").split("_")
    if mode & WRITE_ONLY and doing[0] in ("read", "iread"):
        return "a file that was opened with MPI_MODE_WRONLY"
    if mode & READ_ONLY and doing[0] in ("write", "iwrite"):
        return "a file that was opened with MPI_MODE_RDONLY"
    if mode & SEQUENTIAL and doing[0] in _MOVES and doing[-1] not in ("shared", "ordered") and "ordered" not in doing:
        return "a file that was opened with MPI_MODE_SEQUENTIAL, which only shared file pointers may be used on"
    return None


_MOVES: Final = ("read", "iread", "write", "iwrite", "seek")
