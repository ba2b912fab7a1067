"""From the runtime's lines to findings: numbers get their names, program counters their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.dataparallel import sentences
from weft.dataparallel.grouped import times
from weft.dataparallel.lines import read_lines
from weft.dataparallel.record import Record
from weft.dataparallel.texts import AccessPlace, Construct, Texts
from weft.debuginfo.addr2line import addr2line
from weft.errors import UsageError, WeftError
from weft.evidence import CheckCase, Line, Loop
from weft.findings import Finding, Site, worst_first
from weft.kinds import KINDS

NOBODY: Final = Construct("", "", 0)


@dataclass(slots=True)
class _File:
    modules: list[dict[str, Any]] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    usage: dict[str, object] | None = None


def read(path: Path, texts: Texts, language: str = "") -> list[Finding]:
    """The findings of a run, worst first. UsageError where the program's directives cannot be checked."""
    file = _lines(path)
    if file.usage is not None:
        raise _usage(file.usage, texts)
    places = _places(file, texts)
    for held in file.records.values():
        _name(held, _own_place(held, places, texts), texts)
    records = [
        Record(
            held=held,
            count=file.counts.get(id, 1),
            place=_own_place(held, places, texts),
            construct=texts.constructs.get(held["construct"], NOBODY),
            variable=texts.variables.get(held.get("data", 0)),
            others=tuple(
                (place, bool(one["write"]))
                for one in held.get("places", ())
                if (place := _place_of_access(one, places, texts)) is not None and place.line
            ),
        )
        for id, held in file.records.items()
    ]
    return worst_first(_finding(record, texts) for record in _merged(_causes(records)))


def _lines(path: Path) -> _File:
    file = _File()
    for held in read_lines(path):
        if "modules" in held:
            file.modules = held["modules"]
        elif "usage" in held:
            file.usage = held
        elif "count" in held:
            file.counts[held["id"]] = held["count"]
        elif "kind" in held:
            file.records[held["id"]] = held
    return file


def _usage(held: dict[str, Any], texts: Texts) -> WeftError:
    if held["usage"] == "no-memory":
        return WeftError(sentences.NO_ROOM)
    construct = texts.constructs.get(held["construct"], NOBODY)
    variable = texts.variables.get(held["data"])
    name = variable.name if variable else "an array"
    where = f"{construct.file}:{construct.line}" + (f":{construct.column}" if construct.column else "")
    return UsageError(f"{where}: {sentences.USAGE[held['usage']].format(name=name)}")


def _places(file: _File, texts: Texts) -> dict[int, AccessPlace]:
    """The place of every program counter."""
    counters: set[int] = set()
    for held in file.records.values():
        counters.update(one["pc"] for one in (held, *held.get("places", ())) if "pc" in one)
    spelled = {str(Path(name).absolute()): name for name in texts.files}
    found: dict[int, AccessPlace] = {}
    for module in file.modules:
        base, size = module["base"], module["size"]
        offsets = sorted(pc - base for pc in counters if base <= pc - 1 < base + size)
        if not offsets:
            continue
        for offset, frames in addr2line(module["path"], offsets, []).items():
            place, line, function = frames[0]
            name = _unmangled(function or "", texts)
            found[int(offset) + base] = AccessPlace(spelled.get(place or "", place or ""), line, 0, name)
    return found


def _unmangled(function: str, texts: Texts) -> str:
    """A procedure's name in the source; gfortran's has its module before it, and an underscore or a number behind."""
    if texts.language != "fortran":
        return function
    if function == "MAIN__":
        return texts.main or function
    return re.sub(r"^__\w+?_MOD_|_$|\.\w+$", "", function)


def _place_of_access(held: dict[str, Any], places: dict[int, AccessPlace], texts: Texts) -> AccessPlace | None:
    return places.get(held["pc"]) if "pc" in held else texts.places.get(held.get("site", 0))


