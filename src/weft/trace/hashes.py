"""Reads the hashes of a rank's messages, and the first bytes of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.trace.layout import CONTENT_MOST, HASHED, StreamKind
from weft.trace.rankfile import RankFile


@dataclass(frozen=True, slots=True)
class Hashes:
    """Rows of dtype layout.HASHED, with `event` an index in the rank's events, in order of events.

    `at`: where the kept bytes of each row begin in `content`, -1 for a row without.
    """

    rows: NDArray[Any]
    at: NDArray[np.int64]
    content: NDArray[np.uint8]

    def content_of(self, row: int) -> NDArray[np.uint8] | None:
        """Return the first bytes of a message, by its row in the table of hashes; None if these bytes were not
        recorded.
        """
        if self.at[row] < 0:
            return None
        begin = int(self.at[row])
        return self.content[begin : begin + min(int(self.rows["bytes"][row]), CONTENT_MOST)]


def read_hashes(file: RankFile | None, slots: Sequence[int], threads: NDArray[np.int32]) -> Hashes:
    """Return the hashes of a rank's messages, in order of events. Hashes of calls that the record lacks are left out.

    `slots`: the record's numbers of the rank's threads; `threads`: for each event of the rank, the index in `slots`.
    """
    rows, at, content = [np.empty(0, HASHED)], [np.empty(0, np.int64)], list[NDArray[np.uint8]]()
    for number in file.numbers(StreamKind.HASHES) if file else []:
        data = file.stream(StreamKind.HASHES, number) if file else np.empty(0, np.uint8)
        some = data[: len(data) // HASHED.itemsize * HASHED.itemsize].view(HASHED)
        kept = file.stream(StreamKind.CONTENTS, number) if file else np.empty(0, np.uint8)
        rows.append(some)
        at.append(_locate_contents(some, len(kept), sum(map(len, content))))
        content.append(kept)
    # The contents of one thread stay in the file: they may be much.
    whole = content[0] if len(content) == 1 else np.concatenate([np.empty(0, np.uint8), *content])
    return _renumber_events_by_rank(slots, threads, Hashes(np.concatenate(rows), np.concatenate(at), whole))


def _locate_contents(rows: NDArray[Any], thread_bytes: int, bytes_before: int) -> NDArray[np.int64]:
    """Return where the recorded bytes of each row's message begin in the joined contents of all threads; -1 if there
    are none. `thread_bytes`: the bytes of this thread; `bytes_before`: the bytes of the threads before it.
    """
    lengths = np.where(rows["kept"] == 1, np.minimum(rows["bytes"], CONTENT_MOST), 0).astype(np.int64)
    ends = np.cumsum((lengths + 7) // 8 * 8)
    begins = ends - (lengths + 7) // 8 * 8
    return np.where((lengths > 0) & (ends <= thread_bytes), begins + bytes_before, -1)


def _renumber_events_by_rank(slots: Sequence[int], threads: NDArray[np.int32], found: Hashes) -> Hashes:
    """Return the hashes in order of events. Their event indices, which counted the events of a thread, now count the
    events of the rank.
    """
    rows = found.rows.copy()
    event = np.full(len(rows), -1, np.int64)
    for number, slot in enumerate(slots):
        places = np.flatnonzero(threads == number)
        mine = (rows["thread"] == slot) & (rows["event"] < len(places))
        event[mine] = places[rows["event"][mine]]
    kept = np.flatnonzero(event >= 0)
    order = kept[np.argsort(event[kept], kind="stable")]
    rows["event"] = np.maximum(event, 0)
    return Hashes(rows[order], found.at[order], found.content)
