"""Write an OTF2 archive with the library of the Python package `otf2`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import _otf2
import numpy as np
from _otf2.Config import conf
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.export.otf2.definitions import SITE_ATTRIBUTE, Definitions
from weft.native.headers.otf2 import Otf2, kernel

CHUNK: Final = 1 << 20
"""Bytes of events that the library holds for a location before it writes them."""

_NAME: Final = "traces"
_MARKER: Final = 0
_CALLS: Final = (
    "Enter", "Leave", "MpiSend", "MpiIsend", "MpiIsendComplete", "MpiIrecvRequest", "MpiRecv", "MpiIrecv",
    "MpiCollectiveBegin", "MpiCollectiveEnd", "NonBlockingCollectiveRequest", "NonBlockingCollectiveComplete",
    "RmaWinCreate", "RmaWinDestroy", "RmaCollectiveBegin", "RmaCollectiveEnd", "RmaPut", "RmaGet", "RmaAtomic",
    "RmaOpCompleteRemote", "RmaRequestLock", "RmaAcquireLock", "RmaReleaseLock",
)  # fmt: skip
"""The functions OTF2_EvtWriter_... by kind of row."""


def _function_address(name: str) -> int:
    return int(ctypes.cast(getattr(conf.lib, name), ctypes.c_void_p).value or 0)


class _LibraryErrors:
    """The errors that the OTF2 library reports while it writes.

    The library returns success even if a chunk could not be written to the disk, and reports the error only here. The
    last parameter of the callback is a va_list, which both x86-64 and AArch64 pass as an address; it is not read.
    """

    _Callback: Final = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int,
        ctypes.c_char_p, ctypes.c_void_p,
    )  # fmt: skip

    def __init__(self) -> None:
        self.first: str | None = None
        self._callback = self._Callback(self._record_error)
        self._register = conf.lib.OTF2_Error_RegisterCallback
        self._register.argtypes, self._register.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
        self._before = self._register(ctypes.cast(self._callback, ctypes.c_void_p), None)

    def _record_error(self, _: Any, file: bytes, line: int, function: bytes, code: int, *__: object) -> int:
        """Store the first error that the OTF2 library reports. The library calls this function."""
        self.first = self.first or _otf2.Error_GetDescription(_otf2.ErrorCode(code)) or f"error {code}"
        return code

    def close(self) -> None:
        """Let the library print its errors again."""
        self._register(self._before, None)


class Archive:
    """An archive in a new folder, closed at the end of the block. WeftError if it cannot be written."""

    def __init__(self, folder: Path, length_ns: int, start_ns: int) -> None:
        self._length_ns, self._start_ns = length_ns, start_ns
        self._errors = _LibraryErrors()
        self._writers: dict[int, object] = {}
        self._archive = _otf2.Archive_Open(
            str(folder), _NAME, _otf2.FILEMODE_WRITE, CHUNK, 4 * CHUNK, _otf2.SUBSTRATE_POSIX, _otf2.COMPRESSION_NONE
        )
        # Kept: the library calls it whenever a chunk is full.
        self._flush = _otf2.FlushCallbacks(pre_flush=lambda *_: _otf2.FLUSH, post_flush=None)
        _otf2.Archive_SetFlushCallbacks(self._archive, self._flush, None)
        _otf2.Archive_SetSerialCollectiveCallbacks(self._archive)
        _otf2.Archive_SetCreator(self._archive, "Weft")
        _otf2.Archive_OpenEvtFiles(self._archive)
        _otf2.Archive_OpenDefFiles(self._archive)
        self._markers: Any = None
        self._functions = np.array([_function_address(f"OTF2_EvtWriter_{name}") for name in _CALLS], np.uint64)
        self._list = _otf2.AttributeList_New()
        self._library = Otf2(
            write=self._functions, site=_function_address("OTF2_AttributeList_AddSourceCodeLocationRef"),
            list=ctypes.cast(self._list, ctypes.c_void_p).value, attribute=SITE_ATTRIBUTE,
        )  # fmt: skip

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
        except _otf2.Error as failure:
            self._errors.first = self._errors.first or str(failure)
        finally:
            self._errors.close()
        if self._errors.first and not isinstance(error, WeftError):
            raise WeftError(f"the OTF2 library cannot write the archive: {self._errors.first}") from error

    def _close(self) -> None:
        """Close the archive's writers, and then the archive."""
        self.close_locations(list(self._writers))
        if self._markers is not None:
            _otf2.Archive_CloseMarkerWriter(self._archive, self._markers)
        _otf2.AttributeList_Delete(self._list)
        _otf2.Archive_CloseDefFiles(self._archive)
        _otf2.Archive_CloseEvtFiles(self._archive)
        _otf2.Archive_Close(self._archive)

    def write_rows(self, location_number: int, rows: NDArray[np.void]) -> int:
        """Write records of one location (a thread) to the archive, in their order, and return their number. `rows`: of
        the dtype records.ROW. WeftError if the OTF2 library refuses one.
        """
        writer = self._writer(location_number)
        written = kernel().weft_write_otf2(self._library, writer, np.ascontiguousarray(rows), len(rows))
        if written != len(rows):
            why = self._errors.first or "it gives no reason"
            raise WeftError(f"the OTF2 library cannot write record {written:,} of location {location_number}: {why}")
        return written

    def _writer(self, location: int) -> object:
        if location not in self._writers:
            self._writers[location] = _otf2.Archive_GetEvtWriter(self._archive, location)
        return self._writers[location]

    def close_locations(self, locations: Iterable[int]) -> None:
        """Close the event files of some locations (threads), with all events written. A location without events gets an
        empty file, which readers need.
        """
        for location in locations:
            # Readers want a file of each location, with events or without.
            _otf2.Archive_CloseEvtWriter(self._archive, self._writer(location))
            del self._writers[location]

    def mark_open_call(self, text: str, start_ns: int, end_ns: int, location: int) -> None:
        """Write a marker over the interval in which a location (a thread) was in a call that never returned."""
        if self._markers is None:
            self._markers = _otf2.Archive_GetMarkerWriter(self._archive)
            _otf2.MarkerWriter_WriteDefMarker(
                self._markers, _MARKER, "Weft", "a call that never returned", _otf2.SEVERITY_HIGH
            )
        _otf2.MarkerWriter_WriteMarker(
            self._markers, start_ns, end_ns - start_ns, _MARKER, _otf2.MARKER_SCOPE_LOCATION, location, text
        )

    def write_definitions(self, definitions: Definitions) -> None:
        """Write the definitions (names of ranks, functions, communicators and so on). To be called after all events
        were written.
        """
        for location in definitions.all_locations():
            # Readers look for a file of definitions of each location.
            writer = _otf2.Archive_GetDefWriter(self._archive, location)
            _otf2.Archive_CloseDefWriter(self._archive, writer)
        writer = _otf2.Archive_GetGlobalDefWriter(self._archive)
        _otf2.GlobalDefWriter_WriteClockProperties(writer, 10**9, 0, self._length_ns, max(self._start_ns, 0))
        definitions.write_all(writer)
        _otf2.Archive_CloseGlobalDefWriter(self._archive, writer)
