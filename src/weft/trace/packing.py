"""Put the records of a run's ranks into one file (packed.py)."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.errors import RunError, WeftError
from weft.native import cuts
from weft.safety.folders import OpenFolder
from weft.trace import layout
from weft.trace.layout import StreamKind
from weft.trace.opening import ranks_folder
from weft.trace.packed import (
    ALIGNED,
    BEGINNING,
    HEAD,
    MAGIC,
    MOST_UNPACKED,
    NAME,
    RANK,
    SMALL,
    STREAM,
    SUFFIX,
    VERSION,
    WORDS,
    Pack,
)
from weft.trace.rankfile import RankFile
from weft.trace.rings.chunks import encode_dropped_calls

Key = tuple[int, int]
"""Kind and number of a stream."""
IsComplete = Callable[[Path], bool]
"""Whether a record is complete: nobody writes to it any more."""


@dataclass(frozen=True)
class PackingResult:
    """Says what became of the records of a run: how many went into a pack of which name, and their bytes before and
    now.
    """

    name: str
    ranks: int
    before: int
    now: int
    left: tuple[str, ...]
    """Of each record that stays a file: why."""


def pack_records(
    root: Path, is_complete: IsComplete, *, least_records: int = 2, largest_bytes: int | None = None
) -> PackingResult:
    """Put the records in RUN/ranks into a single file, and then delete them. They are deleted only after this file was
    written to the disk and read again.

    A record that is damaged, or that is still being written, stays as it is. With fewer than `least_records`, nothing
    is done; records of more than `largest_bytes` stay files. WeftError if the pack cannot be written. The folder is
    kept open: others may make its path lead elsewhere meanwhile, and only the files that were read are deleted.
    """
    folder, files, left = ranks_folder(root), list[RankFile](), list[str]()
    found = sorted(folder.glob("*.weft"))
    if len(found) < least_records:
        return PackingResult("", 0, 0, 0, ())
    for path in found if largest_bytes is None else [one for one in found if one.lstat().st_size <= largest_bytes]:
        file, why = _open_if_packable(path, root, is_complete)
        if file is not None:
            files.append(file)
        else:
            left.append(f"{path.name}: {why}")
    if len(files) < max(2, least_records):
        return PackingResult("", 0, 0, 0, tuple(left))
    made = folder / f".pack-{os.getpid()}"
    try:
        held = OpenFolder(folder)
        with os.fdopen(held.make(made.name), "wb") as to:
            try:
                _write_pack(files, to)
                to.flush()
                os.fsync(to.fileno())
                now = os.fstat(to.fileno()).st_size
                _verify_pack(files, made, root)
                cuts.check_for_cuts()
                name = _free_name(held.names())
                held.rename(made.name, name)
            finally:
                held.remove(made.name)
        held.remove(*(file.name for file in files if held.identity(file.name) == file.identity))
    except OSError as error:
        raise WeftError(
            f"the records of {root} cannot be packed: {error.strerror or error}. Weft left them as they were"
        ) from error
    return PackingResult(name, len(files), sum(file.size for file in files), now, tuple(left))


def _open_if_packable(path: Path, root: Path, is_complete: IsComplete) -> tuple[RankFile | None, str]:
    """Return (the opened record, "") if the record may be packed. Otherwise, return None and the reason in words."""
    try:
        file = RankFile(path, root)
    except RunError as error:
        return None, str(error)
    if file.problems:
        return None, "it is damaged"
    if not NAME.fullmatch(path.name):
        return None, "its name is not that of a record"
    if not is_complete(path):
        return None, "its process still runs"
    return file, ""


def _free_name(taken: Collection[str]) -> str:
    """Return a name that no pack has yet."""
    return next(name for n in range(1, len(taken) + 2) if (name := f"{n}{SUFFIX}") not in taken)


def _write_pack(files: Sequence[RankFile], output: IO[bytes]) -> None:
    """Write a pack of the files: head, streams, index."""
    output.write(bytes(HEAD.itemsize))
    words = files[0].stream(StreamKind.DEFINITIONS).tobytes()[-WORDS:]
    place = _write_aligned(output, words)
    ranks, streams = np.zeros(len(files), RANK), list[NDArray[Any]]()
    for row, file in zip(ranks, files, strict=True):
        row["name"], row["size"], row["first"] = file.name.encode(), file.size, len(streams)
        row["header"] = np.void(_header_without_chunks(file))
        streams += [_write_stream(output, words, *one) for one in _list_streams(file)]
        row["count"] = len(streams) - int(row["first"])
    told = ranks.tobytes() + b"".join(one.tobytes() for one in streams)
    index = zlib.compress(told, 6)
    at = _write_aligned(output, index)
    head = np.zeros(1, HEAD)
    head["magic"], head["version"], head["ranks"], head["streams"] = MAGIC, VERSION, len(files), len(streams)
    head["index"], head["stored"], head["size"] = at, len(index), len(told)
    head["words"], head["words_size"] = place, len(words)
    output.seek(0)
    output.write(head.tobytes())


def _header_without_chunks(file: RankFile) -> bytes:
    """Return a record's header with an empty table of chunks, as a pack has its own index."""
    with file.path.open("rb") as read:
        head = np.frombuffer(
            read.read(layout.HEADER.itemsize).ljust(layout.HEADER.itemsize, b"\0"), layout.HEADER
        ).copy()
    head["chunk_count"] = 0
    return head.tobytes()[:BEGINNING]


