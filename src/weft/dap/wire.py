"""Messages of the Debug Adapter Protocol on a pair of streams: a header with the length, then JSON.

Source: "Base protocol", microsoft.github.io/debug-adapter-protocol/overview.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from weft.errors import WeftError

Message = dict[str, Any]
LONGEST = 64 << 20
"""Bytes of a message; a longer one is none, and would only fill the memory."""


class WireError(WeftError):
    """What came is no message of the protocol."""


class Wire:
    """One editor. Messages may be sent from several threads."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._sent = 0
        self._sending = threading.Lock()
        self.closed = False

    def messages(self) -> Iterator[Message]:
        """All that come, until the editor closes. WireError for what is no message."""
        while (length := self._length()) is not None:
            body = self._source.read(length)
            if len(body) < length:
                return
            try:
                message = json.loads(body)
            except ValueError as error:
                raise WireError(f"a message that is not JSON: {error}") from error
            if not isinstance(message, dict):
                raise WireError("a message that is not an object")
            yield message

    def _length(self) -> int | None:
        """The length that a header gives; None where there are no more messages."""
        length = None
        while line := self._source.readline(1000):
            name, colon, value = line.decode("ascii", "replace").strip().partition(":")
            if not name:
                if length is None:
                    raise WireError("a header without Content-Length")
                return length
            if not colon:
                raise WireError(f"no header of the Debug Adapter Protocol: {name[:60]!r}")
            if name.lower() == "content-length":
                if not value.strip().isdigit() or int(value) > LONGEST:
                    raise WireError(f"{value.strip()[:60]!r} is not the length of a message")
                length = int(value)
        return None

    def send(self, kind: str, **fields: Any) -> None:
        """Send a response or an event; nothing where the editor has gone."""
        with self._sending:
            self._sent += 1
            body = json.dumps({"seq": self._sent, "type": kind, **fields}).encode()
            try:
                self._sink.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                self._sink.flush()
            except (OSError, ValueError):
                self.closed = True

    def event(self, name: str, **body: Any) -> None:
        """Tell the editor what has happened."""
        self.send("event", event=name, body=body)
