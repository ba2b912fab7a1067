"""What one probe kept at one moment: numbers, or hashes or statistics of them, and where they lie in a global array."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.native.headers.value_format import (
    STATISTICS,
    VALUE_EXTENT,
    VALUE_PROBE,
    VALUES_BLOCK,
    ValueForm,
)  # fmt: skip
from weft.native.headers.weft_array import Order

if TYPE_CHECKING:
    from weft.values.trace import Place, Process

Box = tuple[tuple[int, int], ...]
"""First index and end in each dimension."""

_FIXED: Final = VALUE_PROBE.itemsize


class Kept:
    """What a probe kept: row `row` of a process."""

    def __init__(self, process: Process, row: int) -> None:
        self.process, self.row = process, row
        self._at = int(process.rows["offset"][row])
        self._head = process.records[self._at : self._at + _FIXED].view(VALUE_PROBE)[0]

    @property
    def place(self) -> Place:
        """Where in the program."""
        return self.process.place(int(self._head["head"]["place"]))

    @property
    def form(self) -> ValueForm:
        """How the elements were kept."""
        return ValueForm(int(self._head["head"]["form"]))

    @property
    def times(self) -> int:
        """How often the program had been at this probe before, in this process."""
        return int(self._head["times"])

    @property
    def count(self) -> int:
        """How many elements it had."""
        return int(self._head["count"])

    @property
    def terms(self) -> tuple[int, float]:
        """Of a sum whose terms the program named: how many, and the sum of their magnitudes."""
        return int(self._head["terms"]), float(self._head["scale"])

    @property
    def sum(self) -> int:
        """The sum of the elements' hashes, 0 where none were made."""
        return int(self._head["sum"])

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(f"{chr(int(self._head['type']))}{int(self._head['size'])}")

    @cached_property
    def array(self) -> str:
        """The name of the global array that these are a part of, "" for none."""
        number = int(self._head["array"])
        return self.process.place(number).name if number else ""

    @property
    def base(self) -> int:
        """What the program calls the first index."""
        return 1 if int(self._head["order"]) & Order.FROM_ONE else 0

    @cached_property
    def _extents(self) -> NDArray[Any]:
        dims = int(self._head["dims"])
        return self.process.records[self._at + _FIXED :][: dims * VALUE_EXTENT.itemsize].view(VALUE_EXTENT)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many elements in each dimension; () for a single number."""
        return tuple(self._extents["shape"].tolist())

    @cached_property
    def box(self) -> Box:
        """Where in the global array."""
        lower = self._extents["lower"].tolist()
        return tuple((first, first + n) for first, n in zip(lower, self.shape, strict=True))

    @property
    def _payload(self) -> NDArray[np.uint8]:
        begin = self._at + _FIXED + self._extents.nbytes
        return self.process.records[begin : self._at + int(self._head["head"]["bytes"])]

    @property
    def blocks(self) -> int:
        """How many blocks have a hash of their own."""
        return -(-self.count // VALUES_BLOCK)

    @property
    def hashes(self) -> NDArray[np.uint64] | None:
        """A hash for each block of elements in the order of memory, None where there are none."""
        if self.form not in (ValueForm.HASHES, ValueForm.CHANGES):
            return None
        return self._payload[: self.blocks * 8].view("<u8")

    @property
    def statistics(self) -> NDArray[Any] | None:
        """What STATISTICS names, None where it was not kept."""
        return self._payload[: STATISTICS.itemsize].view(STATISTICS)[0] if self.form == ValueForm.STATISTICS else None

    @property
    def order(self) -> str:
        """Which index runs fastest in what is kept: F for the first, C for the last."""
        return "F" if int(self._head["order"]) & Order.FIRST_FASTEST else "C"

    def values(self) -> NDArray[Any] | None:
        """The elements in their shape, None where only hashes or statistics were kept."""
        if self.form == ValueForm.VALUES:
            flat = self._payload[: self.count * self.dtype.itemsize].view(self.dtype)
        elif self.form == ValueForm.CHANGES:
            flat = self.process.rebuilt.at(self)
        else:
            return None
        return flat.reshape(self.shape, order="F" if self.order == "F" else "C")

    def changed(self) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Of the form CHANGES: the numbers of the blocks that are there, and their elements."""
        after = self._payload[self.blocks * 8 :]
        count = int(after[:8].view("<u8")[0])
        numbers = after[8 : 8 + count * 8].view("<u8")
        data = after[8 + count * 8 :]
        return numbers, data[: len(data) // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)


class Rebuilt:
    """Arrays put together again from their changes: the newest state of each probe, which only goes forward."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._states: dict[int, tuple[int, NDArray[Any]]] = {}

    def at(self, kept: Kept) -> NDArray[Any]:
        """All elements, in the order of memory."""
        place = kept.place.number
        last, state = self._states.get(place, (-1, np.zeros(0)))
        if last > kept.row:
            last, state = -1, np.zeros(0)
        rows = self._process.rows_of(place)
        first, end = np.searchsorted(rows, [last, kept.row], "right")
        for row in rows[first:end].tolist():
            one = Kept(self._process, row)
            state = self._changed(one, state) if one.form == ValueForm.CHANGES else state
        self._states[place] = kept.row, state
        return state.copy()

    def _changed(self, kept: Kept, state: NDArray[Any]) -> NDArray[Any]:
        if len(state) != kept.count or state.dtype != kept.dtype:
            state = np.zeros(kept.count, kept.dtype)
        numbers, data = kept.changed()
        at = 0
        for number in numbers.tolist():
            first = number * VALUES_BLOCK
            some = min(VALUES_BLOCK, kept.count - first)
            state[first : first + some] = data[at : at + some]
            at += some
        return state
