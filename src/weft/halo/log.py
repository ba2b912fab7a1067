"""What a rank wrote down of its shared arrays: RUN/halo, a file a process.

    "WEFTHALO" | record | record | ...

A record is a head (kind, bytes behind it, moment) and a payload. Its moment is the number of calls of MPI that the rank
had made. PART and USE are JSON; a RUN is one more time that a USE came, as numbers; OWNED and GHOSTS are the values at
the cells that a part's neighbours have copies of, and at its own copies, as float32, written where they have changed.
END is missing where the process was killed. Of native programs (recorder/halo.c) a line is the number of a site, and
a read of a USE is pairs: a ghost, and the cell that was stored next.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final, NamedTuple

import numpy as np

from weft.native.headers.halo_kinds import HaloKind as Kind

MAGIC: Final = b"WEFTHALO"
FOLDER: Final = "halo"
SUFFIX: Final = ".halo"
MOST: Final = 1 << 29
"""Bytes that a process writes down."""
HEAD: Final = struct.Struct("<BxxxIQ")
NUMBER: Final = struct.Struct("<II")
"""The head of RUN (use, reads), OWNED and GHOSTS (part, 0)."""
READ: Final = struct.Struct("<QII")
"""One read of a RUN: its moment, how many GHOSTS of its part, and how many RUNs, there were."""


class Record(NamedTuple):
    """A record as it stands in the file."""

    kind: Kind
    moment: int
    payload: bytes

    def json(self) -> dict[str, Any]:
        """Return the payload of a PART or USE."""
        made: dict[str, Any] = json.loads(self.payload)
        return made

    def number(self) -> int:
        """Return the number in the record: of the use for a RUN, of the part for values and ENDED."""
        return int(NUMBER.unpack_from(self.payload)[0])

    def values(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the values of OWNED and GHOSTS."""
        return np.frombuffer(self.payload, np.float32, offset=NUMBER.size)

    def reads(self) -> list[tuple[int, int, int]]:
        """Return the reads of a RUN record: moment, looks at ghosts, uses."""
        return [(moment, ghosts, runs) for moment, ghosts, runs in READ.iter_unpack(self.payload[NUMBER.size :])]
