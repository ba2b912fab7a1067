"""Determine how each rank ended: one cause for each, from its record and from what the run knows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from weft.deadlock.blocked_ranks import Standstill
from weft.terms import calls
from weft.terms.calls import masks_of
from weft.terms.library_code import innermost_user_site, is_library_code
from weft.terms.rank_progress import called_finalize, calls_at, open_calls
from weft.trace import Ending, EndingKind, Event, ExitKind, Rank, Trace
from weft.trace.sites import CallSite


class How(StrEnum):
    """The ways in which a rank ends, those of its own doing first."""

    EXCEPTION = "exception"
    """A Python exception that nobody caught."""
    CRASH = "crash"
    """A signal that a fault of the program raised."""
    WEFT = "error of Weft"
    """A signal that a fault of Weft's own recorder raised."""
    ABORT = "abort"
    """It called MPI_Abort."""
    ERROR = "error"
    """MPI ended it inside a call, as errors are fatal by default."""
    EXIT = "exit"
    """It exited before the program came to MPI_Finalize."""
    SIGNAL = "signal"
    """A signal from outside, such as SIGTERM."""
    CUT_OFF = "cut off"
    """It tells of no end: it was killed, or is still running."""
    STOPPED = "stopped"
    """Weft ended the job, or gave up recording."""
    MISSING = "missing"
    """It left no record, or a damaged one."""
    FINISHED = "finished"
    """It came to MPI_Finalize."""


OWN: Final = (How.EXCEPTION, How.CRASH, How.WEFT, How.ABORT, How.ERROR, How.EXIT)
"""Ends that came about inside a rank."""


@dataclass(frozen=True)
class End:
    """How one rank ended. `ending` is what its record says of it, None if it says nothing."""

    rank: Rank
    how: How
    ending: Ending | None = None
    threads: tuple[Ending, ...] = ()
    """Exceptions that ended threads or tasks of it."""

    @cached_property
    def open_calls(self) -> list[Event]:
        """Return its calls of MPI that never returned, those on its way out left out."""
        found = [self.rank.event(index) for index in open_calls(self.rank)] if not self.rank.missing else []
        return [event for event in found if not event.is_finalize_at_exit]

    @cached_property
    def calls_at_signal(self) -> list[Event]:
        """Return the MPI calls in which the rank was when a signal from outside came, or when Weft asked where it is.
        Without either, return the calls that never returned."""
        if self.ending is None or self.ending.kind not in (EndingKind.WARNED, EndingKind.WHERE):
            return self.open_calls
        found = [self.rank.event(index) for index in calls_at(self.rank, self.ending.ticks)]
        return [event for event in found if not event.is_finalize_at_exit]

    @cached_property
    def has_handled_signal(self) -> bool:
        """Return whether the program survived the signal from outside: after it, a call returned or a new one was
        made."""
        if self.how is not How.SIGNAL or self.ending is None:
            return False
        later = self.rank.events["enter"] > np.uint64(self.ending.ticks)
        called = any(not self.rank.event(int(index)).is_finalize_at_exit for index in np.flatnonzero(later)[:64])
        return called or any(not event.open for event in self.calls_at_signal)

    @property
    def site(self) -> CallSite | None:
        """Return the line of the program at which it ended, where it is known; none where Weft's recorder ended it."""
        return find_user_site(self.ending) if self.ending and self.how is not How.WEFT else None

    @property
    def time_ns(self) -> int:
        """Return the time of the end, in ns on the run's axis; the largest number if the record has no end."""
        return self.ending.time_ns if self.ending else 2**63 - 1


def find_ends(trace: Trace) -> list[End]:
    """Return how every rank ended, in order of rank. In a run of level `outcomes` only ends that the process itself
    reported are known."""
    found = [_find_end(rank) for rank in trace.at_end.ranks]
    felled = _ranks_ended_by_weft(trace, found)
    return [replace(end, how=How.CUT_OFF, ending=None) if end.rank.index in felled else end for end in found]


def _ranks_ended_by_weft(trace: Trace, found: list[End]) -> frozenset[int]:
    """Return the ranks whose waiting calls failed only because Weft had ended their partners, after it found a
    deadlock. Empty if the run did not end in a deadlock.
    """
    inside = {end.rank.index for end in found if end.how is How.ERROR and end.open_calls}
    if trace.run.get("ended") != "deadlock" or not inside:
        return frozenset()
    others = [end.rank.index for end in found if end.how in OWN and end.rank.index not in inside]
    return Standstill(trace, others).stuck & inside


def _find_end(rank: Rank) -> End:
    """Return how one rank ended, decided from everything that its record says about ends."""
    if rank.missing:
        return End(rank, How.MISSING)
    told = rank.endings
    threads = tuple(one for one in told if one.kind is EndingKind.EXCEPTION and one.who)
    how, ending = _decide_cause(rank, told)
    return End(rank, how, ending, threads)


