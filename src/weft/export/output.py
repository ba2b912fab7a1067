"""Write an export beside its final path until it is complete; keep large columns in files instead of memory."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError, WeftError
from weft.match import Operations, pair_messages
from weft.trace import Trace

IN_MEMORY = 1 << 20
"""Columns up to this many bytes stay in memory."""


class ExportCount(NamedTuple):
    """How many of something an export holds, for people: `ExportCount(12, "call")`."""

    number: int
    noun: str


@contextmanager
def stage_output(out: Path) -> Iterator[Path]:
    """Within this context, write an output to the yielded path beside `out`. At the end it is renamed to `out`; after
    an error it is removed. Raises UsageError if `out` exists.
    """
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out} exists: delete it, or name another place with -o")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".weft-export-", dir=out.parent))
    except OSError as error:
        raise WeftError(f"{out} cannot be written: {error.strerror}") from None
    try:
        yield folder / out.name
        # Not os.replace: what came to be there meanwhile stays.
        if out.exists():
            raise UsageError(f"{out} was created meanwhile: name another place with -o")
        (folder / out.name).rename(out)
    except OSError as error:
        raise WeftError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class FileColumns:
    """Allocate columns in unnamed files, so that the system can move them out of memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def allocate(self, length: int, kind: Any) -> NDArray[Any]:
        """Return a new column of `length` zeros, of the dtype `kind`. A large one lies in a temporary file instead of
        memory.
        """
        dtype = np.dtype(kind)
        size = length * dtype.itemsize
        if size <= IN_MEMORY:
            return np.zeros(length, dtype)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            # A full disk is an error here, not a SIGBUS when a page is written.
            os.posix_fallocate(file.fileno(), 0, size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), dtype)


def pair_operations(trace: Trace, beside: Path) -> Operations:
    """Return the run's operations with their messages paired, in columns that are kept in files."""
    return pair_messages(trace, FileColumns(beside.parent).allocate)
