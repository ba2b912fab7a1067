"""Make Arrow columns from numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NAME: Final = pa.dictionary(pa.int32(), pa.string())


def masked_column(values: NDArray[Any], there: NDArray[np.bool_] | None) -> pa.Array:
    """Return an Arrow column in which cells are empty where `there` is false; none are if it is None."""
    return pa.array(values, mask=None if there is None else ~there)


def dictionary_column(codes: NDArray[Any], texts: Sequence[str | None]) -> pa.DictionaryArray:
    """Return an Arrow column of texts. Each of `codes` is an index in `texts`. A text of None, or a code below 0, makes
    an empty cell.
    """
    table = [*texts, None]
    empty = np.array([text is None for text in table], np.bool_)
    places = (np.cumsum(~empty) - 1).astype(np.int32)
    codes = np.where(codes < 0, len(texts), codes)
    index = pa.array(places[codes], pa.int32(), mask=empty[codes])
    return pa.DictionaryArray.from_arrays(index, pa.array([valid_utf8(t) for t in table if t is not None], pa.string()))


def valid_utf8(text: str) -> str:
    """Return text that UTF-8 can encode: a record may hold lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()
