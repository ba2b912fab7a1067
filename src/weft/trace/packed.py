"""The records of many ranks in one file, RUN/ranks/N.pack: 10,000 ranks are not 10,000 files.

A pack begins with HEAD. After it come the streams, each in one piece, then the index, compressed: for each rank its
name, the beginning of its header (all before the chunk table) and its streams. Definitions say mostly the same in all
ranks: they are compressed by those of the first one. Calls are as they were: read in place, without a copy.
"""

from __future__ import annotations

import os
import re
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import OtherVersion, RunError
from weft.trace import layout
from weft.trace.layout import StreamKind
from weft.trace.mapping import Extent, copy_extents, map_extents
from weft.trace.rankfile import RankFile, open_record
from weft.trace.rings.chunks import decode_dropped_calls

SUFFIX: Final = ".pack"
MAGIC: Final = b"weftpack"
VERSION: Final = 1
HEAD: Final = np.dtype(
    [("magic", "S8"), ("version", "<u4"), ("ranks", "<u4"), ("index", "<u8"), ("stored", "<u8"), ("size", "<u8"),
     ("streams", "<u8"), ("words", "<u8"), ("words_size", "<u8")]
)  # fmt: skip
"""`index`: its place, its length as stored and by itself. `words`: where the dictionary is by which definitions are
compressed.
"""
BEGINNING: Final = int(layout.HEADER.fields["chunks"][1])  # type: ignore[index]
RANK: Final = np.dtype(
    [("name", "S120"), ("header", f"V{BEGINNING}"), ("size", "<u8"), ("first", "<u4"), ("count", "<u4")]
)
STREAM: Final = np.dtype(
    [("kind", "<u2"), ("thread", "<u2"), ("packed", "<u4"), ("offset", "<u8"), ("stored", "<u8"), ("size", "<u8"),
     ("nibbles", "<u8")]
)  # fmt: skip
ALIGNED: Final = 64
SMALL: Final = (int(StreamKind.DEFINITIONS), int(StreamKind.BEFORE))
"""The kinds of streams that are compressed."""
MOST_INDEX: Final = 256 << 20
MOST_UNPACKED: Final = 64 << 20
"""Bytes of one stream that is compressed; a larger one is not."""
WORDS: Final = 32 << 10
"""What zlib looks back to."""
NAME: Final = re.compile(r"[\w.-]{1,110}\.weft", re.ASCII)


class Pack:
    """One file with the records of many ranks. Nothing in it is believed unchecked. RunError if it is not a pack."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path, self.root = path, root
        fd = open_record(path, root)
        try:
            status = os.fstat(fd)
            self.size, self.identity = status.st_size, (status.st_dev, status.st_ino)
            head = self._read_head(os.pread(fd, HEAD.itemsize, 0))
            self._words = os.pread(fd, int(head["words_size"]), int(head["words"]))
            index = decompress(os.pread(fd, int(head["stored"]), int(head["index"])), int(head["size"]))
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}") from None
        finally:
            os.close(fd)
        ranks, streams = int(head["ranks"]), int(head["streams"])
        if index is None or len(index) != ranks * RANK.itemsize + streams * STREAM.itemsize:
            raise self.damaged("its index")
        self._ranks = np.frombuffer(index, RANK, count=ranks)
        self._streams = np.frombuffer(index, STREAM, count=streams, offset=ranks * RANK.itemsize)
        place, stored = self._streams["offset"], self._streams["stored"]
        if ((place > self.size) | (stored > self.size) | (place + stored > self.size)).any():
            raise self.damaged("its index")
        small = np.isin(self._streams["kind"], SMALL) & (self._streams["size"] <= MOST_UNPACKED)
        self._fits = np.where(self._streams["packed"] != 0, small, stored == self._streams["size"])
        """Of each stream, whether it is one that a pack can have."""

    def _read_head(self, data: bytes) -> Any:
        """Return the head of a pack (a file with many records) after checking it. RunError for another file or a
        damaged one.
        """
        if len(data) < HEAD.itemsize or data[:8] != MAGIC:
            raise RunError(f"{self.path} is not a pack of Weft (it does not begin with {MAGIC.decode()})")
        head = np.frombuffer(data, HEAD, count=1)[0]
        if int(head["version"]) != VERSION:
            raise OtherVersion(self.path, int(head["version"]), VERSION)
        of = {name: int(head[name]) for name in ("index", "stored", "size", "words", "words_size")}
        if of["size"] > MOST_INDEX or of["words_size"] > WORDS or of["index"] + of["stored"] > self.size or (
            of["words"] + of["words_size"] > self.size
        ):  # fmt: skip
            raise self.damaged("its beginning")
        return head

    def damaged(self, what: str) -> RunError:
        """Return the error for a pack that is damaged in `what`."""
        return RunError(
            f"{self.path} is left out, because {what} is damaged or cut off: copy it again from where the run was "
            "recorded"
        )

    def read_records(self, problems: list[str]) -> list[PackedFile]:
        """Return the records in the pack, in order. A record that cannot be read is left out, and a sentence is added
        to `problems`.
        """
        found = []
        for row in self._ranks:
            name, first, count = bytes(row["name"]).decode("ascii", "replace"), int(row["first"]), int(row["count"])
            try:
                fits = first + count <= len(self._streams) and bool(self._fits[first : first + count].all())
                if not NAME.fullmatch(name) or not fits:
                    raise self.damaged("its index")
                found.append(PackedFile(self, name, row, self._streams[first : first + count]))
            except OtherVersion:
                raise
            except RunError as error:
                problems.append(str(error))
        return found

    @cached_property
    def _mapping(self) -> NDArray[np.uint8] | None:
        """Return the whole file mapped into memory, None if that is not possible."""
        fd = self._open_unchanged()
        try:
            return map_extents(fd, [Extent(0, self.size)])
        finally:
            os.close(fd)

    def _open_unchanged(self) -> int:
        """Open the file again and return its descriptor. RunError if the file changed meanwhile."""
        fd = open_record(self.path, self.root)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != self.identity or status.st_size < self.size:
            os.close(fd)
            raise RunError(f"{self.path} changed since it was opened: open the run again")
        return fd

    def read_stored(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes of the file from `offset` on, read-only, without a copy if possible."""
        if self._mapping is not None:
            return self._mapping[offset : offset + size]
        fd = self._open_unchanged()
        try:
            return copy_extents(fd, [Extent(offset, size)])
        finally:
            os.close(fd)

    def read_compressed(self, offset: int, stored: int, size: int) -> NDArray[np.uint8]:
        """Return a stream that is compressed in the file. `stored`: its bytes in the file; `size`: its bytes
        in full.
        """
        data = (
            decompress(self.read_stored(offset, stored).tobytes(), size, self._words) if size <= MOST_UNPACKED else None
        )
        if data is None:
            raise self.damaged(f"what is at byte {offset},")
        return np.frombuffer(data, np.uint8)


