"""Where ranks ended before their time: the marks at the ends of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weft.endings import End, How, ends, words
from weft.terms.rank_progress import finalized
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
    """The end of a rank that did not come to the end of MPI, at `time` (ns since the run's first call)."""

    rank: int
    time: int
    label: str
    kind: str


def end_marks(trace: Trace) -> list[EndMark]:
    """The ranks that ended before their time, each where it did; those that only never left a call are drawn by it."""
    running = trace.run.get("ended") in (None, "running")
    return [_mark(end) for end in ends(trace) if _of_note(end, running)]


def _of_note(end: End, running: bool) -> bool:
    if end.how is How.EXIT:
        return not finalized(end.rank) or (end.ending is not None and end.ending.code != 0)
    if end.how in (How.CUT_OFF, How.SIGNAL):
        return not running and not end.open_calls
    return end.how in _OF


def _mark(end: End) -> EndMark:
    time = end.ending.time_ns if end.ending is not None else _last(end.rank)
    return EndMark(end.rank.index, max(time, _last(end.rank)), words(end), _OF[end.how])


def _last(rank: Rank) -> int:
    if not len(rank):
        return 0
    event = rank.event(len(rank) - 1)
    return event.exit_ns if event.exit_ns is not None else event.enter_ns


def placed(marks: list[EndMark], scale: Scale, first_row: list[int], trace: Trace) -> list[dict[str, Any]]:
    """The marks on an axis, as the page draws them. Logical time has no clock: there a mark follows the last call."""
    found = []
    for mark in marks:
        count = len(trace.ranks[mark.rank].events)
        by_call = scale.name == "logical"
        at = 0.0 if by_call else float(scale.positions([mark.time])[0])
        if by_call and count:
            at = scale.spots([(mark.rank, count - 1)])[0][2]
        found.append({"rank": mark.rank, "row": first_row[mark.rank], "time": mark.time, "at": at,
                      "label": mark.label, "kind": mark.kind})  # fmt: skip
    return found
