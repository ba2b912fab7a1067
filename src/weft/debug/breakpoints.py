"""Breakpoints: calls of the record, found before anything runs, or lines and functions that make no call of MPI."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.debug.hands import Point
from weft.debug.record import Position, Record
from weft.errors import UsageError
from weft.replay import resolve
from weft.replay.points import EventId, SourcePoint, parse_place, visits


@dataclass(frozen=True, slots=True)
class Scope:
    """One task of a rank, or with `descendants` what it made too."""

    rank: int
    task: int
    descendants: bool


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Calls of the record, or (`point`) a line or function of the source, on one rank or on all."""

    id: int
    text: str
    rank: int | None
    events: tuple[EventId, ...]
    point: Point | None

    def on(self, rank: int) -> bool:
        """Whether it holds on a rank."""
        return self.rank in (None, rank)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        by = "line" if self.point else "call"
        scope = {} if self.point is None or self.point.task is None else {
            "task": self.point.task, "descendants": self.point.descendants
        }  # fmt: skip
        return {"id": self.id, "where": self.text, "rank": self.rank, "calls": len(self.events), "by": by} | scope


class Breakpoints:
    """All breakpoints of a session. `findings`: what `finding:N` means."""

    def __init__(self, record: Record, findings: Callable[[], Sequence[Any]]) -> None:
        self.record = record
        self.findings = findings
        self.all: list[Breakpoint] = []
        self._ids = itertools.count(1)

    @property
    def of_source(self) -> bool:
        """Whether one of them has to be set in the ranks."""
        return any(b.point is not None for b in self.all)

    def make(self, text: str, scope: Scope | None = None) -> Breakpoint:
        """What a person means. UsageError where the run has no such place. In one task it is never a call of MPI."""
        trace = self.record.trace
        if scope is not None:
            wanted = parse_place(text)
            number = next(self._ids)
            made = Point(number, wanted.file or "", wanted.line or 0, wanted.name or "", wanted.visit, scope.task,
                         scope.descendants)  # fmt: skip
            return Breakpoint(number, text, scope.rank, (), made)
        if re.fullmatch(r"\d+:\d+|finding:\d+|t=.*", text):
            return Breakpoint(next(self._ids), text, None, tuple(resolve(trace, text, self.findings)), None)
        wanted = parse_place(text)
        if wanted.rank is not None and wanted.rank >= self.record.size:
            raise UsageError(f"{text}: the run has no rank {wanted.rank}, only 0 to {self.record.size - 1}")
        of_mpi = wanted.name is not None and wanted.name.startswith("MPI_")
        calls = () if wanted.name and not of_mpi else tuple(self._calls_at(wanted))
        if of_mpi and not calls:
            raise UsageError(f"{text}: the record has no such call that communicates")
        number = next(self._ids)
        point = Point(number, wanted.file or "", wanted.line or 0, wanted.name or "", wanted.visit)
        return Breakpoint(number, text, wanted.rank, calls, None if calls else point)

    def _calls_at(self, wanted: SourcePoint) -> Iterator[EventId]:
        """The record's calls from a place that a rank can be parked before; recv() of mpi4py is one call."""
        for event in visits(self.record.trace, wanted):
            (rank, slot), position, is_entry = self.record.position(event)
            if is_entry and not self.record.second_half(rank, position, slot):
                yield event

    def delete(self, text: str) -> None:
        """Take some away by their numbers, or all. UsageError where one is not there."""
        known = {b.id for b in self.all}
        chosen = known if text in ("", "all") else {int(n) if n.isdigit() else 0 for n in text.split()}
        if not chosen or not chosen <= known:
            raise UsageError(f"there is no breakpoint {text}".rstrip())
        self.all = [b for b in self.all if b.id not in chosen]

    def ahead(self, reached: Callable[[EventId], bool]) -> list[EventId]:
        """The next call of each thread at which one of them stops it."""
        first: dict[Position, tuple[int, EventId]] = {}
        for b in self.all:
            for event in b.events:
                thread, position, _ = self.record.position(event)
                if not reached(event) and (thread not in first or position < first[thread][0]):
                    first[thread] = position, event
        return [event for _, event in first.values()]
