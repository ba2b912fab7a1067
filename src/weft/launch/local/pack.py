"""Send or store what a host recorded as one pack: over a connection (host_protocol.py) or in a file, with checksums.

A pack is a list of parts, a kind and a body each; in a file, after MAGIC, each with its length before it (u32).

    B  {"host", "files"}        begin
    F  {"name", "size"}         a file; its bytes follow in parts of at most 256 KiB
    D  bytes
    C  SHA-256 of the file, 32 bytes
    E  {"files", "bytes", "sha256"}    the end: of all checksums together

A pack is not trusted: only names of a run's own files are accepted, sizes are checked against what was announced and
against the room on the disk, and no file gets its place before its checksum is right.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from weft.errors import OtherVersion, WeftError
from weft.launch.local.host_protocol import (
    DATA,
    LENGTH,
    MOST,
    ProtocolError,
    decode_facts,
    encode_facts,
    read_number,
    read_text,
)
from weft.safety.folders import open_regular

_FAMILY: Final = b"weft-pack/"
MAGIC: Final = _FAMILY + b"1\n"
SUFFIX: Final = ".weftpack"
FOLDER: Final = "packs"
"""In the run: one file a host, until it is put together."""
LOOKED_UP: Final = ("sites.json", "variables.json", "sources.json", "sources.bin")
"""What a host looked up of its own ranks' places, beside their records."""
NAME: Final = re.compile(
    r"(ranks/(?:[0-9a-f]{1,16}-\d{1,9}|tmp-[\w.-]{1,80}-\d{1,9})\.weft|ranks/(?:other|unseen)-mpi-[\w.-]{1,80}\.txt"
    r"|halo/[\w.-]{1,100}\.halo|sites\.json|variables\.json|sources\.json|sources\.bin)",
    re.ASCII,
)
MOST_FILES: Final = 1 << 20
SPARE: Final = 16 << 20
"""Bytes of a disk that stay free."""
Send = Callable[[bytes, bytes], object]
Files = dict[str, Path]
"""Files by the names that they have within a run."""


def list_pack_files(folder: Path) -> Files:
    """Return the files that belong into a host's pack, by their names in it. `folder`: a host's folder, or one with
    only records, as `RUN/ranks`."""
    found = [path for below in ("ranks", "halo") for path in sorted((folder / below).glob("*"))]
    found += [folder / name for name in LOOKED_UP]
    named = {path.relative_to(folder).as_posix(): path for path in found}
    if not (folder / "ranks").is_dir():
        named |= {f"ranks/{path.name}": path for path in sorted(folder.glob("*.weft"))}
    return {name: path for name, path in named.items() if NAME.fullmatch(name) and is_regular_file(path)}


def is_regular_file(path: Path) -> bool:
    """Return whether a path is a regular file and no link."""
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def send_pack(folder: Path, host: str, send: Send) -> int:
    """Send the pack of a folder part by part with `send(kind, body)`; return the bytes of its files."""
    files = list_pack_files(folder)
    send(b"B", encode_facts({"host": host, "files": len(files)}))
    whole, total, count = hashlib.sha256(), 0, 0
    for name, path in files.items():
        try:
            file = open_regular(path, folder)
        except OSError:
            continue  # renamed or gone since
        with os.fdopen(file, "rb", buffering=0) as read:
            size = os.fstat(file).st_size
            send(b"F", encode_facts({"name": name, "size": size}))
            checksum = send_file(read, size, send)
        whole.update(checksum)
        total, count = total + size, count + 1
    send(b"E", encode_facts({"files": count, "bytes": total, "sha256": whole.hexdigest()}))
    return total


def send_file(file: IO[bytes], size: int, send: Send) -> bytes:
    """Send the first `size` bytes of a file in parts, then their checksum, which is returned. If the file has become
    shorter meanwhile, zeros are sent in place of the missing bytes."""
    checksum, left = hashlib.sha256(), size
    while left:
        data = file.read(min(DATA, left)) or bytes(min(DATA, left))  # cut meanwhile: what is lost is empty
        checksum.update(data)
        send(b"D", data)
        left -= len(data)
    send(b"C", checksum.digest())
    return checksum.digest()


