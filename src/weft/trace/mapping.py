"""Maps chunks that are apart in a file as one contiguous array, without copying them.

A range of addresses is reserved (PROT_NONE) and each chunk is mapped into it, read-only, after the one before
(MAP_FIXED), as the writer does it (native/record.c). Where that is not possible (another system, larger pages, no
addresses or mappings left) the chunks are copied.

The arrays own their addresses: the range is unmapped when the last array over it dies. A file that is cut shorter
by somebody else while it is mapped makes the process die of SIGBUS when the lost part is read. Sizes are therefore
checked by fstat right before mapping (Weft itself only ever cuts what no chunk counts as used), and Weft's commands
read zeros there and fail at their end (native/cuts.py).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.native import cuts
from weft.trace.layout import PAGE

_MAP_FIXED: Final = 0x10
_MAP_NORESERVE: Final = 0x4000
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


class Extent(NamedTuple):
    """`used` bytes of a file at `offset`. All but the last of a stream are whole pages."""

    offset: int
    used: int


def _load_libc() -> ctypes.CDLL | None:
    """Return the C library with the functions that map files; None on a system where mapping is not tried."""
    if not sys.platform.startswith("linux") or mmap.PAGESIZE != PAGE or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    except (OSError, AttributeError):
        return None
    return libc


_libc: Final = _load_libc()


def _round_up_to_pages(n: int) -> int:
    return -(-n // PAGE) * PAGE


def _join_neighbours(extents: Sequence[Extent]) -> list[Extent]:
    """Return the extents with neighbours in the file joined into one. Fewer memory mappings are needed then; Linux
    allows 65,530.
    """
    joined: list[Extent] = []
    for extent in extents:
        last = joined[-1] if joined else None
        if last and last.offset + last.used == extent.offset and last.used % PAGE == 0:
            joined[-1] = Extent(last.offset, last.used + extent.used)
        else:
            joined.append(extent)
    return joined


def map_extents(fd: int, extents: Sequence[Extent]) -> NDArray[np.uint8] | None:
    """Return parts of a file as one read-only array that is mapped, not copied. None if that is not possible."""
    if _libc is None or not extents or any(e.used % PAGE for e in extents[:-1]):
        return None
    cuts.prepare_for_cuts()
    size = sum(_round_up_to_pages(e.used) for e in extents)
    base = _libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    if base is None or base == _MAP_FAILED:
        return None
    at = base
    for extent in _join_neighbours(extents):
        length = _round_up_to_pages(extent.used)
        if _libc.mmap(at, length, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, fd, extent.offset) != at:
            _libc.munmap(base, size)
            return None
        at += length
    memory = (ctypes.c_ubyte * sum(e.used for e in extents)).from_address(base)
    # Not at exit: other threads may still read, and the system takes the addresses back anyway.
    weakref.finalize(memory, _libc.munmap, base, size).atexit = False
    array: NDArray[np.uint8] = np.frombuffer(memoryview(memory).cast("B"), dtype=np.uint8)
    array.flags.writeable = False
    return array


def release_pages(array: NDArray[Any]) -> None:
    """Give back the memory of whole pages under a part of a mapped file. They are read again at the next access.

    Only for arrays over files: changes in other memory would be lost.
    """
    if _libc is None or not len(array) or array.flags.writeable:
        return
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    if not isinstance(owner, memoryview) or not isinstance(owner.obj, ctypes.Array):
        return  # copied into memory of its own
    start = -(-array.ctypes.data // PAGE) * PAGE
    end = (array.ctypes.data + array.nbytes) // PAGE * PAGE
    if end > start:
        _libc.madvise(start, end - start, mmap.MADV_DONTNEED)


def release_freed_memory() -> None:
    """Make the C library give back what it keeps of freed memory, if it does that (glibc)."""
    if _libc is not None and hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(ctypes.c_size_t(0))


def copy_extents(fd: int, extents: Sequence[Extent]) -> NDArray[np.uint8]:
    """Return parts of a file as one array in memory. It is shorter if the file ends early."""
    parts = []
    for extent in extents:
        part = np.empty(extent.used, np.uint8)
        done = 0
        while done < extent.used:
            n = os.preadv(fd, [part[done:].data], extent.offset + done)
            if n == 0:
                break
            done += n
        parts.append(part[:done])
        if done < extent.used:
            break
    array = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    array.flags.writeable = False
    return array


def read_extents(fd: int, extents: Sequence[Extent]) -> NDArray[np.uint8]:
    """Return parts of a file as one read-only array, mapped if possible and else copied. They must lie within
    the file.
    """
    extents = [e for e in extents if e.used]
    mapped = map_extents(fd, extents)
    return copy_extents(fd, extents) if mapped is None else mapped
