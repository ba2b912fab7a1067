"""The runtime of the check in this process: dataparallel/native, and what numba.c there wants to know."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.native.bridge import as_c_array
from weft.native.headers import numba
from weft.numba.instrument import IterationAddresses

if TYPE_CHECKING:
    from weft.numba.own import OwnElements
    from weft.numba.spans import BoundSum, ValueRange

SCHEDULER: Final = {"numba_parallel_for": "weft_numba_parallel_for", "get_thread_id": "weft_numba_thread_id"}
"""Symbols of Numba's scheduler, and what stands in for them."""

ALLOCATOR: Final = {
    **{
        f"MemInfo_{name}": name
        for name in (
            "alloc",
            "alloc_safe",
            "alloc_aligned",
            "alloc_safe_aligned",
            "alloc_dtor",
            "alloc_dtor_safe",
            "new_varsize",
            "new_varsize_dtor",
            "varsize_alloc",
            "varsize_realloc",
            "varsize_free",
            "call_dtor",
        )
    },
    "Allocate": "allocate",
    "Free": "release",
}
"""Functions of NRT (NRT_...), and which weft_numba_... stand in for them, in the order of numba.c's Runtime."""

HOOKS: Final = (
    "weft_numba_read",
    "weft_numba_write",
    "weft_numba_read_given",
    "weft_numba_write_given",
    "weft_numba_read_masked",
    "weft_numba_write_masked",
    "weft_numba_read_lane",
    "weft_numba_write_lane",
    "weft_numba_note_outside_index",
    "weft_numba_enter_loop",
    "weft_numba_leave_loop",
)
"""What compiled code calls."""

VECTORS: Final = ("weft_numba_read", "weft_numba_write")
"""Those of HOOKS that have a `_wide` of their own for processors with AVX2."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel; see numba.c."""

    kind: int
    data: int = 0
    element: int = 0
    real: int = 0
    stride: int = 0
    dimensions: tuple[int, ...] = ()
    integer: bool = False
    """A number of 8 bytes."""


class Loop:
    """A parallel loop as numba.c reads it; it must live as long as the compiled code."""

    def __init__(self, construct: int, checked: bool, rank: int, arguments: Sequence[Argument]) -> None:
        size = ctypes.sizeof(numba.Loop) + len(arguments) * ctypes.sizeof(numba.Argument)
        self._memory = ctypes.create_string_buffer(size)
        self._head = numba.Loop.from_buffer(self._memory)
        self._head.construct, self._head.checked = construct, checked
        self._head.rank, self._head.count = rank, len(arguments)
        behind = ctypes.sizeof(numba.Loop)
        self._each = each = (numba.Argument * len(arguments)).from_buffer(self._memory, behind)
        for place, one in zip(each, arguments, strict=True):
            place.kind, place.data, place.element = one.kind, one.data, one.element
            place.real, place.stride, place.rank, place.stored = one.real, one.stride, len(one.dimensions), 1
            place.dimension[: len(one.dimensions)] = one.dimensions
        self._numbers = [one.integer for one in arguments]
        self.scheduled = False
        """Whether its body asks how the iterations are dealt out."""

    @property
    def address(self) -> int:
        """Return the address of the loop's description for the runtime."""
        return ctypes.addressof(self._memory)

    @property
    def checked(self) -> bool:
        """Return whether the user wrote the loop, so that its iterations are checked."""
        return bool(self._head.checked)

    def set_places(self, sites: Sequence[int]) -> None:
        """Give the runtime the ids of the places of the loop's accesses, in ascending order."""
        self._head.sites, self._head.site = len(sites), np.array(sites, np.int32)

    def set_owned_arguments(
        self, elements_by_argument: Mapping[int, OwnElements], argument_numbers: Mapping[str, int]
    ) -> None:
        """Tell the runtime for which array arguments no two iterations of the loop use the same element, and the ranges
        of their indices. An array is left out if the runtime cannot know these ranges.

        `elements_by_argument` has the number of an argument, from 1, as its key; `argument_numbers`: name -> number.
        """
        bounds = []
        for number, uses in elements_by_argument.items():
            ends = [self._make_bound(number, d, span, argument_numbers) for d, span in uses.places]
            held = [one for one in ends if one is not None]
            if len(held) == len(ends):
                self._each[number - 1].own = 2 if uses.read else 1
                bounds += held
        self._head.bound, self._head.bounds = as_c_array(bounds, numba.Bound), len(bounds)

    def _make_bound(
        self, argument_number: int, dimension: int, span: ValueRange, argument_numbers: Mapping[str, int]
    ) -> numba.Bound | None:
        """Return the runtime's description of the range in which an argument's index lies in one dimension. Return None
        if the runtime cannot know the ends of the range.
        """
        low, high = self._find_term(span.low, argument_numbers), self._find_term(span.high, argument_numbers)
        if low is None or high is None or dimension >= self._each[argument_number - 1].rank:
            return None
        return numba.Bound(
            argument=argument_number - 1,
            dimension=dimension,
            low_term=span.low.term,
            low_of=low,
            high_term=span.high.term,
            high_of=high,
            low=span.low.constant,
            high=span.high.constant,
        )

    def _find_term(self, end: BoundSum, argument_numbers: Mapping[str, int]) -> int | None:
        """Return where the runtime finds the variable part of a range's end: the number of a loop index or an argument,
        or the number that the array's dimension has in the loop. None if the runtime does not have the value.
        """
        if end.term not in {numba.OF_EXTENT, numba.OF_VALUE}:
            return end.number
        number = argument_numbers.get(end.name)
        if number is None:
            return None
        if end.term == numba.OF_VALUE:
            return number if self._numbers[number - 1] else None
        array = self._each[number - 1]
        return int(array.dimension[end.number]) if end.number < array.rank else None

    def set_guards(self, guards_address: int, stored_arguments: Collection[int] | None) -> None:
        """Give the runtime the address of the kernel's guards, and the numbers of the arguments to which the kernel
        writes. A guard is a byte for each argument (the schedule's is first): while it is 0, accesses to the argument
        are not checked. Nothing is set if `stored_arguments` is None.
        """
        if stored_arguments is not None:
            self._head.guards = guards_address
            for number, one in enumerate(self._each, 1):
                one.stored = number in stored_arguments

    @property
    def depends_on_threads(self) -> bool:
        """Return whether the loop's body asks for its thread or its schedule, so that results may depend on them."""
        return bool(self._head.by_thread) or self.scheduled

    def note_asks_for_thread(self) -> None:
        """Note that the loop's body asks for the number of its thread."""
        self._head.by_thread = 1


