"""Put causes before what they bring about: a buffer that is too long explains what meets it, an end stands after the
errors that led to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from weft.base.words import listed
from weft.evidence import NO_EVIDENCE, Absent, Ended, Overlap, Parameter, Race, Sampled
from weft.findings import Finding, Site

_WRITES: Final = frozenset(("buffer-overrun", "buffer-reuse", "rma-race", "type-mismatch", "invalid-argument"))
"""Kinds after which memory may hold anything, so that the process crashes sooner or later."""
_ERRORS: Final = _WRITES | {"truncation", "argument-mismatch", "collective-mismatch", "request-misuse"}
"""Kinds for which MPI may end a process, in that call or a later one."""
_EXPLAINS: Final = {"crash": _WRITES | {"truncation"}, "error": _ERRORS, "exception": frozenset(("truncation",))}
"""By how a rank ended, the kinds that explain it."""


def attach_consequences_of_overruns(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that a buffer shares bytes with another, if the buffer is also reported as
    longer than its memory. They become consequences of that overrun.
    """
    too_long = {_place(one.sites[0]): one for one in findings if one.kind == "buffer-overrun" and one.sites}
    follows: defaultdict[int, list[str]] = defaultdict(list)
    kept: list[Finding] = []
    for one in findings:
        overrun = next((too_long[at] for site in one.sites if (at := _place(site)) in too_long), None)
        if overrun is not None and _reports_shared_bytes(one):
            follows[id(overrun)].append(f"{one.message} [{one.kind}]")
        else:
            kept.append(one)
    return [replace(one, consequences=(*one.consequences, *follows[id(one)])) if id(one) in follows else one
            for one in kept]  # fmt: skip


