"""Merges the reports that all ranks have made of a test into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

PHASES: Final = ("setup", "call", "teardown")
ORDER: Final = ("failed", "passed", "skipped")
"""What becomes of a test that some ranks skip: what it became on the others."""


def merge_reports(reports: Sequence[Sequence[pytest.TestReport]], render_ranks: Any) -> list[pytest.TestReport]:
    """Return one report of a test for each phase (setup, call, teardown), merged from the reports of all ranks.

    `reports`: the reports of each rank; `render_ranks`: returns the words for a list of ranks.
    """
    found = []
    for phase in PHASES:
        of = {rank: report for rank, mine in enumerate(reports) for report in mine if report.when == phase}
        if of:
            found.append(_merge_phase(of, len(reports), render_ranks))
    return found


def _merge_phase(report_of_rank: dict[int, pytest.TestReport], size: int, render_ranks: Any) -> pytest.TestReport:
    """Return the worst report of a phase, with the output of all ranks. If the test failed, it has the tracebacks of
    all failed ranks.
    """
    best = min(
        report_of_rank,
        key=lambda rank: (ORDER.index(report_of_rank[rank].outcome), hasattr(report_of_rank[rank], "wasxfail"), rank),
    )
    report = report_of_rank[best]
    told = [
        (f"{name} of {render_ranks([rank])}", text)
        for rank, one in report_of_rank.items()
        for name, text in one.sections
    ]
    report.sections = told if size > 1 else report.sections
    if report.outcome == "failed" and size > 1:
        report.longrepr = _merge_tracebacks(report_of_rank, render_ranks)
    return report


def _merge_tracebacks(report_of_rank: dict[int, pytest.TestReport], render_ranks: Any) -> str:
    """Return a text with each different traceback once, after the ranks that have it. Then come the ranks with other
    outcomes, such as "passed".
    """
    texts: dict[str, list[int]] = {}
    for rank, report in report_of_rank.items():
        if report.outcome == "failed":
            texts.setdefault(report.longreprtext, []).append(rank)
    parts = [f"{render_ranks(ranks)}:\n{text}" for text, ranks in texts.items()]
    for outcome in ORDER[1:]:
        others = [rank for rank, report in report_of_rank.items() if report.outcome == outcome]
        if others:
            parts.append(f"{render_ranks(others)}: {outcome}")
    return "\n\n".join(parts)
