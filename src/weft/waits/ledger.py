"""Keep the one table of where the time went: by cause, for the run and for each rank. Report, view and notebook show
it.

Every share is one of the same base: the time of all ranks, from the run's first call to its last exit. For each rank
the causes add up to its time in MPI exactly, and that is never above its own time from its first call to its last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.match import Match
from weft.trace import Trace
from weft.waits.causes import LATE, ORDER, Cause
from weft.waits.kernels import Ints
from weft.waits.shared_cores import remark
from weft.waits.wait_states import Waiting, waits_of_run


def seconds(ns: float) -> str:
    """Return a time in ns as text: `1.3 s`, `25 ms`."""
    return f"{ns / 1e9:.3g} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} us"


_COLUMN: Final = 0.001


@dataclass(frozen=True)
class Base:
    """What every share is a share of: `span` ns of each of `streams` ranks (threads, where some have several)."""

    span: int
    ranks: int
    streams: int

    @property
    def ns(self) -> int:
        """Return the time of all threads of all ranks together."""
        return self.span * self.streams

    @property
    def who(self) -> str:
        """Return the ranks and threads as text: `4 ranks`, or `6 threads of 4 ranks`."""
        ranks = plural(self.ranks, "rank")
        return ranks if self.streams == self.ranks else f"{plural(self.streams, 'thread')} of {ranks}"

    @property
    def words(self) -> str:
        """Return the base of all shares as text: `all ranks' time: 4 ranks x 1.2 s = 4.8 s`."""
        return f"all ranks' time: {self.who} x {seconds(self.span)} = {seconds(self.ns)}"

    def share(self, ns: float) -> float:
        """Return the share of a time in ns; 0 if the base is 0."""
        return ns / self.ns if self.ns else 0.0


@dataclass(frozen=True)
class Ledger:
    """Time in ns by rank (row) and Cause (column), with the ranks' wall times, the base of shares, and a note on shared
    cores.

    `open_calls`: calls that never returned; their time is in no cause.
    """

    by_rank: Ints
    wall_ns: Ints
    base: Base
    crowded: str = ""
    open_calls: int = 0

    @property
    def in_mpi(self) -> int:
        """Return the time in MPI of all ranks, in ns."""
        return int(self.by_rank.sum())

    @property
    def late(self) -> int:
        """Return the time that all ranks waited for somebody late, in ns."""
        return int(self.by_rank[:, list(LATE)].sum())

    def total(self, cause: Cause) -> int:
        """Return the time of a cause in all ranks, in ns."""
        return int(self.by_rank[:, cause].sum())

    def present(self) -> list[Cause]:
        """Return the causes with any time, in the order of tables."""
        return [cause for cause in ORDER if self.total(cause)]

    def to_json(self, most: int = 1000) -> dict[str, Any]:
        """Return the times by cause as JSON values for reports and the view, with single rows for at most
        `most` ranks.
        """
        return {
            "base": {"ns": self.base.ns, "span_ns": self.base.span, "ranks": self.base.ranks,
                     "threads": self.base.streams, "text": self.base.words},
            "in_mpi_ns": self.in_mpi, "late_ns": self.late, "crowded": self.crowded, "open_calls": self.open_calls,
            "causes": [{"cause": cause.slug, "name": cause.label, "late": cause in LATE, "ns": self.total(cause),
                        "share": round(self.base.share(self.total(cause)), 6)} for cause in self.present()],
            "by_rank": [
                {"rank": rank, "in_mpi_ns": int(row.sum()), "wall_ns": int(self.wall_ns[rank]),
                 "causes": {cause.slug: int(row[cause]) for cause in ORDER if row[cause]}}
                for rank, row in enumerate(self.by_rank[:most])
            ],
        }  # fmt: skip

    def notes(self) -> Iterator[str]:
        """Yield sentences on what all numbers refer to: the base of the shares, ranks that shared cores, and calls that
        never returned.
        """
        yield f"shares are of {self.base.words}"
        if self.crowded:
            yield self.crowded
        if self.open_calls:
            verb = "is" if self.open_calls == 1 else "are"
            yield f"{plural(self.open_calls, 'call')} never returned and {verb} not counted"

    def lines(self) -> Iterator[str]:
        """Yield the table of times by cause as lines of text."""
        yield from self.notes()
        yield f"{'cause':<26}  {'time':>9}  {'of all':>6}"
        for cause in self.present():
            yield f"{cause.label:<26}  {seconds(self.total(cause)):>9}  {self.base.share(self.total(cause)):>6.1%}"
        yield f"{'in MPI':<26}  {seconds(self.in_mpi):>9}  {self.base.share(self.in_mpi):>6.1%}"

    def rank_lines(self, most: int) -> Iterator[str]:
        """Yield a table as lines of text: a head, then for each of the first `most` ranks its time in MPI by cause.
        Causes below 0.1 % share the column `others`; a last line counts the ranks left out.
        """
        shown = [cause for cause in self.present() if self.base.share(self.total(cause)) >= _COLUMN]
        heads = [cause.label for cause in shown]
        yield "  ".join(
            [f"{'rank':<10}", f"{'its time':>9}", f"{'in MPI':>9}", *(f"{h:>9}" for h in heads), "   others"]
        )
        for rank, row in enumerate(self.by_rank[:most]):
            parts = [int(row[cause]) for cause in shown]
            cells = [int(self.wall_ns[rank]), int(row.sum()), *parts, int(row.sum()) - sum(parts)]
            widths = [9, 9, *(max(9, len(head)) for head in heads), 9]
            texts = (f"{seconds(c) if c else '-':>{width}}" for c, width in zip(cells, widths, strict=True))
            yield "  ".join([f"rank {rank:<5}", *texts])
        if len(self.by_rank) > most:
            yield f"and {plural(len(self.by_rank) - most, 'more rank')}"


@dataclass(frozen=True)
class Times:
    """What of the times of a run, or of a segment of it, adds up: `a + b` is that of both.

    By rank: ns by Cause, the first entry, the last moment that its record knows, threads (0 for one without calls), and
    ns of polls that failed. `left_open`: calls that never returned.
    """

    by_rank: Ints
    begin: Ints
    end: Ints
    threads: Ints
    polling: Ints
    left_open: int

    def __add__(self, other: Times) -> Times:
        begin = np.where(other.threads == 0, self.begin, np.minimum(self.begin, other.begin))
        end = np.where(other.threads == 0, self.end, np.maximum(self.end, other.end))
        return Times(
            self.by_rank + other.by_rank,
            np.where(self.threads == 0, other.begin, begin), np.where(self.threads == 0, other.end, end),
            np.maximum(self.threads, other.threads), self.polling + other.polling, self.left_open + other.left_open,
        )  # fmt: skip

    @property
    def wall_ns(self) -> Ints:
        """Return how long each rank ran, in ns: from its first entry of a call to the end of its record, times its
        number of threads.
        """
        return (self.end - self.begin) * self.threads

    @property
    def base(self) -> Base:
        """Return the time to which all shares refer: the duration of the run, on all threads of all ranks."""
        there = self.threads > 0
        span = int(self.end[there].max(initial=0)) - int(self.begin[there].min(initial=0))
        return Base(span, int(there.sum()), int(self.threads.sum()))


def sum_times(waits: Waiting) -> Times:
    """Return the times of a run by rank and cause, from its waits."""
    spans = waits.clock.spans
    threads = [len(rank.threads) if len(rank) else 0 for rank in waits.trace.ranks]
    begin, end, polling = (
        np.array([getattr(span, name) for span in spans], np.int64) for name in ("least_enter", "most", "polling")
    )
    left_open = sum(int(span.open) for span in spans)
    return Times(waits.by_rank, begin, end, np.array(threads, np.int64), polling, left_open)


def ledger_of(trace: Trace, match: Match) -> Ledger:
    """Return the table of a matched run that says by cause where the time in MPI went."""
    return ledger_of_times(trace, sum_times(waits_of_run(trace, match)))


def ledger_of_times(trace: Trace, times: Times) -> Ledger:
    """Return the table of times by cause for times that are summed already."""
    return Ledger(times.by_rank, times.wall_ns, times.base, remark(trace), times.left_open)


def empty() -> Ledger:
    """Return the table of times by cause for a run without recorded calls."""
    return Ledger(np.zeros((0, len(Cause)), np.int64), np.zeros(0, np.int64), Base(0, 0, 0))
