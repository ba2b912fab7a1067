"""What a check found as SARIF: accesses with their columns and lines, and where nothing found is no all-clear."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.check import excerpt, looked
from weft.findings import Finding, Site
from weft.report import sarif
from weft.report.quotes import AROUND

if TYPE_CHECKING:
    from weft.check import Checked


def to_sarif(checked: Checked) -> dict[str, object]:
    """One SARIF run; it was no success where the program did not end well or nothing of it was looked at."""
    notes = [*(f"Not looked at: {one}" for one in checked.looked.left), looked.sentence(checked.looked)]
    successful = checked.whole and not checked.looked.nothing
    return sarif.to_sarif(checked, checked.findings, notes=notes, successful=successful, marked=place)


def place(finding: Finding, site: Site) -> dict[str, Any]:
    """The access in its line, and the lines around it; nothing where the source is not there."""
    text = linecache.getline(site.file, site.line).rstrip("\n") if site.file and site.line else ""
    if not text.strip():
        return {}
    begin, end = excerpt.access(finding, site, text) or told(finding, site, text)
    region: dict[str, Any] = {"startLine": site.line, "snippet": {"text": text[begin:end]}}
    if begin:
        region |= {"startColumn": begin + 1, "endColumn": end + 1}
    first = max(1, site.line - AROUND)
    lines = list(around(site.file, first, site.line + AROUND))
    context = {"startLine": first, "endLine": first + len(lines) - 1, "snippet": {"text": "\n".join(lines)}}
    return {"region": region, "contextRegion": context} if len(lines) > 1 else {"region": region}


def told(finding: Finding, site: Site, text: str) -> tuple[int, int]:
    """From where the runtime says that the access of a finding stands, to the line's end; else the whole line."""
    column = finding.evidence.get("column", 0) if finding.sites[0] == site else 0
    return (column - 1, len(text)) if 0 < column <= len(text) else (0, len(text))


def around(file: str, first: int, last: int) -> Iterator[str]:
    """Lines of a file, as far as it has them."""
    for number in range(first, last + 1):
        line = linecache.getline(file, number)
        if not line:
            return
        yield line.rstrip("\n")
