"""Where other hosts reach this one."""

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


def addresses() -> list[str]:
    """This host's addresses: the likeliest first, that of the host itself last."""
    if given := os.environ.get(GIVEN):
        return [word for word in given.split(",") if word]
    found = [*_fourth(), *_sixth()]
    return [*(one for one in found if not _own(one)), "127.0.0.1"]


def _own(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _fourth() -> list[str]:
    """Addresses of IPv4, an interface each."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = array.array("B", struct.pack("16s", name.encode()[:15]).ljust(_IFREQ, b"\0"))
            with suppress(OSError):
                fcntl.ioctl(asked, _SIOCGIFADDR, request)
                found.append(socket.inet_ntoa(request.tobytes()[20:24]))
    return found


def _sixth() -> list[str]:
    """Addresses of IPv6 that other networks know, too."""
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    except OSError:
        return []
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])) for row in rows if row[3] == "00"]
