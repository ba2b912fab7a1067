"""The records of a rank, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints
from weft.export.otf2 import collectives, onesided
from weft.export.otf2.definitions import Definitions
from weft.export.otf2.rows import ENTERED, LEFT, Kind, Records, laid
from weft.export.otf2.traffic import RankTraffic
from weft.terms.event_findings import said
from weft.trace import Event, Rank


class Recorder:
    """Makes the records of a rank. `sent` counts the messages."""

    def __init__(self, rank: Rank, traffic: RankTraffic, definitions: Definitions) -> None:
        self._rank, self._traffic, self._definitions = rank, traffic, definitions
        self._collectives = collectives.Calls(rank, traffic.collectives)
        self._onesided = onesided.Calls(rank, definitions)
        # OTF2 wants the times of a location to ascend: a damaged record may not.
        self._last = [0] * max(1, len(rank.threads))
        self.sent = 0

    def rows(self, block: Block) -> Iterator[tuple[int, NDArray[np.void]]]:
        """By thread (place in rank.threads) its records of a block, in order."""
        parts = [*self._calls(block), *self._traffic.rows(block), *self._collectives.rows(block)]
        parts += self._onesided.rows(block)
        rows, place = laid(block, parts)
        self.sent += int(np.isin(rows["kind"], (Kind.SEND, Kind.ISEND)).sum())
        for thread in range(len(self._rank.threads)):
            mine = rows[block.thread[place] == thread]
            if len(mine):
                times = np.maximum.accumulate(np.maximum(mine["time"], self._last[thread]))
                self._last[thread] = int(times[-1])
                mine["time"] = times
                yield thread, mine

    def _calls(self, block: Block) -> list[Records]:
        every = np.arange(len(block))
        regions = self._numbers(block, "function", self._definitions.region)
        sites = self._numbers(block, "site", lambda site: self._definitions.site(self._rank, site))
        return [Records(every, ENTERED, Kind.ENTER, x=regions, y=sites), Records(every, LEFT, Kind.LEAVE, x=regions)]

    def _numbers(self, block: Block, column: str, number: object) -> Ints:
        ids, codes = block.coded(column)
        return np.array([number(i) for i in ids], np.int64)[codes]  # type: ignore[operator]

    def open_calls(self, block: Block) -> Iterator[tuple[str, int, int, int]]:
        """(text, start, end, location) of the calls that never returned."""
        for place in np.flatnonzero(block.open).tolist():
            event = Event(self._rank, int(block.index[place]))
            text = f"rank {self._rank.index} never returned from {said(event)}"
            location = self._definitions.location(self._rank, int(block.thread[place]))
            yield text, int(block.enter[place]), int(block.leave[place]), location
