"""The rows of the picture, one for each thread of each rank, and ways to group them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.terms.calls import catalogue_of
from weft.trace import Rank, Trace
from weft.trace.layout import Events

MAX_COMMUNICATORS: Final = 64
"""Communicators by which the page offers to group."""


@dataclass(frozen=True)
class ThreadRow:
    """One thread of a rank, whose events are drawn in one row."""

    index: int
    rank: Rank
    thread: int
    """Which of rank.threads."""

    @property
    def label(self) -> str:
        """Return the row's label: `3`, or `3.1` for a thread that is not the rank's only one."""
        several = len(self.rank.threads) > 1
        return f"{self.rank.index}.{self.rank.threads[self.thread].slot}" if several else str(self.rank.index)

    @cached_property
    def events(self) -> Events:
        """Return the thread's events."""
        threads = self.rank.threads
        return threads[self.thread].events if threads else self.rank.events

    @cached_property
    def _event_indices(self) -> NDArray[np.int64] | None:
        """Return, for each event of the thread, its index among the rank's events. None if the rank has only one
        thread, as the indices are the same then.
        """
        if len(self.rank.threads) < 2:
            return None
        return np.flatnonzero(self.rank.event_threads == self.thread)

    def event_index(self, position: int) -> int:
        """Return the index among the rank's events of the event at `position` of the row."""
        return position if self._event_indices is None else int(self._event_indices[position])

    def event_indices(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices among the rank's events of the events at `positions` of the row."""
        return positions if self._event_indices is None else self._event_indices[positions]


class Rows:
    """All rows of a run."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.all: list[ThreadRow] = []
        self.first: list[int] = []
        """By rank the index of its first row."""
        for rank in trace.ranks:
            self.first.append(len(self.all))
            for thread in range(max(1, len(rank.threads))):
                self.all.append(ThreadRow(len(self.all), rank, thread))

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[ThreadRow]:
        return iter(self.all)

    def __getitem__(self, index: int) -> ThreadRow:
        return self.all[index]

    def row_of_event(self, rank: int, event: int) -> tuple[int, int]:
        """Return the row of the picture in which a rank's event is drawn (each thread has a row), and the event's index
        within the thread.
        """
        found = self.trace.ranks[rank]
        if len(found.threads) < 2:
            return self.first[rank], event
        return self.first[rank] + int(found.event_threads[event]), int(found.event_positions[event])

    def rows_of_events(
        self, ranks: NDArray[np.int64], events: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays for some events: the row of the picture in which each is drawn, and its index within the
        thread of this row. `ranks`, `events`: parallel, rank indices and event indices.
        """
        rows, positions = np.array(self.first, np.int64)[ranks], events.copy()
        if len(self.all) == len(self.trace.ranks):
            return rows, positions
        for rank in np.unique(ranks).tolist():
            found = self.trace.ranks[rank]
            if len(found.threads) > 1:
                mine = ranks == rank
                rows[mine] += found.event_threads[events[mine]]
                positions[mine] = found.event_positions[events[mine]]
        return rows, positions

    def groupings(self) -> Mapping[str, list[tuple[str, list[int]]]]:
        """Return ways to group the rows of the picture: by behaviour, by host, by world, by the communicators of a
        split. Each is a list of (group name, rows); a way that gives a single group is left out.
        """
        found = {
            "behaviour": self._group_by_behaviour(),
            "host": self._group_by_host(),
            "world": self._group_by_world(),
        }
        return {name: of for name, of in {**found, **self._group_by_communicator()}.items() if len(of) > 1}

    def _group_rows(self, group_names: Mapping[int, str]) -> list[tuple[str, list[int]]]:
        """Return the rows of the picture in groups, as (name, rows). `group_names`: the group's name for each
        rank index.
        """
        groups: dict[str, list[int]] = {}
        for row in self.all:
            groups.setdefault(group_names[row.rank.index], []).append(row.index)
        return list(groups.items())

    def _group_by_behaviour(self) -> list[tuple[str, list[int]]]:
        """Return groups of rows, as (name, rows). In a group, ranks call the same functions about equally often and end
        in the same call.
        """
        shapes: dict[tuple[object, ...], str] = {}
        names: dict[int, str] = {}
        for rank in self.trace.ranks:
            key, last = _behaviour_key(rank)
            if key not in shapes:
                shapes[key] = f"{chr(65 + len(shapes) % 26)}{len(shapes) // 26 or ''} {last}".strip()
            names[rank.index] = shapes[key]
        return self._group_rows(names)

    def _group_by_host(self) -> list[tuple[str, list[int]]]:
        hosts = {r.index: r.header.host if r.header else "no record" for r in self.trace.ranks}
        return self._group_rows({i: host or "unknown" for i, host in hosts.items()})

    def _group_by_world(self) -> list[tuple[str, list[int]]]:
        return self._group_rows({r.index: f"world {r.world}" for r in self.trace.ranks})

    def _group_by_communicator(self) -> Mapping[str, list[tuple[str, list[int]]]]:
        """Return a grouping of the rows for each call that split a communicator, by a name of this call. The groups are
        the communicators that the call made, and the ranks in none.
        """
        families: dict[tuple[str, str], dict[int, str]] = {}
        for comm in self.trace.communicators:
            if comm.parent is None or comm.inter or len(comm.members) == len(self.trace.ranks):
                continue
            family = families.setdefault((comm.parent.name, f"{comm.function}#{comm.ordinal}"), {})
            family.update({m: comm.label or comm.name for m in comm.members if m >= 0})
        found: dict[str, list[tuple[str, list[int]]]] = {}
        for (parent, made), family in list(families.items())[:MAX_COMMUNICATORS]:
            names = {r.index: family.get(r.index, "no member") for r in self.trace.ranks}
            found[f"{parent} {made.removeprefix('MPI_')}"] = self._group_rows(names)
        return found


def _behaviour_key(rank: Rank) -> tuple[tuple[object, ...], str]:
    """Return two things: a key that is equal for ranks of the same behaviour (functions, rough counts, last call), and
    a label for people.
    """
    if not len(rank):
        return ("nothing",), "nothing recorded"
    seen = catalogue_of(rank)
    counts = tuple((id, seen.counts[id].bit_length()) for id in seen.present)
    last = rank.event(len(rank) - 1)
    return (counts, last.function.id, last.open), f"{'still in' if last.open else 'ended with'} {last.function.name}"
