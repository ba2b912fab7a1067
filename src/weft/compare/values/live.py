"""Compare a run with a reference while it goes on, to stop it at the first value that differs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from weft.compare.values.comparison import compare_values
from weft.compare.values.model import ValueComparison
from weft.errors import TraceError
from weft.values.folder import FOLDER
from weft.values.trace import ValueTrace

PAUSE: Final = 1.0
"""Seconds between looks, at least."""
SHARE: Final = 0.05
"""Of one core, at most, for looking: each look reads the values anew."""
_SURE: Final = frozenset(("value", "shape"))
"""Differences that nothing later takes back; missing elements, and sums of hashes, may still be on their way."""


class LiveComparison:
    """Compare the values of a run that goes on. `differs` is true once a value differs."""

    def __init__(self, reference: Path, run: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.reference = ValueTrace.open(reference)
        self.differs = False
        self._run, self._settings = run, settings
        self._next = time.monotonic() + PAUSE

    def compare_if_due(self) -> bool:
        """Compare the values that the run has kept so far, and return whether some differ for certain. If the last
        comparison ended too short a time ago, return False without comparing.
        """
        begun = time.monotonic()
        if begun < self._next or not (self._run / FOLDER).is_dir():
            return False
        try:
            found = compare_values(self.reference, ValueTrace.open(self._run), self._settings).found
        except TraceError:
            found = []  # no process has begun, or its file is being made
        self.differs = any(one.sort in _SURE for some in found for one in some)
        ended = time.monotonic()
        self._next = ended + max(PAUSE, (ended - begun) / SHARE)
        return self.differs

    def compare_all(self) -> ValueComparison:
        """Compare all that the run has kept. TraceError if it kept nothing."""
        return compare_values(self.reference, ValueTrace.open(self._run), self._settings)
