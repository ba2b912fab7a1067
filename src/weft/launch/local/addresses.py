"""Find the addresses at which other hosts reach this one."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

GIVEN: Final = "WEFT_ADDRESS"
"""A variable with names or addresses, for where what is found does not fit."""
_SIOCGIFADDR: Final = 0x8915
_IFREQ: Final = 40


def find_own_addresses() -> list[str]:
    """Return this host's addresses, the likeliest first and 127.0.0.1 last."""
    if given := os.environ.get(GIVEN):
        return [word for word in given.split(",") if word]
    found = [*_find_ipv4_addresses(), *_find_ipv6_addresses()]
    return [*(one for one in found if not _is_loopback(one)), "127.0.0.1"]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _find_ipv4_addresses() -> list[str]:
    """Return the IPv4 address of each network interface."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = array.array("B", struct.pack("16s", name.encode()[:15]).ljust(_IFREQ, b"\0"))
            with suppress(OSError):
                fcntl.ioctl(asked, _SIOCGIFADDR, request)
                found.append(socket.inet_ntoa(request.tobytes()[20:24]))
    return found


def _find_ipv6_addresses() -> list[str]:
    """Return the IPv6 addresses of this host that are valid in other networks, too."""
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    except OSError:
        return []
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]
