"""Find which findings of other analyses only follow from how a rank ended: these are reported with that end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from weft.deadlock.blocked_ranks import Standstill
from weft.endings.end_causes import How, find_ends, find_own_finalize
from weft.endings.findings import KINDS, may_have_moved
from weft.evidence import NO_EVIDENCE, Absent, Deadlock, Ended, Epoch, Refused
from weft.findings import Finding
from weft.terms.rank_progress import LEFT
from weft.trace import Trace

CONSEQUENT: Final = frozenset(
    (
        "deadlock", "potential-deadlock", "collective-mismatch", "unmatched-send", "unmatched-receive", "request-leak",
        "resource-leak", "epoch-misuse",
    )
)  # fmt: skip
"""Kinds that a rank which ended too soon may bring about by not being there."""
ARGUMENTS: Final = frozenset(
    (
        "invalid-argument", "truncation", "type-mismatch", "request-misuse", "epoch-misuse", "argument-mismatch",
        "collective-mismatch",
    )
)  # fmt: skip
"""Kinds that say why MPI ended a process, or returned the error that mpi4py raised."""
BETWEEN: Final = frozenset(("argument-mismatch", "collective-mismatch"))
"""Of them those that name several ranks' calls, of which the exception of one tells less."""
MAX_TOLD: Final = 16


class Consequences:
    """The findings that only follow from others, each with the finding that it follows from."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self._behind: defaultdict[int, list[str]] = defaultdict(list)

    def add(self, following: Finding, cause: Finding | None) -> None:
        """Note that the finding `following` is a consequence of the finding `cause`; of None if a signal from outside
        ended the run."""
        self._of[id(following)] = id(cause)
        if cause is None:
            return
        told = self._behind[id(cause)]
        if len(told) < MAX_TOLD and following.kind != "deadlock":
            told.append(f"{following.message} [{following.kind}]")

    def is_consequence(self, finding: Finding) -> bool:
        """Return whether a finding only follows from another."""
        return id(finding) in self._of

    def describe_consequences(self, finding: Finding) -> list[str]:
        """Return what follows from a finding, in words; a deadlock is left out, as the end's own message tells it."""
        return self._behind.get(id(finding), [])


def find_consequences(trace: Trace, findings: Iterable[Finding]) -> Consequences:
    """Return which findings are only consequences of others. Most follow from the end of a rank that another finding
    reports; some only repeat in MPI's words what another finding explains."""
    found = list(findings)
    causes: dict[int, Finding | None] = dict.fromkeys(_ranks_ended_from_outside(trace))
    causes |= {rank: one for one in reversed(found) if one.kind in KINDS.values() for rank in one.ranks}
    result = Consequences()
    for one, cause in _find_collectives_after_finalize(trace, found):
        result.add(one, cause)
    if not causes:
        return result
    alone = _ranks_stuck_anyway(trace, sorted(causes))
    for one in found:
        exhausts = one.kind == "resource-leak" and one.severity == "error"
        rank = _find_cause(trace, one, causes, alone) if one.kind in CONSEQUENT and not exhausts else None
        if rank is not None and _may_follow(trace, one, causes[rank]):
            result.add(one, causes[rank])
    for one, reason in _find_explained_refusals(found, result):
        result.add(one, reason)
    for one in found:
        if one.kind in KINDS.values() and (why := _find_same_error(one, found, result)) is not None:
            result.add(*why)
    return result


def _may_follow(trace: Trace, finding: Finding, end: Finding | None) -> bool:
    """Return whether a finding can be a consequence of how a rank ended. What the rank did before its end cannot.

    If MPI itself ended the rank, it may have been inside the very call that is wrong, or in MPI_Finalize, when the
    rank's work was done. An exception is different: the program may make further calls while it leaves.
    """
    how = _manner_of_end(end) if end is not None else None
    if end is None or how == How.EXCEPTION:
        return True
    if how == How.ERROR and finding.kind != "deadlock" and (LEFT in end.message or _in_finalize(trace, end)):
        return False
    if (
        how == How.ERROR
        and finding.kind in ("epoch-misuse", "collective-mismatch")
        and set(finding.events) & set(end.events)
    ):
        return False
    return finding.kind != "epoch-misuse" or (isinstance(finding.evidence, Epoch) and finding.evidence.left_open)


def _manner_of_end(end: Finding) -> str | None:
    return end.evidence.how if isinstance(end.evidence, Ended) else None


def _in_finalize(trace: Trace, end: Finding) -> bool:
    return all((last := find_own_finalize(trace.ranks[rank])) is not None and last.open for rank in end.ranks)


def _find_explained_refusals(found: list[Finding], result: Consequences) -> Iterator[tuple[Finding, Finding]]:
    """Yield (finding, its explanation) for calls that MPI refused with an error. The first finding has only MPI's own
    words; the second says what is wrong with the call."""
    for one in found:
        if one.kind != "invalid-argument" or not isinstance(one.evidence, Refused):
            continue
        for other in found:
            if (
                other is not one
                and not result.is_consequence(other)
                and (_exhausts(other, one) or (other.kind in ARGUMENTS and _explains_refusal(other, one, one.evidence)))
            ):
                yield one, other
                break


