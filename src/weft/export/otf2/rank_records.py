"""Make the records of a rank, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints
from weft.export.otf2 import collectives, onesided
from weft.export.otf2.definitions import Definitions
from weft.export.otf2.messages import RankTraffic
from weft.export.otf2.record_rows import ENTERED, LEFT, Kind, Records, sort_records
from weft.terms.event_findings import call_at
from weft.trace import Event, Rank


class RankRecords:
    """Make the records of a rank, and count its messages in `sent`."""

    def __init__(self, rank: Rank, traffic: RankTraffic, definitions: Definitions) -> None:
        self._rank, self._traffic, self._definitions = rank, traffic, definitions
        self._collectives = collectives.CollectiveCalls(rank, traffic.collectives)
        self._onesided = onesided.OneSidedCalls(rank, definitions)
        # OTF2 wants the times of a location to ascend: a damaged record may not.
        self._last = [0] * max(1, len(rank.threads))
        self.sent = 0

    def records_by_thread(self, block: Block) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Yield (index in rank.threads, OTF2 records in order of time) for each thread that has calls in a block."""
        parts = [
            *self._make_enter_leave_records(block),
            *self._traffic.block_records(block),
            *self._collectives.block_records(block),
        ]
        parts += self._onesided.block_records(block)
        rows, place = sort_records(block, parts)
        self.sent += int(np.isin(rows["kind"], (Kind.SEND, Kind.ISEND)).sum())
        for thread in range(len(self._rank.threads)):
            mine = rows[block.thread[place] == thread]
            if len(mine):
                times = np.maximum.accumulate(np.maximum(mine["time"], self._last[thread]))
                self._last[thread] = int(times[-1])
                mine["time"] = times
                yield thread, mine

    def _make_enter_leave_records(self, block: Block) -> list[Records]:
        """Return OTF2's records for the begin and end of each call in a block."""
        every = np.arange(len(block))
        regions = self._number_column(block, "function", self._definitions.region_number)
        sites = self._number_column(block, "site", lambda site: self._definitions.site_number(self._rank, site))
        return [Records(every, ENTERED, Kind.ENTER, x=regions, y=sites), Records(every, LEFT, Kind.LEAVE, x=regions)]

    def _number_column(self, block: Block, column: str, number: object) -> Ints:
        ids, codes = block.encode_column(column)
        return np.array([number(i) for i in ids], np.int64)[codes]  # type: ignore[operator]

    def find_open_calls(self, block: Block) -> Iterator[tuple[str, int, int, int]]:
        """Yield (text, start ns, end ns, location) for each call of a block that never returned. The location is OTF2's
        number of the thread.
        """
        for place in np.flatnonzero(block.open).tolist():
            event = Event(self._rank, int(block.index[place]))
            text = f"rank {self._rank.index} never returned from {call_at(event)}"
            location = self._definitions.location_number(self._rank, int(block.thread[place]))
            yield text, int(block.enter[place]), int(block.leave[place]), location
