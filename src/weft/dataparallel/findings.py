"""From the runtime's lines to findings: numbers get their names, program counters their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from weft.dataparallel import runtime_output, messages
from weft.dataparallel.grouping import times
from weft.dataparallel.runtime_output import Told
from weft.dataparallel.raw_findings import NOBODY, Record
from weft.dataparallel.source_map import AccessPlace, Texts
from weft.errors import UsageError, WeftError
from weft.evidence import CheckCase, Line, Loop
from weft.findings import Finding, Site, worst_first
from weft.kinds import KINDS

FACTS: Final = {one.name for one in fields(Record)} - {"construct", "place", "others"}
"""What a record takes from the runtime's line as it is."""


def read(path: Path, texts: Texts) -> list[Finding]:
    """The findings of a run, worst first. UsageError where the program's directives cannot be checked."""
    return findings(runtime_output.read(path), texts)


def findings(told: Told, texts: Texts) -> list[Finding]:
    """What a run told as findings, worst first. UsageError where the program's directives cannot be checked."""
    if told.usage is not None:
        raise _usage(told.usage, texts)
    return worst_first(_finding(record, texts) for record in _merged(_causes(records(told, texts))))


def records(told: Told, texts: Texts) -> list[Record]:
    """What a run told, with the texts of the program that it is about."""
    held = told.found.values()
    places = _places(
        told, [one["pc"] for found in held for one in (found, *found.get("places", ())) if "pc" in one], texts
    )
    return [_record(one, places, texts) for one in held]


def _record(held: Mapping[str, Any], places: Mapping[int, AccessPlace], texts: Texts) -> Record:
    facts = {name: value for name, value in held.items() if name in FACTS}
    record = Record(**facts, construct_id=held["construct"], construct=texts.constructs.get(held["construct"], NOBODY))
    if "file" in held:
        record.place = AccessPlace(held["file"], held["line"], held["column"])
    elif (place := _place_of_access(held, places, texts)) is not None and place.line:
        record.place = place
    else:
        record.place = AccessPlace(record.construct.file, record.construct.line, record.construct.column)
    _name(record, texts)
    record.variable = texts.variables.get(record.data)
    record.others = [
        (place, one["write"])
        for one in held.get("places", ())
        if (place := _place_of_access(one, places, texts)) is not None and place.line
    ]
    return record


def _usage(held: Mapping[str, Any], texts: Texts) -> WeftError:
    if held["usage"] == "no-memory":
        return WeftError(messages.NO_ROOM)
    construct = texts.constructs.get(held["construct"], NOBODY)
    variable = texts.variables.get(held["data"])
    name = variable.name if variable else "an array"
    where = f"{construct.file}:{construct.line}" + (f":{construct.column}" if construct.column else "")
    return UsageError(f"{where}: {messages.USAGE[held['usage']].format(name=name)}")


def _places(told: Told, counters: Iterable[int], texts: Texts) -> dict[int, AccessPlace]:
    """The place of every program counter."""
    spelled = {str(Path(name).absolute()): name for name in texts.files}
    found = {}
    for pc, frames in told.frames(counters).items():
        file, line, function = frames[0]
        found[pc] = AccessPlace(spelled.get(file or "", file or ""), line, 0, _unmangled(function or "", texts))
    return found


def _unmangled(function: str, texts: Texts) -> str:
    """A procedure's name in the source; gfortran's has its module before it, and an underscore or a number behind."""
    if texts.language != "fortran":
        return function
    if function == "MAIN__":
        return texts.main or function
    return re.sub(r"^__\w+?_MOD_|_$|\.\w+$", "", function)


def _place_of_access(held: Mapping[str, Any], places: Mapping[int, AccessPlace], texts: Texts) -> AccessPlace | None:
    return places.get(held["pc"]) if "pc" in held else texts.places.get(held.get("site", 0))


def _name(record: Record, texts: Texts) -> None:
    """Call an array that procedures got by other names as the line of the access does: by its newest or first name."""
    newest, first = (texts.variables.get(number) for number in (record.data, record.name))
    place = record.place
    if newest and first and not messages.column(place, newest.name) and messages.column(place, first.name):
        record.data = record.name


