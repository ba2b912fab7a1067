"""Record what a Python program does to its shared arrays. Nothing here stops the program."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.halo.cell_geometry import Cells, compute_flat_indices, make_edge_mask, make_shell_mask, owned_ranges
from weft.halo.log import FOLDER, HEAD, MAGIC, MOST, NUMBER, READ, SUFFIX
from weft.native.headers.halo_kinds import HaloKind as Kind

Array = NDArray[Any]
Place = tuple[CodeType, int]
"""The code and the line of an access."""

SHELL: Final = 8
"""Layers at each end of each dimension that are looked at where no widths are declared: 4 of ghosts, as many beside."""
MOST_COPIES: Final = 4
"""Arrays that one line makes of a part."""
_NO_EVENTS: Final = 2**64 - 1
_OWN: Final = ("weft.halo", "numpy")


class Recorder:
    """What the recorder in this process is asked: whether it records, how many calls there were, who has a buffer."""

    def __init__(self) -> None:
        # With the interpreter's lock held: the recorder looks for the Python line under way.
        library = ctypes.PyDLL(None)
        self.moment: Callable[[], int] = library.weft_array_moment
        self.moment.restype = ctypes.c_uint64
        self._accessed = library.weft_array_accessed
        self._accessed.restype = None
        self._held = ctypes.c_uint32.in_dll(library, "weft_array_held")
        self.records = bool(library.weft_array_watch())
        if self.records:
            _keep_freed_memory(library)

    def report_access(self, low: int, item: int, cells: Cells, kind: int) -> None:
        """Report to the recorder of MPI calls that the program reads (1) or writes (2) elements of an array, so that it
        can find races with MPI.
        """
        if not self._held.value:
            return
        offset, shape, strides = cells
        if shape and strides[-1] == item:
            item *= shape[-1]
            shape, strides = shape[:-1], strides[:-1]
        form = ctypes.c_int64 * len(shape)
        self._accessed(
            ctypes.c_void_p(low + offset), ctypes.c_size_t(item), len(shape), form(*shape), form(*strides),
            ctypes.c_uint(kind),
        )  # fmt: skip


def _keep_freed_memory(library: ctypes.PyDLL) -> None:
    """Set the C library's allocator to keep freed memory in the process.

    NumPy computes a + b + c in one temporary array if nothing else uses a + b. With recording arrays each operation
    makes a new array; to return its memory to the system and get it back would take many times as long as the
    operation.
    """
    trim_threshold, mmap_threshold = -1, -3
    with suppress(AttributeError):  # only glibc has it
        library.mallopt(mmap_threshold, 32 << 20)
        library.mallopt(trim_threshold, 128 << 20)


class Log:
    """The file of this process. It ends with the first failure; the program goes on."""

    def __init__(self, run: Path, recorder: Recorder) -> None:
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        name = f"{socket.gethostname()}-{os.getpid()}{SUFFIX}"
        self.recorder = recorder
        self.thread = threading.get_ident()
        self.on = True
        self._file = (folder / name).open("wb", buffering=1 << 16)
        self._file.write(MAGIC)
        self._written = 0
        self._uses: dict[Any, int] = {}
        self.parts = self.runs = self._last = 0
        self._copies: dict[Place, int] = defaultdict(int)
        atexit.register(self._close)
        os.register_at_fork(after_in_child=self.stop)

    def stop(self) -> None:
        """Write nothing any more: a child of the process is not the rank."""
        self.on = False
        self._file = None  # type: ignore[assignment]

    def _close(self) -> None:
        """Write the last record and close the file."""
        with suppress(Exception):
            if self._file:
                self.write_record(Kind.END, b"") if self.on else None
                self._file.close()
        self.on = False

    def give_up(self, reason: str) -> None:
        """Write a reason to the log and stop recording for good: what follows would be incomplete."""
        with suppress(Exception):
            self.write_record(Kind.GAVE_UP, reason.encode(errors="replace"))
            self._file.flush()
        self.on = False

    def is_recording(self) -> bool:
        """Return whether to record an access of the current thread. If it is not the thread that declared the arrays,
        recording ends for good.
        """
        if self.on and threading.get_ident() != self.thread:
            self.give_up("another thread than the one that declared the arrays uses them")
        return self.on

    def is_copy_followed(self, at: Place) -> bool:
        """Return whether one more array that a line makes of a part is to be a part: of many few are."""
        self._copies[at] += 1
        return self._copies[at] <= MOST_COPIES

    def count_calls(self) -> int:
        """Return how many calls of MPI the rank has made."""
        return self.recorder.moment()

    def write_record(self, kind: Kind, payload: bytes, call_count: int | None = None) -> None:
        """Append a record to the log. `call_count`: how many MPI calls came before it; those up to now by default."""
        self._written += HEAD.size + len(payload)
        if self._written > MOST and kind is not Kind.GAVE_UP:
            self.give_up(f"there are more than {MOST >> 20} MB of accesses")
            return
        at = self.recorder.moment() if call_count is None else call_count
        if at == _NO_EVENTS:  # MPI is finalized: nobody gets anything any more
            kind, payload, at, self.on = Kind.END, b"", self._last, False
        self._last = at
        self._file.write(HEAD.pack(kind, len(payload), at) + payload)

    def write_json(self, kind: Kind, fields: dict[str, Any]) -> None:
        """Add a record of facts."""
        self.write_record(kind, json.dumps(fields).encode())

    def find_or_add_use(self, key: Any, make_fields: Callable[[], dict[str, Any]]) -> int:
        """Return the number of the use that has a key. At the first call for a key, the use is added to the log with
        the fields that `make_fields` returns.
        """
        number = self._uses.get(key)
        if number is None:
            number = self._uses[key] = len(self._uses)
            self.write_json(Kind.USE, {"id": number, **make_fields()})
        return number

    def write_run(self, use: int, reads: Sequence[tuple[int, int, int]]) -> None:
        """A use has come once more."""
        self.write_record(Kind.RUN, NUMBER.pack(use, len(reads)) + b"".join(READ.pack(*one) for one in reads))
        self.runs += 1

    def write_values(self, kind: Kind, part: int, values: bytes) -> None:
        """Values of a part have changed."""
        self.write_record(kind, NUMBER.pack(part, 0) + values)


def find_call_site() -> Place:
    """Return (code object, line) of the program's statement that is being executed, outside of Weft and NumPy."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    return frame.f_code, frame.f_lineno


