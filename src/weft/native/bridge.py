"""Lets Python call C: structures whose members and functions whose parameters are checked as they are given.

What they are is read from the headers (weft.native.headers, made by generate.py). Where C wants a pointer, an array of
the very type that its header names is taken, in one piece; a structure keeps what it points to alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from weft.native.kernel import load_library

ANY: Final = None
"""What a pointer to bytes, or to what only C knows, points to."""

I8, I16, I32, I64 = (np.dtype(f"<i{n}") for n in (1, 2, 4, 8))
U8, U16, U32, U64 = (np.dtype(f"<u{n}") for n in (1, 2, 4, 8))
F32, F64 = np.dtype("<f4"), np.dtype("<f8")

Target = object  # a dtype, a class of Struct, or ANY
Signature = tuple[object, tuple[object, ...]]


def array_address(array: NDArray[Any], target: Target, receiver: str) -> int:
    """Return the address of an array for C. TypeError if its elements are not of the type that C reads there, or not
    in one piece. `receiver`: the C parameter or member that gets it, for the message."""
    if target is not ANY and array.dtype != target and not (target is U8 and array.dtype == np.bool_):
        raise TypeError(f"{receiver}: C reads {target} there, and not {array.dtype}")
    if not array.flags.c_contiguous:
        raise TypeError(f"{receiver}: C reads a contiguous array there")
    return array.ctypes.data


def _check_structure(value: ctypes.Structure | ctypes.Array[Any], target: Target, receiver: str) -> None:
    """Raise TypeError if a structure, or an array of them, is of another class than C reads there. `receiver`: the C
    parameter or member that gets it, for the message."""
    of = value._type_ if isinstance(value, ctypes.Array) else type(value)
    if isinstance(target, type) and issubclass(target, Struct) and not issubclass(of, target):
        raise TypeError(f"{receiver}: C reads {target.__name__} there, and not {of.__name__}")


class Pointer:
    """A parameter that is a pointer: to an array, a structure or structures, an address, or None."""

    __slots__ = ("_target", "_what")

    def __init__(self, what: str, target: Target) -> None:
        self._what, self._target = what, target

    def from_param(self, value: object) -> object:
        """Return the pointer that ctypes passes to C for a NumPy array or a structure."""
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(array_address(value, self._target, self._what))
        if isinstance(value, ctypes.Structure | ctypes.Array):
            _check_structure(value, self._target, self._what)
            return ctypes.byref(value)
        return ctypes.c_void_p.from_param(value)


class Struct(ctypes.Structure):
    """A structure of a header. All of its members are given by name when it is made, or none: then it is all zeros."""

    _targets_: ClassVar[Mapping[str, Target]] = {}

    def __init__(self, **given: Any) -> None:
        super().__init__()
        if given and len(given) != len(self._fields_):
            missing = [name for name, *_ in self._fields_ if name not in given]
            raise TypeError(f"{type(self).__name__} without {', '.join(missing)}")
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no member {name}")
        if not isinstance(value, int | float | None):
            self.__dict__[f"_{name}"] = value  # kept as long as this points to it
            if name in self._targets_:
                value = self._member_address(name, value)
        super().__setattr__(name, value)

    def copy_with(self, **other: Any) -> Self:
        """Return a copy with other values for some members."""
        made = type(self).from_buffer_copy(self)
        vars(made).update(vars(self))
        for name, value in other.items():
            setattr(made, name, value)
        return made

    def _member_address(self, name: str, value: Any) -> int:
        """Return the address of an array or structure that is given for a pointer member `name`. TypeError if it is
        not of the type that C reads there."""
        what = f"{type(self).__name__}.{name}"
        if isinstance(value, np.ndarray):
            return array_address(value, self._targets_[name], what)
        _check_structure(value, self._targets_[name], what)
        return ctypes.addressof(value)


def as_c_array(structures: Sequence[Struct], struct_class: type[Struct]) -> ctypes.Array[Any]:
    """Return structures as one C array. The array keeps the Python objects alive."""
    array = (struct_class * len(structures))(*structures)
    vars(array)["structures"] = structures
    return array


def array_addresses(arrays: Sequence[NDArray[np.generic] | None], target: Target, receiver: str) -> NDArray[np.uint64]:
    """Return the addresses of several arrays, in the form in which C reads a pointer to pointers; 0 for None.

    The caller must keep the arrays alive.
    """
    return np.array([0 if a is None else array_address(a, target, receiver) for a in arrays], np.uint64)


def bind_functions(functions: Mapping[str, Signature]) -> object:
    """Return the library of C kernels, after setting the result and parameter types of these functions for ctypes."""
    lib = load_library()
    for name, (returns, parameters) in functions.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = returns, parameters
    return lib