class PackReceiver:
    """Receives a pack into a folder of its own, and checks it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = ""
        self.names: dict[str, None] = {}
        self.bytes = 0
        self.sha256 = ""
        self.whole = False
        self._file: IO[bytes] | None = None
        self._name, self._left = "", 0
        self._checksum, self._all = hashlib.sha256(), hashlib.sha256()

    def receive_part(self, kind: bytes, body: bytes) -> None:
        """Check and store one part. Raises ProtocolError if it does not belong there, OSError if it cannot be
        stored.
        """
        if self.whole:
            raise ProtocolError("it has parts after its end")
        if kind == b"D" and self._file is not None:
            if len(body) > self._left:
                raise ProtocolError("a file in it has more bytes than it announces")
            self._file.write(body)
            self._checksum.update(body)
            self._left -= len(body)
            return
        {b"B": self._begin_pack, b"F": self._begin_file, b"C": self._end_file, b"E": self._end_pack}.get(
            kind, self._refuse_part
        )(body)

    def _refuse_part(self, _: bytes) -> None:
        raise ProtocolError("it has a part of an unknown kind")

    def _begin_pack(self, body: bytes) -> None:
        """Begin a pack of a host's records in an empty folder."""
        self.host = read_text(decode_facts(body), "host")
        shutil.rmtree(self.folder, ignore_errors=True)
        for below in ("ranks", "halo"):
            (self.folder / below).mkdir(parents=True)

    def _begin_file(self, body: bytes) -> None:
        """Begin a file of the pack, whose name and size `body` has. ProtocolError for an invalid name or too many
        files."""
        facts = decode_facts(body)
        name, size = read_text(facts, "name"), read_number(facts, "size")
        if not self.host or self._file or not NAME.fullmatch(name) or name in self.names:
            raise ProtocolError(f"it names a file {name[:80]!r}, which is not allowed")
        if len(self.names) >= MOST_FILES:
            raise ProtocolError("it has too many files")
        if size + SPARE > shutil.disk_usage(self.folder).free:
            raise OSError(28, "the disk is full", str(self.folder))
        target = self.folder / name
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        self._file = os.fdopen(file, "wb")
        self._name, self._left, self._checksum = name, size, hashlib.sha256()

    def _end_file(self, body: bytes) -> None:
        """End a file of the pack. ProtocolError if its checksum does not fit."""
        if self._file is None or self._left or body != self._checksum.digest():
            raise ProtocolError(f"the checksum of {self._name} does not match")
        self.bytes += self._file.tell()
        self._file.close()
        self._file = None
        self.names[self._name] = None
        self._all.update(body)

    def _end_pack(self, body: bytes) -> None:
        """End the pack. ProtocolError if its files, bytes or checksum do not fit."""
        facts = decode_facts(body)
        said = read_number(facts, "files"), read_number(facts, "bytes"), read_text(facts, "sha256")
        if self._file or said != (len(self.names), self.bytes, self._all.hexdigest()):
            raise ProtocolError("the checksum of the pack does not match")
        self.sha256, self.whole = said[2], True

    def discard_partial_file(self) -> None:
        """Remove the file that is only partly received, as the rest will not arrive."""
        if self._file is not None:
            self._file.close()
            self._file = None
            (self.folder / self._name).unlink(missing_ok=True)

    def facts(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return {"host": self.host, "files": len(self.names), "bytes": self.bytes, "sha256": self.sha256}


def write_pack(folder: Path, host: str, target: Path) -> int:
    """Pack a folder into one file, completely or not at all; return the bytes of its files."""
    beside = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        with beside.open("xb") as file:
            file.write(MAGIC)
            total = send_pack(folder, host, lambda kind, body: file.write(LENGTH.pack(1 + len(body)) + kind + body))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as error:
        raise WeftError(f"cannot write {target}: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return total


def copy_pack(source: Path, host: str, folder: Path) -> PackReceiver:
    """Copy the files of a host's folder into `folder`, with the same checks as a pack, and return their receiver.
    Raises WeftError if that fails."""
    taking = PackReceiver(folder)
    try:
        send_pack(source, host, taking.receive_part)
    except (ProtocolError, OSError) as error:
        raise WeftError(f"{source} cannot be copied: {error}") from error
    finally:
        taking.discard_partial_file()
    return taking


def unpack_file(path: Path, folder: Path) -> PackReceiver:
    """Unpack a file into a folder, and return the receiver of its records. Raises WeftError if it is no pack, or
    damaged."""
    taking = PackReceiver(folder)
    try:
        with path.open("rb") as file:
            for kind, body in read_parts(file):
                taking.receive_part(kind, body)
    except ProtocolError as error:
        raise WeftError(f"{path} cannot be read: {error}. Copy it again from its host") from error
    except OSError as error:
        raise WeftError(f"{path} cannot be unpacked: {error.strerror}") from error
    finally:
        taking.discard_partial_file()
    if not taking.whole:
        raise WeftError(f"{path} is cut off. Copy it again from its host")
    return taking


def read_parts(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and body of each part of a pack file. Raises ProtocolError, and OtherVersion for a pack of another
    version."""
    if (begin := file.read(len(MAGIC))) != MAGIC:
        if begin.startswith(_FAMILY):
            found = begin.removeprefix(_FAMILY).decode(errors="backslashreplace").strip()
            raise OtherVersion(file.name, found, 1)
        raise ProtocolError("it is not the pack of a host")
    while length := file.read(LENGTH.size):
        (size,) = LENGTH.unpack(length.ljust(LENGTH.size, b"\0"))
        part = file.read(size) if 0 < size <= MOST else b""
        if len(part) != size or not part:
            raise ProtocolError("it is cut off or damaged")
        yield part[:1], part[1:]
