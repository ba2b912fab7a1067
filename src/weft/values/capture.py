"""Pass the values of a Python program's probes to the native capture. No error here stops the program."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.native.headers.value_format import VALUES_DIMS, PlaceKind
from weft.native.headers.weft_array import Array, Order
from weft.values.array_part import ArrayPart

_KINDS: Final = "iufcb"
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "weft_values_place": (
        ctypes.c_uint32, (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_char_p)
    ),
    "weft_values_nest": (None, (ctypes.c_uint32, ctypes.c_int64)),
    "weft_values_leave": (None, (ctypes.c_uint32,)),
    "weft_values_probe": (None, (ctypes.c_uint32, ctypes.c_void_p)),
    "weft_values_complain": (None, (ctypes.c_uint32, ctypes.c_char_p)),
}  # fmt: skip


class UnfitValue(Exception):
    """A probe cannot keep this value; the message says why."""


def begin_capture(library_path: str) -> Capture | None:
    """Load the native library at `library_path`, and return the Capture by which this process records values. In
    os.environ, note that the values are this process's, for children. None in a child process of a rank, or if the
    library cannot be loaded.
    """
    try:
        library = ctypes.CDLL(library_path)
        give = library.weft_values_entries
        for name, (returns, parameters) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = returns, parameters
    except (OSError, AttributeError):
        return None
    give.restype = ctypes.c_void_p
    kept = give()
    # The native side has said whose values these are; children that get os.environ are to see it.
    os.environ["WEFT_INTERNAL_VALUES_OWNER"] = str(os.getpid())
    return Capture(library) if kept else None


class Capture:
    """Keep values of this process: what the probes call."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._places: dict[tuple[int, str, CodeType, int], int] = {}

    def enter(self, name: str, index: int | None, frame: FrameType) -> int:
        """Record that an iteration of a loop begins, or with `index` None a region. Return the number of its place in
        the program, which `leave` needs; 0 if that failed.
        """
        place = 0
        with suppress(Exception):
            kind = PlaceKind.REGION if index is None else PlaceKind.LOOP
            place = self._place_number(kind, name, frame)
            self._library.weft_values_nest(place, 0 if index is None else int(index))
        return place

    def leave(self, place: int) -> None:
        """Leave the iteration or region of a place."""
        self._library.weft_values_leave(place)

    def probe(self, name: str, value: object, terms: object, frame: FrameType) -> None:
        """Record a value under a name, or the reason why it cannot be recorded. The program goes on in any case."""
        place = 0
        try:
            place = self._place_number(PlaceKind.PROBE, name, frame)
            array, given = _to_native_array(value)
            if terms is not None:
                array.terms, array.scale = _count_and_scale(terms)
            self._library.weft_values_probe(place, ctypes.addressof(array))
            del given  # alive until here: C has read it
        except UnfitValue as error:
            self._library.weft_values_complain(place, str(error).encode(errors="replace"))
        except Exception as error:  # the program goes on, whatever is wrong here
            with suppress(Exception):
                self._library.weft_values_complain(
                    place, f"{type(error).__name__}: {error}"[:400].encode(errors="replace")
                )

    def complain(self, name: str, why: str, frame: FrameType) -> None:
        """Record why nothing can be kept under a name."""
        place = self._place_number(PlaceKind.PROBE, name, frame)
        self._library.weft_values_complain(place, why[:400].encode(errors="replace"))

    def _place_number(self, kind: PlaceKind, name: str, frame: FrameType) -> int:
        """Return the library's number of a place in the program: a kind and a name at a line of code. A new place is
        registered.
        """
        key = (int(kind), name, frame.f_code, frame.f_lineno)
        known = self._places.get(key)
        if known is None:
            code = frame.f_code
            texts = [str(text).replace("\0", "?").encode(errors="replace") for text in (name, code.co_filename)]
            function = code.co_qualname.encode(errors="replace")
            known = int(self._library.weft_values_place(int(kind), *texts, frame.f_lineno, function))
            self._places[key] = known
        return known


def _to_native_array(value: object) -> tuple[Array, NDArray[Any]]:
    """Return (the structure that C reads, the array that owns its memory) for a value. UnfitValue if it cannot be
    recorded.
    """
    shared = value.weft_shared() if hasattr(value, "weft_shared") else None
    value = ArrayPart(*shared) if shared else value
    of, lower, whole = (value.of, value.lower, value.whole) if isinstance(value, ArrayPart) else (None, 0, None)
    given = _to_numbers(value.values if isinstance(value, ArrayPart) else value)
    if given.ndim > VALUES_DIMS:
        raise UnfitValue(f"it has {given.ndim} dimensions, and Weft records at most {VALUES_DIMS}")
    array = Array()
    array.data = given.ctypes.data
    array.type, array.size, array.dims = ord(given.dtype.kind), given.dtype.itemsize, given.ndim
    array.order = Order.FIRST_FASTEST if given.flags.f_contiguous and not given.flags.c_contiguous else 0
    array.shape[: given.ndim], array.stride[: given.ndim] = given.shape, given.strides
    if of is not None:
        array.lower[: given.ndim] = _to_indices(lower, given, "lower")
        array.whole[: given.ndim] = _to_indices(0 if whole is None else whole, given, "whole")
        array.of = np.frombuffer(of.replace("\0", "?").encode(errors="replace") + b"\0", np.uint8)
    return array, given


def _to_numbers(value: object) -> NDArray[Any]:
    """Return a value as an array of numbers. UnfitValue if it is none."""
    given = np.asarray(value)
    if given.dtype.kind not in _KINDS:
        raise UnfitValue(f"it is of type {type(value).__name__}, and Weft records numbers only")
    if given.dtype.kind == "f" and given.dtype.itemsize == 2:
        return given.astype(np.float32)  # C has no such type
    return given if given.dtype.isnative else given.astype(given.dtype.newbyteorder("="))


def _to_indices(setting: Any, array: NDArray[Any], setting_name: str) -> list[int]:
    """Return one index for each dimension of an array; a single 0 stands for zeros in all dimensions. `setting_name`:
    the name of the setting, for messages. Raises UnfitValue if `setting` has another number of indices than the array
    has dimensions.
    """
    known = [int(one) for one in np.atleast_1d(setting)]
    if known == [0]:
        known = [0] * array.ndim
    if setting_name == "lower" and -1 in known:
        raise UnfitValue(
            f"its shape {array.shape} is not that of this rank's block: name its first global index with lower="
        )
    if len(known) != array.ndim:
        raise UnfitValue(f"{setting_name} has {len(known)} numbers, but the array has {array.ndim} dimensions")
    return known


def _count_and_scale(terms: object) -> tuple[int, float]:
    given = np.asarray(terms)
    return min(given.size, 2**32 - 1), float(np.abs(given).sum(dtype=np.float64))
