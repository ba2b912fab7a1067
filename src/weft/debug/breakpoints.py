"""Breakpoints: calls of the record, found before anything runs, or lines and functions that make no MPI call."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.base.event_id import EventId
from weft.base.words import plural
from weft.debug.record import Position, Record
from weft.errors import UsageError
from weft.gdb.point import Point
from weft.replay import resolve_location
from weft.replay.points import SourcePoint, find_all_visits, parse_place
from weft.systems import System
from weft.trace.filter import Filter


@dataclass(frozen=True, slots=True)
class Scope:
    """One task of a rank, with `descendants` also the tasks that it made."""

    rank: int
    task: int
    descendants: bool


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A breakpoint at calls of the record, or (`point`) at a line or function of the source, on one rank or on all."""

    id: int
    text: str
    rank: int | None
    events: tuple[EventId, ...]
    point: Point | None
    once: bool = False
    """Whether it goes when it has stopped a rank."""
    ignored: int = 0
    """Of how many visits no notice is to be taken, when that was asked for."""

    def on(self, rank: int) -> bool:
        """Tell whether the breakpoint is set on a rank."""
        return self.rank in (None, rank)

    def as_dict(self) -> dict[str, Any]:
        """Return the breakpoint as JSON values: its number, where it is, its rank, and the number of recorded calls at
        which it stops.
        """
        by = "line" if self.point else "call"
        scope = {} if self.point is None or self.point.task is None else {
            "task": self.point.task, "descendants": self.point.descendants
        }  # fmt: skip
        more = ({"once": True} if self.once else {}) | ({"ignored": self.ignored} if self.ignored else {})
        facts = {"id": self.id, "where": self.text, "rank": self.rank, "calls": len(self.events), "by": by}
        return facts | scope | more


