"""Merge findings of one cause into one, with how often and at which places it was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from weft.base.facts import changed
from weft.base.words import plural
from weft.evidence import CheckCase, Group
from weft.findings import Finding, Site

BY_PLACE: Final = frozenset(("out-of-bounds", "directive-order", "wrong-reduction"))
"""Kinds whose places are wrong each by itself."""


def group_by_cause(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return one merged finding for each cause, in the order of first occurrence. Findings have one cause if they are
    about the same fault in one loop, at whatever places it was seen."""
    causes: defaultdict[object, list[Finding]] = defaultdict(list)
    for one in findings:
        causes[make_cause_key(one)].append(one)
    return tuple(merge_findings(held) for held in causes.values())


def make_cause_key(finding: Finding) -> object:
    """Return a key that is equal for findings of the same cause: equal kind, case, variable, declaration and loop. A
    finding that lacks these facts has a key of its own."""
    held = finding.evidence
    if finding.kind in BY_PLACE or not isinstance(held, CheckCase) or not held.variable:
        return id(finding)
    places = [(at.file, at.line) if at is not None else None for at in (held.declared, held.loop)]
    return (finding.kind, held.case, held.variable, *places)


def merge_findings(findings: Sequence[Finding]) -> Finding:
    """Return one finding for several findings of one cause: the first of them, with the places and counts of all."""
    first = findings[0]
    if len(findings) == 1:
        return first
    assert isinstance(first.evidence, CheckCase)
    count = sum(finding_count(one) for one in findings)
    said = first.message.removesuffix(format_times(finding_count(first)))
    added = tuple(one.sites[0] for one in findings[1:])
    return replace(
        first,
        message=f"{said} ({plural(count, 'time')} at {len(findings)} places)",
        sites=tuple(dict.fromkeys((*first.sites, *added))),
        evidence=changed(first.evidence, count=count, places=[place_with_count(one) for one in findings]),
    )


def place_with_count(finding: Finding) -> Group:
    """Return the place of a finding and how often it was seen there, for the evidence."""
    site: Site = finding.sites[0]
    return Group(file=site.file, line=site.line, function=site.function, count=finding_count(finding))


def finding_count(finding: Finding) -> int:
    """Return how often a finding was seen."""
    return finding.evidence.count if isinstance(finding.evidence, CheckCase) else 1


def format_times(count: int) -> str:
    """Return ` (3 times)`, the end of a finding's message; "" for a single time."""
    return f" ({plural(count, 'time')})" if count > 1 else ""
