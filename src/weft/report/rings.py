"""What a report may say of a run whose rings dropped its first calls (`weft run --keep`), and of its snapshots.

A finding is reported if the calls of the suffix prove it. So analyses that look for what came first (a datatype's
commit, a window's lock, the memory behind a buffer) are not run, and the calls of a finding must begin after the last
request of the dropped calls was complete: from there on nothing unseen comes in. Where messages could not be counted,
or something unseen orders calls, what rests on the order is not looked for. The report says all of that.

The snapshots of a run are searched anew each time, as runs of their own. Their findings are reported with their places
and sentences; its events are those of the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from weft.base.words import listed, plural, printable
from weft.errors import RunError
from weft.evidence import Around
from weft.findings import Finding
from weft.match.operations import request_completions
from weft.match.rings import dropped_operations
from weft.report.registry import ANALYSES, Analysis
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of
from weft.trace import Event, Rank, Trace
from weft.trace.layout import compute_return_ticks
from weft.trace.rings.snapshots import list_snapshots
from weft.trace.rings.suffix import Suffix

_ON_OBJECTS: Final = calls.WINDOW_COLLECTIVES | calls.FILE_COLLECTIVES | calls.ON_WINDOWS
_PROVEN_BY_THEIR_CALLS: Final = frozenset(("message-race", "type-mismatch", "truncation"))
"""Kinds that two or three calls prove, whatever comes."""
SNAPSHOT_ANALYSES: Final = tuple(one for one in ANALYSES if one.name in ("messages", "message races"))

Examine = Callable[[Trace, Sequence[Analysis]], Iterable[Finding]]


# The suffix


class SuffixScope:
    """Which analyses look at the suffix of a run, and which of their findings hold for the whole run."""

    def __init__(self, trace: Trace, suffix: Suffix) -> None:
        self.trace, self.suffix = trace, suffix
        self._dropped = dropped_operations(trace)
        self._made_requests: dict[int, frozenset[int]] = {}

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the order of the calls is known, from `clear_ns` on."""
        settled = self._dropped is not None and not self._dropped.unsettled
        return settled and self.suffix.has_one_clock and len(self.trace.worlds) == 1

    @cached_property
    def clear_ns(self) -> int:
        """Until when (ns) calls completed requests of dropped ones, or used their windows and files."""
        return max(self.suffix.begin_ns, *(self._clear_ns_of_rank(rank) for rank in self.trace.ranks))

    def _clear_ns_of_rank(self, rank: Rank) -> int:
        """Return the time (ns) from which on no call of a rank uses a request, window or file that a dropped call
        made.
        """
        table, events = masks_of(self.trace.functions), rank.events
        made = events["object"][table.where(rank, calls.REQUEST_MAKERS)]
        request, event = request_completions(rank) if len(events) else (np.zeros(0, np.int64), np.zeros(0, np.int64))
        foreign: Ints = event[(request > 1) & ~np.isin(request, made)]
        objects = table.where(rank, _ON_OBJECTS | calls.STARTS)
        makers = events["object"][
            table.where(rank, calls.WINDOW_MAKERS | calls.word_set("File_open") | calls.PERSISTENT)
        ]
        foreign = np.concatenate([foreign, objects[~np.isin(events["object"][objects], makers)]])
        if not len(foreign):
            return -(2**62)
        last = int(foreign.max())
        ended = int(compute_return_ticks(events[last : last + 1])[0])
        return rank.axis.ns(ended) + 1

    def is_searched(self, analysis: Analysis) -> bool:
        """Whether an analysis can prove something from the suffix."""
        return analysis.in_suffix in ("always", "closed") or (analysis.in_suffix == "ordered" and self.is_ordered)

    def is_true_of_run(self, analysis: Analysis, finding: Finding) -> bool:
        """Return whether a finding in the kept calls (the suffix of a run with rings) holds for the whole run."""
        if analysis.in_suffix == "always":
            return True
        events = [self.trace.event(*event) for event in finding.events]
        return all(event.enter_ns >= self.clear_ns and not self._uses_dropped_request(event) for event in events)

    def _uses_dropped_request(self, event: Event) -> bool:
        """Return whether a call uses a request that no kept call of its rank made; the call need not have returned."""
        of_one = masks_of(self.trace.functions).table(calls.OF_ONE | calls.STARTS | calls.CANCELS | calls.RELEASES)
        used = [event.object] if of_one[event.function.id] else event.args.get("array_of_requests", [])
        made = self._requests_made_by(event.rank)
        return any(request > 1 and request not in made for request in used)

    def _requests_made_by(self, rank: Rank) -> frozenset[int]:
        """Return the ids of the requests that kept calls of a rank made."""
        if rank.index not in self._made_requests:
            makers = masks_of(self.trace.functions).where(rank, calls.REQUEST_MAKERS)
            self._made_requests[rank.index] = frozenset(rank.events["object"][makers].tolist())
        return self._made_requests[rank.index]

    def describe_suffix(self) -> str:
        """Return a sentence on how much of the run was kept in its rings."""
        spans = [int(rank.enter_ns()[-1]) for rank in self.trace.ranks if len(rank.events)]
        wish = self.trace.run.get("keep")
        asked = f" (--keep last:{wish:g}s keeps at least that long)" if isinstance(wish, int | float) else ""
        seconds = max(spans, default=0) / 1e9
        return (
            f"only the end of the run is recorded{asked}: {plural(self.trace.event_count, 'call')} of the last "
            f"{seconds:.3g} s; Weft dropped {plural(self.suffix.dropped_count, 'earlier call')} and does not check them"
        )

    def describe_analyses(self) -> list[str]:
        """Return sentences on which analyses look at the kept calls, and why the others do not."""
        searched = sorted(one.name for one in ANALYSES if self.is_searched(one))
        unordered = sorted(one.name for one in ANALYSES if one.in_suffix == "ordered" and not self.is_ordered)
        lines = [f"checked in the recorded calls: {listed(searched)}"]
        if unordered:
            lines.append(
                f"not checked, because the dropped calls decide {self._reason_for_no_order()}: {listed(unordered)}"
            )
        left = [one.name for one in ANALYSES if one.in_suffix == "never"]
        return [
            *lines,
            f"not checked, because only a part of the run is recorded: {listed(left)}; to check these, record without "
            "--keep",
        ]

    def _reason_for_no_order(self) -> str:
        is_unsettled = self._dropped is not None and self._dropped.unsettled
        return "which messages were pending" if is_unsettled else "in which order the ranks' calls happened"


