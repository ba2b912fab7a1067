"""One report of a test of those that all ranks have made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

PHASES: Final = ("setup", "call", "teardown")
ORDER: Final = ("failed", "passed", "skipped")
"""What becomes of a test that some ranks skip: what it became on the others."""


def merged(reports: Sequence[Sequence[pytest.TestReport]], ranks_of: Any) -> list[pytest.TestReport]:
    """The reports of each phase that a rank came to, by rank, as one for each phase. `ranks_of`: words for ranks."""
    found = []
    for phase in PHASES:
        of = {rank: report for rank, mine in enumerate(reports) for report in mine if report.when == phase}
        if of:
            found.append(_one(of, len(reports), ranks_of))
    return found


def _one(of: dict[int, pytest.TestReport], size: int, ranks_of: Any) -> pytest.TestReport:
    best = min(of, key=lambda rank: (ORDER.index(of[rank].outcome), hasattr(of[rank], "wasxfail"), rank))
    report = of[best]
    told = [(f"{name} of {ranks_of([rank])}", text) for rank, one in of.items() for name, text in one.sections]
    report.sections = told if size > 1 else report.sections
    if report.outcome == "failed" and size > 1:
        report.longrepr = _tracebacks(of, ranks_of)
    return report


def _tracebacks(of: dict[int, pytest.TestReport], ranks_of: Any) -> str:
    """Each traceback once, with the ranks that have it, and what became of the test on the others."""
    texts: dict[str, list[int]] = {}
    for rank, report in of.items():
        if report.outcome == "failed":
            texts.setdefault(report.longreprtext, []).append(rank)
    parts = [f"{ranks_of(ranks)}:\n{text}" for text, ranks in texts.items()]
    for outcome in ORDER[1:]:
        others = [rank for rank, report in of.items() if report.outcome == outcome]
        if others:
            parts.append(f"{ranks_of(others)}: {outcome}")
    return "\n\n".join(parts)
