"""Run every analysis on a trace, keep what each finds, and let no failure of one take the others down."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any, Final

from weft.findings import CERTAINTIES, Finding, worst_first
from weft.native.threads import workers
from weft.plain import dataclass
from weft.terms.calls import catalogue
from weft.trace import Level, Trace

ANALYSES: Final[Mapping[str, str]] = {
    "how the ranks ended": "weft.endings:find",
    "deadlock": "weft.deadlock:find",
    "potential deadlock": "weft.deadlock.potential:find",
    "other matches": "weft.deadlock.alternatives:find",
    "invalid arguments": "weft.usage.arguments:find",
    "lifetime and threads": "weft.usage.lifetime:find",
    "collectives": "weft.usage.collectives:find",
    "messages": "weft.usage.messages:find",
    "requests": "weft.usage.requests:find",
    "one-sided": "weft.usage.onesided:find",
    "message races": "weft.races:find",
    "resources": "weft.usage.resources:find",
    "waits": "weft.waits:find",
}
"""What is run, in this order: the name for people and the function. Findings of one severity keep the order."""

NEEDED: Final[Mapping[str, Callable[[Ground], bool]]] = {
    "other matches": lambda ground: ground.receives,
    "message races": lambda ground: ground.receives,
    "one-sided": lambda ground: ground.windows,
}
"""Analyses that can find nothing in a run without such calls: these are not even imported then."""

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

        self._lock = RLock()

    def prepare(self) -> None:
        """Read what is read once, so that analyses side by side find it there."""
        _ = self.match
        for rank in self.trace.ranks:
            _ = rank.definitions, rank.axis
            catalogue(rank)

    @cached_property
    def match(self) -> Any:
        """weft.match of the run."""
        from weft.match import match

        return match(self.trace)

    @property
    def receives(self) -> bool:
        """Whether anything is received or probed in the run."""
        return bool(len(self.match.recvs) or len(self.match.probes))

    @property
    def windows(self) -> bool:
        """Whether any call of the run is one-sided: or makes a window."""
        known = [function.id for function in self.trace.functions if "Win_" in function.name]
        known = [f.id for f in self.trace.functions if "Win_" in f.name or f.name.removesuffix("_c") in _REMOTE]
        return any(catalogue(rank).counts[known].any() for rank in self.trace.ranks)

    @property
    def order(self) -> Any:
        """weft.order of the run."""
        with self._lock:
            return self._order

    def make_order(self) -> None:
        """Make the order. Whoever asks for it meanwhile waits."""
        _ = self.order

    @cached_property
    def _order(self) -> Any:
        made = importlib.import_module("weft.order").order
        return made(self.trace, self.match)


_REMOTE: Final = frozenset(
    "MPI_Put MPI_Get MPI_Accumulate MPI_Get_accumulate MPI_Rput MPI_Rget MPI_Raccumulate MPI_Rget_accumulate"
    " MPI_Fetch_and_op MPI_Compare_and_swap".split()
)

Progress = Callable[[float, str], None]
"""Told which share of the analyses is done, and which of them is under way."""


def examine(
    trace: Trace, analyses: Mapping[str, str] = ANALYSES, ground: Ground | None = None, progress: Progress | None = None
) -> Report:
    """Run the analyses, on the `ground` if one is there. A run of level `outcomes` has no calls and no findings."""
    if trace.level == Level.OUTCOMES:
        return Report(())
    ground = ground or Ground(trace)
    findings: list[Finding] = []
    failures: list[Failure] = []
    results = _side_by_side(ground, analyses, progress or (lambda share, now: None))
    for name in analyses:
        result = results.get(name, [])
        if isinstance(result, Failure):
            failures.append(result)
        else:
            findings += result
    try:
        findings = told_once(trace, findings)
    except Exception as error:
        failures.append(
            Failure("what follows from the ends of ranks", f"{type(error).__name__}: {error}", traceback.format_exc())
        )
    return Report(tuple(worst_first(merged(findings))), tuple(failures))


def told_once(trace: Trace, findings: list[Finding]) -> list[Finding]:
    """The findings without those that only follow from how a rank ended; these become evidence of that."""
    from weft.endings import consequences

    following = consequences(trace, findings)
    kept = [finding for finding in findings if not following.of(finding)]
    return [
        replace(one, evidence={**one.evidence, "consequences": behind}) if (behind := following.behind(one)) else one
        for one in kept
    ]


def _side_by_side(
    ground: Ground, analyses: Mapping[str, str], progress: Progress
) -> dict[str, list[Finding] | Failure]:
    """What each analysis finds, or why it fails.

    They know nothing of each other, and most of their time goes into C and numpy, which let other threads run.
    """
    progress(0, "matching messages")
    with suppress(Exception):  # the analyses that need it will say why it fails
        ground.prepare()
    analyses = {name: place for name, place in analyses.items() if _may_find(ground, name)}
    count = workers(sum(len(rank) for rank in ground.trace.ranks), 4)
    if count == 1:
        return {name: _attempt(ground, name, place) for name, place in analyses.items()}
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(count) as pool:
        late = {name for name, place in analyses.items() if "order" in _wanted(place)}
        if late:
            pool.submit(ground.make_order)
        begun = {name: pool.submit(_attempt, ground, name, analyses[name])
                 for name in sorted(analyses, key=lambda name: name in late)}  # fmt: skip
        left = list(begun)
        for future in as_completed(begun.values()):
            left = [name for name in left if begun[name] is not future]
            progress(1 - len(left) / len(begun), left[0] if left else "")
        return {name: future.result() for name, future in begun.items()}


def _may_find(ground: Ground, name: str) -> bool:
    """Whether the run has calls for an analysis; where that cannot be told, the analysis says why."""
    with suppress(Exception):
        return name not in NEEDED or NEEDED[name](ground)
    return True


def _attempt(ground: Ground, name: str, place: str) -> list[Finding] | Failure:
    try:
        return list(_run(ground, place))
    except Exception as error:
        return Failure(name, f"{type(error).__name__}: {error}", traceback.format_exc())


def analyse(trace: Trace) -> list[Finding]:
    """All findings of a run, worst first, those of one cause merged."""
    return list(examine(trace).findings)


def _wanted(place: str) -> frozenset[str]:
    """What the function of an analysis asks for, nothing where it cannot be had."""
    try:
        function = _function(place)
    except Exception:
        return frozenset()
    return frozenset(inspect.signature(function).parameters) if function else frozenset()


def _function(place: str) -> Callable[..., Iterable[Finding]] | None:
    """The function of an analysis, None where this installation does not have it."""
    module, _, name = place.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.startswith(error.name):
            return None
        raise
    return getattr(found, name, None)


def _run(ground: Ground, place: str) -> Iterable[Finding]:
    function = _function(place)
    if function is None:
        return []
    wanted = inspect.signature(function).parameters
    given = {key: getattr(ground, key) for key in ("match", "order") if key in wanted}
    return function(ground.trace, **given)


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
