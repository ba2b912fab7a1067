"""Find out which user is at the other end of a connection within this host: every user can connect to a port."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

GONE: Final = -1
"""Instead of a user: the other end is closed already, and the kernel does not tell whose it was."""

NAMES: Final = 4
MOST_OF_NAME: Final = 80
LOOKS: Final = 2
"""Looks at the kernel's tables: while others come and go, one may not show all."""
ASKERS: Final = 4096
"""Processes of a host that may ask whose a name is: nobody answers them."""


def find_peer_user(connection: socket.socket) -> int | None:
    """Return the number of the user at the other end of a connection within this host. None if the kernel
    does not say.
    """
    if connection.family == socket.AF_UNIX:
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    theirs, ours = connection.getpeername(), connection.getsockname()
    for _ in range(LOOKS):
        known = False
        for table, named in TABLES.items():
            rows = _read_connection_table(table)
            known |= bool(rows)
            for row in rows:
                if row[1:3] == [named(theirs), named(ours)]:
                    return int(row[7]) if row[9] != "0" else GONE
    return GONE if known else None


def is_ours(connection: socket.socket) -> bool:
    """Return whether this user or root is at the other end, as far as the kernel says."""
    return find_peer_user(connection) in (None, 0, os.geteuid())


def claim_name(name: str) -> socket.socket | None:
    """Take an abstract socket name for this process until it ends, and return the socket that has it. None if another
    process of this user has it.

    Every user can take any name. If another user has it, the next numbered name is tried; if all are taken, a socket
    without a name is returned.
    """
    for number in range(NAMES):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(f"\0{name[:MOST_OF_NAME]}-{os.geteuid()}-{number}")
            held.listen(ASKERS)
        except OSError:
            held.close()
            if _find_listening_user(f"\0{name[:MOST_OF_NAME]}-{os.geteuid()}-{number}") == os.geteuid():
                return None
        else:
            return held
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # two that speak are better than none


def _find_listening_user(address: str) -> int | None:
    """Return the number of the user who listens at an abstract socket name. None if nobody does."""
    for _ in range(10):  # it may have been taken just now, and not be listened at yet
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.setblocking(False)
            with suppress(OSError):
                one.connect(address)
                return find_peer_user(one)
        time.sleep(0.02)
    return None


def _read_connection_table(table: Path) -> list[list[str]]:
    """Return the lines of a table of connections of the kernel, split into words. Empty if the table cannot be
    read.
    """
    with suppress(OSError):
        return [line.split() for line in table.read_text().splitlines()[1:]]
    return []


def _format_ipv4(address: tuple[str, int]) -> str:
    """Return an address as /proc/net/tcp has it: the four bytes as a number of this machine's."""
    return f"{int.from_bytes(socket.inet_aton(address[0]), sys.byteorder):08X}:{address[1]:04X}"


def _format_mapped_ipv4(address: tuple[str, int]) -> str:
    """Return an address as /proc/net/tcp6 shows it for a socket of IPv6 that has connected to IPv4, as
    ::ffff:127.0.0.1."""
    return f"{0:016X}{int.from_bytes(bytes.fromhex('0000ffff'), sys.byteorder):08X}{_format_ipv4(address)}"


TABLES: Final = {Path("/proc/net/tcp"): _format_ipv4, Path("/proc/net/tcp6"): _format_mapped_ipv4}
"""The kernel's connections of this host, and how each table writes an address of IPv4."""
