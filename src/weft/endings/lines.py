"""Where the ranks of a run ended: the lines that come first in every report, and the same for scripts."""

from __future__ import annotations

from typing import Any, Final

from weft.endings.ends import End, How, ends
from weft.endings.words import words
from weft.terms.words import plural, printable, rank_words
from weft.trace import Level, Trace

MAX_LINES: Final = 8

_ORDER: Final = list(How)


def lines(trace: Trace) -> list[str]:
    """A line for all ranks that ended alike, those first that ended by their own doing; none for a run that finished."""
    if trace.level == Level.ORDER:
        return []
    found = [end for end in ends(trace)]
    bad = trace.run.get("ended") in ("crashed", "killed", "interrupted") or any(
        end.how not in (How.FINISHED, How.STOPPED, How.CUT_OFF) for end in found
    )
    if not bad or trace.run.get("ended") in ("running", "deadlock"):
        return []
    groups = _groups(found)
    told = [printable(f"{rank_words(end.rank.index for end in group)} {said}") for said, group in groups[:MAX_LINES]]
    if len(groups) > MAX_LINES:
        left = sum(len(group) for _, group in groups[MAX_LINES:])
        told.append(f"and {plural(left, 'more rank')} elsewhere: weft view --text {printable(str(trace.path))}")
    return told


def _groups(found: list[End]) -> list[tuple[str, list[End]]]:
    groups: dict[str, list[End]] = {}
    for end in sorted(found, key=lambda end: (_ORDER.index(end.how), bool(end.open_calls), end.rank.index)):
        groups.setdefault(words(end), []).append(end)
    return list(groups.items())


def to_json(trace: Trace) -> list[dict[str, Any]]:
    """How the ranks ended, for the report's JSON: `ranks`, `how` (a word of `How`), `message`, and place and status."""
    if trace.level == Level.ORDER:
        return []
    return [_json(said, group) for said, group in _groups(ends(trace))]


def _json(said: str, group: list[End]) -> dict[str, Any]:
    first = group[0]
    told: dict[str, Any] = {
        "ranks": [end.rank.index for end in group], "how": first.how.value, "message": printable(said),
    }  # fmt: skip
    if first.ending is not None:
        told |= {"code": first.ending.code, "name": first.ending.name}
        if site := first.site:
            told |= {"file": site.file or "", "line": site.line, "function": site.function or ""}
    return told