def describe_place(at: Place) -> tuple[str, int, str]:
    """Return file, line and function of a place."""
    return at[0].co_filename, at[1], at[0].co_qualname


_HEAD: Final = object.__basicsize__
_WORD: Final = ctypes.c_size_t.from_address


def _said(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _stored(array: Array) -> int:
    return _WORD(id(array) + _HEAD).value


def _choose_address_reader() -> Callable[[Array], int]:
    """Return the quickest function that reads an array's address. It reads NumPy's object directly if the object has
    the expected layout.
    """
    whole = np.zeros((3, 3))
    some = (whole, whole[1:, 2:], whole[1], np.zeros(()))
    return _stored if all(_stored(one) == _said(one) for one in some) else _said


address: Final = _choose_address_reader()
"""Of an array's first element."""


class SharedPart:
    """An array of this rank with ghost cells around what it owns, and where it lies in memory.

    `halo` None: how wide they are receives tell when the run is over. What may be ghosts, or be copied by neighbours,
    is then looked at together.
    """

    def __init__(self, log: Log, array: Array, facts: dict[str, Any], halo: Sequence[tuple[int, int]] | None) -> None:
        self.log, self.array, self.facts, self.halo = log, array, facts, halo
        self.number = log.parts
        log.parts += 1
        self.low = address(array)
        self.shape, self.strides, self.item = array.shape, array.strides, array.itemsize
        self.high = self.low + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.item
        if halo is None:  # which are ghosts receives tell when the run is over
            self.is_ghost = self.is_edge = make_shell_mask(self.shape, SHELL)
        else:
            self.is_ghost = np.ones(self.shape, bool)
            self.is_ghost[tuple(slice(*one) for one in owned_ranges(self.shape, halo))] = False
            self.is_edge = make_edge_mask(self.shape, halo)
        self.edge, self.ghosts = np.flatnonzero(self.is_edge), np.flatnonzero(self.is_ghost)
        self._numbers = np.arange(array.size).reshape(self.shape)
        self._exact: dict[Kind, bytes] = {}
        self._seen: dict[Kind, bytes] = {}
        self.ghosts_seen = 0
        self._looked = self._unseen = (-1, -1)
        self.changes = 0
        self._meets: dict[tuple[Cells, bool], bool] = {}
        log.write_json(
            Kind.PART,
            {
                "id": self.number, "shape": self.shape, "strides": self.strides, "item": self.item, "halo": halo,
                "pid": os.getpid(), "address": self.low, **({"shell": SHELL} if halo is None else {}), **facts,
            },
        )  # fmt: skip
        self.record_values(Kind.OWNED)
        self.record_ghosts(log.count_calls())

    def make_similar(self, array: Array) -> SharedPart:
        """Return a part for another array of the same form."""
        return SharedPart(self.log, array, {**self.facts, "of": self.facts["of"], "like": self.number}, self.halo)

    def find_cells(self, view: Array) -> Cells | None:
        """Return the elements of a part that an array view covers, as (offset, shape, strides in bytes). Return None if
        the view is elsewhere in memory, or empty.
        """
        low = address(view)
        if not self.low <= low < self.high or not view.size:
            return None
        return low - self.low, view.shape, view.strides

    def contains_ghosts_or_edges(self, cells: Cells, check_ghosts: bool) -> bool:
        """Return whether some of the elements are ghosts (`check_ghosts` true), or cells of which neighbours have
        copies (`check_ghosts` false)."""
        key = (cells, check_ghosts)
        known = self._meets.get(key)
        if known is None:
            which = self.is_ghost if check_ghosts else self.is_edge
            known = self._meets[key] = bool(which.ravel()[self.flat_indices(cells)].any())
        return known

    def flat_indices(self, cells: Cells) -> NDArray[np.int64]:
        """Return numbers of some elements, in the order of memory with the last index fastest."""
        return compute_flat_indices(cells, self.shape, self.strides)

    def record_values(self, kind: Kind, recorded_kind: Kind | None = None) -> None:
        """Record the values of all owned edge cells (`kind` OWNED) or of all ghosts, if the values have changed. The
        record has the kind `recorded_kind`, by default `kind`.
        """
        which = self.edge if kind is Kind.OWNED else self.ghosts
        if not len(which):
            return
        taken = self.array.take(which)
        exact = taken.tobytes()
        if exact == self._exact.get(kind):
            return
        self._exact[kind] = exact
        values = _to_float32(taken).tobytes()
        if values == self._seen.get(kind):
            return
        self._seen[kind] = values
        self.log.write_values(recorded_kind or kind, self.number, values)
        if kind is Kind.GHOSTS or self.halo is None:
            self.ghosts_seen += 1

    def record_ghosts(self, call_count: int) -> int:
        """Record the ghosts' values if they may have changed since the last time, and return how often they have been
        recorded.
        """
        if self._looked != (call_count, self.changes):
            self._looked = (call_count, self.changes)
            self.record_unseen_changes(call_count)
            if self.halo is not None:
                self.record_values(Kind.GHOSTS)
        return self.ghosts_seen

    def record_unseen_changes(self, call_count: int) -> None:
        """Record the values of cells that neighbours have copies of, if they changed without a recorded store: by MPI,
        or through another name of the memory.
        """
        if self._unseen != (call_count, self.changes):
            self._unseen = (call_count, self.changes)
            self.record_values(Kind.OWNED, Kind.UNSEEN)

    def record_store(self, stored_cells: Cells | None) -> None:
        """Record the values after a store. `stored_cells`: which elements; None if that is not known."""
        self.changes += 1
        self.record_values(Kind.OWNED)
        self._unseen = (self.log.count_calls(), self.changes)
        if stored_cells is None or self.contains_ghosts_or_edges(stored_cells, check_ghosts=True):
            self.record_ghosts(self._unseen[0])

    def report_access(self, cells: Cells, kind: int) -> None:
        """Tell the recorder, which knows who has this memory."""
        self.log.recorder.report_access(self.low, self.item, cells, kind)


def _to_float32(values: Array) -> NDArray[np.float32]:
    """Return values as 32-bit floats for the log. A complex number becomes one float, its real part plus a fixed
    multiple of its imaginary part.
    """
    if values.dtype.kind == "c":
        values = values.real + 0.618 * values.imag
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values, np.float32)
