"""Flows: arrows from the call that sent a message to the call that completed its receive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Ints
from weft.match import NONE, Operations
from weft.trace import Rank

Ids = NDArray[np.uint64]


class FlowEnds(NamedTuple):
    """Ends of flows at one rank: event `event[k]` has the flow `ids[k]`; events ascend."""

    event: Ints
    ids: Ids

    def ends_in_block(self, index: Ints) -> tuple[NDArray[np.int64], Ints]:
        """Return two columns for some events: how many ends of flows each has, and the index of its first end."""
        first = np.searchsorted(self.event, index, side="left")
        return np.searchsorted(self.event, index, side="right") - first, first


class RankFlows(NamedTuple):
    """The flows that begin at a rank, and those that end there."""

    begins: FlowEnds
    ends: FlowEnds


class Flows:
    """The flows of a run: one for each received message. Its id is the row of the send plus 1."""

    def __init__(self, of: Operations) -> None:
        self._of = of
        self.count = 0

    def rank_flows(self, rank: Rank) -> RankFlows:
        """Return the flows (arrows of messages) that begin at a rank's sends, and the flows that end at its receives.
        Also adds the number of the latter to `count`.
        """
        sends, recvs = self._of.sends, self._of.recvs
        part = sends.of_rank(rank.index)
        partner = sends.partner[part]
        rows = np.flatnonzero(partner != NONE)
        rows = rows[self._has_arrived(partner[rows])]
        begins = _sort_ends(sends.event[part][rows], (rows + part.start + 1).astype(np.uint64))
        part = recvs.of_rank(rank.index)
        arrived = (recvs.partner[part] != NONE) & (recvs.completion[part] != NONE)
        rows = np.flatnonzero(arrived)
        self.count += len(rows)
        return RankFlows(
            begins, _sort_ends(recvs.completion[part][rows], recvs.partner[part][rows].astype(np.uint64) + 1)
        )

    def _has_arrived(self, recvs: NDArray[np.uint32]) -> NDArray[np.bool_]:
        arrived: NDArray[np.bool_] = self._of.recvs.completion[recvs] != NONE
        return arrived


def _sort_ends(event: NDArray[np.uint32], ids: Ids) -> FlowEnds:
    order = np.argsort(event, kind="stable")
    return FlowEnds(event[order].astype(np.int64), ids[order])
