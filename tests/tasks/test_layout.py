"""The native table of a program that is not one's own, whose memory says what it likes."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest

from weft.errors import DebuggerError
from weft.tasks.layout import HEADER, MAGIC, MOST, SIZE, SLAB, SLABS, Read, TaskScopes, read_records

BASE, SLAB_AT, WORKER_AT = 0x1000_0000, 0x7000_0000, 0x6000_0000


def table(count: int = 1, workers: int = 0) -> bytes:
    """The head of a table, with the sizes that Weft's tool has."""
    head = bytearray(HEADER)
    head[:8] = MAGIC
    struct.pack_into("<i", head, 8, count)
    struct.pack_into("<II", head, 16, SIZE, SLAB)
    struct.pack_into("<Q", head, 24, workers)
    return bytes(head)


def memory(head: bytes, *, slabs: int = 1, worker: bytes = bytes(40), slab: bytes = b"\1" * (SIZE * SLAB)) -> Read:
    """What is read of a process: each of so many slabs is the same memory, mapped again."""
    pointers = np.zeros(SLABS, "<u8")
    pointers[:slabs] = SLAB_AT + np.arange(slabs, dtype="<u8") * SIZE * SLAB

    def read(address: int, length: int) -> bytes:
        if address == BASE:
            return head[:length]
        if address == BASE + HEADER:
            return pointers.tobytes()[:length]
        if address == BASE + HEADER + 8 * SLABS:
            return struct.pack("<Q", WORKER_AT).ljust(length, b"\0")[:length]
        return (worker if address == WORKER_AT else slab)[:length].ljust(length, b"\0")

    return read


def test_a_slab_that_is_there_again_and_again_takes_no_memory_without_end() -> None:
    with pytest.raises(DebuggerError, match="living tasks, or is damaged"):
        read_records(memory(table(SLABS), slabs=SLABS), BASE)
    assert len(read_records(memory(table(2), slabs=2), BASE)[0]) == 2 * SLAB < MOST


@pytest.mark.parametrize("count", [-1, -(2**31), 0, 2**31 - 1])
def test_a_table_of_no_possible_size_is_read_as_far_as_it_goes(count: int) -> None:
    assert len(read_records(memory(table(count)), BASE)[0]) == (SLAB if count > 0 else 0)


def test_a_worker_that_has_no_number_is_none_of_the_threads() -> None:
    slab = np.zeros((SLAB, SIZE), np.uint8)
    slab[:, 0] = 1
    worker = struct.pack("<5Q", SLAB_AT, 0, 0, 2**64 - 1, SLAB_AT)
    rows, _ = read_records(memory(table(1, workers=2**63), worker=worker, slab=slab.tobytes()), BASE)
    assert len(rows) == SLAB


def test_a_stack_of_all_tasks_is_gone_through_once() -> None:
    slab = np.zeros((SLAB, SIZE), np.uint8)
    slab[:, 0] = 1
    worker = struct.pack("<5Q", SLAB_AT, 0, 0, 1, 0)
    began = time.process_time()
    read_records(memory(table(1000, workers=4096), slabs=1000, worker=worker, slab=slab.tobytes()), BASE)
    assert time.process_time() - began < 20


def test_taskgroups_without_end_are_refused() -> None:
    with pytest.raises(DebuggerError, match="are nested"):
        TaskScopes(lambda address, length: struct.pack("<Q", address + 8)[:length], np.array([0x1000], "<u8"))
    assert TaskScopes(lambda *_: bytes(8), np.array([0x1000], "<u8")).scopes_inside(0x1000) == [0x1000]
