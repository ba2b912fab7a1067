"""Choose which part of a run a picture shows."""

from __future__ import annotations

from collections.abc import Iterable

from weft.errors import UsageError
from weft.terms.run_extent import Extent
from weft.trace import Rank, Trace
from weft.trace.conditions import parse_duration, parse_ranges

Window = str | tuple[float | None, float | None] | None
"""`1.2s-3s`, or (start, end) in seconds, None for the run's own."""


def select_ranks(trace: Trace, wanted: str | Iterable[int] | None) -> list[Rank]:
    """Return the ranks that `wanted` names, as text such as `0-3,7` or as numbers; all ranks for None. UsageError if
    the run does not have one of them."""
    if wanted is None:
        return trace.ranks
    spans = parse_ranges(wanted) if isinstance(wanted, str) else [(int(rank), int(rank)) for rank in wanted]
    found = [rank for rank in trace.ranks if any(first <= rank.index <= last for first, last in spans)]
    if not found:
        raise UsageError(f"the run has no rank of {wanted!r}: it has ranks 0 to {len(trace.ranks) - 1}")
    return found


def parse_window(trace: Trace, wanted: Window, run: Extent) -> tuple[int, int]:
    """Return start and end of a window in ns. UsageError for an invalid window."""
    if wanted is None:
        return _default_start(trace, run), _default_end(trace, run)
    if isinstance(wanted, str):
        first, dash, last = wanted.partition("-")
        start, end = parse_duration(first) if first else run.first, parse_duration(last) if last else run.last
        if not dash:
            raise UsageError(f"{wanted!r} is not a window of time; write 1.2s-3s")
    else:
        start = run.first if wanted[0] is None else wanted[0] * 1e9
        end = run.last if wanted[1] is None else wanted[1] * 1e9
    if not start < end:
        raise UsageError(f"{wanted!r} ends before it begins; write the earlier time first, as in 1.2s-3s")
    return int(start), int(end)


def _default_start(trace: Trace, run: Extent) -> int:
    """Return the time at which a picture of the whole run begins: the end of MPI_Init if that takes a large part of
    the run, else the run's start."""
    firsts = [rank.event(0) for rank in trace.ranks if len(rank)]
    ends = [event.exit_ns or event.enter_ns for event in firsts if event.function.name.startswith("MPI_Init")]
    end = _default_end(trace, run)
    if not ends or min(ends) - run.first < 0.3 * (end - run.first):
        return run.first
    return max(run.first, min(ends) - (end - min(ends)) // 20)


def _default_end(trace: Trace, run: Extent) -> int:
    """Return the time at which a picture of the whole run ends. It is soon after the last call began, even if that
    call hung for hours."""
    last = run.first
    for rank in trace.ranks:
        for thread in rank.threads:
            tail = slice(max(0, len(thread.events) - 2), None)
            enter = rank.axis.ns_array(thread.events["enter"][tail])
            last = max(last, int(enter.max(initial=last)))
    calm = last + max((last - run.first) // 6, 1000)
    # What hangs since the very last moment needs some room too.
    return min(max(run.last, last + (last - run.first) // 50 + 1), calm)
