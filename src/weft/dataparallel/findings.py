"""Turn the runtime's output into findings: numbers become names, program counters become lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from weft.dataparallel import messages, runtime_output
from weft.dataparallel.grouping import format_times
from weft.dataparallel.raw_findings import NOBODY, RawFinding
from weft.dataparallel.runtime_output import RuntimeOutput
from weft.dataparallel.source_map import AccessPlace, SourceMap
from weft.errors import UsageError, WeftError
from weft.evidence import CheckCase, Line, Loop
from weft.findings import Finding, Site, worst_first
from weft.kinds import KINDS

FACTS: Final = {one.name for one in fields(RawFinding)} - {"construct", "place", "others"}
"""What a record takes from the runtime's line as it is."""


def read_findings(path: Path, source_map: SourceMap) -> list[Finding]:
    """Return the findings in a file that the runtime wrote, worst first. Raises UsageError if the program's directives
    cannot be checked.
    """
    return make_findings(runtime_output.read_runtime_output(path), source_map)


def make_findings(output: RuntimeOutput, source_map: SourceMap) -> list[Finding]:
    """Return the findings in a runtime's output, worst first. Raises UsageError if the program's directives cannot be
    checked.
    """
    if output.usage is not None:
        raise _make_usage_error(output.usage, source_map)
    return worst_first(
        _make_finding(record, source_map)
        for record in _merge_equal_findings(_drop_consequences(parse_findings(output, source_map)))
    )


def parse_findings(output: RuntimeOutput, source_map: SourceMap) -> list[RawFinding]:
    """Return the raw findings of a run, with ids and program counters resolved to constructs, variables and lines."""
    held = output.raw_findings.values()
    places = _resolve_program_counters(
        output, [one["pc"] for found in held for one in (found, *found.get("places", ())) if "pc" in one], source_map
    )
    return [_parse_finding(one, places, source_map) for one in held]


def _parse_finding(
    fields: Mapping[str, Any], places_by_counter: Mapping[int, AccessPlace], source_map: SourceMap
) -> RawFinding:
    """Return the raw finding that a JSON object of the runtime's output describes. Its ids and program counters become
    construct, variable, place and other accesses."""
    facts = {name: value for name, value in fields.items() if name in FACTS}
    record = RawFinding(
        **facts, construct_id=fields["construct"], construct=source_map.constructs.get(fields["construct"], NOBODY)
    )
    if "file" in fields:
        record.place = AccessPlace(fields["file"], fields["line"], fields["column"])
    elif (place := _access_place(fields, places_by_counter, source_map)) is not None and place.line:
        record.place = place
    else:
        record.place = AccessPlace(record.construct.file, record.construct.line, record.construct.column)
    _choose_array_name(record, source_map)
    record.variable = source_map.variables.get(record.data)
    record.others = [
        (place, one["write"])
        for one in fields.get("places", ())
        if (place := _access_place(one, places_by_counter, source_map)) is not None and place.line
    ]
    return record


def _make_usage_error(fields: Mapping[str, Any], source_map: SourceMap) -> WeftError:
    """Return the error for a program that the runtime could not check: UsageError for its directives, WeftError without
    memory.
    """
    if fields["usage"] == "no-memory":
        return WeftError(messages.NO_ROOM)
    construct = source_map.constructs.get(fields["construct"], NOBODY)
    variable = source_map.variables.get(fields["data"])
    name = variable.name if variable else "an array"
    where = f"{construct.file}:{construct.line}" + (f":{construct.column}" if construct.column else "")
    return UsageError(f"{where}: {messages.USAGE[fields['usage']].format(name=name)}")


def _resolve_program_counters(
    output: RuntimeOutput, counters: Iterable[int], source_map: SourceMap
) -> dict[int, AccessPlace]:
    """Return {program counter: its place in the source}. Files are named as the user named them."""
    spelled = {str(Path(name).absolute()): name for name in source_map.files}
    found = {}
    for pc, frames in output.resolve_frames(counters).items():
        file, line, function = frames[0]
        found[pc] = AccessPlace(
            spelled.get(file or "", file or ""), line, 0, _unmangle_procedure_name(function or "", source_map)
        )
    return found


def _unmangle_procedure_name(symbol: str, source_map: SourceMap) -> str:
    """Return a procedure's name in the source: without the module prefix and the suffix that gfortran adds."""
    if source_map.language != "fortran":
        return symbol
    if symbol == "MAIN__":
        return source_map.main or symbol
    return re.sub(r"^__\w+?_MOD_|_$|\.\w+$", "", symbol)


def _access_place(held: Mapping[str, Any], places: Mapping[int, AccessPlace], texts: SourceMap) -> AccessPlace | None:
    """Return the place of an access: by its program counter, else by the number that the front end gave it."""
    return places.get(held["pc"]) if "pc" in held else texts.places.get(held.get("site", 0))


def _choose_array_name(record: RawFinding, source_map: SourceMap) -> None:
    """Change the name of a finding's array to the name that the calling procedure uses, if the source line contains
    only that one."""
    newest, first = (source_map.variables.get(number) for number in (record.data, record.name))
    place = record.place
    if (
        newest
        and first
        and not messages.find_name_column(place, newest.name)
        and messages.find_name_column(place, first.name)
    ):
        record.data = record.name


def _drop_consequences(records: Sequence[RawFinding]) -> Iterator[RawFinding]:
    """Yield the raw findings that are no consequences of others. A finding is left out if another one about the same
    construct, line or variable explains it."""
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


def _merge_equal_findings(records: Iterable[RawFinding]) -> list[RawFinding]:
    """Merge the raw findings that agree in kind, reason, variable, construct and place (line and column). The first of
    them stays, with the sum of their counts."""
    kept: dict[tuple[Any, ...], RawFinding] = {}
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


def _make_finding(record: RawFinding, source_map: SourceMap) -> Finding:
    """Return the finding of a raw finding: its message, sites and evidence."""
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
        message=messages.render_message(record, source_map) + format_times(record.count),
        sites=tuple(sites),
        evidence=_make_evidence(record),
    )


def _make_evidence(record: RawFinding) -> CheckCase:
    """Return the facts of a raw finding for the report's JSON: loop, variable, index, iterations, declaration."""
    place, construct, variable = record.place, record.construct, record.variable
    loop = Loop(
        kind=construct.kind, file=construct.file, line=construct.line, text=construct.text, indices=construct.indices
    )
    return CheckCase(
        case=record.why or record.kind,
        count=record.count,
        variable=variable.name if variable else messages.find_array_name_at(place) if record.type else "",
        column=place.column or messages.find_name_column(place, variable.name if variable else ""),
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
