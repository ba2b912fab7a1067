"""Summarise where the ranks of a run ended: the lines that come first in every report, and the same for scripts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from weft.base.words import plural, printable, rank_words
from weft.endings.end_causes import OWN, End, How, find_ends
from weft.endings.waits_at_end import describe_waits
from weft.endings.wording import describe_end
from weft.trace import Level, Trace

MAX_LINES: Final = 8

_ORDER: Final = list(How)


def describe_ends(trace: Trace, reported: Collection[int] = ()) -> list[str]:
    """Return a line for each group of ranks that ended alike, first for those that caused their end themselves. [] for
    a run that finished. `reported`: ranks to leave out, as a finding reports their end or where they waited."""
    if trace.level == Level.OUTCOMES:
        return []
    found = find_ends(trace)
    bad = trace.run.get("ended") in ("crashed", "killed", "interrupted") or any(
        end.how not in (How.FINISHED, How.STOPPED, How.CUT_OFF) for end in found
    )
    if not bad or trace.run.get("ended") in ("running", "deadlock"):
        return []
    groups = [one for one in _group_ends(trace, found) if not all(end.rank.index in reported for end in one[1])]
    said = [printable(f"{rank_words(end.rank.index for end in group)} {text}") for text, group in groups[:MAX_LINES]]
    if len(groups) > MAX_LINES:
        left = sum(len(group) for _, group in groups[MAX_LINES:])
        said.append(f"and {plural(left, 'more rank')} elsewhere: weft view --text {printable(str(trace.path))}")
    return describe_waits(trace, found, reported) + said + _explain_kill(trace, found)


def _explain_kill(trace: Trace, found: list[End]) -> list[str]:
    """Return a line that says what is known if SIGKILL ended the job and no rank's record says why; else []."""
    own = any(end.how in OWN for end in found)
    if own or trace.run.get("ended") != "crashed" or trace.run.get("exit_code") not in (9, 137):
        return []
    silent = [end.rank.index for end in found if end.how is How.CUT_OFF]
    if len(silent) == 1 and all(end.how in (How.SIGNAL, How.FINISHED, How.CUT_OFF) for end in found) and len(found) > 1:
        return [
            f"rank {silent[0]} left no record of its end: it was killed from outside by SIGKILL (by the kernel "
            "because memory ran out, by a batch system, or by a person), and the launcher ended the others"
        ]
    return [
        "no rank left a record of why the run ended: one of them was killed from outside by SIGKILL (by the kernel "
        "because memory ran out, by a batch system, or by a person), and the launcher ended the others"
    ]


def _group_ends(trace: Trace, found: list[End]) -> list[tuple[str, list[End]]]:
    """Return (sentence, ends) for each group of ranks that ended alike. The order is by probable cause: a rank that
    ended without a word comes before those that the launcher's signal ended."""
    outside = trace.run.get("ended") in ("interrupted", "killed", "running", "deadlock")
    fell = not outside and any(end.how in OWN for end in found)
    order = {
        how: (_ORDER.index(How.SIGNAL) - 0.5 if how is How.CUT_OFF and not outside else _ORDER.index(how))
        for how in How
    }
    groups: dict[str, list[End]] = {}
    for end in sorted(found, key=lambda end: (order[end.how], bool(end.open_calls), end.rank.index)):
        groups.setdefault(describe_end(end, job_failed=fell), []).append(end)
    return [(describe_end(group[0], len(group), job_failed=fell), group) for group in groups.values()]


def to_json(trace: Trace) -> list[dict[str, Any]]:
    """Return how the ranks ended for the report's JSON: `ranks`, `how` (a word of `How`), `message`, place and
    status.
    """
    if trace.level == Level.OUTCOMES:
        return []
    return [_group_to_json(said, group) for said, group in _group_ends(trace, find_ends(trace))]


def _group_to_json(said: str, group: list[End]) -> dict[str, object]:
    """Return how a group of ranks ended, for the report's JSON. `said`: the sentence about it."""
    first = group[0]
    told: dict[str, Any] = {
        "ranks": [end.rank.index for end in group], "how": first.how.value, "message": printable(said),
    }  # fmt: skip
    if first.ending is not None:
        told |= {"code": first.ending.code, "name": first.ending.name}
        if site := first.site:
            told |= {"file": site.file or "", "line": site.line, "function": site.function or ""}
    return told
