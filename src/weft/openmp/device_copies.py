"""Findings about target regions, as if the device had its own memory: old copies, and data without a map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from weft.dataparallel.grouping import format_times
from weft.evidence import CheckCase, Loop
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import messages
from weft.openmp.raw_findings import RawOpenMPFinding
from weft.openmp.variable_names import VariableNames, is_fortran_place

KINDS_OF: Final = {
    "old-copy": "stale-copy", "unmapped": "remote-access", "beyond": "out-of-bounds",
}  # fmt: skip
"""The runtime's words, and the findings'."""


def make_copy_findings(records: Iterable[RawOpenMPFinding], names: VariableNames) -> Iterator[Finding]:
    """Yield the findings about copies of data between host and device. Raw findings that agree in function, variable,
    side (host or device) and cause become one finding.

    A raw finding for memory next to other mapped memory is left out unless that memory is part of the same variable.
    """
    groups: dict[object, list[RawOpenMPFinding]] = defaultdict(list)
    for one in records:
        if one.why == "near" and not any(names.is_same_variable(one, near) for near in one.near):
            continue
        fortran = is_fortran_place(one.access.place)
        accesses = [(names.place_with_column(one.access), one.access.write)]
        if one.other_access.place.line and one.why != "none":
            accesses.append((names.place_with_column(one.other_access), True))
        one.named = names.name_memory(one, accesses, fortran)
        if not one.named.name:  # another name of it in each line
            one.named = names.name_memory(one, accesses[:1], fortran)
        key = (one.kind, one.access.place.function, one.named.name or one.address, one.device, one.why == "none")
        groups[key].append(one)
    for group in groups.values():
        yield _make_copy_finding(group)


def _make_copy_finding(group: list[RawOpenMPFinding]) -> Finding:
    """Return one finding for raw findings that share a cause; the first gives the message."""
    first = group[0]
    named, region = first.named, first.region
    count = sum(one.count for one in group)
    old = first.kind == "old-copy"
    said = messages.describe_copy_fault(first, named.render(is_fortran_place(first.access.place)))
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
        kind=kind, severity=KINDS[kind].severity, certainty="certain", message=said + format_times(count),
        sites=tuple(dict.fromkeys(site for one in group for site in _make_copy_sites(one))), evidence=evidence,
    )  # fmt: skip


def _make_copy_sites(record: RawOpenMPFinding) -> Iterator[Site]:
    """Yield the sites of a raw finding: the access, and the write or map that made the copy old."""
    place, other = record.access.place, record.other_access.place
    what = "map" if record.why == "part" else record.access.does
    yield Site(0, what, place.file, place.line, place.function)
    if other.line:
        yield Site(0, "map" if record.why == "none" else "write", other.file, other.line, other.function)