class PackedFile(RankFile):
    """One rank's record within a pack, which reads like a file of its own."""

    def __init__(self, pack: Pack, name: str, row: Any, streams: NDArray[Any]) -> None:
        self.path, self.root, self.name, self.problems = pack.path, pack.root, name, []
        self._pack, self.size, self.identity = pack, int(row["size"]), pack.identity
        self.beginning = bytes(row["header"])
        self.header, _ = self._decode_header(self.beginning.ljust(layout.HEADER.itemsize, b"\0"))
        self._rows = {(int(one["kind"]), int(one["thread"])): one for one in streams}
        self._nibbles = {thread: int(one["nibbles"]) for (kind, thread), one in self._rows.items()
                         if kind == StreamKind.OUTCOMES}  # fmt: skip
        self._extents = {key: [Extent(int(one["offset"]), int(one["size"]))] for key, one in self._rows.items()
                         if key[0] in self.KINDS and key[0] != StreamKind.BEFORE}  # fmt: skip
        self.dropped = {thread: decode_dropped_calls(self._read_stream(one).tobytes())[1]
                        for (kind, thread), one in self._rows.items() if kind == StreamKind.BEFORE}  # fmt: skip

    def nibbles(self, thread: int) -> int:
        """Return the length of an OUTCOMES stream, which counts in nibbles."""
        return self._nibbles.get(thread, 0)

    def stream(self, kind: StreamKind, thread: int = 0) -> NDArray[np.uint8]:
        """Return a stream's bytes, read-only, without a copy if possible."""
        one = self._rows.get((int(kind), thread))
        return np.empty(0, np.uint8) if one is None else self._read_stream(one)

    def _read_stream(self, index_row: Any) -> NDArray[np.uint8]:
        """Return the bytes of a stream, decompressed if need be. `index_row`: the stream's row in the pack's index."""
        offset, stored, size = int(index_row["offset"]), int(index_row["stored"]), int(index_row["size"])
        return (
            self._pack.read_compressed(offset, stored, size)
            if index_row["packed"]
            else self._pack.read_stored(offset, size)
        )

    def first_event(self, thread: int) -> Any | None:
        """Return the first event of a thread."""
        data = self.stream(StreamKind.EVENTS, thread)[: layout.EVENT.itemsize]
        return data.view(layout.EVENT)[0] if len(data) == layout.EVENT.itemsize else None


def decompress(data: bytes, size: int, dictionary: bytes = b"") -> bytes | None:
    """Decompress data that is exactly `size` bytes in full; None if it is damaged or of another size."""
    reader = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
    try:
        found = reader.decompress(data, size + 1)
    except zlib.error:
        return None
    return found if len(found) == size and reader.eof else None
