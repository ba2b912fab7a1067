"""Findings of one cause, told as one with how often and at which places it showed."""

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


def grouped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """One finding for each cause, where the first of it stood."""
    causes: defaultdict[object, list[Finding]] = defaultdict(list)
    for one in findings:
        causes[cause(one)].append(one)
    return tuple(together(held) for held in causes.values())


def cause(finding: Finding) -> object:
    """What findings that one change mends have in common: kind, case, variable and loop; else the finding itself."""
    held = finding.evidence
    if finding.kind in BY_PLACE or not isinstance(held, CheckCase) or not held.variable:
        return id(finding)
    places = [(at.file, at.line) if at is not None else None for at in (held.declared, held.loop)]
    return (finding.kind, held.case, held.variable, *places)


def together(findings: Sequence[Finding]) -> Finding:
    """The first of some findings, with the places and counts of all."""
    first = findings[0]
    if len(findings) == 1:
        return first
    assert isinstance(first.evidence, CheckCase)
    count = sum(counted(one) for one in findings)
    said = first.message.removesuffix(times(counted(first)))
    added = tuple(one.sites[0] for one in findings[1:])
    return replace(
        first,
        message=f"{said} ({plural(count, 'time')} at {len(findings)} places)",
        sites=tuple(dict.fromkeys((*first.sites, *added))),
        evidence=changed(first.evidence, count=count, places=[place(one) for one in findings]),
    )


def place(finding: Finding) -> Group:
    """Where one of the findings is, and how often."""
    site: Site = finding.sites[0]
    return Group(file=site.file, line=site.line, function=site.function, count=counted(finding))


def counted(finding: Finding) -> int:
    """How often it was seen."""
    return finding.evidence.count if isinstance(finding.evidence, CheckCase) else 1


def times(count: int) -> str:
    """` (3 times)`, as a finding's sentence ends; nothing for once."""
    return f" ({plural(count, 'time')})" if count > 1 else ""
