"""Encode protocol buffers (protobuf.dev/programming-guides/encoding): single fields, and columns of them.

A column is a list of pieces: bytes that are the same in each row, and numbers that differ. All its rows have the same
length, as a varint may be longer than necessary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2


def encode_varint(value: int) -> bytes:
    """Return a number as protobuf encodes it (7 bits in a byte). A negative number has ten bytes."""
    value &= 2**64 - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number_field(field: int, value: int) -> bytes:
    """Return an encoded protobuf field with a number."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)


def text_field(field: int, value: str) -> bytes:
    """Return an encoded protobuf field with text."""
    return bytes_field(field, value.encode("utf-8", "backslashreplace"))


def bytes_field(field: int, body: bytes) -> bytes:
    """Return an encoded protobuf field with bytes or a message."""
    return encode_varint(field << 3 | _BYTES) + encode_varint(len(body)) + body


class NumberPiece(NamedTuple):
    """Numbers of a column: `width` bytes in each row, as varints, or as fixed eight bytes."""

    values: NDArray[np.uint64]
    width: int
    fixed: bool

    def rows(self) -> NDArray[np.uint8]:
        """Return the numbers as protobuf encodes them, all with the same number of bytes: uint8 of the shape (rows,
        width).
        """
        if self.fixed:
            return self.values.astype("<u8").view(np.uint8).reshape(-1, 8)
        # The tenth part holds the one bit that is left; a shift by 64 would be undefined.
        shifts = np.arange(0, 7 * self.width, 7, dtype=np.uint64)
        rows = ((self.values[:, None] >> shifts) & np.uint64(127)).astype(np.uint8)
        rows[:, :-1] |= 128
        return rows


Pieces = list[bytes | NumberPiece]


def varint_column(field: int, values: NDArray[np.int64] | NDArray[np.uint64]) -> Pieces:
    """Return the encoded key of a protobuf field, and its numbers, one for each row. All numbers take as many bytes as
    the largest.
    """
    unsigned = np.ascontiguousarray(values).view(np.uint64)
    width = len(encode_varint(int(unsigned.max(initial=0))))
    return [encode_varint(field << 3 | _VARINT), NumberPiece(unsigned, width, fixed=False)]


def fixed64_column(field: int, values: NDArray[np.uint64]) -> Pieces:
    """Return the pieces of a protobuf field that has a number of eight bytes in each row."""
    return [encode_varint(field << 3 | _FIXED64), NumberPiece(values, 8, fixed=True)]


def message_column(field: int, parts: Iterable[Pieces]) -> Pieces:
    """Return the pieces of a protobuf field that has a message in each row."""
    body = [piece for part in parts for piece in part]
    return [encode_varint(field << 3 | _BYTES) + encode_varint(row_length(body)), *body]


def row_length(pieces: Sequence[bytes | NumberPiece]) -> int:
    """Return the number of bytes in a row."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.width for piece in pieces)


def encode_rows(pieces: Sequence[bytes | NumberPiece], count: int) -> NDArray[np.uint8]:
    """Return `count` encoded rows of equal length, one under the other: uint8 of the shape (count, length). Each piece
    is the same bytes in all rows, or a number for each row.
    """
    made = np.empty((count, row_length(pieces)), np.uint8)
    at = 0
    for piece in pieces:
        width = len(piece) if isinstance(piece, bytes) else piece.width
        made[:, at : at + width] = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else piece.rows()
        at += width
    return made
