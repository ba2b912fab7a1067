"""Which user is at the other end of a connection within this host: a port of it is reached by every user."""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

GONE: Final = -1
"""Instead of a user: the other end is closed already, and the kernel does not tell whose it was."""


def peer(connection: socket.socket) -> int | None:
    """The user at the other end of a connection within this host; None where the kernel does not tell."""
    if connection.family == socket.AF_UNIX:
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    theirs, ours = _named(connection.getpeername()), _named(connection.getsockname())
    with suppress(OSError), Path("/proc/net/tcp").open() as table:
        for line in table:
            words = line.split()
            if words[1:3] == [theirs, ours]:
                return int(words[7]) if words[9] != "0" else GONE
    return None


def is_ours(connection: socket.socket) -> bool:
    """Whether no other user is at the other end, as far as the kernel tells; root may be."""
    return peer(connection) in (None, 0, os.geteuid())


def _named(address: tuple[str, int]) -> str:
    """An address as /proc/net/tcp has it: the four bytes as a number of this machine's."""
    return f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"
