"""The packets that are written once: clocks, and the tracks of ranks and threads."""

from __future__ import annotations

from typing import Final

from weft.export.perfetto.protobuf import bytes_field, number_field, text_field
from weft.trace import Rank, Thread

PACKET: Final = 1
"""Of Trace."""

# Of TracePacket.
CLOCK_SNAPSHOT: Final = 6
TIMESTAMP: Final = 8
SEQUENCE: Final = 10
TRACK_EVENT: Final = 11
INTERNED: Final = 12
SEQUENCE_FLAGS: Final = 13
DEFAULTS: Final = 59
TRACK_DESCRIPTOR: Final = 60

CLEARED: Final = 1
NEEDS_INTERNED: Final = 2

_REALTIME: Final = 1
_BOOTTIME: Final = 6


def make_clock_packet(start_ns: int) -> bytes:
    """Return the packet that says which wall-clock time is time 0 of the trace."""
    pairs = ((_BOOTTIME, 0), (_REALTIME, max(start_ns, 0)))
    snapshot = b"".join(bytes_field(1, number_field(1, clock) + number_field(2, ns)) for clock, ns in pairs)
    return bytes_field(PACKET, bytes_field(CLOCK_SNAPSHOT, snapshot))


def _pid(rank: Rank) -> int:
    """Return the process id to show for a rank. The real ones may be equal on several hosts, and 0 would be the
    kernel.
    """
    return rank.index + 1


def process_uuid(rank: Rank) -> int:
    """Return the id of a rank's track."""
    return (rank.index + 1) << 20


def thread_uuid(thread: Thread) -> int:
    """Return the id of a thread's track."""
    return process_uuid(thread.rank) + 1 + thread.slot


def make_process_packet(rank: Rank) -> bytes:
    """Return the packet that describes a rank's track (its line in the picture), with host and process id."""
    header = rank.header
    where = f" ({header.host}, pid {header.pid})" if header else " (left no record)"
    body = number_field(1, _pid(rank)) + text_field(6, f"rank {rank.index}{where}")
    return bytes_field(
        PACKET, bytes_field(TRACK_DESCRIPTOR, number_field(1, process_uuid(rank)) + bytes_field(3, body))
    )


def make_thread_field(thread: Thread) -> bytes:
    """Return the encoded field that describes a thread's track (its line in the picture), with its name and
    thread id.
    """
    rank = thread.rank
    names = {t.slot: t.name for t in rank.definitions.threads}
    # Thread ids are of the whole trace; that of the first thread is its process's.
    tid = _pid(rank) if thread is rank.threads[0] else thread_uuid(thread)
    name = "calls of MPI" if len(rank.threads) == 1 else f"thread {thread.slot} {names.get(thread.slot, '')}".rstrip()
    body = number_field(1, _pid(rank)) + number_field(2, tid) + text_field(5, name)
    return bytes_field(TRACK_DESCRIPTOR, number_field(1, thread_uuid(thread)) + bytes_field(4, body))
