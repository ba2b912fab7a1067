"""Say what a report did not look at, before what it found: "nothing found" does not speak for that."""

from __future__ import annotations

from collections.abc import Iterator

from weft.base.words import rank_words
from weft.terms import calls
from weft.terms.calls import catalogue_of, masks_of
from weft.trace import Level, Trace
from weft.trace.layout import StreamKind
from weft.trace.run import STOP_REASONS


def explain_blindness(trace: Trace) -> str:
    """Return why no call of a run was looked at; "" for a run whose calls were."""
    if trace.level == Level.OUTCOMES:
        return (
            "--level outcomes records no calls. To look for errors, replay it (`weft replay RUN`): the record of the "
            "replay has all calls"
        )
    if trace.event_count and not len(trace.functions):
        return "functions.json, which names the functions, cannot be read"
    return ""


def list_gaps(trace: Trace) -> list[str]:
    """Return a sentence, without its full stop, for each part of a run that no analysis looked at. The largest part
    comes first.
    """
    if reason := explain_blindness(trace):
        return [f"Nothing was checked: {reason}"]
    return [sentence[0].upper() + sentence[1:] for sentence in _find_gaps(trace)]


def _find_gaps(trace: Trace) -> Iterator[str]:
    """Yield a sentence for each part of the run that is not in the record: ranks without a record, calls that were not
    recorded, damage.
    """
    if absent := describe_ranks_without_record(trace):
        yield absent
    stopped = [(rank.index, rank.header.stop_reason) for rank in trace.ranks if rank.header and rank.state == "stopped"]
    for reason in dict.fromkeys(reason for _, reason in stopped):
        ranks = [rank for rank, why in stopped if why == reason]
        because = STOP_REASONS.get(reason, "for an unknown reason")
        yield f"the last calls of {rank_words(ranks)} were not recorded {because}, and are not checked"
    damaged = [rank.index for rank in trace.ranks if rank.state == "damaged"]
    if damaged:
        yield (
            f"the record of {rank_words(damaged)} is damaged, and the calls that it lost are not checked: copy the "
            f"run again, or record it again"
        )
    elif trace.is_incomplete and not stopped:
        yield "a part of the record is damaged: see the last lines"


def describe_ranks_without_record(trace: Trace) -> str:
    """Return `ranks 2 and 3 of 4 left no record`; "" if all ranks left one."""
    if not trace.ranks and trace.run.get("lost"):
        return "no rank left a record"
    absent = [rank.index for rank in trace.ranks if rank.missing]
    unplaced = sum(member < 0 for world in trace.worlds for member in world.ranks)
    if unplaced:
        return f"{unplaced:,} {'rank' if unplaced == 1 else 'ranks'} of {unplaced + len(trace.ranks):,} left no record"
    return f"{rank_words(absent)} of {len(trace.ranks):,} left no record" if absent else ""


def is_incomplete(trace: Trace) -> bool:
    """Return whether calls, a rank or a part of the record are missing, so that a report may not end with status 0."""
    return trace.is_incomplete or bool(explain_blindness(trace) or describe_ranks_without_record(trace))


def describe_unrecorded_accesses(trace: Trace) -> str:
    """Return a sentence that loads and stores of window memory were not recorded; "" if they were, or the run has no
    windows.
    """
    if any(rank.file is not None and rank.file.numbers(StreamKind.ACCESSES) for rank in trace.ranks):
        return ""
    if any("loads and stores" in note for rank in trace.ranks for note in rank.definitions.notes):
        return ""  # the recorder's own note says why
    accesses = set(masks_of(trace.functions).ids(calls.ON_WINDOWS))
    if all(accesses.isdisjoint(catalogue_of(rank).present) for rank in trace.own):
        return ""
    return (
        "the program's own loads and stores of window memory were not recorded "
        "(`weft cc` records those of compiled code)"
    )
