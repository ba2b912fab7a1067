"""What a host recorded, in one piece: over a connection (wire.py) or as one file, with sizes and checksums.

A pack is a list of parts, a kind and a body each; in a file, behind MAGIC, each with its length before it (u32).

    B  {"host", "files"}        begin
    F  {"name", "size"}         a file; its bytes follow in parts of at most 256 KiB
    D  bytes
    C  SHA-256 of the file, 32 bytes
    E  {"files", "bytes", "sha256"}    the end: of all checksums together

Nothing of a pack is believed: names are those of a run's own files, sizes are held to what was announced and to the
room on the disk, and no file gets its place before its checksum was looked at.
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
from weft.launch.local.host_protocol import DATA, LENGTH, MOST, Refused, number, packed, text, unpacked
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


def files_of(folder: Path) -> Files:
    """What belongs into the pack of a host, in order; `folder` may also hold records alone, as `RUN/ranks` does."""
    found = [path for below in ("ranks", "halo") for path in sorted((folder / below).glob("*"))]
    found += [folder / name for name in LOOKED_UP]
    named = {path.relative_to(folder).as_posix(): path for path in found}
    if not (folder / "ranks").is_dir():
        named |= {f"ranks/{path.name}": path for path in sorted(folder.glob("*.weft"))}
    return {name: path for name, path in named.items() if NAME.fullmatch(name) and is_plain(path)}


def is_plain(path: Path) -> bool:
    """Whether it is a file, and no link to one."""
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def give(folder: Path, host: str, send: Send) -> int:
    """Send the pack of a folder, part by part; returns the bytes of its files."""
    files = files_of(folder)
    send(b"B", packed({"host": host, "files": len(files)}))
    whole, total, count = hashlib.sha256(), 0, 0
    for name, path in files.items():
        try:
            file = open_regular(path, folder)
        except OSError:
            continue  # renamed or gone since
        with os.fdopen(file, "rb", buffering=0) as read:
            size = os.fstat(file).st_size
            send(b"F", packed({"name": name, "size": size}))
            checksum = give_file(read, size, send)
        whole.update(checksum)
        total, count = total + size, count + 1
    send(b"E", packed({"files": count, "bytes": total, "sha256": whole.hexdigest()}))
    return total


def give_file(read: IO[bytes], size: int, send: Send) -> bytes:
    """Send what a file holds, as long as it was when it was announced; returns its checksum."""
    checksum, left = hashlib.sha256(), size
    while left:
        data = read.read(min(DATA, left)) or bytes(min(DATA, left))  # cut meanwhile: what is lost is empty
        checksum.update(data)
        send(b"D", data)
        left -= len(data)
    send(b"C", checksum.digest())
    return checksum.digest()


class Taking:
    """A pack that comes in: its files lie in a folder of their own until they are whole."""

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

    def take(self, kind: bytes, body: bytes) -> None:
        """One part. Raises Refused for what is not a pack, OSError where it cannot be kept."""
        if self.whole:
            raise Refused("parts behind the end of a pack")
        if kind == b"D" and self._file is not None:
            if len(body) > self._left:
                raise Refused("more bytes than announced")
            self._file.write(body)
            self._checksum.update(body)
            self._left -= len(body)
            return
        {b"B": self._begin, b"F": self._announced, b"C": self._ended, b"E": self._end}.get(kind, self._strange)(body)

    def _strange(self, _: bytes) -> None:
        raise Refused("a part that fits nowhere")

    def _begin(self, body: bytes) -> None:
        self.host = text(unpacked(body), "host")
        shutil.rmtree(self.folder, ignore_errors=True)
        for below in ("ranks", "halo"):
            (self.folder / below).mkdir(parents=True)

    def _announced(self, body: bytes) -> None:
        facts = unpacked(body)
        name, size = text(facts, "name"), number(facts, "size")
        if not self.host or self._file or not NAME.fullmatch(name) or name in self.names:
            raise Refused(f"a file {name[:80]!r}")
        if len(self.names) >= MOST_FILES:
            raise Refused("too many files")
        if size + SPARE > shutil.disk_usage(self.folder).free:
            raise OSError(28, "the disk is full", str(self.folder))
        target = self.folder / name
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        self._file = os.fdopen(file, "wb")
        self._name, self._left, self._checksum = name, size, hashlib.sha256()

    def _ended(self, body: bytes) -> None:
        if self._file is None or self._left or body != self._checksum.digest():
            raise Refused(f"the checksum of {self._name} does not fit")
        self.bytes += self._file.tell()
        self._file.close()
        self._file = None
        self.names[self._name] = None
        self._all.update(body)

    def _end(self, body: bytes) -> None:
        facts = unpacked(body)
        said = number(facts, "files"), number(facts, "bytes"), text(facts, "sha256")
        if self._file or said != (len(self.names), self.bytes, self._all.hexdigest()):
            raise Refused("the checksum of the pack does not fit")
        self.sha256, self.whole = said[2], True

    def stop(self) -> None:
        """Nothing more comes: what is not whole is taken away."""
        if self._file is not None:
            self._file.close()
            self._file = None
            (self.folder / self._name).unlink(missing_ok=True)

    def facts(self) -> dict[str, Any]:
        """What run.json keeps of it."""
        return {"host": self.host, "files": len(self.names), "bytes": self.bytes, "sha256": self.sha256}


def write(folder: Path, host: str, target: Path) -> int:
    """Pack a folder into one file, whole or not at all; returns the bytes of its files."""
    beside = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        with beside.open("xb") as file:
            file.write(MAGIC)
            total = give(folder, host, lambda kind, body: file.write(LENGTH.pack(1 + len(body)) + kind + body))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError as error:
        raise WeftError(f"cannot write {target}: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return total


def copy(source: Path, host: str, folder: Path) -> Taking:
    """Copy the files of a host's folder, with the same care. WeftError where that fails."""
    taking = Taking(folder)
    try:
        give(source, host, taking.take)
    except (Refused, OSError) as error:
        raise WeftError(f"{source} cannot be copied: {error}") from error
    finally:
        taking.stop()
    return taking


def read(path: Path, folder: Path) -> Taking:
    """Unpack a file into a folder. WeftError for one that is no pack, or damaged."""
    taking = Taking(folder)
    try:
        with path.open("rb") as file:
            for kind, body in parts(file):
                taking.take(kind, body)
    except Refused as error:
        raise WeftError(f"{path} cannot be read: {error}. Copy it again from its host") from error
    except OSError as error:
        raise WeftError(f"{path} cannot be unpacked: {error.strerror}") from error
    finally:
        taking.stop()
    if not taking.whole:
        raise WeftError(f"{path} is cut off. Copy it again from its host")
    return taking


def parts(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The parts of a file. Raises Refused, and OtherVersion for a pack of another version."""
    if (begin := file.read(len(MAGIC))) != MAGIC:
        if begin.startswith(_FAMILY):
            found = begin.removeprefix(_FAMILY).decode(errors="backslashreplace").strip()
            raise OtherVersion(file.name, found, 1)
        raise Refused("it is not the pack of a host")
    while length := file.read(LENGTH.size):
        (size,) = LENGTH.unpack(length.ljust(LENGTH.size, b"\0"))
        part = file.read(size) if 0 < size <= MOST else b""
        if len(part) != size or not part:
            raise Refused("it is cut off or damaged")
        yield part[:1], part[1:]
