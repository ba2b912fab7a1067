"""LEB128 varints and the cursor that reads tails and definitions, never past their end."""

from __future__ import annotations

import struct


class Damaged(ValueError):
    """Bytes that do not read as the format says. Caught inside `weft.trace`, where it becomes a problem."""


def zigzag(value: int) -> int:
    """Return the unsigned form of a signed 64-bit number."""
    return (value << 1) ^ (value >> 63)


def unzigzag(value: int) -> int:
    """Return the signed number with this unsigned form."""
    return (value >> 1) ^ -(value & 1)


def signed64(value: int) -> int:
    """Return `value` modulo 2^64, as a signed number."""
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value


def encode_unsigned(value: int) -> bytes:
    """Encode an unsigned number as LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_signed(value: int) -> bytes:
    """Encode a signed 64-bit number as LEB128."""
    return encode_unsigned(zigzag(signed64(value)))


def encode_string(text: str | bytes) -> bytes:
    """Encode a string as length and bytes."""
    data = text.encode() if isinstance(text, str) else text
    return encode_unsigned(len(data)) + data


_MOST_BYTES = 1 << 62
"""Sizes, distances and addresses are less: numbers of 64 bits with a sign hold what is made of two of them."""


class Cursor:
    """Reads values one after the other out of `data`; raises Damaged where they do not fit."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: memoryview | bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else min(end, len(data))

    @property
    def left(self) -> int:
        """Return the number of bytes not yet read."""
        return self.end - self.position

    def read_unsigned(self) -> int:
        """Read an unsigned number below 2^64 in the encoding LEB128."""
        value = shift = 0
        position = self.position
        while position < self.end and shift < 70:
            byte = int(self.data[position])
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                self.position = position
                return value
            shift += 7
        raise Damaged(f"no whole number at byte {self.position}")

    def read_signed(self) -> int:
        """Read a signed varint."""
        return unzigzag(self.read_unsigned())

    def size(self) -> int:
        """Read a number of bytes, or an address. Damaged if it is larger than any memory."""
        return self._check_magnitude(self.read_unsigned())

    def distance(self) -> int:
        """Read a signed distance in bytes. Damaged if it is larger than any memory."""
        return self._check_magnitude(self.read_signed())

    def _check_magnitude(self, n: int) -> int:
        if abs(n) >= _MOST_BYTES:
            raise Damaged(f"{n} bytes announced before byte {self.position}")
        return n

    def read_count(self, element_bytes: int = 1) -> int:
        """Read how many elements follow. Damaged if the bytes left cannot hold so many of `element_bytes` bytes."""
        n = self.read_unsigned()
        if n * element_bytes > self.left:
            raise Damaged(
                f"a list of {n} elements begins at byte {self.position}, where only {self.left} bytes are left"
            )
        return n

    def read_bytes(self, size: int) -> bytes:
        """Return the next `size` bytes. Damaged if fewer are left."""
        if size > self.left:
            raise Damaged(f"a value of {size} bytes begins at byte {self.position}, where only {self.left} are left")
        start = self.position
        self.position += size
        return bytes(self.data[start : self.position])

    def read_string(self) -> str:
        """Read a string; bytes that are not UTF-8 are written as backslash escapes."""
        return self.read_bytes(self.read_unsigned()).decode("utf-8", "backslashreplace")

    def read_double(self) -> float:
        """Read a number of eight bytes."""
        value: float = struct.unpack("<d", self.read_bytes(8))[0]
        return value