def _own_place(held: dict[str, Any], places: dict[int, AccessPlace], texts: Texts) -> AccessPlace:
    if "file" in held:
        return AccessPlace(held["file"], held["line"], held["column"])
    place = _place_of_access(held, places, texts)
    if place is not None and place.line:
        return place
    construct = texts.constructs.get(held["construct"], NOBODY)
    return AccessPlace(construct.file, construct.line, construct.column)


def _name(held: dict[str, Any], place: AccessPlace, texts: Texts) -> None:
    """Call an array that procedures got by other names as the line of the access does: by its newest or first name."""
    newest, first = (texts.variables.get(held.get(key, 0)) for key in ("data", "name"))
    if newest and first and not sentences.column(place, newest.name) and sentences.column(place, first.name):
        held["data"] = held["name"]


def _causes(records: Sequence[Record]) -> Iterator[Record]:
    """Leave out what follows from another finding of the same construct and variable."""
    by: dict[tuple[int, int], set[str]] = defaultdict(set)
    at: dict[tuple[int, int, AccessPlace], set[str]] = defaultdict(set)
    for one in records:
        key = (one.held["construct"], one.held.get("data", 0))
        by[key].add(one.kind + ("!" if one.held.get("write") else ""))
        at[(*key, one.place)].add(one.kind)
    outside = {
        (one.held["construct"], one.place.file, one.place.line) for one in records if one.kind == "out-of-bounds"
    }
    shared = {one.held.get("data", 0) for one in records if one.kind == "shared-write"}
    for one in records:
        key = (one.held["construct"], one.held.get("data", 0))
        kinds, here = by[key], at[(*key, one.place)]
        if one.kind != "out-of-bounds" and (one.held["construct"], one.place.file, one.place.line) in outside:
            continue
        if one.why == "on" and any(
            other.kind == "out-of-bounds" and other.why != "on" and other.held["construct"] == one.held["construct"]
            for other in records
        ):
            continue  # the iteration's accesses say more
        if one.kind in ("stale-halo-read", "remote-access") and "loop-dependence" in here:
            continue
        if one.kind == "loop-dependence" and not one.held.get("write") and kinds & {
            "halo-write!", "remote-access!", "shared-write!",
        }:  # fmt: skip
            continue
        if one.kind == "uninitialised-read" and one.why in ("iteration", "after") and one.held.get("data") in shared:
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
        key = (one.kind, why, one.held["construct"], one.held.get("data", 0), one.held.get("array", 0),
               one.place.file, one.place.line, one.place.column)  # fmt: skip
        if key in kept:
            kept[key].count += one.count
        else:
            kept[key] = one
    return list(kept.values())


def _finding(record: Record, texts: Texts) -> Finding:
    place, held = record.place, record.held
    what = "write" if held.get("write") else "read"
    sites = [
        Site(
            0, what if "bytes" in held else record.construct.kind or "directive", place.file, place.line, place.function
        )
    ]
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
        message=sentences.message(record, texts) + times(record.count),
        sites=tuple(sites),
        evidence=_evidence(record),
    )


def _evidence(record: Record) -> CheckCase:
    """The facts that the report's JSON holds."""
    place, held, construct, variable = record.place, record.held, record.construct, record.variable
    loop = Loop(
        kind=construct.kind, file=construct.file, line=construct.line, text=construct.text, indices=construct.indices
    )
    return CheckCase(
        case=record.why or record.kind,
        count=record.count,
        variable=variable.name if variable else sentences.name_at(place) if "type" in held else "",
        column=place.column or sentences.column(place, variable.name if variable else ""),
        index=held.get("index"),
        iteration=held.get("iteration"),
        other=held.get("other"),
        task=held.get("task"),
        delta=held.get("delta"),
        offset=held.get("offset"),
        bytes=held.get("bytes"),
        expected=held.get("expected"),
        got=held.get("got"),
        value=held.get("value"),
        declared=Line(file=variable.file, line=variable.line) if variable else None,
        loop=loop if construct.line else None,
    )


def first_lines(findings: Iterable[Finding]) -> list[tuple[str, str, int]]:
    """(kind, file, line) of each finding, for tests and scripts."""
    return [(f.kind, f.sites[0].file, f.sites[0].line) for f in findings]
