"""Render the result of a check as SARIF, with columns and source lines of accesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.check import excerpt
from weft.dataparallel import check_coverage
from weft.evidence import CheckCase
from weft.findings import Finding, Site
from weft.report import sarif
from weft.report.quotes import Quotes

if TYPE_CHECKING:
    from weft.check import CheckResult


def to_sarif(checked: CheckResult) -> dict[str, object]:
    """Return the result of a check as a SARIF log with one run. The run is marked as unsuccessful if the program did
    not end well or nothing was checked.
    """
    notes = [
        *(f"Not checked: {one}" for one in checked.looked.unchecked),
        check_coverage.render_coverage(checked.looked),
    ]
    successful = checked.whole and not checked.looked.is_empty
    quotes = Quotes(checked)

    def marked(finding: Finding, site: Site) -> dict[str, Any]:
        """Return the SARIF region of a finding's place, by the source lines that are quoted."""
        return render_region(finding, site, quotes)

    return sarif.to_sarif(checked, checked.findings, notes=notes, successful=successful, marked=marked)


def render_region(finding: Finding, site: Site, quotes: Quotes) -> dict[str, Any]:
    """Return the SARIF region of an access, with the source lines around it; {} if the source cannot be read."""
    around = quotes.excerpt(site.file, site.line)
    text = around.lines[site.line - around.first] if around else ""
    if around is None or not text.strip():
        return {}
    begin, end = excerpt.find_access_span(finding, site, text) or fallback_span(finding, site, text)
    region: dict[str, Any] = {"startLine": site.line, "snippet": {"text": text[begin:end]}}
    if begin:
        region |= {"startColumn": begin + 1, "endColumn": end + 1}
    return {"region": region, **sarif.context_region(around, 1)}


def fallback_span(finding: Finding, site: Site, line_text: str) -> tuple[int, int]:
    """Return the (begin, end) to mark in a line in which the access itself is not found: from the column that the
    runtime reported to the line's end, or the whole line if it reported none.
    """
    held = finding.evidence
    column = (held.column or 0) if isinstance(held, CheckCase) and finding.sites[0] == site else 0
    return (column - 1, len(line_text)) if 0 < column <= len(line_text) else (0, len(line_text))
