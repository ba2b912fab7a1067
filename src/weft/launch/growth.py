"""Notices a rank whose record grows fast, and says once which line makes it so and what to do about it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

LIMIT: Final = 50_000_000
"""Bytes a second of one rank's record above which this is said."""
SPAN: Final = 2.0
"""Seconds over which growth is measured."""
_CHUNK: Final = 1 << 22
"""Bytes by which a record grows at a time."""
_CALLS: Final = 10_000
"""The newest calls of a rank, among which the line with most of them is found."""


class GrowthWatch:
    """Compares the sizes of rank files with those of two seconds before; speaks once, by `say`."""

    def __init__(self, run: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._say, self._clock = run, say, clock
        self._since, self._sizes = clock(), dict[Path, int]()
        self.speaker: threading.Thread | None = None

    def compare_sizes(self, files: Iterable[Path]) -> None:
        """Compare the sizes of the rank files with those at the last comparison, if that was long enough ago. If one
        grows too fast, start a thread that reports which, and stop comparing."""
        now = self._clock()
        seconds = now - self._since
        if self.speaker is not None or seconds < SPAN:
            return
        sizes: dict[Path, int] = {}
        for file in files:
            with contextlib.suppress(OSError):  # renamed just now
                sizes[file] = file.stat().st_size
        grown = {file: size - self._sizes[file] for file, size in sizes.items() if file in self._sizes}
        self._since, self._sizes = now, sizes
        fastest = max(grown, key=grown.__getitem__, default=None)
        if fastest is not None and grown[fastest] > LIMIT * seconds + _CHUNK:
            rate = grown[fastest] / seconds
            # To look up the line takes longer than a watcher may be away.
            self.speaker = threading.Thread(target=self._speak, args=(fastest, rate), daemon=True)
            self.speaker.start()

    def _speak(self, file: Path, rate: float) -> None:
        with contextlib.suppress(Exception):  # the run goes on, whatever is wrong with its record now
            self._say(describe_growth(self._run, file, rate))


def describe_growth(run: Path, file: Path, rate: float) -> str:
    """Return the sentence that says how fast a record grows, most of it by which call, and what the user can do.
    `rate`: bytes a second."""
    # Few jobs record so much: the others do without numpy and the reader of records.
    import numpy as np

    from weft.terms.describe import call_words, site_suffix
    from weft.trace import Trace
    from weft.trace.site_lines import resolve_sites

    trace = Trace.open(run)
    rank = next(rank for rank in trace.ranks if rank.file is not None and rank.file.path.name == file.name)
    resolve_sites(trace)
    sites = rank.events["site"][-_CALLS:]
    numbers, counts = np.unique(sites, return_counts=True)
    newest = len(rank.events) - len(sites) + int(np.flatnonzero(sites == numbers[counts.argmax()])[-1])
    event = rank.event(newest)
    return (
        f"rank {rank.index} records {rate / 1e6:.0f} MB a second, most of it for "
        f"{call_words(event)}{site_suffix(event)}; "
        "`weft run --keep last:1min` records the last minute only, `--level outcomes` only what a replay needs"
    )