def _exhausts(leak: Finding, end: Finding) -> bool:
    """Return whether a leak left a rank without communicators, for which MPI ended it."""
    return leak.kind == "resource-leak" and leak.severity == "error" and bool(set(leak.ranks) & set(end.ranks))


def _explains_refusal(other: Finding, refused: Finding, how: Refused) -> bool:
    """Return whether the finding `other` explains why MPI refused a call: it is about the same call, or about wrong
    epochs where MPI's message (`how`) names a window."""
    if set(other.events) & set(refused.events):
        return True
    on_window = how.inside.startswith("MPI_Win_") or "synchronization of RMA" in how.said
    return other.kind == "epoch-misuse" and on_window and set(refused.ranks) <= set(other.ranks)


def _find_collectives_after_finalize(trace: Trace, found: list[Finding]) -> Iterator[tuple[Finding, Finding]]:
    """Yield (finding, its cause) where some ranks call a collective after MPI_Finalize: the finding says that others
    lack in the collective, the cause that it is called too late."""
    told = {event: one for one in found if one.kind == "invalid-argument" for event in one.events}
    for one in found:
        if one.kind == "collective-mismatch":
            for event in one.events[:64]:
                last = find_own_finalize(trace.ranks[event.rank]) if event in told else None
                if last is not None and last.index < event.event:
                    yield one, told[event]
                    break


def _ranks_ended_from_outside(trace: Trace) -> list[int]:
    """Return the indices of the ranks that a signal from outside ended. What these did not do proves nothing about the
    program."""
    if trace.run.get("ended") not in ("interrupted", "killed"):
        return []
    return [end.rank.index for end in find_ends(trace) if end.how is How.SIGNAL and not end.open_calls]


def _ranks_stuck_anyway(trace: Trace, ended: list[int]) -> frozenset[int]:
    """Return the ranks that could never go on even if those that ended had gone on."""
    standstill = Standstill(trace, ended, buffering=may_have_moved(trace))
    return standstill.stuck_despite(ended) - standstill.gone


def _find_cause(
    trace: Trace, finding: Finding, causes: Mapping[int, Finding | None], stuck_anyway: frozenset[int]
) -> int | None:
    """Return the rank from whose end a finding follows, None if it follows from none. `causes`: the ranks that ended,
    with the finding on that end, None where a signal from outside ended the rank; `stuck_anyway`: ranks that would be
    blocked even if these went on."""
    if finding.kind == "deadlock":
        if stuck_anyway.intersection(finding.ranks):
            return None
        waits = finding.evidence.waits if isinstance(finding.evidence, Deadlock) else ()
        named = {rank for wait in waits for rank in wait.for_}
        if isinstance(finding.evidence, Deadlock) and finding.evidence.polling:  # as it was before a signal came
            return next((rank for rank in sorted(named) if causes.get(rank) is not None), None)
        return next((rank for rank in sorted(named) if rank in causes), min(causes))
    return next((rank for rank in sorted(_find_involved_ranks(trace, finding)) if rank in causes), None)


def _find_involved_ranks(trace: Trace, finding: Finding) -> set[int]:
    """Return the ranks that a finding is about, the absent ones that it names, and the peers of its calls."""
    ranks = set(finding.ranks) | set(finding.evidence.absent if isinstance(finding.evidence, Absent) else ())
    for rank, index in finding.events[:64]:
        event = trace.event(rank, index)
        comm = event.comm
        if comm is not None and event.peer >= 0:
            ranks.add(comm.peer(rank, event.peer))
    return ranks


def _find_same_error(end: Finding, found: list[Finding], result: Consequences) -> tuple[Finding, Finding] | None:
    """Return (consequence, cause) if another finding is about the same error as `end`, a finding about how a rank
    ended; else None.

    mpi4py raises MPI's error as an exception, which says everything. If MPI itself ended the process, the finding that
    says what was wrong with the call is the cause.
    """
    how = _manner_of_end(end)
    raised = how == How.EXCEPTION and isinstance(end.evidence, Ended) and "mpi4py" in (end.evidence.name or "")
    if not raised and how != How.ERROR:
        return None
    events, places = set(end.events), {(s.rank, s.file, s.line) for s in end.sites}
    left = LEFT in end.message
    # What says more than MPI's own words in front.
    for other in sorted(found, key=lambda other: (result.is_consequence(other), other.evidence is NO_EVIDENCE)):
        if left and other.kind == "unmatched-send" and not result.is_consequence(other):
            return end, other
        if _exhausts(other, end):
            return end, other
        if raised and other.kind in BETWEEN:
            continue
        if other.kind in ARGUMENTS and (
            events & set(other.events) or places & {(s.rank, s.file, s.line) for s in other.sites}
        ):
            says_more = other.kind == "truncation" and other.evidence is not NO_EVIDENCE
            return (other, end) if raised and not says_more else (end, other)
    return None
