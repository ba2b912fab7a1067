"""Marks at the ends of rows: where ranks ended before the end of MPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weft.endings import End, How, describe_end, find_ends
from weft.terms.rank_progress import called_finalize
from weft.trace import Rank, Trace
from weft.view.scale import Scale

KINDS: Final = ("exception", "exit", "crash", "abort", "killed", "lost")
"""How a rank can end: each has a word in the legend of the page."""

_OF: Final = {
    How.EXCEPTION: "exception", How.EXIT: "exit", How.CRASH: "crash", How.WEFT: "crash",
    How.ABORT: "abort", How.ERROR: "abort",
    How.SIGNAL: "killed", How.CUT_OFF: "killed", How.STOPPED: "lost", How.MISSING: "lost",
}  # fmt: skip


@dataclass(frozen=True)
class EndMark:
    """A rank that ended before the end of MPI, at `time` (ns since the run's first call)."""

    rank: int
    time: int
    label: str
    kind: str


def find_end_marks(trace: Trace) -> list[EndMark]:
    """Return a mark to draw for each rank that ended early. A rank that only never returned from a call gets none, as
    the open call is drawn anyway.
    """
    running = trace.run.get("ended") in (None, "running")
    return [_make_mark(end) for end in find_ends(trace) if _is_early_end(end, running)]


def _is_early_end(end: End, is_running: bool) -> bool:
    """Return whether a rank ended before MPI_Finalize, or with an error, in a way that no open call shows."""
    if end.how is How.EXIT:
        return not called_finalize(end.rank) or (end.ending is not None and end.ending.code != 0)
    if end.how in (How.CUT_OFF, How.SIGNAL):
        return not is_running and not end.open_calls
    return end.how in _OF


def _make_mark(end: End) -> EndMark:
    time = end.ending.time_ns if end.ending is not None else _last_time(end.rank)
    return EndMark(end.rank.index, max(time, _last_time(end.rank)), describe_end(end), _OF[end.how])


def _last_time(rank: Rank) -> int:
    """Return the time in ns at which the rank's last call returned; if it has not returned, when it began."""
    if not len(rank):
        return 0
    event = rank.event(len(rank) - 1)
    return event.exit_ns if event.exit_ns is not None else event.enter_ns


def marks_to_json(marks: list[EndMark], scale: Scale, first_row: list[int], trace: Trace) -> list[dict[str, Any]]:
    """Return the marks of early ends with their positions on an axis. On the axis of logical time, a mark follows the
    rank's last call.
    """
    found = []
    for mark in marks:
        count = len(trace.ranks[mark.rank].events)
        by_call = scale.name == "logical"
        at = 0.0 if by_call else float(scale.positions([mark.time])[0])
        if by_call and count:
            at = scale.event_positions([(mark.rank, count - 1)])[0][2]
        found.append({"rank": mark.rank, "row": first_row[mark.rank], "time": mark.time, "at": at,
                      "label": mark.label, "kind": mark.kind})  # fmt: skip
    return found