def suffix_scope(trace: Trace) -> SuffixScope | None:
    """What a report may say of a run's suffix, None of a whole run."""
    suffix = trace.suffix
    return None if suffix is None else suffix.derive_once(SuffixScope, lambda: SuffixScope(trace, suffix))


def describe_scope(trace: Trace) -> list[str]:
    """Return sentences on which calls of a run with rings the report looks at, and which snapshots there are. Empty for
    a run without rings.
    """
    scope = suffix_scope(trace)
    if scope is None:
        return []
    lines = [scope.describe_suffix(), *scope.describe_analyses(), *_describe_snapshots(list_snapshots(trace.path))]
    return [printable(text) for text in lines]


def describe_suffix(trace: Trace) -> list[str]:
    """Return a sentence, in a list, on how much of a run was kept in its rings, for commands that print or export it.
    Empty for a run without rings.
    """
    scope = suffix_scope(trace)
    return [] if scope is None else [printable(scope.describe_suffix())]


# Snapshots


def select_proven(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that their own calls prove, whatever the dropped calls were."""
    return [
        one
        for one in findings
        if one.kind in _PROVEN_BY_THEIR_CALLS and one.severity != "note" and one.certainty == "certain"
    ]


def add_snapshot_findings(trace: Trace, findings: Sequence[Finding], examine: Examine) -> list[Finding]:
    """Return the findings, and the further findings of the run's snapshots. `examine(trace, analyses)`: returns
    findings.
    """
    found, known = list(findings), {one.cause_key for one in findings}
    for snapshot in list_snapshots(trace.path):
        try:
            more = select_proven(examine(Trace.open(snapshot), SNAPSHOT_ANALYSES))
        except RunError as error:
            trace.add_problem(str(error))
            continue
        for one in more:
            if one.cause_key not in known:
                known.add(one.cause_key)
                where = f"{snapshot.parent.name}/{snapshot.name}"
                message = f"{one.message}. Its calls were copied before they were dropped: weft report {snapshot}"
                # The events, counts and proofs are those of the snapshot, not of this run.
                found.append(
                    Finding(
                        one.kind,
                        one.severity,
                        one.certainty,
                        message,
                        one.ranks,
                        one.sites,
                        evidence=Around(around=where),
                        cause=one.cause,
                    )
                )
    return found


def _describe_snapshots(snapshots: Sequence[Path]) -> list[str]:
    """Return a line that names the snapshots of a run, in a list; empty if there are none."""
    if not snapshots:
        return []
    names = ", ".join(f"{one.parent.name}/{one.name}" for one in snapshots)
    return [
        f"{plural(len(snapshots), 'part')} of the run, copied around findings before the calls were dropped: {names}"
    ]
