"""One analysis at a time: whether a run has calls for it, and what it finds or why it fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from weft.findings import Finding
from weft.report.failure import Failure
from weft.report.ground import AnalysisContext
from weft.report.registry import Analysis

Found = list[Finding] | Failure
"""What an analysis came to."""

_Made = TypeVar("_Made")

Progress = Callable[[float, str], None]
"""Told which share of the analyses is done, and which of them is under way."""


def may_find(ground: AnalysisContext, analysis: Analysis) -> bool:
    """Whether the run has calls for an analysis; where that cannot be told, the analysis says why."""
    with suppress(Exception):
        return analysis.worthwhile(ground)
    return True


def call_or_fail(analysis: Analysis, call: Callable[[], _Made]) -> _Made | Failure:
    """What a call makes for an analysis, or why it fails."""
    try:
        return call()
    except Exception as error:
        return Failure.from_exception(analysis.name, error)
