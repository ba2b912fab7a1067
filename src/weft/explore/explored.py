"""The results of an exploration, stored in the run as explored.json: for the report, and to go on another day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from weft.base.json_files import write_whole
from weft.base.lazy import dataclass
from weft.explore.outcomes import Outcome, Variant, count_undetermined_requests, describe_call_site
from weft.explore.runs import Harm, ReplayRuns, Result, compare_results
from weft.explore.search import Search
from weft.explore.unvaried import Unvaried, find_unvaried
from weft.trace.explored import FILE, SCHEMA

Label = Literal["harmful", "cut off", "benign as far as tried", "unreached"]


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One outcome in the results."""

    number: int
    run: str
    parent: int | None
    forced: str
    line: str
    """The race that came out otherwise: the line of its receive."""
    effects: tuple[str, ...]
    """How it differs from the record, worst first."""
    worst: Harm
    harmful: bool
    """Whether it differs from its parent, too, so that this race is what does it."""


@dataclass(frozen=True, slots=True)
class Explored:
    """The outcomes, the label of each race, and what is left to run."""

    rows: tuple[OutcomeRow, ...]
    races: tuple[tuple[str, Label], ...]
    left: int
    steady: bool
    ended: str
    """`all`, `budget` or `interrupted`."""
    unreached: tuple[Variant, ...] = ()
    cut_off: tuple[tuple[Variant, str], ...] = ()
    """Variants of which nothing is known, as they were not run to their end, and why."""
    unknown: int = 0
    """Requests that another call of the record could have completed first, as far as messages show."""
    unvaried: Unvaried = Unvaried()
    """Polls and sets of requests that stay as they came."""


def summarize_exploration(search: Search, runs: ReplayRuns, end_reason: str) -> Explored:
    """Return what an exploration has found so far: a row for each outcome, and whether each race is harmful.
    `end_reason`: `all`, `budget` or `interrupted`.
    """
    rows = tuple(_make_outcome_row(one, search, runs) for one in search.outcomes)
    labels: dict[str, Label] = {}
    for variant in search.unreached:
        labels[describe_call_site(search.outcomes[variant.parent].trace, variant.forced.event)] = "unreached"
    for row in rows[1:]:
        if labels.get(row.line) != "harmful":
            labels[row.line] = "harmful" if row.harmful else "benign as far as tried"
    for came in search.cut_off:
        if labels.get(came.variant.line) != "harmful":
            labels[came.variant.line] = "cut off"
    return Explored(
        rows,
        tuple(labels.items()),
        search.left,
        runs.steady,
        end_reason,
        tuple(search.unreached),
        tuple((result.variant, result.cut) for result in search.cut_off),
        count_undetermined_requests(search.outcomes[0]),
        find_unvaried(search.outcomes),
    )


def _make_outcome_row(outcome: Outcome, search: Search, runs: ReplayRuns) -> OutcomeRow:
    """Return the row of an outcome in the results, with its differences from the record and from its parent."""
    first = runs.results[search.outcomes[0].trace.path]
    result = runs.results[outcome.trace.path]
    if outcome.parent is None or outcome.forced is None:
        return OutcomeRow(0, outcome.trace.path.name, None, "", "", (), Harm.NONE, False)
    parent = search.outcomes[outcome.parent]
    own = compare_results(result, runs.results[parent.trace.path], output=runs.steady)
    found = compare_results(result, first, output=runs.steady)
    line = describe_call_site(parent.trace, outcome.forced.event)
    return OutcomeRow(
        outcome.number, outcome.trace.path.name, outcome.parent, str(outcome.forced), line, found.texts,
        found.worst, bool(own.worst and found.worst),
    )  # fmt: skip


def write_explored(run: Path, explored: Explored, results: Sequence[Result]) -> None:
    """Write the results of an exploration into the run, as explored.json."""
    data = {
        "schema": SCHEMA,
        "ended": explored.ended,
        "left": explored.left,
        "output_compared": explored.steady,
        "outcomes": [
            {
                "number": row.number, "run": row.run, "parent": row.parent, "forced": row.forced, "line": row.line,
                "effects": list(row.effects), "harm": int(row.worst), "harmful": row.harmful, "status": result.status,
                "output": result.output[:10_000],
            }
            for row, result in zip(explored.rows, results, strict=True)
        ],
        "races": [{"line": line, "label": label} for line, label in explored.races],
        "unreached": [{"parent": one.parent, "forced": str(one.forced)} for one in explored.unreached],
        "cut_off": [
            {"parent": one.parent, "forced": str(one.forced), "why": why} for one, why in explored.cut_off
        ],
        "unvaried": {"polls": list(explored.unvaried.polls), "sets": list(explored.unvaried.sets)},
    }  # fmt: skip
    write_whole(run / FILE, json.dumps(data, indent=1).encode() + b"\n")
