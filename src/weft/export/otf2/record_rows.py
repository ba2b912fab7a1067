"""Rows of records, as native/kernel/otf2.c reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints
from weft.native.headers.otf2 import OTF2_ROW as ROW
from weft.native.headers.otf2 import Otf2Kind as Kind

__all__ = ["BEGUN", "DONE", "DURING", "ENTERED", "LEFT", "ROW", "Kind", "Records", "sort_records"]

# Where in its call a record stands.
ENTERED: Final = 0
BEGUN: Final = 1
DURING: Final = 2
DONE: Final = 3
LEFT: Final = 4
_PHASES: Final = 8


class Records:
    """Records of one kind, for the calls at `place` of a block, at the point `phase` of the call."""

    def __init__(self, place: Ints, phase: int, kind: Any, **columns: object) -> None:
        self.place, self.phase = place, phase
        self.rows = np.zeros(len(place), ROW)
        self.rows["kind"] = kind
        for name, values in columns.items():
            self.rows[name] = values

    def fill_message_columns(self, partners: tuple[Ints, Ints, Ints], size: Ints, request_number: Ints) -> Records:
        """Set the columns of message records and return the records. `partners`: partner, communicator and tag; `size`:
        in bytes.
        """
        self.rows["x"], self.rows["y"], self.rows["z"] = partners
        self.rows["a"], self.rows["id"] = size, request_number
        return self


def sort_records(block: Block, parts: Sequence[Records]) -> tuple[NDArray[np.void], Ints]:
    """Return the records of a block in the order of their calls and, within a call, of its phases. The second column is
    the place of each record's call in the block.
    """
    place = np.concatenate([part.place for part in parts])
    phase = np.concatenate([np.full(len(part.place), part.phase) for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    rows["time"] = np.where(phase <= BEGUN, block.enter[place], block.leave[place])
    order = np.argsort(place * _PHASES + phase, kind="stable")
    return rows[order], place[order]
