"""Send and read messages of the Debug Adapter Protocol on a pair of streams: a header with the length, then JSON.

Source: "Base protocol", microsoft.github.io/debug-adapter-protocol/overview.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from weft.errors import WeftError

Message = dict[str, Any]
MAX_MESSAGE_BYTES = 64 << 20
"""Bytes of a message; a longer one is none, and would only fill the memory."""


class WireError(WeftError):
    """The data that came is no message of the protocol."""


MAX_UNAUTHENTICATED_BYTES = 1 << 20
"""The same of a peer that has not shown yet that it may ask for anything."""
HEADERS = ("content-length", "content-type")
"""Those of the protocol: what sends another one speaks another protocol, as a browser does."""


class Wire:
    """The connection to one editor. Several threads may send. `max_bytes`: the longest message that the editor may
    send.
    """

    max_bytes = MAX_MESSAGE_BYTES

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._sent = 0
        self._sending = threading.Lock()
        self.closed = False

    def read_messages(self) -> Iterator[Message]:
        """Yield the editor's messages until it closes the connection. WireError if what comes is not a message of the
        protocol.
        """
        while (length := self._read_header()) is not None:
            body = self._source.read(length)
            if len(body) < length:
                return
            try:
                message = json.loads(body)
            except (ValueError, RecursionError) as error:
                raise WireError(f"the editor sent a message that is not JSON: {error}") from error
            if not isinstance(message, dict):
                raise WireError("the editor sent a message that is not a JSON object")
            yield message

    def _read_header(self) -> int | None:
        """Return how many bytes the next message has; None if the editor has closed the connection."""
        found: dict[str, str] = {}
        while line := self._source.readline(1000):
            name, _, value = line.decode("ascii", "replace").strip().partition(":")
            if not name:
                return self._parse_length(found)
            if name.lower() not in HEADERS or name.lower() in found:
                raise WireError(
                    f"the editor sent a header that is not one of the Debug Adapter Protocol: {name[:60]!r}"
                )
            found[name.lower()] = value.strip()
        return None

    def _parse_length(self, headers: dict[str, str]) -> int:
        """Return the number in the field Content-Length. WireError if the field is missing or is not a valid length."""
        length = headers.get("content-length")
        if length is None:
            raise WireError("the editor sent a header without Content-Length")
        if not length.isdigit() or int(length) > self.max_bytes:
            raise WireError(f"the editor sent Content-Length {length[:60]!r}, which is not a valid length")
        return int(length)

    def send(self, kind: str, **fields: Any) -> None:
        """Send a response or an event to the editor; does nothing if it has disconnected."""
        with self._sending:
            self._sent += 1
            body = json.dumps({"seq": self._sent, "type": kind, **fields}).encode()
            try:
                self._sink.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                self._sink.flush()
            except (OSError, ValueError):
                self.closed = True

    def send_event(self, name: str, **body: Any) -> None:
        """Send an event to the editor."""
        self.send("event", event=name, body=body)
