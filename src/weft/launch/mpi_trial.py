"""Run one process of a trial between hosts, started by the launcher: `python -m weft.launch.mpi_trial FACTS`.

The process needs no compiler and no mpi4py: it calls MPI's library directly, with the handles of its ABI. It prints
lines of JSON after MARK: first its host and how it reaches the asking host, then that all messages arrived.
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


def make_mpi_constants(library: ctypes.CDLL, abi: str) -> tuple[Any, Any, Any]:
    """Return MPI_COMM_WORLD, MPI_BYTE and MPI_STATUS_IGNORE for an ABI."""
    if abi in HANDLES:
        return HANDLES[abi]
    world, byte = (ctypes.c_char.in_dll(library, f"ompi_mpi_{name}") for name in ("comm_world", "byte"))
    return ctypes.byref(world), ctypes.byref(byte), ctypes.c_void_p(0)


def print_facts(**facts: object) -> None:
    """Print facts as a line of JSON after MARK, in one write, as other processes may print at the same time."""
    os.write(1, f"\n{MARK}{json.dumps(facts)}\n".encode())


def find_reachable_address(addresses: list[str], port: int) -> str | None:
    """Return the first of the addresses at which the asking host answers, None if it answers at none."""
    for address in addresses:
        with suppress(OSError), socket.create_connection((address, port), CONNECT):
            return address
    return None


def run_trial_exchange(library: ctypes.CDLL, abi: str) -> tuple[int, int]:
    """Send and receive messages among all ranks of a trial, and return (this rank, number of ranks). MPI aborts on
    errors; SystemExit if a message has other bytes than were sent."""
    comm, byte, ignored = make_mpi_constants(library, abi)
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
    """Print where this process runs, and pass messages if the instructions ask for them."""
    facts = json.loads(sys.argv[1])
    signal.alarm(int(facts["limit"]))  # nothing stays behind, whatever hangs
    library = ctypes.CDLL(facts["library"], mode=ctypes.RTLD_GLOBAL)
    print_facts(
        host=os.uname().nodename,
        way=find_reachable_address(facts["addresses"], facts["port"]) if facts["port"] else None,
    )
    if facts["messages"]:
        rank, size = run_trial_exchange(library, facts["abi"])
        print_facts(rank=rank, size=size)


if __name__ == "__main__":
    main()
