"""Decode what a message holds: a buffer in a rank's memory, read through its datatype (MPI-4.1, chapter 5)."""

from __future__ import annotations

import io
import os
import pickle
import reprlib
import struct
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from weft.errors import DebuggerError
from weft.terms.datatype_layouts import read_subarray
from weft.trace import Datatype
from weft.trace.layout import IN_PLACE

MOST: Final = 64
"""Elements of a message that are shown."""
MOST_BYTES: Final = 1 << 20
"""Of a pickled object."""
MOST_PARTS: Final = 1 << 18
SHORT: Final = reprlib.Repr()
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = SHORT.maxfrozenset = 20
SHORT.maxlevel = 4

_BASIC: Final = {
    "MPI_CHAR": "c", "MPI_SIGNED_CHAR": "b", "MPI_UNSIGNED_CHAR": "B", "MPI_BYTE": "B", "MPI_PACKED": "B",
    "MPI_SHORT": "h", "MPI_UNSIGNED_SHORT": "H", "MPI_INT": "i", "MPI_UNSIGNED": "I", "MPI_LONG": "l",
    "MPI_UNSIGNED_LONG": "L", "MPI_LONG_LONG": "q", "MPI_LONG_LONG_INT": "q", "MPI_UNSIGNED_LONG_LONG": "Q",
    "MPI_FLOAT": "f", "MPI_DOUBLE": "d", "MPI_INT8_T": "b", "MPI_INT16_T": "h", "MPI_INT32_T": "i", "MPI_INT64_T": "q",
    "MPI_UINT8_T": "B", "MPI_UINT16_T": "H", "MPI_UINT32_T": "I", "MPI_UINT64_T": "Q", "MPI_C_BOOL": "?",
    "MPI_CXX_BOOL": "?", "MPI_AINT": "q", "MPI_COUNT": "q", "MPI_OFFSET": "q", "MPI_CHARACTER": "c", "MPI_INTEGER": "i",
    "MPI_INTEGER1": "b", "MPI_INTEGER2": "h", "MPI_INTEGER4": "i", "MPI_INTEGER8": "q", "MPI_REAL": "f",
    "MPI_REAL4": "f", "MPI_REAL8": "d", "MPI_DOUBLE_PRECISION": "d", "MPI_LOGICAL": "i", "MPI_WCHAR": "i",
    "MPI_COMPLEX": "ff", "MPI_DOUBLE_COMPLEX": "dd", "MPI_C_COMPLEX": "ff", "MPI_C_FLOAT_COMPLEX": "ff",
    "MPI_C_DOUBLE_COMPLEX": "dd", "MPI_CXX_FLOAT_COMPLEX": "ff", "MPI_CXX_DOUBLE_COMPLEX": "dd", "MPI_COMPLEX8": "ff",
    "MPI_COMPLEX16": "dd", "MPI_FLOAT_INT": "fi", "MPI_DOUBLE_INT": "di", "MPI_LONG_INT": "li", "MPI_2INT": "ii",
    "MPI_SHORT_INT": "hi", "MPI_2REAL": "ff", "MPI_2DOUBLE_PRECISION": "dd", "MPI_2INTEGER": "ii",
}  # fmt: skip

Element = tuple[str, int]
"""A basic type's struct format and its address."""


