"""Run a checked function a second time, sequentially, on copies of its arguments, and compare the results."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from weft.native.headers.cells import POISON

RELATIVE: Final = {"f": 1e-3, "d": 1e-6}
"""How far results may lie apart that only rounding parts: by another order of the same operations."""
AGAINST_PARTS: Final = {"f": 1e-4, "d": 1e-9}
"""The same, against the sum of the reductions' partial results."""

PLAIN: Final = (int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype, type, types.FunctionType,
                types.BuiltinFunctionType, Dispatcher, np.ufunc)  # fmt: skip


_BYTE: Final = ctypes.c_char
_MEMCMP: Final = ctypes.CDLL(None).memcmp
_MEMCMP.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


SEQUENCES: Final = (tuple, list)
NUMBERS: Final = (int, float, complex, np.generic)
TEXTS: Final = (str, bytes, type(None))


Rewrite: TypeAlias = Callable[[types.FunctionType], tuple[types.CodeType, Mapping[str, object]] | None]


class NotCopyableError(Exception):
    """An argument whose copy would not be the same to the function."""


def _array_address(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    try:
        # In a fifth of the instructions of what numpy offers.
        return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is not contiguous, not to be written, empty, or of a type without a buffer
        return array.ctypes.data  # __array_interface__ takes three times as long


def _byte_bounds(array: NDArray[Any]) -> tuple[int, int]:
    """Return the address of an array's first byte, and the address after its last."""
    if array.flags.c_contiguous:
        low = _array_address(array)
        return low, low + array.nbytes
    return np.lib.array_utils.byte_bounds(array)


class Copies:
    """Copies of arguments that share memory where the arguments do."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, NDArray[Any]]] = {}
        self._keep: list[Any] = []  # blocks are known by their owner's id

    def copy(self, value: object) -> Any:
        """Return a copy of an argument; tuples and lists are copied with their items. Values without elements, such as
        numbers and functions, are returned as they are. Raises NotCopyableError for any other type.
        """
        if isinstance(value, np.ndarray) and type(value) in (np.ndarray, np.memmap):
            return self._copy_array(value)
        if isinstance(value, PLAIN):
            return value
        if isinstance(value, tuple):
            parts = [self.copy(one) for one in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if type(value) is list:
            return [self.copy(one) for one in value]
        raise NotCopyableError(type(value).__name__)

    def _copy_array(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array. If two arrays share memory, their copies do so, too. Raises NotCopyableError for
        an array of Python objects.
        """
        if array.dtype.hasobject:
            raise NotCopyableError("object array")
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if array.size == 0:
            return array.copy()
        low, block = self._copy_memory(root)
        at = 0 if array is root and array.flags.c_contiguous else _array_address(array) - low
        made: np.ndarray[Any, Any] = np.ndarray(
            array.shape, array.dtype, buffer=block.data, offset=at, strides=array.strides
        )
        if not array.flags.writeable:
            made.flags.writeable = False
        return made

    def _copy_memory(self, root: NDArray[Any]) -> tuple[int, NDArray[Any]]:
        """Return (address of an array's first byte, copy of all its bytes). Called again for the same array, return the
        same copy; views that share the memory of `root` are then placed in it.
        """
        if id(root) not in self._blocks:
            low, high = _byte_bounds(root)
            raw = np.empty(high - low + 64, np.uint8)
            begin = _array_address(raw)
            skip = (low - begin) % 64  # the same alignment
            block = raw[skip : skip + high - low]
            ctypes.memmove(begin + skip, low, high - low)
            self._keep.append(root)
            self._blocks[id(root)] = (low, block)
        return self._blocks[id(root)]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two results part: `where` names the value (`its result`, `b`), `index` the element."""

    where: str
    index: tuple[int, ...]
    got: Any
    expected: Any


def find_difference(value_name: str, result: Any, expected: object, magnitude: float) -> Difference | None:
    """Return the first difference between a result and the expected one. None if they are equal up to rounding, or of
    types that cannot be compared.

    `value_name` names the value in messages; `magnitude` is the sum of the absolute values of a reduction's partial
    results, which bounds rounding.
    """
    if isinstance(result, SEQUENCES) and isinstance(expected, SEQUENCES):
        if len(result) != len(expected):
            return Difference(f"the length of {value_name}", (), len(result), len(expected))
        found = (
            find_difference(f"{value_name}[{at}]", one, other, magnitude)
            for at, (one, other) in enumerate(zip(result, expected, strict=True))
        )
        return next((one for one in found if one is not None), None)
    if isinstance(result, np.ndarray) and isinstance(expected, np.ndarray):
        return _find_array_difference(value_name, result, expected, magnitude)
    if isinstance(result, NUMBERS) and isinstance(expected, NUMBERS):
        one, other = np.asarray(result), np.asarray(expected)
        if one.dtype.kind in "SUV" or other.dtype.kind in "SUV":
            return None if result == expected else Difference(value_name, (), result, expected)
        found_one = _find_array_difference(value_name, one.reshape(1), other.reshape(1), magnitude)
        return Difference(value_name, (), result, expected) if found_one else None
    if isinstance(result, TEXTS) and type(result) is type(expected):
        return None if result == expected else Difference(value_name, (), result, expected)
    return None  # nothing that can be compared


def _find_array_difference(
    array_name: str, result: NDArray[Any], expected: NDArray[Any], magnitude: float
) -> Difference | None:
    """Return the first difference between two arrays; None if they are equal up to rounding or cannot be compared."""
    if result.shape != expected.shape:
        return Difference(f"the shape of {array_name}", (), result.shape, expected.shape)
    if result.dtype.names is not None:
        fields = (
            find_difference(f"{array_name}.{name}", result[name], expected[name], magnitude)
            for name in result.dtype.names
        )
        return next((one for one in fields if one is not None), None)
    if result.dtype.hasobject or result.dtype.kind in "SUVO":
        return None
    if _same_bytes(result, expected):
        return None
    wrong = ~_equal_elements(result, expected, magnitude)
    if not wrong.any():
        return None
    wrong &= ~_unwritten_elements(result)
    if not wrong.any():
        return None
    index = tuple(int(one) for one in np.argwhere(wrong)[0])
    return Difference(array_name, index, result[index], expected[index])


def _same_bytes(result: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Return whether two arrays of one shape have the same bytes; they are then equal, NaNs included."""
    if result.dtype != expected.dtype or not (result.flags.c_contiguous and expected.flags.c_contiguous):
        return False
    return bool(_MEMCMP(_array_address(result), _array_address(expected), result.nbytes) == 0)


def _equal_elements(result: NDArray[Any], expected: NDArray[Any], magnitude: float) -> NDArray[Any]:
    """Return a mask of the elements that are equal up to rounding in two arrays; two NaNs count as equal. `magnitude`:
    the sum of the absolute values of a reduction's partial results, which bounds rounding.
    """
    same: np.ndarray[Any, Any] = result == expected
    if result.dtype.kind not in "fc" or same.all():
        return same
    single = result.real.dtype.itemsize < 8
    relative, against = (RELATIVE["f"], AGAINST_PARTS["f"]) if single else (RELATIVE["d"], AGAINST_PARTS["d"])
    with np.errstate(all="ignore"):
        apart = np.abs(result - expected)
        near = apart <= relative * np.maximum(np.abs(result), np.abs(expected)) + against * magnitude
        near &= np.isfinite(result) & np.isfinite(expected)
    equal: np.ndarray[Any, Any] = same | near | (np.isnan(result) & np.isnan(expected))
    return equal


def _unwritten_elements(result: NDArray[Any]) -> NDArray[Any]:
    """Return a mask of the elements that were never written: each of their bytes still has the value with which Weft
    fills new memory.
    """
    raw = np.ascontiguousarray(result).view(np.uint8).reshape(*result.shape, result.dtype.itemsize)
    unwritten: NDArray[Any] = (raw == POISON).all(axis=-1)
    return unwritten


class Variants:
    """Functions and their callees compiled with other options: sequentially, or with every index checked.

    `rewrite` may give other code for a function, with the global names that the code needs.
    """

    def __init__(self, rewrite: Rewrite = lambda _: None, **options: Any) -> None:
        self._rewrite = rewrite
        self._options = options
        self._made: dict[int, Dispatcher] = {}
        self._keep: list[Dispatcher] = []

    def get_variant(self, dispatcher: Dispatcher) -> Dispatcher:
        """Return the variant of a compiled function: the same function, to be compiled with this object's options, that
        calls the variants of its callees. The variant is made at the first call.
        """
        if id(dispatcher) in self._made:
            return self._made[id(dispatcher)]
        function = dispatcher.py_func
        code, more = self._rewrite(function) or (function.__code__, {})
        known = function.__globals__ | more
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(code, known, function.__name__, function.__defaults__, cells or None)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        options = {**dispatcher.targetoptions, **self._options}
        made = type(dispatcher)(copy, dict(dispatcher.locals), options)
        self._made[id(dispatcher)] = made
        self._keep.append(dispatcher)
        for name in _find_used_names(code):
            if isinstance(known.get(name), Dispatcher):
                known[name] = self.get_variant(known[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            held = original.cell_contents
            cell.cell_contents = self.get_variant(held) if isinstance(held, Dispatcher) else held
        return made


def _find_used_names(code: types.CodeType) -> Iterator[str]:
    """Yield the global names that a code object uses, those of nested functions included."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _find_used_names(one)


def find_callees(dispatcher: Dispatcher) -> Sequence[Dispatcher]:
    """Return a compiled function and all compiled functions that it calls, directly or not."""
    found: list[Dispatcher] = []
    waiting = [dispatcher]
    while waiting:
        one = waiting.pop()
        if any(one is other for other in found):
            continue
        found.append(one)
        function = one.py_func
        held = [function.__globals__.get(name) for name in _find_used_names(function.__code__)]
        for cell in function.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # not filled yet
                continue
        waiting += [other for other in held if isinstance(other, Dispatcher)]
    return found
