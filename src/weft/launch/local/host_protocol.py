"""How a host and `weft run` speak: frames over TCP, each sealed with a key that only those have who know the secret.

    greeting        MAGIC, 32 random bytes; each side sends its own at once
    frame           u32 bytes of what follows, 32 bytes HMAC-SHA256, one byte kind, body

The key of a connection is HMAC(secret, both sides' random bytes): nothing that was sent on another connection fits.
What is sealed holds the direction and the number of the frame as well: none can be dropped, repeated, turned round or
changed. Frames are not secret: who can listen on the network reads them, as the program's own messages.
"""

from __future__ import annotations

import hmac
import json
import os
import struct
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

MAGIC: Final = b"weft-hosts/1\n"
NONCE: Final = 32
SEAL: Final = 32
GREETING: Final = len(MAGIC) + NONCE
DATA: Final = 256 << 10
"""Bytes of a file that go into one frame."""
MOST: Final = DATA + 1024
MOST_UNKNOWN: Final = 4096
"""Bytes of the first frame, before its seal was looked at."""
LENGTH: Final = struct.Struct("<I")


class Refused(Exception):
    """The other side does not speak as it should: the connection is closed."""


class Side(Enum):
    """Which end of a connection this is."""

    HOST = b"H"
    RUN = b"R"


class Channel:
    """One end of a connection, without its socket: what comes in becomes frames, frames become what goes out."""

    def __init__(self, secret: bytes, side: Side) -> None:
        self._secret, self._side = secret, side
        self._nonce = os.urandom(NONCE)
        self._key: bytes | None = None
        self._in = bytearray()
        self._sent = self._got = 0
        self.greeting = MAGIC + self._nonce

    @property
    def greeted(self) -> bool:
        """Whether the other side's greeting is there, so that frames can be sealed."""
        return self._key is not None

    @property
    def trusted(self) -> bool:
        """Whether the other side has shown that it knows the secret."""
        return self._got > 0

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Kinds and bodies of the frames that are whole now. Raises Refused."""
        self._in += data
        if self._key is None:
            if not MAGIC.startswith(self._in[: len(MAGIC)]):
                raise Refused("another protocol")
            if len(self._in) < GREETING:
                return
            theirs = bytes(self._in[len(MAGIC) : GREETING])
            del self._in[:GREETING]
            both = self._nonce + theirs if self._side is Side.HOST else theirs + self._nonce
            self._key = hmac.digest(self._secret, MAGIC + both, "sha256")
        while len(self._in) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._in)
            if not SEAL < length <= (MOST if self.trusted else MOST_UNKNOWN):
                raise Refused(f"a frame of {length} bytes")
            if len(self._in) < LENGTH.size + length:
                return
            frame = bytes(self._in[LENGTH.size : LENGTH.size + length])
            del self._in[: LENGTH.size + length]
            yield self._opened(frame)

    def _opened(self, frame: bytes) -> tuple[bytes, bytes]:
        theirs = Side.RUN if self._side is Side.HOST else Side.HOST
        if not hmac.compare_digest(frame[:SEAL], self._seal(theirs, self._got, frame[SEAL:])):
            raise Refused("a wrong seal: another secret, or changed on its way")
        self._got += 1
        return frame[SEAL : SEAL + 1], frame[SEAL + 1 :]

    def frame(self, kind: bytes, body: bytes = b"") -> bytes:
        """A frame as it goes out."""
        sealed = kind + body
        seal = self._seal(self._side, self._sent, sealed)
        self._sent += 1
        return LENGTH.pack(SEAL + len(sealed)) + seal + sealed

    def _seal(self, side: Side, number: int, sealed: bytes) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key, side.value + number.to_bytes(8, "little") + sealed, "sha256")


def packed(value: dict[str, Any]) -> bytes:
    """Facts as the body of a frame."""
    return json.dumps(value, separators=(",", ":")).encode()


def unpacked(body: bytes) -> dict[str, Any]:
    """The facts in the body of a frame. Raises Refused."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused("facts that cannot be read") from error
    if not isinstance(value, dict):
        raise Refused("facts that are not an object")
    return value


def number(facts: dict[str, Any], name: str, most: int = 2**63) -> int:
    """A number from somebody else's facts. Raises Refused."""
    value = facts.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Refused(f"{name} is not a number that fits")
    return value


def text(facts: dict[str, Any], name: str, most: int = 256) -> str:
    """A text from somebody else's facts, fit to be printed. Raises Refused."""
    value = facts.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise Refused(f"{name} is not a text that fits")
    return "".join(c if c.isprintable() else "?" for c in value)