class Memory:
    """The memory of a process, opened for reading."""

    def __init__(self, pid: int) -> None:
        try:
            self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DebuggerError(f"the memory of process {pid} cannot be read: {error.strerror}") from error

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes at an address. DebuggerError if the process has no memory there."""
        try:
            data = os.pread(self._fd, size, address)
        except (OSError, OverflowError) as error:
            raise DebuggerError(f"there is no memory at {address:#x}") from error
        if len(data) < size:
            raise DebuggerError(f"the memory at {address:#x} ends after {len(data)} of {size} bytes")
        return data

    def close(self) -> None:
        """Close the memory."""
        os.close(self._fd)


def iterate_elements(datatype: Datatype, address: int, count: int) -> Iterator[Element]:
    """Yield (struct format, address) for the basic elements of `count` items of a datatype, in the order of its type
    map. The first item is at `address`. DebuggerError if the datatype cannot be decoded.
    """
    size = datatype.extent or 0
    for k in range(count):
        if not (yield from _yield_and_count(_elements_of_one(datatype, address + k * size))):
            return  # of nothing there may be very much


def _yield_and_count(elements_found: Iterator[Element]) -> Generator[Element, None, int]:
    """Yield the elements, and return their number, for `yield from`."""
    many = 0
    for many, one in enumerate(elements_found, 1):  # noqa: B007 - it is returned
        yield one
    return many


def _elements_of_one(datatype: Datatype, address: int) -> Iterator[Element]:
    """Yield (struct format, address) for the basic elements of one item of a datatype at an address. DebuggerError if
    the datatype cannot be decoded.
    """
    d = datatype.definition
    if d is None:
        signature = datatype.signature()
        name = datatype.name if datatype.name in _BASIC or not signature else signature[0][0]
        if name not in _BASIC:
            raise DebuggerError(f"{name} is not decoded")
        yield _BASIC[name], address
        return
    inner = datatype.inner
    if not inner or any(one is None for one in inner):
        raise DebuggerError(f"the record does not describe the datatype {datatype.name}")
    known = [one for one in inner if one is not None]
    try:
        for type_, times, where in _datatype_blocks(datatype.combiner, d.integers, d.addresses, known):
            if (
                not (yield from _yield_and_count(iterate_elements(type_, address + where, times)))
                and times > 0
                and len(known) == 1
            ):
                return
    except (IndexError, RecursionError) as error:
        raise DebuggerError(f"the record does not describe the datatype {datatype.name}") from error


def _datatype_blocks(
    combiner: str, integers: tuple[int, ...], addresses: tuple[int, ...], types: list[Datatype]
) -> Iterable[tuple[Datatype, int, int]]:
    """Return the blocks of a derived datatype as (inner datatype, how many items in a row, displacement in bytes)
    (MPI-4.1, 5.1.13).

    `integers`, `addresses`, `types`: the arguments with which the constructor `combiner` made the datatype.
    """
    one = types[0]
    extent = one.extent or 0
    n = integers[0] if integers else 1
    if combiner in ("DUP", "RESIZED"):
        return [(one, 1, 0)]
    if combiner == "CONTIGUOUS":
        return [(one, n, 0)]
    if combiner in ("VECTOR", "HVECTOR", "HVECTOR_INTEGER"):
        stride = integers[2] * extent if combiner == "VECTOR" else (addresses[0] if addresses else integers[2])
        return ((one, integers[1], k * stride) for k in range(n if integers[1] > 0 else 0))
    if combiner == "INDEXED":
        return ((one, integers[1 + k], integers[1 + n + k] * extent) for k in range(n))
    if combiner in ("HINDEXED", "HINDEXED_INTEGER"):
        return ((one, integers[1 + k], addresses[k] if addresses else integers[1 + n + k]) for k in range(n))
    if combiner == "INDEXED_BLOCK":
        return ((one, integers[1], integers[2 + k] * extent) for k in range(n))
    if combiner == "HINDEXED_BLOCK":
        return ((one, integers[1], addresses[k]) for k in range(n))
    if combiner in ("STRUCT", "STRUCT_INTEGER"):
        return ((types[k], integers[1 + k], addresses[k] if addresses else integers[1 + n + k]) for k in range(n))
    if combiner == "SUBARRAY":
        return _subarray_blocks(integers, one, extent)
    raise DebuggerError(f"Weft does not decode a datatype that {combiner} made")


def _subarray_blocks(integers: tuple[int, ...], inner: Datatype, extent: int) -> Iterator[tuple[Datatype, int, int]]:
    """Yield the blocks of a subarray datatype as (inner datatype, how many items in a row, displacement in bytes).

    `integers`: the arguments of MPI_Type_create_subarray. `extent`: of the inner datatype, in bytes.
    """
    n = integers[0]
    try:
        sizes, subsizes, starts, fortran = read_subarray(integers)
    except ValueError as error:
        raise DebuggerError(str(error)) from error
    axes = range(n) if fortran else range(n - 1, -1, -1)  # fastest first
    strides, step = {}, extent
    for axis in axes:
        strides[axis] = step
        step *= sizes[axis]
    if 0 in subsizes:
        return
    fastest, *others = list(axes)
    counters = [0] * len(others)
    while True:
        where = starts[fastest] * strides[fastest]
        where += sum((starts[axis] + c) * strides[axis] for axis, c in zip(others, counters, strict=True))
        yield inner, subsizes[fastest], where
        for k in range(len(others)):
            counters[k] += 1
            if counters[k] < subsizes[others[k]]:
                break
            counters[k] = 0
        else:
            return


def read_content(memory: Memory, datatype: Datatype, address: int, count: int) -> dict[str, Any]:
    """Return the content of a message of `count` items at an address: `values` (the first MOST numbers), `text`, or
    `object` for what mpi4py pickled. `more` is how many numbers are left out.
    """
    if address == IN_PLACE:
        raise DebuggerError("the buffer is MPI_IN_PLACE")
    if count <= 0:
        return {"values": [], "more": 0}
    first = list(islice(iterate_elements(datatype, address, count), MOST))
    formats = {format_ for format_, _ in first}
    total = count * max(1, _elements_in(datatype))
    if formats == {"c"}:
        raw = b"".join(memory.read(at, 1) for _, at in islice(iterate_elements(datatype, address, count), 400))
        return {"text": raw.split(b"\0")[0].decode(errors="backslashreplace"), "more": 0}
    if formats == {"B"} and datatype.is_predefined and datatype.size == 1:
        raw = memory.read(address, min(count, MOST_BYTES))
        if (found := unpickle_object(raw)) is not None:
            return found
    shown = [_read_element(memory, *element) for element in first]
    return {"values": shown, "more": max(total - len(shown), 0)}


def _elements_in(datatype: Datatype) -> int:
    return sum(n for _, n in datatype.signature() or (("", 1),))


def _read_element(memory: Memory, format_: str, at: int) -> object:
    """Return the basic element at an address, read by its struct format. A pair is returned as text of a complex number
    or as a list.
    """
    found = struct.unpack("@" + format_, memory.read(at, struct.calcsize("@" + format_)))
    if format_ in ("ff", "dd"):
        return str(complex(*found))
    return found[0] if len(found) == 1 else list(found)


class _Plain(pickle.Unpickler):
    """Unpickle objects of Python's own containers and values only; runs no code of the program."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name}")


def _short_repr(value: object) -> str:
    """Return the `repr` of an object, abbreviated if the object has very many parts."""
    left, parts = MOST_PARTS, [value]
    while parts:
        one = parts.pop()
        if isinstance(one, dict):
            parts += [*one, *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            parts += one
        left -= 1
        if len(parts) > left:
            return SHORT.repr(value)
    return repr(value)


def unpickle_object(raw: bytes) -> dict[str, object] | None:
    """Return the object in a message of mpi4py's lowercase methods, as text under the key `object`; None if the bytes
    are no pickle. No code of the program is executed.
    """
    if len(raw) < 4 or raw[0] != 0x80 or raw[1] > 5:
        return None
    try:
        return {"object": _short_repr(_Plain(io.BytesIO(raw)).load())[:2000], "more": 0}
    except pickle.UnpicklingError as error:
        return {"object": f"<a pickled object with a {error}>", "more": 0} if "." in str(error) else None
    except Exception:
        return None