def _causes(records: Sequence[Record]) -> Iterator[Record]:
    """Leave out what follows from another finding of the same construct and variable."""
    by: dict[tuple[int, int], set[str]] = defaultdict(set)
    at: dict[tuple[int, int, AccessPlace], set[str]] = defaultdict(set)
    for one in records:
        key = (one.construct_id, one.data)
        by[key].add(one.kind + ("!" if one.write else ""))
        at[(*key, one.place)].add(one.kind)
    outside = {(one.construct_id, one.place.file, one.place.line) for one in records if one.kind == "out-of-bounds"}
    shared = {one.data for one in records if one.kind == "shared-write"}
    for one in records:
        key = (one.construct_id, one.data)
        kinds, here = by[key], at[(*key, one.place)]
        if one.kind != "out-of-bounds" and (one.construct_id, one.place.file, one.place.line) in outside:
            continue
        if one.why == "on" and any(
            other.kind == "out-of-bounds" and other.why != "on" and other.construct_id == one.construct_id
            for other in records
        ):
            continue  # the iteration's accesses say more
        if one.kind in ("stale-halo-read", "remote-access") and "loop-dependence" in here:
            continue
        if one.kind == "loop-dependence" and not one.write and kinds & {
            "halo-write!", "remote-access!", "shared-write!",
        }:  # fmt: skip
            continue
        if one.kind == "uninitialised-read" and one.why in ("iteration", "after") and one.data in shared:
            continue
        if one.kind == "early-reduction-use" and one.why == "in-loop" and "wrong-reduction" in kinds:
            continue
        yield one


def _merged(records: Iterable[Record]) -> list[Record]:
    """One finding for what one line does to one variable in one construct."""
    kept: dict[tuple[Any, ...], Record] = {}
    for one in records:
        # A variable that gets no value of its own: the first iteration finds none, the others find another one's.
        why = "" if one.kind == "uninitialised-read" and one.why in ("iteration", "after") else one.why
        key = (one.kind, why, one.construct_id, one.data, one.array,
               one.place.file, one.place.line, one.place.column)  # fmt: skip
        if key in kept:
            kept[key].count += one.count
        else:
            kept[key] = one
    return list(kept.values())


def _finding(record: Record, texts: Texts) -> Finding:
    place = record.place
    what = "write" if record.write else "read"
    call = what if record.bytes is not None else record.construct.kind or "directive"
    sites = [Site(0, call, place.file, place.line, place.function)]
    others = list(
        dict.fromkeys((AccessPlace(one.file, one.line, 0, one.function), write) for one, write in record.others)
    )
    sites += [Site(0, "write" if write else "read", one.file, one.line, one.function) for one, write in others]
    if record.construct.line and (record.construct.file, record.construct.line) != (place.file, place.line):
        sites.append(Site(0, record.construct.kind, record.construct.file, record.construct.line))
    return Finding(
        kind=record.kind,
        severity=KINDS[record.kind].severity,
        certainty="certain",
        message=messages.message(record, texts) + times(record.count),
        sites=tuple(sites),
        evidence=_evidence(record),
    )


def _evidence(record: Record) -> CheckCase:
    """The facts that the report's JSON holds."""
    place, construct, variable = record.place, record.construct, record.variable
    loop = Loop(
        kind=construct.kind, file=construct.file, line=construct.line, text=construct.text, indices=construct.indices
    )
    return CheckCase(
        case=record.why or record.kind,
        count=record.count,
        variable=variable.name if variable else messages.name_at(place) if record.type else "",
        column=place.column or messages.column(place, variable.name if variable else ""),
        index=record.index,
        iteration=record.iteration,
        other=record.other,
        task=record.task,
        delta=record.delta,
        offset=record.offset,
        bytes=record.bytes,
        expected=record.expected,
        got=record.got,
        value=record.value,
        declared=Line(file=variable.file, line=variable.line) if variable else None,
        loop=loop if construct.line else None,
    )


def first_lines(findings: Iterable[Finding]) -> list[tuple[str, str, int]]:
    """(kind, file, line) of each finding, for tests and scripts."""
    return [(f.kind, f.sites[0].file, f.sites[0].line) for f in findings]
