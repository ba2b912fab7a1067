"""Read the values of one process: its places, and what each probe kept. All numbers in the file are checked."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.errors import OtherVersion, TraceError
from weft.native.headers.value_format import (
    STATISTICS,
    VALUE_EXTENT,
    VALUE_PLACE,
    VALUE_PROBE,
    VALUES_BLOCK,
    VALUES_HEADER,
    VALUES_MAGIC,
    VALUES_MAJOR,
    VALUES_MINOR,
    VALUES_PAGE,
    ValueForm,
    ValuesReason,
    ValuesState,
)
from weft.native.headers.values import VALUE_INDEX, VALUE_ITERATION, VALUE_ROW, VALUE_SITE, kernel
from weft.native.headers.weft_array import Order
from weft.safety.folders import open_regular

Box = tuple[tuple[int, int], ...]
"""First index and end in each dimension."""

_FIXED: Final = VALUE_PROBE.itemsize
_STOPS: Final = {
    ValuesReason.DISK: "the disk was full, or a limit on the size of files was reached",
    ValuesReason.LIMIT: "they had reached the limit of {limit:,} bytes (raise `limit` in --probes, or record less)",
    ValuesReason.MEMORY: "the program had no memory left to record them",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A place of the program: a probe, a loop, a region, or the name of a shared array."""

    number: int
    kind: int
    name: str
    file: str
    line: int
    function: str
    callers: tuple[tuple[str, int], ...] = ()
    """Of a place without a line: modules and addresses in them, the innermost first."""

    @property
    def where(self) -> str:
        """Return file and line for people, "" if they are unknown."""
        return f"{Path(self.file).name}:{self.line}" if self.file and self.line else ""


