"""Run every analysis on a trace, keep what each finds, and let no failure of one take the others down."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from weft.findings import CERTAINTIES, Finding, worst_first
from weft.trace import Level, Trace

ANALYSES: Final[Mapping[str, str]] = {
    "deadlock": "weft.deadlock:find",
    "potential deadlock": "weft.deadlock.potential:find",
    "other matches": "weft.deadlock.alternatives:find",
    "invalid arguments": "weft.usage.arguments:find",
    "collectives": "weft.usage.collectives:find",
    "messages": "weft.usage.messages:find",
    "requests": "weft.usage.requests:find",
    "one-sided": "weft.usage.onesided:find",
    "message races": "weft.races:find",
    "resources": "weft.usage.resources:find",
    "waits": "weft.waits:find",
}
"""What is run, in this order: the name for people and the function. Findings of one severity keep the order."""

MAX_MERGED: Final = 1000
"""Sites and events that a merged finding keeps."""


@dataclass(frozen=True)
class Failure:
    """An analysis that could not finish."""

    analysis: str
    error: str
    details: str = ""


@dataclass(frozen=True)
class Report:
    """The findings of a run, worst first and merged by cause, and the analyses that failed."""

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...] = ()


class Ground:
    """What analyses build on, made when the first of them asks."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def match(self) -> Any:
        """weft.match of the run."""
        from weft.match import match

        return match(self.trace)

    @cached_property
    def order(self) -> Any:
        """weft.order of the run."""
        made = importlib.import_module("weft.order").order
        return made(self.trace, self.match)


def examine(trace: Trace, analyses: Mapping[str, str] = ANALYSES, ground: Ground | None = None) -> Report:
    """Run the analyses, on the `ground` where one is there. A run of level `order` holds no calls and no findings."""
    if trace.level == Level.ORDER:
        return Report(())
    ground = ground or Ground(trace)
    findings: list[Finding] = []
    failures: list[Failure] = []
    for name, place in analyses.items():
        try:
            findings += _run(ground, place)
        except Exception as error:
            failures.append(Failure(name, f"{type(error).__name__}: {error}", traceback.format_exc()))
    return Report(tuple(worst_first(merged(findings))), tuple(failures))


def analyse(trace: Trace) -> list[Finding]:
    """All findings of a run, worst first, those of one cause merged."""
    return list(examine(trace).findings)


def _run(ground: Ground, place: str) -> Iterable[Finding]:
    module, _, name = place.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            return []  # a room that this installation does not have
        raise
    function = getattr(found, name, None)
    if function is None:
        return []
    wanted = inspect.signature(function).parameters
    given = {key: getattr(ground, key) for key in ("match", "order") if key in wanted}
    result: Iterable[Finding] = function(ground.trace, **given)
    return result


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one cause as one, in the order in which the first of each came."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, *finding.group), []).append(finding)
    return [found[0] if len(found) == 1 else _merge(found) for found in groups.values()]


def _merge(found: list[Finding]) -> Finding:
    """One finding for several of one cause: the first one's words, everybody's ranks, sites and events."""
    first = min(found, key=lambda f: CERTAINTIES.index(f.certainty))
    sites = tuple(dict.fromkeys(site for f in (first, *found) for site in f.sites))
    events = tuple(dict.fromkeys(event for f in (first, *found) for event in f.events))
    return replace(
        first,
        message=f"{first.message} (and {len(found) - 1:,} more like it)",
        ranks=tuple(sorted({rank for f in found for rank in f.ranks})),
        sites=sites[:MAX_MERGED],
        events=events[:MAX_MERGED],
        evidence={**first.evidence, "count": len(found)},
    )
