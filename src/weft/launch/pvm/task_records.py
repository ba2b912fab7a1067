"""Complete the records of PVM tasks that could not do it themselves: of the group server, and of killed tasks.

The group server waits for requests until the daemon ends it: that is its normal end, not a call that never returned. So
the receive in which it was ended is removed from its record, which then says that it left in good order.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.launch.rankfile import (
    CHUNK_FORMAT,
    CHUNK_TABLE,
    FLAGS_OFFSET,
    SLOT,
    STATE,
    header_offset,
    read_chunks,
    read_header,
)
from weft.pvm.tasks import read_tasks
from weft.trace.layout import PAGE, Flag, State, StreamKind

_USED: Final = CHUNK_FORMAT.size - 8


def record_path(run: Path, rank: int) -> Path:
    """Return the path of a task's record."""
    return run / "ranks" / f"pvm-{rank:06d}.weft"


def close_server_records(run: Path) -> None:
    """Mark the record of each PVM group server of a run as ended, since the server is killed together with its virtual
    machine.
    """
    for task in read_tasks(run):
        if task.is_group_server:
            try:
                _close_server_record(record_path(run, task.rank))
            except OSError:
                continue  # it left no record


def mark_task_ended(run: Path, rank: int) -> None:
    """Mark in the record of a task whose process is gone that it has ended."""
    try:
        file = os.open(record_path(run, rank), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # it left no record
    try:
        header = read_header(os.pread(file, PAGE, 0))
        if header is not None and header.state is State.RUNNING:
            _write_state(file, State.EXITED)
    finally:
        os.close(file)


def _write_state(file: int, state: State) -> None:
    os.pwrite(file, int(state).to_bytes(STATE.size // 5, "little"), header_offset("state"))


def _close_server_record(path: Path) -> None:
    """Mark the record of PVM's group server as ended, as it is killed with the machine."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        page = os.pread(file, PAGE, 0)
        if (header := read_header(page)) is None or header.over:
            return
        chunks, _ = read_chunks(file, page)
        of_events = [i for i, chunk in enumerate(chunks) if chunk.kind == StreamKind.EVENTS and chunk.used >= SLOT]
        if of_events:
            last = of_events[-1]
            chunk = chunks[last]
            flags = os.pread(file, 1, chunk.offset + chunk.used - SLOT + FLAGS_OFFSET)
            if not flags[0] & Flag.CLOSED:
                place = CHUNK_TABLE + last * CHUNK_FORMAT.size + _USED
                os.pwrite(file, (chunk.used - SLOT).to_bytes(8, "little"), place)
        _write_state(file, State.FINALIZED)
    finally:
        os.close(file)
