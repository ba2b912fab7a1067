"""Draws the pictures that a report in text shows of its findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from weft.findings import Finding
from weft.report.context import AnalysisContext
from weft.report.terminal import terminal_columns
from weft.trace import Trace

MAX_PICTURES: Final = 3
"""The most pictures of a report; the end of a run has one."""

_DRAWN_WITH: Final = "│┆┼─╌═◀▶◁▷✗■…"


def draw_pictures(
    trace: Trace,
    findings: Sequence[Finding],
    to: TextIO,
    most: int = MAX_PICTURES,
    context: AnalysisContext | None = None,
) -> dict[int, list[str]]:
    """Draw the first findings that have a picture. Return by the finding's index the lines of the picture, in ASCII if
    `to` cannot show lines, and no wider than the terminal.
    """
    # A report without such findings draws nothing.
    from weft.picture.finding_diagram import KINDS, draw_finding

    width = terminal_columns(to) if to.isatty() else None
    found: dict[int, list[str]] = {}
    for place, finding in enumerate(findings):
        if len(found) >= most:
            break
        if finding.kind not in KINDS:
            continue
        try:
            context = context or AnalysisContext(trace)
            around, there = context.locate_finding(finding)
            made = draw_finding(around.trace, there, around.match, plain=not _can_show_lines(to), width=width)
        except Exception:  # a report of a damaged record is worth more than its picture
            continue
        if made:
            found[place] = made
    return found


def _can_show_lines(to: TextIO) -> bool:
    """Return whether the encoding of a stream has the characters with which pictures are drawn."""
    try:
        _DRAWN_WITH.encode(getattr(to, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
