"""Tries one analysis: whether a run has calls for it, and what it finds or why it fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from weft.findings import Finding
from weft.report.context import AnalysisContext
from weft.report.failure import Failure
from weft.report.registry import Analysis

Found = list[Finding] | Failure
"""The result of an analysis."""

_Made = TypeVar("_Made")

Progress = Callable[[float, str], None]
"""A function that is called with the share of the analyses that is done, and with what runs now."""


def may_find(context: AnalysisContext, analysis: Analysis) -> bool:
    """Return whether the run has calls that concern an analysis. True also if that check itself fails: the analysis
    then reports why.
    """
    with suppress(Exception):
        return analysis.worthwhile(context)
    return True


def call_or_fail(analysis: Analysis, call: Callable[[], _Made]) -> _Made | Failure:
    """Call a function that belongs to an analysis. Return its result, or a Failure if it raises an exception."""
    try:
        return call()
    except Exception as error:
        return Failure.from_exception(analysis.name, error)
