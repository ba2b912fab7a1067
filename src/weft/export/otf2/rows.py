"""Rows of records, as native/kernel/otf2.c reads them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints

ROW: Final = np.dtype(
    [
        ("time", "<u8"), ("a", "<u8"), ("b", "<u8"), ("id", "<u8"), ("x", "<u4"), ("y", "<u4"), ("z", "<u4"),
        ("kind", "u1"), ("small", "u1"), ("unused", "<u2"),
    ]
)  # fmt: skip

# Where in its call a record stands.
ENTERED: Final = 0
BEGUN: Final = 1
DURING: Final = 2
DONE: Final = 3
LEFT: Final = 4
_PHASES: Final = 8


class Kind(IntEnum):
    """The kinds of records, as in otf2.c."""

    ENTER = 0
    LEAVE = 1
    SEND = 2
    ISEND = 3
    ISEND_COMPLETE = 4
    IRECV_REQUEST = 5
    RECV = 6
    IRECV = 7
    COLLECTIVE_BEGIN = 8
    COLLECTIVE_END = 9
    COLLECTIVE_REQUEST = 10
    COLLECTIVE_COMPLETE = 11
    RMA_WIN_CREATE = 12
    RMA_WIN_DESTROY = 13
    RMA_COLLECTIVE_BEGIN = 14
    RMA_COLLECTIVE_END = 15
    RMA_PUT = 16
    RMA_GET = 17
    RMA_ATOMIC = 18
    RMA_COMPLETE = 19
    RMA_REQUEST_LOCK = 20
    RMA_ACQUIRE_LOCK = 21
    RMA_RELEASE_LOCK = 22


class Rows:
    """Records of one sort: in which calls of a block (`place`), and at which point of the call (`phase`)."""

    def __init__(self, place: Ints, phase: int, kind: Any, **columns: Any) -> None:
        self.place, self.phase = place, phase
        self.rows = np.zeros(len(place), ROW)
        self.rows["kind"] = kind
        for name, values in columns.items():
            self.rows[name] = values

    def fill(self, partners: tuple[Ints, Ints, Ints], size: Ints, number: Ints) -> Rows:
        """Say of messages who, on which communicator, with which tag, how many bytes, and the request's number."""
        self.rows["x"], self.rows["y"], self.rows["z"] = partners
        self.rows["a"], self.rows["id"] = size, number
        return self


def laid(block: Block, parts: Sequence[Rows]) -> tuple[NDArray[np.void], Ints]:
    """All records of a block in their order, and the place of each one's call."""
    place = np.concatenate([part.place for part in parts])
    phase = np.concatenate([np.full(len(part.place), part.phase) for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    rows["time"] = np.where(phase <= BEGUN, block.enter[place], block.leave[place])
    order = np.argsort(place * _PHASES + phase, kind="stable")
    return rows[order], place[order]
