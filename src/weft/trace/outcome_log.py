"""The OUTCOMES stream of level `outcomes`: nibbles that name each nondeterministic outcome (see native/format.h)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.trace.layout import LogKind

ESCAPE: Final = 14
TURN: Final = 15


def decode_outcomes(data: NDArray[np.uint8], nibbles: int | None = None) -> list[tuple[int, int]]:
    """Return the outcomes of nondeterministic calls as (kind, value). They are stored in nibbles (half bytes), the
    first one of a byte in its low half.

    `nibbles`: the stream's length, by default all of `data`. A last outcome that is cut off is left out.
    """
    stream = np.empty(2 * len(data), np.uint8)
    stream[0::2] = data & 15
    stream[1::2] = data >> 4
    values = stream[:nibbles].tolist()
    found: list[tuple[int, int]] = []
    kind: int = LogKind.SOURCE
    i, n = 0, len(values)
    while i < n:
        nibble = values[i]
        i += 1
        if nibble < ESCAPE:
            found.append((kind, nibble))
        elif nibble == TURN:
            if i == n:
                break
            kind = values[i]
            i += 1
        else:
            number = shift = 0
            while i < n and shift < 66:
                part = values[i]
                i += 1
                number |= (part & 7) << shift
                shift += 3
                if part < 8:
                    found.append((kind, number))
                    break
    return found