class Runtime:
    """The runtime library of the check, loaded into this process."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path.resolve()))
        self._library.weft_numba_take_magnitude.restype = ctypes.c_double
        self._library.weft_numba_take_outside_count.restype = ctypes.c_int64
        self._library.weft_numba_count_faults.restype = ctypes.c_uint64
        python = ctypes.pythonapi
        self._library.weft_numba_set_python_functions(
            python.PyGILState_Ensure, python.PyGILState_Release, python.PyErr_Clear
        )

    def address(self, name: str) -> int:
        """Return the address of a function of the library."""
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0

    def find_iteration_addresses(self) -> IterationAddresses:
        """Return the addresses of the runtime's data from which compiled code finds out which iteration of which loop
        runs.
        """
        each = ("weft_now", "weft_numba_loops_run", "weft_numba_known")
        cells = (ctypes.c_uint64 * 2).in_dll(self._library, "weft_numba_cells")
        return IterationAddresses(
            *cells, *(ctypes.addressof(ctypes.c_char.in_dll(self._library, name)) for name in each)
        )

    def find_symbols(self, numba_functions: dict[str, int]) -> dict[str, int]:
        """Return name -> address for the functions that compiled code calls and the runtime has. The runtime gets the
        addresses of the functions that it replaces; `numba_functions`: name -> address in Numba's own runtime (NRT).
        """
        real = (ctypes.c_void_p * len(ALLOCATOR))(*(numba_functions.get(name) for name in ALLOCATOR))
        self._library.weft_numba_runtime(ctypes.byref(real))
        wide = VECTORS if self._library.weft_numba_wide() else ()
        return {
            **{name: self.address(f"{name}_wide" if name in wide else name) for name in HOOKS},
            **{name: self.address(own) for name, own in SCHEDULER.items()},
            **{
                f"NRT_{name}": self.address(f"weft_numba_{own}")
                for name, own in ALLOCATOR.items()
                if name in numba_functions
            },
        }

    def follow_new_memory(self, on: bool) -> None:
        """Set whether memory that Numba's runtime gives out counts as uninitialised from now on."""
        self._library.weft_numba_follow_memory(int(on))

    def check_accesses(self, on: bool) -> None:
        """Set whether loops and accesses are checked from now on."""
        self._library.weft_numba_watch(int(on))

    def report_bounds(self, on: bool) -> None:
        """Set whether an index outside its bounds becomes a finding; else it is only counted."""
        self._library.weft_numba_report_bounds(int(on))

    def count_indices_outside(self) -> int:
        """Return the number of indices outside their bounds since the last call."""
        return int(self._library.weft_numba_take_outside_count())

    def count_access_faults(self) -> int:
        """Return the number of reads of memory without a value and of dependences so far, in all loops."""
        return int(self._library.weft_numba_count_faults())

    def magnitude(self) -> float:
        """Return the largest sum of the absolute values of a reduction's partial results since the last call."""
        return float(self._library.weft_numba_take_magnitude())

    def flush(self) -> None:
        """Write the findings so far to their file."""
        self._library.weft_check_flush()


def describe_value(object_: Any) -> str:
    """Return a value as text for a message: a number as Python writes it, at most 60 characters."""
    text = repr(object_.item() if isinstance(object_, np.generic) else object_)
    return text if len(text) <= 60 else text[:57] + "..."