class KeptValue:
    """What a probe kept: row `row` of a process."""

    def __init__(self, process: ProcessValues, row: int) -> None:
        self.process, self.row = process, row
        self._at = int(process.rows["offset"][row])
        self._head = process.records[self._at : self._at + _FIXED].view(VALUE_PROBE)[0]

    @property
    def place(self) -> ValuePlace:
        """The place in the program."""
        return self.process.place(int(self._head["head"]["place"]))

    @property
    def form(self) -> ValueForm:
        """How the elements were kept."""
        return ValueForm(int(self._head["head"]["form"]))

    @property
    def times(self) -> int:
        """Return how often the program had reached this probe before, in this process."""
        return int(self._head["times"])

    @property
    def count(self) -> int:
        """The number of elements."""
        return int(self._head["count"])

    @property
    def terms(self) -> tuple[int, float]:
        """Return (how many, sum of their absolute values) of the terms of a sum, if the program gave them with the
        probe; (0, 0.0) for any other value."""
        return int(self._head["terms"]), float(self._head["scale"])

    @property
    def sum(self) -> int:
        """The sum of the elements' hashes, 0 if there are none."""
        return int(self._head["sum"])

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(f"{chr(int(self._head['type']))}{int(self._head['size'])}")

    @cached_property
    def array(self) -> str:
        """The name of the global array of which the elements are a part, "" for none."""
        number = int(self._head["array"])
        return self.process.place(number).name if number else ""

    @property
    def base(self) -> int:
        """The first index in the program's language: 0 or 1."""
        return 1 if int(self._head["order"]) & Order.FROM_ONE else 0

    @cached_property
    def _extents(self) -> NDArray[Any]:
        dims = int(self._head["dims"])
        return self.process.records[self._at + _FIXED :][: dims * VALUE_EXTENT.itemsize].view(VALUE_EXTENT)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension; () for a single number."""
        return tuple(self._extents["shape"].tolist())

    @cached_property
    def box(self) -> Box:
        """The box of the elements in the global array."""
        lower = self._extents["lower"].tolist()
        return tuple((first, first + n) for first, n in zip(lower, self.shape, strict=True))

    @property
    def _payload(self) -> NDArray[np.uint8]:
        begin = self._at + _FIXED + self._extents.nbytes
        return self.process.records[begin : self._at + int(self._head["head"]["bytes"])]

    @property
    def blocks(self) -> int:
        """The number of blocks with a hash of their own."""
        return -(-self.count // VALUES_BLOCK)

    @property
    def hashes(self) -> NDArray[np.uint64] | None:
        """Return a hash for each block of elements, in memory order; None if no hashes were kept."""
        if self.form not in (ValueForm.HASHES, ValueForm.CHANGES):
            return None
        return self._payload[: self.blocks * 8].view("<u8")

    @property
    def statistics(self) -> NDArray[Any] | None:
        """The record STATISTICS; None if it was not kept."""
        return self._payload[: STATISTICS.itemsize].view(STATISTICS)[0] if self.form == ValueForm.STATISTICS else None

    @property
    def order(self) -> str:
        """Which index runs fastest in memory: F for the first, C for the last."""
        return "F" if int(self._head["order"]) & Order.FIRST_FASTEST else "C"

    def values(self) -> NDArray[Any] | None:
        """Return the elements in their shape; None if only hashes or statistics were kept."""
        if self.form == ValueForm.VALUES:
            flat = self._payload[: self.count * self.dtype.itemsize].view(self.dtype)
        elif self.form == ValueForm.CHANGES:
            flat = self.process.rebuilder.elements_at(self)
        else:
            return None
        return flat.reshape(self.shape, order="F" if self.order == "F" else "C")

    def changed_blocks(self) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return (numbers of the blocks that changed, their elements) of a value that was kept in the form CHANGES."""
        after = self._payload[self.blocks * 8 :]
        count = int(after[:8].view("<u8")[0])
        numbers = after[8 : 8 + count * 8].view("<u8")
        data = after[8 + count * 8 :]
        return numbers, data[: len(data) // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)


class ArrayRebuilder:
    """Rebuild arrays from their changes. The latest state of each probe is cached, and only goes forward."""

    def __init__(self, process: ProcessValues) -> None:
        self._process = process
        self._states: dict[int, tuple[int, NDArray[Any]]] = {}

    def elements_at(self, kept: KeptValue) -> NDArray[Any]:
        """Return all elements of a value that was kept as changes, in memory order. They are rebuilt: all changes that
        the probe recorded, up to this value, are applied one after the other.
        """
        place = kept.place.number
        last, state = self._states.get(place, (-1, np.zeros(0)))
        if last > kept.row:
            last, state = -1, np.zeros(0)
        rows = self._process.rows_of_place(place)
        first, end = np.searchsorted(rows, [last, kept.row], "right")
        for row in rows[first:end].tolist():
            one = KeptValue(self._process, row)
            state = self._apply_changes(one, state) if one.form == ValueForm.CHANGES else state
        self._states[place] = kept.row, state
        return state.copy()

    def _apply_changes(self, kept: KeptValue, state: NDArray[Any]) -> NDArray[Any]:
        """Return the elements of a value: those of `state`, the value before, with the changed blocks written over
        them.
        """
        if len(state) != kept.count or state.dtype != kept.dtype:
            state = np.zeros(kept.count, kept.dtype)
        numbers, data = kept.changed_blocks()
        at = 0
        for number in numbers.tolist():
            first = number * VALUES_BLOCK
            some = min(VALUES_BLOCK, kept.count - first)
            state[first : first + some] = data[at : at + some]
            at += some
        return state


class ProcessValues:
    """The values of one process. TraceError if the file is no file of values."""

    def __init__(self, path: Path, lines: Mapping[str, Any]) -> None:
        self.path = path
        self.problems: list[str] = []
        self._lines = lines
        try:
            with os.fdopen(open_regular(path, path.parents[1]), "rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise TraceError(f"{path} cannot be read: {error}") from error
        whole = np.frombuffer(self._mapped, np.uint8)
        if len(whole) < VALUES_PAGE or bytes(whole[:8]) != VALUES_MAGIC.encode():
            raise TraceError(f"{path} is not a file of values: its first bytes are not {VALUES_MAGIC}")
        self.header = whole[: VALUES_HEADER.itemsize].view(VALUES_HEADER)[0]
        found = int(self.header["major"]), int(self.header["minor"])
        if found != (VALUES_MAJOR, VALUES_MINOR):
            raise OtherVersion(path, "{}.{}".format(*found), f"{VALUES_MAJOR}.{VALUES_MINOR}")
        self.records = whole[VALUES_PAGE:][: self._count_record_bytes(len(whole))]
        self._index_records()

    @property
    def rank(self) -> int:
        """The rank in the world of the run; 0 for a process without a launcher."""
        return max(int(self.header["rank"]), 0)

    def release_pages(self) -> None:
        """Give the pages of the file that were read back to the system; they are read again when they are needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)

    def _count_record_bytes(self, size: int) -> int:
        """Return how many bytes of records the file holds. Note a problem if the file is cut off, or if the recording
        stopped early. `size`: the size of the file in bytes.
        """
        used = int(self.header["used"])
        if used > size - VALUES_PAGE:
            self.problems.append(
                f"{self.path.name} is cut off: its records should have {used:,} bytes, and only "
                f"{size - VALUES_PAGE:,} are there"
            )
            used = (size - VALUES_PAGE) // 8 * 8
        if self.header["state"] == ValuesState.STOPPED:
            why = _STOPS.get(ValuesReason(int(self.header["reason"])), "of an unknown reason")
            self.problems.append(f"values end early: {why.format(limit=int(self.header['limit']))}")
        return used

    def _index_records(self) -> None:
        """Find the records of the file by their kinds, and note a problem if the file is damaged."""
        counts = np.zeros(1, VALUE_INDEX)
        lib = kernel()
        lib.weft_index_values(self.records, len(self.records), counts, None, None, None, None)
        good = int(counts["damaged"][0])
        if good < len(self.records):
            self.problems.append(
                f"{self.path.name} is damaged from byte {VALUES_PAGE + good:,} on: Weft reads only what comes before"
            )
            self.records = self.records[:good]
            lib.weft_index_values(self.records, good, counts, None, None, None, None)
        known = counts[0]
        self._sites = np.zeros(int(known["places"]), VALUE_SITE)
        self.iterations = np.zeros(int(known["iterations"]), VALUE_ITERATION)
        self.rows = np.zeros(int(known["probes"]), VALUE_ROW)
        problems = np.zeros(int(known["problems"]), np.uint64)
        lib.weft_index_values(self.records, good, counts, self._sites, self.iterations, self.rows, problems)
        for offset in problems.tolist():
            self.problems.append(self._describe_problem(offset))

    def _describe_problem(self, offset: int) -> str:
        """Return a sentence that says why a probe kept nothing, from the record at an offset of the file."""
        head = self.records[offset : offset + 16]
        place = self.place(int(head[4:8].view("<u4")[0]))
        text = bytes(self.records[offset + 16 : offset + int(head[8:16].view("<u8")[0])]).rstrip(b"\0")
        at = f" at {place.where}" if place.where else ""
        return f"the probe {place.name!r}{at} recorded nothing: {text.decode(errors='replace')}"

    @cached_property
    def places(self) -> list[ValuePlace]:
        """All places, in the order of first use."""
        return [self._read_place(number, int(offset)) for number, offset in enumerate(self._sites["offset"], 1)]

    def place(self, number: int) -> ValuePlace:
        """Return a place by its number, from 1 on."""
        return self.places[number - 1]

    def _read_place(self, number: int, offset: int) -> ValuePlace:
        """Return the place (name, source line, function, callers) that the record at an offset describes."""
        body = self.records[offset : offset + VALUE_PLACE.itemsize].view(VALUE_PLACE)[0]
        texts = bytes(self.records[offset + VALUE_PLACE.itemsize : offset + int(body["head"]["bytes"])])
        name, file, function, rest = texts.split(b"\0", 3)
        words = [text.decode(errors="replace") for text in (name, file, function)]
        words[1] = "" if words[1].startswith(("@", "=")) else words[1]
        line = int(body["line"])
        if str(number) in self._lines:
            words[1], line, words[2] = self._lines[str(number)]
        callers = _parse_callers(rest) if not line else ()
        return ValuePlace(number, int(body["kind"]), words[0], words[1], line, words[2], callers)

    def value_at(self, row: int) -> KeptValue:
        """Return what a probe kept, by its row."""
        return KeptValue(self, row)

    @cached_property
    def rebuilder(self) -> ArrayRebuilder:
        """Return the object that rebuilds arrays of which only changes were kept."""
        return ArrayRebuilder(self)

    def scopes_around(self, parent: int) -> list[tuple[ValuePlace, int]]:
        """Return the loops and regions around a value as (place, iteration), the outermost first. `parent`: the row of
        the innermost one in `iterations`.
        """
        found = []
        while parent >= 0:
            one = self.iterations[parent]
            found.append((self.place(int(one["place"])), int(one["index"])))
            parent = int(one["parent"])
        return found[::-1]

    def rows_of_place(self, place: int) -> NDArray[np.int64]:
        """Return the row numbers, in `rows`, of what the probe at a place recorded, in order. `place`: the place's
        number.
        """
        if place not in self._by_place:
            self._by_place[place] = np.flatnonzero(self.rows["place"] == place)
        return self._by_place[place]

    @cached_property
    def _by_place(self) -> dict[int, NDArray[np.int64]]:
        return {}


def _parse_callers(rest: bytes) -> tuple[tuple[str, int], ...]:
    """Return (module, address) for each caller that a place's record has after its texts; () if it has none."""
    if len(rest) < 8:
        return ()
    found, at = [], 8
    for _ in range(min(int.from_bytes(rest[:8], "little"), 16)):
        end = rest.find(b"\0", at + 8)
        if end < 0:
            break
        found.append((rest[at + 8 : end].decode(errors="replace"), int.from_bytes(rest[at : at + 8], "little")))
        at = end + 1
    return tuple(found)
