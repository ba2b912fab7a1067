"""What target regions would see in a memory of their own: reads of old copies, and what no map brings there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from weft.dataparallel.grouping import times
from weft.evidence import CheckCase, Loop
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import messages
from weft.openmp.variable_names import Names, is_fortran
from weft.openmp.raw_findings import RawOpenMPFinding

KINDS_OF: Final = {
    "old-copy": "stale-copy", "unmapped": "remote-access", "beyond": "out-of-bounds",
}  # fmt: skip
"""The runtime's words, and the findings'."""


def make_copy_findings(records: Iterable[RawOpenMPFinding], names: Names) -> Iterator[Finding]:
    """One for each variable, side and cause, at the first place of each."""
    groups: dict[object, list[RawOpenMPFinding]] = defaultdict(list)
    for one in records:
        if one.why == "near" and not any(names.one_variable(one, near) for near in one.near):
            continue
        fortran = is_fortran(one.one.place)
        accesses = [(names.with_column(one.one), one.one.write)]
        if one.other.place.line and one.why != "none":
            accesses.append((names.with_column(one.other), True))
        one.named = names.of(one, accesses, fortran)
        if not one.named.name:  # another name of it in each line
            one.named = names.of(one, accesses[:1], fortran)
        key = (one.kind, one.one.place.function, one.named.name or one.address, one.device, one.why == "none")
        groups[key].append(one)
    for group in groups.values():
        yield _make_finding(group)


def _make_finding(group: list[RawOpenMPFinding]) -> Finding:
    first = group[0]
    named, region = first.named, first.region
    count = sum(one.count for one in group)
    old = first.kind == "old-copy"
    said = messages.describe_copy_fault(first, named.text(is_fortran(first.one.place)))
    kind = KINDS_OF[first.kind]
    evidence = CheckCase(
        case=first.why or "unmapped",
        count=count,
        variable=named.name,
        side="device" if first.device or not old else "host",
        index=named.index or None,
        loop=Loop(kind="target", file=region.file, line=region.line, text="") if region.line else None,
    )
    return Finding(
        kind=kind, severity=KINDS[kind].severity, certainty="certain", message=said + times(count),
        sites=tuple(dict.fromkeys(site for one in group for site in _finding_sites(one))), evidence=evidence,
    )  # fmt: skip


def _finding_sites(record: RawOpenMPFinding) -> Iterator[Site]:
    place, other = record.one.place, record.other.place
    what = "map" if record.why == "part" else record.one.does
    yield Site(0, what, place.file, place.line, place.function)
    if other.line:
        yield Site(0, "map" if record.why == "none" else "write", other.file, other.line, other.function)
