"""Render the result of a check as one HTML file without scripts or outside resources; all text is escaped."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from weft.base.words import short_function
from weft.check import excerpt
from weft.check.terminal import render_headline, render_seconds
from weft.dataparallel import check_coverage
from weft.findings import Finding, Site
from weft.report.page import HEAD, STYLE
from weft.report.text import file_line, printable

if TYPE_CHECKING:
    from weft.check import CheckResult

MARKS = """
.access { margin: .2rem 0 .6rem; padding: .3rem .6rem; border: 1px solid var(--line); border-radius: 4px; }
.access mark { background: none; color: var(--error); }
"""


def to_html(checked: CheckResult) -> str:
    """Return the result of a check as an HTML page."""
    title = escape(printable(render_headline(checked)))
    parts = [f"{HEAD}<title>{title}</title><style>{STYLE}{MARKS}</style></head><body>", f"<h1>{title}</h1>"]
    parts += [f'<p class="end">{escape(printable(text))}</p>' for text in checked.problems]
    parts += [finding_html(finding) for finding in checked.findings]
    parts += [f'<p class="run">Not checked: {escape(printable(text))}</p>' for text in checked.looked.unchecked]
    parts += [
        f'<p class="run">{escape(text)}</p>'
        for text in (check_coverage.render_coverage(checked.looked), render_seconds(checked))
        if text
    ]
    return "\n".join(parts) + "\n</body></html>\n"


def finding_html(finding: Finding) -> str:
    """Return one finding as HTML: its sentence, the source lines of its places, its evidence."""
    evidence = escape(json.dumps(finding.facts(), indent=1, ensure_ascii=True, default=str))
    return (
        f'<article class="{escape(finding.severity)}" id="{escape(finding.kind)}">'
        f'<p class="kind">{escape(finding.severity)}: {escape(finding.kind)}</p>'
        f"<p>{escape(printable(finding.message))}.</p>{''.join(site_html(finding, site) for site in finding.sites)}"
        f"<details><summary>evidence</summary><pre>{evidence}</pre></details></article>"
    )


def site_html(finding: Finding, site: Site) -> str:
    """Return a finding's place as HTML: file and line, the source line, and the mark of the access below it."""
    name = f"{file_line(site.file, site.line)}  {site.call}" + (
        f" in {short_function(site.function)}" if site.function else ""
    )
    lines = [escape(printable(text)) for text in excerpt.render_excerpt(finding, site)]
    if len(lines) > 1:
        lines[1] = f"<mark>{lines[1]}</mark>"
    body = f'<pre class="access">{chr(10).join(lines)}</pre>' if lines else ""
    return f'<p class="run">{escape(printable(name))}</p>{body}'
