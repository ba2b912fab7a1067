"""Where the ranks of a run that crashed or was killed ended: the first thing to know of it."""

from __future__ import annotations

from typing import Final

from weft.terms import calls
from weft.terms.describe import in_task, where
from weft.terms.telling import end_of, open_calls, reached_finalize
from weft.terms.words import listed, plural, printable, rank_words
from weft.trace import Level, Rank, Trace

MAX_LINES: Final = 8


def ends(trace: Trace) -> list[str]:
    """A line for all ranks that ended alike, those that fell outside of MPI first; none for a run that finished."""
    if trace.run.get("ended") not in ("crashed", "killed") or trace.level == Level.ORDER:
        return []
    found: dict[tuple[int, str], list[int]] = {}
    for rank in trace.ranks:
        found.setdefault(_end(rank), []).append(rank.index)
    order = sorted(found.items(), key=lambda one: (one[0][0], one[1][0]))
    lines = [printable(f"{rank_words(ranks)} {words}") for (_, words), ranks in order[:MAX_LINES]]
    if len(order) > MAX_LINES:
        left = sum(len(ranks) for _, ranks in order[MAX_LINES:])
        lines.append(f"and {plural(left, 'more rank')} elsewhere: weft view --text {printable(str(trace.path))}")
    return lines


def _end(rank: Rank) -> tuple[int, str]:
    """How soon to tell it, and the words."""
    if opened := open_calls(rank):
        events = [rank.event(index) for index in opened]
        return 1, "ended in " + listed([calls.spoken(e.function.name) + where(e) + in_task(e) for e in events])
    if reached_finalize(rank):
        return 2, "came to the end of MPI"
    words = end_of(rank)
    if rank.missing or not len(rank):
        return 0, words
    last = rank.event(len(rank) - 1)
    return 0, f"{words}, after {calls.spoken(last.function.name)}{where(last)}"
