"""Adds to races what `weft explore` found about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.base.facts import changed
from weft.evidence import Explored, Race
from weft.findings import Finding
from weft.trace import Trace
from weft.trace.explored import read_explored


def add_explored(trace: Trace, findings: list[Finding]) -> list[Finding]:
    """Return the findings with the results of `weft explore`: the message of a race whose other outcomes were run also
    says what happened in them, and how to replay them."""
    if not any(one.kind == "message-race" for one in findings):
        return findings
    outcomes = read_explored(trace.path).get("outcomes", [])
    if not outcomes:
        return findings
    return [_add_outcomes(one, outcomes) if isinstance(one.evidence, Race) else one for one in findings]


def _add_outcomes(race: Finding, outcomes: list[dict[str, Any]]) -> Finding:
    """Return a race with its explored outcomes as evidence, and a sentence on the worst one in its message."""
    assert isinstance(race.evidence, Race)
    event = race.events[0]
    mine = [one for one in outcomes if one.get("parent") == 0 and one["forced"].startswith(f"{event}=")]
    if not mine:
        return race
    worst = max((one for one in mine if one["effects"]), key=lambda one: int(one.get("harm", 0)), default=None)
    if worst is not None:
        text = f". `weft explore` ran this: then {worst['effects'][0]}: weft replay {worst['run']}"
    else:
        text = (
            f". `weft explore` ran this: the result is the same with the message of "
            f"{'another' if len(mine) == 1 else 'each other'} rank"
        )
    told = [Explored(forced=one["forced"], run=one["run"], effects=one["effects"]) for one in mine]
    return replace(race, message=race.message + text, evidence=changed(race.evidence, explored=told))