class Breakpoints:
    """All breakpoints of a session. `findings` returns the findings that `finding:N` names."""

    def __init__(self, record: Record, findings: Callable[[], Sequence[Any]]) -> None:
        self.record = record
        self.findings = findings
        self.all: list[Breakpoint] = []
        self._ids = itertools.count(1)

    @property
    def _system(self) -> System:
        return self.record.trace.system

    @property
    def of_source(self) -> bool:
        """Return whether a breakpoint has to be set in the ranks themselves."""
        return any(b.point is not None for b in self.all)

    def number(self) -> int:
        """Return the next free number."""
        return next(self._ids)

    def make(self, specification: str, scope: Scope | None = None, log: str = "") -> Breakpoint:
        """Return a new breakpoint, which is not yet in `all`. `specification`: `WHERE`, `WHERE if EXPRESSION` or `WHERE
        FILTER`. UsageError if the run has no such place.

        `scope`: the task in which to stop. `log`: the message to print instead of stopping a rank. With either of them
        WHERE is a place in the source, never an MPI call.
        """
        place, condition, terms = _split_specification(specification)
        if condition or log:
            return self._make_in_source(specification, place, condition, scope, log)
        found = self._make_unfiltered(place, scope)
        if not terms:
            return found
        if found.point is not None:
            raise UsageError(
                f"{terms!r} filters calls of {self._system.name}, and {place} makes none: give a condition, "
                f"`{place} if ...`"
            )
        fits = Filter(terms)
        masks = {rank.index: fits.mask(rank) for rank in fits.ranks(self.record.trace)}
        events = tuple(event for event in found.events if event[0] in masks and masks[event[0]][event[1]])
        if not events:
            raise UsageError(
                f"{specification}: the record has {plural(len(found.events), 'call')} at this place, and none of them "
                f"matches {terms}"
            )
        return replace(found, text=specification, events=events)

    def _make_in_source(self, text: str, place: str, condition: str, scope: Scope | None, log: str) -> Breakpoint:
        """Return a new breakpoint at a line or function that stops only if `condition`, in the program's language, is
        true, or that prints `log` instead of stopping. UsageError if `place` is an MPI call. `text`: the breakpoint as
        the user wrote it.
        """
        if scope is not None:
            raise UsageError("a breakpoint of a task cannot have a condition: leave out `task` or the condition")
        if re.fullmatch(rf"\d+:\d+|\d+:from=.*|finding:\d+|t=.*|(\d+:)?(PMPI_|{self._system.prefix})\w+(#\d+)?", place):
            raise UsageError(
                f"{place} is a recorded call, at which Weft computes no expression: give FILE:LINE if ..., or filter "
                f"calls: break {self._system.send} tag:5 peer:1"
            )
        wanted = parse_place(place)
        self._require_code(wanted)
        number = next(self._ids)
        point = Point(
            number, wanted.file or "", wanted.line or 0, wanted.name or "", wanted.visit, condition=condition, log=log
        )
        return Breakpoint(number, text, wanted.rank, (), point)

    def ignore(self, text: str, count: int, reached: Callable[[EventId], bool]) -> Breakpoint:
        """Replace a breakpoint by one that ignores its next `count` visits, and return it. `text`: the breakpoint's
        number. UsageError if there is no such breakpoint.

        If the breakpoint is at recorded calls, the next ones by the time of the record are taken off, in later replays
        too. `reached(call)`: whether the rank has passed the call already.
        """
        old = next((b for b in self.all if text.isdigit() and b.id == int(text)), None)
        if old is None:
            raise UsageError(f"there is no breakpoint {text}".rstrip())
        point = old.point and replace(old.point, id=next(self._ids), count=count + 1)
        coming = sorted((event for event in old.events if not reached(event)), key=self.begun)
        events = tuple(event for event in old.events if event not in set(coming[:count]))
        number = old.id if point is None else point.id
        made = replace(old, id=number, point=point, events=events, ignored=count)
        self.all[self.all.index(old)] = made
        return made

    def _make_unfiltered(self, text: str, scope: Scope | None = None) -> Breakpoint:
        """Return a new breakpoint for a place without condition and filter: at calls of the record if it has some
        there, else in the source. UsageError if there is neither.
        """
        trace = self.record.trace
        if scope is not None:
            wanted = parse_place(text)
            number = next(self._ids)
            made = Point(number, wanted.file or "", wanted.line or 0, wanted.name or "", wanted.visit, scope.task,
                         scope.descendants)  # fmt: skip
            return Breakpoint(number, text, scope.rank, (), made)
        if re.fullmatch(r"\d+:\d+|\d+:from=.*|finding:\d+|t=.*", text):
            return Breakpoint(next(self._ids), text, None, tuple(resolve_location(trace, text, self.findings)), None)
        wanted = parse_place(text)
        if wanted.rank is not None and wanted.rank >= self.record.size:
            raise UsageError(f"{text}: the run has no rank {wanted.rank}, only 0 to {self.record.size - 1}")
        is_call = wanted.name is not None and wanted.name.startswith(self._system.prefix)
        calls = () if wanted.name and not is_call else tuple(self._calls_at(wanted))
        if is_call and not calls:
            raise UsageError(f"{text}: the record has no such call that communicates")
        if not calls:
            self._require_code(wanted)
        number = next(self._ids)
        point = Point(number, wanted.file or "", wanted.line or 0, wanted.name or "", wanted.visit)
        return Breakpoint(number, text, wanted.rank, calls, None if calls else point)

    def _require_code(self, wanted: SourcePoint) -> None:
        """Raise UsageError for a line of a Python file that has no code, as nothing would ever stop there."""
        if wanted.file is None or not wanted.file.endswith(".py"):
            return
        known = self.record.files()
        file = next((file for file in known if file == wanted.file or file.endswith("/" + wanted.file)), wanted.file)
        lines = lines_with_code(Path(file))
        if lines and wanted.line not in lines:  # a file that cannot be read may be imported from elsewhere
            near = sorted(sorted(lines, key=lambda line: abs(line - (wanted.line or 0)))[:2])
            raise UsageError(f"{wanted.text}: there is no code in that line; the nearest with code are "
                             f"{' and '.join(map(str, near))}")  # fmt: skip

    def _calls_at(self, wanted: SourcePoint) -> Iterator[EventId]:
        """Yield the recorded calls at a source place before which a rank can be stopped. Of the two MPI calls that
        mpi4py's recv() makes, only the first is yielded.
        """
        for event in find_all_visits(self.record.trace, wanted):
            (rank, slot), position, is_entry = self.record.position(event)
            if is_entry and not self.record.is_receive_of_probe(rank, position, slot):
                yield event

    def delete(self, text: str) -> None:
        """Delete the breakpoints with the numbers in `text`, or all if it is "" or `all`. UsageError if one does not
        exist.
        """
        known = {b.id for b in self.all}
        chosen = known if text in ("", "all") else {int(n) if n.isdigit() else 0 for n in text.split()}
        if not chosen or not chosen <= known:
            raise UsageError(f"there is no breakpoint {text}".rstrip())
        self.all = [b for b in self.all if b.id not in chosen]

    def ahead(self, reached: Callable[[EventId], bool]) -> list[EventId]:
        """Return for each thread the next recorded call at which a breakpoint stops it. `reached(call)`: whether the
        thread has passed the call already.
        """
        first: dict[Position, tuple[int, EventId]] = {}
        for b in self.all:
            for event in b.events:
                thread, position, _ = self.record.position(event)
                if not reached(event) and (thread not in first or position < first[thread][0]):
                    first[thread] = position, event
        return [event for _, event in first.values()]

    def begun(self, event: EventId) -> int:
        """Return the time (ns) at which a call began in the record."""
        return int(self.record.trace.ranks[event[0]].enter_ns(slice(event[1], event[1] + 1))[0])

    def at(self, events: Iterable[EventId]) -> list[Breakpoint]:
        """Return the breakpoints that stop a rank before one of some calls."""
        wanted = set(events)
        return [b for b in self.all if not wanted.isdisjoint(b.events)]


def lines_with_code(file: Path) -> set[int]:
    """Return the numbers of the lines of a Python file that have code; empty if the file cannot be read or compiled."""
    try:
        codes = [compile(file.read_bytes(), str(file), "exec")]
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[int] = set()
    while codes:
        code = codes.pop()
        found |= {line for _, _, line in code.co_lines() if line}
        codes += [one for one in code.co_consts if isinstance(one, type(code))]
    return found


def _split_specification(specification: str) -> tuple[str, str, str]:
    """Return place, condition and filter of `WHERE if EXPRESSION` or `WHERE FILTER`; "" for a part that is missing."""
    specification = specification.strip()
    end = next(
        (i for i, letter in enumerate(specification) if letter == " " and _is_outside_brackets(specification[:i])),
        len(specification),
    )
    place, rest = specification[:end], specification[end:].strip()
    found = re.fullmatch(r"if\b\s*(.*)", rest, re.DOTALL)
    if found is not None and not found[1]:
        raise UsageError(f"give an expression: {place} if x > 5")
    return place, found[1] if found else "", "" if found else rest


def _is_outside_brackets(text: str) -> bool:
    """Return whether all brackets of a text are closed. A C++ name may have blanks inside of brackets."""
    return text.count("<") <= text.count(">") and text.count("(") <= text.count(")")
