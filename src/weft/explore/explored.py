"""The results of an exploration, stored in the run as explored.json: for the report, and to go on another day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from weft.base.json_files import write_whole
from weft.base.lazy import dataclass
from weft.explore.outcomes import Outcome, Variant, line_of, untold
from weft.explore.runs import Harm, Result, Runs, effects
from weft.explore.search import Search
from weft.explore.unvaried import Unvaried, unvaried
from weft.trace.explored import FILE, SCHEMA

Label = Literal["harmful", "cut off", "benign as far as tried", "unreached"]


@dataclass(frozen=True, slots=True)
class ToldOutcome:
    """One outcome in the results."""

    number: int
    run: str
    parent: int | None
    forced: str
    line: str
    """The race that came out otherwise: where its receive stands."""
    effects: tuple[str, ...]
    """How it differs from the record, worst first."""
    worst: Harm
    harmful: bool
    """Whether it differs from its parent, too, so that this race is what does it."""


@dataclass(frozen=True, slots=True)
class Explored:
    """The outcomes, the label of each race, and what is left to run."""

    rows: tuple[ToldOutcome, ...]
    races: tuple[tuple[str, Label], ...]
    left: int
    steady: bool
    ended: str
    """`all`, `budget` or `interrupted`."""
    unreached: tuple[Variant, ...] = ()
    cut_off: tuple[tuple[Variant, str], ...] = ()
    """Variants of which nothing is known, as they were not run to their end, and why."""
    unknown: int = 0
    """Requests that another call of the record could have completed first, for all that messages tell."""
    unvaried: Unvaried = Unvaried()
    """Polls and sets of requests that stay as they came."""


def summed(search: Search, runs: Runs, ended: str) -> Explored:
    """Return all that is known now. `ended`: why the exploration ended."""
    rows = tuple(_row(one, search, runs) for one in search.outcomes)
    labels: dict[str, Label] = {}
    for variant in search.unreached:
        labels[line_of(search.outcomes[variant.parent].trace, variant.forced.event)] = "unreached"
    for row in rows[1:]:
        if labels.get(row.line) != "harmful":
            labels[row.line] = "harmful" if row.harmful else "benign as far as tried"
    for came in search.cut_off:
        if labels.get(came.variant.line) != "harmful":
            labels[came.variant.line] = "cut off"
    return Explored(rows, tuple(labels.items()), search.left, runs.steady, ended, tuple(search.unreached),
                    tuple((came.variant, came.cut) for came in search.cut_off), untold(search.outcomes[0]),
                    unvaried(search.outcomes))  # fmt: skip


def _row(outcome: Outcome, search: Search, runs: Runs) -> ToldOutcome:
    """Return the row of an outcome, with its effects compared to the record and to its parent."""
    first = runs.results[search.outcomes[0].trace.path]
    result = runs.results[outcome.trace.path]
    if outcome.parent is None or outcome.forced is None:
        return ToldOutcome(0, outcome.trace.path.name, None, "", "", (), Harm.NONE, False)
    parent = search.outcomes[outcome.parent]
    own = effects(result, runs.results[parent.trace.path], output=runs.steady)
    found = effects(result, first, output=runs.steady)
    line = line_of(parent.trace, outcome.forced.event)
    return ToldOutcome(
        outcome.number, outcome.trace.path.name, outcome.parent, str(outcome.forced), line, found.texts,
        found.worst, bool(own.worst and found.worst),
    )  # fmt: skip


def keep(run: Path, explored: Explored, results: Sequence[Result]) -> None:
    """Write explored.json into the run."""
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
