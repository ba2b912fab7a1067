"""What target regions would see in a memory of their own: reads of old copies, and what no map brings there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from weft.dataparallel.grouped import times
from weft.dataparallel.texts import AccessPlace
from weft.evidence import CheckCase, Loop
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import sentences
from weft.openmp.names import NOWHERE, Named, Names, is_fortran

KINDS_OF: Final = {
    "old-copy": "stale-copy", "unmapped": "remote-access", "beyond": "out-of-bounds",
}  # fmt: skip
"""The runtime's words, and the findings'."""


def findings(
    held: Iterable[tuple[dict[str, Any], int]], places: Mapping[int, AccessPlace], names: Names
) -> Iterator[Finding]:
    """One for each variable, side and cause, at the first place of each."""
    groups: dict[object, list[tuple[dict[str, Any], int, Named]]] = defaultdict(list)
    for one, count in held:
        if one["why"] == "near" and not any(names.one_variable(one, near) for near in one["near"]):
            continue
        place, other = places.get(one["pc"], NOWHERE), places.get(one["other_pc"], NOWHERE)
        fortran = is_fortran(place)
        accesses = [(names.with_column(place, one["pc"]), one["write"])]
        if other.line and one["why"] != "none":
            accesses.append((names.with_column(other, one["other_pc"]), True))
        named = names.of(one, accesses, fortran)
        if not named.name:  # another name of it in each line
            named = names.of(one, accesses[:1], fortran)
        key = (one["kind"], place.function, named.name or one["address"], one["device"], one["why"] == "none")
        groups[key].append((one, count, named))
    for group in groups.values():
        yield _told(group, places)


def _told(group: list[tuple[dict[str, Any], int, Named]], places: Mapping[int, AccessPlace]) -> Finding:
    held, _, named = group[0]
    place, other = places.get(held["pc"], NOWHERE), places.get(held["other_pc"], NOWHERE)
    region = places.get(held.get("region_pc", 0), NOWHERE)
    fortran = is_fortran(place)
    count = sum(one for _, one, _ in group)
    old = held["kind"] == "old-copy"
    text = named.text(fortran)
    said = sentences.copied(text, held, other, region)
    kind = KINDS_OF[held["kind"]]
    evidence = CheckCase(
        case=held["why"] or "unmapped",
        count=count,
        variable=named.name,
        side="device" if held["device"] or not old else "host",
        index=named.index or None,
        loop=Loop(kind="target", file=region.file, line=region.line, text="") if region.line else None,
    )
    sites = [
        site for one, _, _ in group
        for site in _sites(one, places.get(one["pc"], NOWHERE), places.get(one["other_pc"], NOWHERE))
    ]  # fmt: skip
    return Finding(
        kind=kind, severity=KINDS[kind].severity, certainty="certain", message=said + times(count),
        sites=tuple(dict.fromkeys(sites)), evidence=evidence,
    )  # fmt: skip


def _sites(held: Mapping[str, Any], place: AccessPlace, other: AccessPlace) -> Iterator[Site]:
    what = "map" if held["why"] == "part" else "write" if held["write"] else "read"
    yield Site(0, what, place.file, place.line, place.function)
    if other.line:
        yield Site(0, "map" if held["why"] == "none" else "write", other.file, other.line, other.function)
