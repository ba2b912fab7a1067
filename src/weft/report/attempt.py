"""Tries one analysis: whether a run has calls for it, and what it finds or why it fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from weft.findings import Finding
from weft.report.failure import Failure
from weft.report.ground import AnalysisContext
from weft.report.registry import Analysis

Found = list[Finding] | Failure
"""The result of an analysis."""

_Made = TypeVar("_Made")

Progress = Callable[[float, str], None]
"""A function that is called with the share of the analyses that is done, and with what runs now."""


def may_find(ground: AnalysisContext, analysis: Analysis) -> bool:
    """Return whether the run has calls for an analysis; True if that check fails, as the analysis then says why."""
    with suppress(Exception):
        return analysis.worthwhile(ground)
    return True


def call_or_fail(analysis: Analysis, call: Callable[[], _Made]) -> _Made | Failure:
    """Return the result of a call for an analysis, or the failure if it raises."""
    try:
        return call()
    except Exception as error:
        return Failure.from_exception(analysis.name, error)
