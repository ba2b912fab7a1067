"""Compute the times of all events of a run."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.native.bridge import array_addresses
from weft.native.headers.waits import Clocks, Span
from weft.trace import Event, Trace
from weft.trace.layout import EVENT
from weft.waits import kernels
from weft.waits.causes import Cause, blocking_table, non_waiting_causes
from weft.waits.kernels import Ints


class EventTimes:
    """The entry and exit times of all events of a run in one row, rank after rank, in ns since its start. An open
    call has no exit (-1)."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.first = np.concatenate([[0], np.cumsum([len(r.events) for r in trace.ranks])]).astype(np.int64)

    @cached_property
    def _all_times(self) -> tuple[Ints, Ints]:
        """Return two arrays: the times at which all events of the run were entered and left, in ns since the run's
        start.
        """
        enter, leave = np.empty(int(self.first[-1]), np.int64), np.empty(int(self.first[-1]), np.int64)
        for rank in self.trace.ranks:
            part = slice(int(self.first[rank.index]), int(self.first[rank.index + 1]))
            kernels.fill_times(rank, enter[part], leave[part])
        return enter, leave

    @property
    def enter(self) -> Ints:
        """Return the times (ns) at which all events of the run began."""
        return self._all_times[0]

    @property
    def exit(self) -> Ints:
        """Return the times (ns) at which all events of the run ended; -1 if one did not."""
        return self._all_times[1]

    def entry_and_exit(self, event_number: int) -> tuple[int, int]:
        """Return the times in ns at which an event was entered and left; -1 as exit if it was never left.
        `event_number`: its number among all events of the run.
        """
        event = self.event(event_number)
        leave = event.exit_ns
        return event.enter_ns, -1 if leave is None else leave

    @cached_property
    def _events(self) -> list[NDArray[Any]]:
        return [np.ascontiguousarray(r.events) for r in self.trace.ranks]

    @cached_property
    def clocks(self) -> Clocks:
        """Return the events and clocks of all ranks as a structure for C."""
        places = array_addresses(self._events, EVENT, "events")
        return Clocks(event_first=self.first.astype(np.uint64), events=places, axes=kernels.axes(self.trace.ranks))

    @cached_property
    def _spans(self) -> list[tuple[Span, Ints]]:
        table, causes = blocking_table(self.trace.functions), non_waiting_causes(self.trace.functions)
        return [kernels.sum_times(rank, table, causes, len(Cause)) for rank in self.trace.ranks]

    @cached_property
    def spans(self) -> list[Span]:
        """Return for each rank the totals over all its times."""
        return [span for span, _ in self._spans]

    @cached_property
    def inside(self) -> Ints:
        """Return the time inside calls by rank and cause (causes.apart), without polls that failed (Span.polling)."""
        found: Ints = np.array([inside for _, inside in self._spans], np.int64).reshape(-1, len(Cause))
        return found

    @cached_property
    def site(self) -> NDArray[np.uint32]:
        """Return the call site of each event of the run, as the id that its rank has for it."""
        return np.concatenate([*(r.events["site"] for r in self.trace.ranks), np.zeros(0, np.uint32)])

    def ranks_of(self, event_numbers: Ints) -> Ints:
        """Return the rank index of each event. `event_numbers`: their numbers among all events of the run."""
        found: Ints = np.searchsorted(self.first, event_numbers, side="right") - 1
        return found

    def event(self, event_number: int) -> Event:
        """Return an event by its number among all events of the run."""
        rank = int(np.searchsorted(self.first, event_number, side="right")) - 1
        return self.trace.ranks[rank].event(event_number - int(self.first[rank]))

    @cached_property
    def span(self) -> int:
        """Return the ns from the first entry of a call to the last exit, over all ranks."""
        some = [span for span, rank in zip(self.spans, self.trace.ranks, strict=True) if len(rank)]
        last, first = max([0, *(span.most for span in some)]), min([0, *(span.least_enter for span in some)])
        return int(last - first)

    @cached_property
    def wall_ns(self) -> Ints:
        """Return how long each rank ran, in ns: from its first entry of a call to the end of its record, times its
        number of threads.
        """
        found = [
            (span.most - span.least_enter) * len(rank.threads) if len(rank) else 0
            for span, rank in zip(self.spans, self.trace.ranks, strict=True)
        ]
        return np.array(found, np.int64)
