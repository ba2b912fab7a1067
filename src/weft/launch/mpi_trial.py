"""One process of a trial between hosts, started on each by the launcher: `python -m weft.launch.mpi_trial FACTS`.

It needs no compiler and no mpi4py: MPI's library is called as it is, with the handles of its ABI. What it says are
lines of JSON behind MARK: first where it runs and how the asking host is reached, then that all messages came.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, Final

MARK: Final = "weft-message "
SIZES: Final = (4, 1 << 20)
"""Bytes of the messages: one that goes at once, one that is asked for first."""
NEIGHBOURS: Final = 8
"""Ranks behind its own that each sends to, and before its own that it receives from."""
CONNECT: Final = 2.0
"""Seconds for an address of the asking host to answer."""
HANDLES: Final = {
    "mpich": (ctypes.c_int(0x44000000), ctypes.c_int(0x4C00010D), ctypes.c_void_p(1)),
    "mpi-abi": (ctypes.c_void_p(0x101), ctypes.c_void_p(0x247), ctypes.c_void_p(0)),
}
"""MPI_COMM_WORLD, MPI_BYTE and MPI_STATUS_IGNORE, by ABI; those of Open MPI are objects of its library."""


def handles(library: ctypes.CDLL, abi: str) -> tuple[Any, Any, Any]:
    """The three handles that a message takes."""
    if abi in HANDLES:
        return HANDLES[abi]
    world, byte = (ctypes.c_char.in_dll(library, f"ompi_mpi_{name}") for name in ("comm_world", "byte"))
    return ctypes.byref(world), ctypes.byref(byte), ctypes.c_void_p(0)


def say(**facts: object) -> None:
    """Tell the asking host, in one write: others may write at the same time."""
    os.write(1, f"\n{MARK}{json.dumps(facts)}\n".encode())


def way_back(addresses: list[str], port: int) -> str | None:
    """The first address at which the asking host answers."""
    for address in addresses:
        with suppress(OSError), socket.create_connection((address, port), CONNECT):
            return address
    return None


def exchange(library: ctypes.CDLL, abi: str) -> tuple[int, int]:
    """Send and receive among all ranks; returns the rank and how many there are. MPI ends it where that fails."""
    comm, byte, ignored = handles(library, abi)
    rank, size = ctypes.c_int(), ctypes.c_int()
    library.MPI_Init(None, None)
    library.MPI_Comm_rank(comm, ctypes.byref(rank))
    library.MPI_Comm_size(comm, ctypes.byref(size))
    me, count = rank.value, size.value
    for shift in range(1, min(count, 1 + NEIGHBOURS)):
        for length in SIZES:
            sent, came = ctypes.create_string_buffer(bytes([me % 251]) * length, length), (ctypes.c_char * length)()
            source = (me - shift) % count
            library.MPI_Sendrecv(
                sent, length, byte, (me + shift) % count, shift, came, length, byte, source, shift, comm, ignored
            )
            if bytes(came) != bytes([source % 251]) * length:
                raise SystemExit(f"rank {me} got other bytes than rank {source} has sent")
    library.MPI_Finalize()
    return me, count


def main() -> None:
    """Say where this is, and pass messages where that is asked for."""
    facts = json.loads(sys.argv[1])
    signal.alarm(int(facts["limit"]))  # nothing stays behind, whatever hangs
    library = ctypes.CDLL(facts["library"], mode=ctypes.RTLD_GLOBAL)
    say(host=os.uname().nodename, way=way_back(facts["addresses"], facts["port"]) if facts["port"] else None)
    if facts["messages"]:
        rank, size = exchange(library, facts["abi"])
        say(rank=rank, size=size)


if __name__ == "__main__":
    main()
