"""Frame the messages between a host and `weft run` on TCP, each sealed with a key derived from a common secret.

    greeting        MAGIC, 32 random bytes; each side sends its own at once
    frame           u32 bytes of what follows, 32 bytes HMAC-SHA256, one byte kind, body

The key of a connection is HMAC(secret, both sides' random bytes): nothing that was sent on another connection fits. The
seal also covers the direction and the number of the frame: no frame can be dropped, repeated, reflected or changed.
Frames are not encrypted: whoever can listen on the network reads them, like the program's own messages.
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


class ProtocolError(Exception):
    """The peer does not follow the protocol: the connection is closed."""


class Side(Enum):
    """Which end of a connection this is."""

    HOST = b"H"
    RUN = b"R"


class SealedChannel:
    """One end of a connection, without its socket: turns received bytes into frames, and frames into bytes to send."""

    def __init__(self, secret: bytes, side: Side) -> None:
        self._secret, self._side = secret, side
        self._nonce = os.urandom(NONCE)
        self._key: bytes | None = None
        self._in = bytearray()
        self._sent = self._got = 0
        self.greeting = MAGIC + self._nonce

    @property
    def is_greeted(self) -> bool:
        """Whether the other side's greeting is there, so that frames can be sealed."""
        return self._key is not None

    @property
    def is_trusted(self) -> bool:
        """Whether the other side has shown that it knows the secret."""
        return self._got > 0

    def receive_frames(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield kind and body of each frame that `data` completes. Raises ProtocolError."""
        self._in += data
        if self._key is None:
            if not MAGIC.startswith(self._in[: len(MAGIC)]):
                raise ProtocolError("another protocol")
            if len(self._in) < GREETING:
                return
            theirs = bytes(self._in[len(MAGIC) : GREETING])
            del self._in[:GREETING]
            both = self._nonce + theirs if self._side is Side.HOST else theirs + self._nonce
            self._key = hmac.digest(self._secret, MAGIC + both, "sha256")
        while len(self._in) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._in)
            if not SEAL < length <= (MOST if self.is_trusted else MOST_UNKNOWN):
                raise ProtocolError(f"a frame of {length} bytes")
            if len(self._in) < LENGTH.size + length:
                return
            frame = bytes(self._in[LENGTH.size : LENGTH.size + length])
            del self._in[: LENGTH.size + length]
            yield self._open_frame(frame)

    def _open_frame(self, frame: bytes) -> tuple[bytes, bytes]:
        """Return kind and body of a frame. ProtocolError if its seal is wrong."""
        theirs = Side.RUN if self._side is Side.HOST else Side.HOST
        if not hmac.compare_digest(frame[:SEAL], self._seal(theirs, self._got, frame[SEAL:])):
            raise ProtocolError("its signature is wrong: it has another secret, or the message changed on its way")
        self._got += 1
        return frame[SEAL : SEAL + 1], frame[SEAL + 1 :]

    def make_frame(self, kind: bytes, body: bytes = b"") -> bytes:
        """Return the bytes of a sealed frame."""
        sealed = kind + body
        seal = self._seal(self._side, self._sent, sealed)
        self._sent += 1
        return LENGTH.pack(SEAL + len(sealed)) + seal + sealed

    def _seal(self, side: Side, number: int, sealed: bytes) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key, side.value + number.to_bytes(8, "little") + sealed, "sha256")


def encode_facts(value: dict[str, Any]) -> bytes:
    """Facts as the body of a frame."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode_facts(body: bytes) -> dict[str, Any]:
    """Return the facts in the body of a frame. Raises ProtocolError."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("it has facts that cannot be read") from error
    if not isinstance(value, dict):
        raise ProtocolError("it has facts that are not a JSON object")
    return value


def read_number(facts: dict[str, Any], name: str, most: int = 2**63) -> int:
    """Return a number between 0 and `most` from a peer's facts. Raises ProtocolError for anything else."""
    value = facts.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ProtocolError(f"{name} is not a number from 0 to {most}")
    return value


def read_text(facts: dict[str, Any], name: str, most: int = 256) -> str:
    """Return a text from a peer's facts, with unprintable characters replaced. Raises ProtocolError for
    anything else.
    """
    value = facts.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise ProtocolError(f"{name} is not a text of at most {most} characters")
    return "".join(c if c.isprintable() else "?" for c in value)