def attach_consequences_of_overlaps(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that a pending buffer was changed, if at its line it is also reported to share
    memory with another pending operation that writes there. The first becomes a consequence of that overlap.
    """
    overlaps = {
        (site.call, site.file, site.line): one
        for one in reversed(findings)
        if one.kind == "buffer-reuse" and isinstance(one.evidence, Overlap)
        for site in one.sites
        if site.line
    }
    follows: defaultdict[int, list[str]] = defaultdict(list)
    left: list[Finding] = []
    for one in findings:
        first = one.sites[0] if one.sites and isinstance(one.evidence, Sampled) else None
        overlap = overlaps.get((first.call, first.file, first.line)) if first is not None else None
        if overlap is None:
            left.append(one)
        elif not follows[id(overlap)]:
            follows[id(overlap)].append(f"{one.message} [{one.kind}]")
    return [replace(one, consequences=(*one.consequences, *follows[id(one)])) if id(one) in follows else one
            for one in left]  # fmt: skip


def remove_mismatches_of_deadlocks(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that members called different collectives, if a proven deadlock names just
    these calls.
    """
    waiting = {
        event for one in findings if one.kind == "deadlock" and one.certainty == "certain" for event in one.events
    }
    return [one for one in findings if not (one.kind == "collective-mismatch" and waiting.issuperset(one.events))]


def put_mismatches_before_deadlocks(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with each collective in which members called different functions before the deadlock of its
    ranks: the ranks went on from there out of step.
    """
    found = list(findings)
    for one in [one for one in found if one.kind == "collective-mismatch" and not isinstance(one.evidence, Absent)]:
        place = found.index(one)
        deadlock = next((i for i, other in enumerate(found[:place])
                         if other.kind == "deadlock" and set(other.ranks) & set(one.ranks)), None)  # fmt: skip
        if deadlock is not None:
            found.insert(deadlock, found.pop(place))
    return found


def remove_absences_of_deadlocks(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without those that members are missing from a collective, if a proven deadlock is about that
    collective.
    """
    waiting = {
        event for one in findings if one.kind == "deadlock" and one.certainty == "certain" for event in one.events
    }
    return [one for one in findings if not (isinstance(one.evidence, Absent) and waiting.intersection(one.events))]


def join_equal_overruns(findings: Sequence[Finding]) -> list[Finding]:
    """Join the buffer overruns of one procedure that have equal sizes into one finding, and return all findings. One
    wrong count is then the cause, not the several calls that use it.
    """
    from weft.usage.buffer_overruns import Overrun  # few runs have overruns

    groups: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        site, sizes = (one.sites[0] if one.sites else None), one.evidence
        key: tuple[object, ...] = (id(one),)
        if isinstance(sizes, Overrun) and site is not None and site.line > 0:
            key = (one.severity, site.file, site.function, sizes.bytes, sizes.room, sizes.behind, sizes.before)
        groups.setdefault(key, []).append(one)
    return [_join_overruns(found) for found in groups.values()]


def _join_overruns(found: Sequence[Finding]) -> Finding:
    """Return one finding for overruns with equal sizes; its message names the lines of all."""
    first = found[0]
    lines = sorted({one.sites[0].line for one in found if one.sites} - {first.sites[0].line if first.sites else 0})
    if not lines:
        return first if len(found) == 1 else replace(first, beyond=first.beyond + len(found) - 1)
    where = f"{'line' if len(lines) == 1 else 'lines'} {listed([str(line) for line in lines])}"
    return replace(
        first,
        message=f"{first.message}; the calls at {where} do the same",
        ranks=tuple(sorted({rank for one in found for rank in one.ranks})),
        sites=tuple(dict.fromkeys(site for one in found for site in one.sites)),
        events=tuple(dict.fromkeys(event for one in found for event in one.events)),
        consequences=tuple(dict.fromkeys(text for one in found for text in one.consequences)),
    )


def remove_truncations_without_sizes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without truncations that give no sizes, if other truncations of the same ranks give them."""
    if not any(one.kind == "truncation" for one in findings):
        return list(findings)
    from weft.usage.messages import Sizes  # few runs have truncated messages

    sized = {one.sites[0].rank for one in findings if one.kind == "truncation" and isinstance(one.evidence, Sizes)}
    return [
        one
        for one in findings
        if not (one.kind == "truncation" and one.evidence is NO_EVIDENCE and sized.issuperset(one.ranks))
    ]


def _place(site: Site) -> tuple[int, str, str, int]:
    return site.rank, site.call, site.file, site.line


def _reports_shared_bytes(finding: Finding) -> bool:
    """Return whether a finding says that two buffers share bytes."""
    if finding.kind == "buffer-reuse":
        return isinstance(finding.evidence, (Overlap, Sampled))
    return (
        finding.kind == "invalid-argument"
        and isinstance(finding.evidence, Parameter)
        and finding.evidence.parameter == "recvbuf"
        and "shares bytes" in finding.message
    )


def put_ends_behind_causes(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with each end of a rank (a crash, an abort) moved after the errors of that rank that explain
    it.
    """
    found = list(findings)
    for end in [one for one in found if isinstance(one.evidence, Ended)]:
        kinds = _EXPLAINS.get(_way_of_ending(end), frozenset())
        places = [
            place
            for place, one in enumerate(found)
            if one.kind in kinds and one.severity == "error" and set(one.ranks) & set(end.ranks)
        ]
        if places and places[-1] > (here := found.index(end)):
            found.insert(places[-1], found.pop(here))
    return found


def is_harmful_race(one: Finding) -> bool:
    """Return whether the other outcome of a race is known to be an error: a message that does not fit, or none."""
    return isinstance(one.evidence, Race) and one.evidence.outcome not in ("same", "unknown")


def put_harmful_races_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with the message races reordered: first those whose other outcome is an error. All other
    findings keep their places.
    """
    found = list(findings)
    places = [place for place, one in enumerate(found) if one.kind == "message-race" and one.severity == "warning"]
    ordered = sorted((found[place] for place in places), key=lambda one: not is_harmful_race(one))
    for place, one in zip(places, ordered, strict=True):
        found[place] = one
    return found


def _way_of_ending(end: Finding) -> str:
    """Return how the ranks of a finding ended ("crash", "error", "exception"); "" if that was an exception of Python
    that MPI did not raise.
    """
    if not isinstance(end.evidence, Ended) or (
        end.evidence.how == "exception" and "mpi4py" not in (end.evidence.name or "")
    ):
        return ""
    return str(end.evidence.how)