def _list_streams(file: RankFile) -> list[tuple[Key, NDArray[np.uint8], int]]:
    """Return the streams of a record as ((kind, number), bytes, length in nibbles).

    The length is only given for streams of kind OUTCOMES, and is 0 for all others. The accounts of dropped calls come
    last, as streams of kind BEFORE.
    """
    found = [(key, file.stream(StreamKind(key[0]), key[1]), file.nibbles(key[1]) * (key[0] == StreamKind.OUTCOMES))
             for key in file.streams()]  # fmt: skip
    accounts = [((int(StreamKind.BEFORE), thread), np.frombuffer(encode_dropped_calls(dropped), np.uint8), 0)
                for thread, dropped in file.dropped.items()]  # fmt: skip
    return found + accounts


def _write_stream(to: IO[bytes], words: bytes, key: Key, data: NDArray[np.uint8], nibbles: int) -> NDArray[Any]:
    """Write one stream, compressed if it is small, and return its row in the pack's index. `words`: the dictionary for
    compression.
    """
    row, size = np.zeros(1, STREAM), len(data)
    small = key[0] in SMALL and size <= MOST_UNPACKED
    stored = _compress(data.tobytes(), words) if small else data.data
    row["kind"], row["thread"], row["packed"], row["size"], row["nibbles"] = *key, small, size, nibbles
    row["offset"], row["stored"] = _write_aligned(to, stored), len(stored)
    return row


def _compress(data: bytes, words: bytes) -> bytes:
    writer = zlib.compressobj(6, zdict=words) if words else zlib.compressobj(6)
    return writer.compress(data) + writer.flush()


def _write_aligned(to: IO[bytes], data: bytes | memoryview) -> int:
    """Write data at the next aligned place of the file, and return the place as an offset in bytes."""
    to.write(bytes(-to.tell() % ALIGNED))
    at = to.tell()
    to.write(data)
    return at


def _verify_pack(files: Sequence[RankFile], made: Path, root: Path) -> None:
    """Raise WeftError if a record in the pack differs from the file that it was made of. `made`: the path of
    the pack.
    """
    problems: list[str] = []
    there = Pack(made, root).read_records(problems)
    if problems or [_summarize_record(file) for file in files] != [_summarize_record(file) for file in there]:
        raise WeftError(f"the records of {root} would read differently when packed: Weft left them unpacked")


def _summarize_record(file: RankFile) -> tuple[object, ...]:
    """Return the contents of a record in a form to compare: name, size, header, and the checksums of its streams."""
    header = [
        str(getattr(file.header, name)) for name in ("rank", "world_size", "state", "pid", "host", "job", "threads")
    ]
    streams = sorted((key, nibbles, hashlib.sha256(data.data).digest()) for key, data, nibbles in _list_streams(file))
    return file.name, file.size, header, streams
