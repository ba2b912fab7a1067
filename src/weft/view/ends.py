"""Where ranks ended before their time: the marks at the ends of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from weft.terms.telling import end_of, open_calls, reached_finalize
from weft.trace import Rank, Trace
from weft.view.scale import Scale

KINDS: Final = ("exception", "exit", "crash", "abort", "killed", "lost")
"""How a rank can end: each has a word in the legend of the page."""

_STATES: Final = {"missing": "lost", "damaged": "lost", "stopped": "lost", "aborted": "abort"}


@dataclass(frozen=True)
class EndMark:
    """The end of a rank that did not come to the end of MPI, at `time` (ns since the run's first call)."""

    rank: int
    time: int
    label: str
    kind: str


def end_marks(trace: Trace) -> list[EndMark]:
    """The ranks that ended outside of any call of MPI and before its end, where the run itself is over."""
    if trace.run.get("ended") in (None, "finished", "running"):
        return []
    ended = [rank for rank in trace.ranks if not reached_finalize(rank) and not open_calls(rank)]
    return [EndMark(rank.index, _last(rank), end_of(rank), _STATES.get(rank.state, "exit")) for rank in ended]


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
        at = 0.0 if by_call else float(scale.place([mark.time])[0])
        if by_call and count:
            at = scale.spots([(mark.rank, count - 1)])[0][2]
        found.append({"rank": mark.rank, "row": first_row[mark.rank], "time": mark.time, "at": at,
                      "label": mark.label, "kind": mark.kind})  # fmt: skip
    return found
