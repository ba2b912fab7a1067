"""Findings of a run that keeps only its end, of which what they stand on was set aside: RUN/around/N.

They are looked for in these parts anew each time, as in a run of its own. What is told here has its places and its
sentence; its events are those of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from weft.base.words import plural
from weft.errors import RunError
from weft.evidence import Around
from weft.findings import Finding
from weft.report.registry import ANALYSES, Analysis
from weft.trace import Trace
from weft.trace.aside import parts

PROVEN: Final = frozenset(("message-race", "type-mismatch", "truncation"))
"""Kinds that two or three calls prove, whatever comes."""
LOOKED_AT: Final = tuple(one for one in ANALYSES if one.name in ("messages", "message races"))

Examine = Callable[[Trace, Sequence[Analysis]], Iterable[Finding]]


def proven(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that count whatever comes."""
    return [f for f in findings if f.kind in PROVEN and f.severity != "note" and f.certainty == "certain"]


def with_around(trace: Trace, findings: Sequence[Finding], examine: Examine) -> list[Finding]:
    """The findings, and those of the parts of the run that were set aside which are not among them."""
    found, known = list(findings), {one.group for one in findings}
    for part in parts(trace.path):
        try:
            more = proven(examine(Trace.open(part), LOOKED_AT))
        except RunError as error:
            trace.add_problem(str(error))
            continue
        for one in more:
            if one.group not in known:
                known.add(one.group)
                where = f"{part.parent.name}/{part.name}"
                told = f"{one.message}. Its calls were set aside before they were dropped: weft report {part}"
                found.append(replace(one, message=told, events=(), evidence=Around(around=where)))
    return found


def set_aside(trace: Trace) -> list[str]:
    """What a report says of the parts of a run; nothing where there are none."""
    there = parts(trace.path)
    if not there:
        return []
    names = ", ".join(f"{part.parent.name}/{part.name}" for part in there)
    return [f"{plural(len(there), 'part')} of the run set aside around findings before it was dropped: {names}"]