def _decide_cause(rank: Rank, recorded: list[Ending]) -> tuple[How, Ending | None]:
    """Return how a rank ended, and the entry of its record that shows it (None if there is none). `recorded`: all
    entries about ends in its record."""
    interrupted = _first(recorded, EndingKind.WARNED)
    exception = next((e for e in recorded if e.kind is EndingKind.EXCEPTION and not e.who), None)
    if exception is not None and not (interrupted and exception.name == "KeyboardInterrupt"):
        return How.EXCEPTION, exception
    if crash := _first(recorded, EndingKind.SIGNAL):
        return How.WEFT if crash.part_of_weft else How.CRASH, crash
    if abort := _first(recorded, EndingKind.ABORT):
        is_way_out = interrupted is not None and interrupted.time_ns <= abort.time_ns and _is_ended_from_outside(rank)
        return (How.SIGNAL, interrupted) if is_way_out else (How.ABORT, abort)
    left = _first(recorded, EndingKind.EXIT)
    if rank.definitions.ended is not None:
        return How.ERROR, left
    if interrupted and not (left and left.time_ns < interrupted.time_ns):
        return How.SIGNAL, interrupted
    if rank.state in ("stopped", "damaged"):
        return (How.STOPPED if rank.state == "stopped" else How.MISSING), None
    if rank.state == "aborted":
        return How.ABORT, None
    return _classify_quiet_end(rank, left)


def _is_ended_from_outside(rank: Rank) -> bool:
    """Return whether somebody ended the whole run: what its ranks do on their way out is not the program's error."""
    return rank.trace.run.get("ended") in ("interrupted", "killed")


def _classify_quiet_end(rank: Rank, exit_record: Ending | None) -> tuple[How, Ending | None]:
    """Return how a rank ended that reports no crash or abort: it finished, exited too soon, or was cut off. With it
    comes the entry of its record that shows it, None if there is none."""
    if (last := find_own_finalize(rank)) is not None:
        return How.ERROR if last.error else How.CUT_OFF if last.open else How.FINISHED, exit_record
    early = _first(rank.endings, EndingKind.NOT_INITIALISED)
    if early is not None and rank.state == "starting":
        return How.ERROR, early
    if exit_record is not None:
        if open_calls(rank) and find_user_site(exit_record) is None and not called_finalize(rank):
            return How.ERROR, exit_record  # MPI called exit() inside a call
        gentle = exit_record.code == 0 and exit_record.how in (ExitKind.RETURN, ExitKind.UNKNOWN)
        return (How.FINISHED, exit_record) if gentle and called_finalize(rank) else (How.EXIT, exit_record)
    if called_finalize(rank):
        return How.FINISHED, None
    asked = _first(rank.endings, EndingKind.WHERE)
    if rank.state == "exited":
        inside = How.ERROR if rank.trace.system.ends_callers else How.CUT_OFF
        return How.EXIT if not open_calls(rank) else inside, None
    return How.CUT_OFF, asked


def find_own_finalize(rank: Rank) -> Event | None:
    """Return the call of MPI_Finalize that the program itself made. None if it made none, or only exit() or the
    interpreter's end made it."""
    rows = masks_of(rank.trace.functions).where(rank, calls.ENDS)
    made = [event for row in rows[-2:] if not (event := rank.event(int(row))).is_finalize_at_exit]
    return made[-1] if made else None


def _first(told: Iterable[Ending], kind: EndingKind) -> Ending | None:
    return next((one for one in told if one.kind is kind), None)


# Places


def find_user_site(ending: Ending) -> CallSite | None:
    """Return the innermost call site of an end in the user's own code: neither in Python's library nor in what pip
    installed.

    If none has a known line, return the innermost one without a line; if none is the user's, the innermost known line.
    """
    return innermost_user_site(ending.stack) or ending.site


def find_callers_of_user_site(ending: Ending) -> tuple[CallSite, ...]:
    """Return the known call sites in the user's code that led to the site of `find_user_site`, innermost first."""
    at = find_user_site(ending)
    stack = [site for site in ending.stack if site.known]
    behind = stack[stack.index(at) + 1 :] if at in stack else []
    return tuple(site for site in behind if not is_library_code(site) and not _starts_fortran(site))


def _starts_fortran(site: CallSite) -> bool:
    """Return whether a frame is the `main` that gfortran puts before a program: it stands at the line `program`."""
    return site.function == "main" and (site.file or "").lower().rpartition(".")[2] in _FORTRAN


_FORTRAN: Final = frozenset(("f", "for", "ftn", "f77", "f90", "f95", "f03", "f08", "f18"))
