"""The report as one HTML file without scripts or outside resources; nothing out of the record is markup."""

from __future__ import annotations

import json
from html import escape
from typing import Final

from weft.endings import lines
from weft.findings import Finding, Site
from weft.report.analysis import Report
from weft.report.tables import Tables
from weft.report.tables import to_html as tables_html
from weft.report.text import consequences, failure_line, heading, place, printable, replays, short
from weft.trace import Trace

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --error: #c0362c; --warning: #a86a00; --note: #2a6f97; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .run { color: gray; }
article { border-left: 4px solid var(--line); padding: .2rem 0 .2rem 1rem; margin: 1.5rem 0; }
article.error { border-color: var(--error); } article.warning { border-color: var(--warning); }
article.note { border-color: var(--note); }
.kind { font: .85rem ui-monospace, monospace; } .error .kind { color: var(--error); }
.warning .kind { color: var(--warning); } .note .kind { color: var(--note); }
article p { margin: .2rem 0; } table { border-collapse: collapse; font-size: .9rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } td.place { font-family: ui-monospace, monospace; }
th { text-align: left; padding-right: 1rem; } h2 { font-size: 1.1rem; }
.matrix { width: min(100%, 32rem); fill: var(--note); } .matrix .frame { fill: none; stroke: gray; stroke-width: .02; }
pre { overflow-x: auto; font-size: .85rem; } summary { cursor: pointer; color: gray; }
"""

_HEAD: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)


def to_html(trace: Trace, report: Report, tables: Tables | None = None) -> str:
    """The page."""
    title = escape(printable(heading(trace, report.findings)))
    command = trace.run.get("command")
    words = " ".join(str(word) for word in command) if isinstance(command, list) else ""
    parts = [f"{_HEAD}<title>{title}</title><style>{_STYLE}</style></head><body>", f"<h1>{title}</h1>"]
    parts.append(f'<p class="run"><code>{escape(printable(words))}</code></p>')
    parts += [f'<p class="end">{escape(printable(text))}</p>' for text in lines(trace)]
    parts += [_article(trace, finding) for finding in report.findings]
    parts += [f'<p class="failure">{escape(failure_line(failure))}</p>' for failure in report.failures]
    if tables:
        parts.append(tables_html(tables))
    if trace.problems:
        items = "".join(f"<li>{escape(printable(problem))}</li>" for problem in trace.problems)
        parts.append(f"<h2>The record</h2><ul>{items}</ul>")
    return "\n".join(parts) + "\n</body></html>\n"


def _article(trace: Trace, finding: Finding) -> str:
    rows = "".join(
        f'<tr><td class="place">{escape(printable(place(s.file, s.line)))}</td><td>rank {s.rank}</td>'
        f"<td>{escape(printable(s.call))}</td><td>{escape(printable(short(s.function)))}{_way(s)}</td></tr>"
        for s in finding.sites[:64]
    )
    sure = "" if finding.certainty == "certain" else f", {finding.certainty}"
    evidence = "".join(f'<p class="run">{escape(text)}</p>' for text in consequences(finding))
    if trace_back := str(finding.evidence.get("traceback", "")):
        evidence += f"<details open><summary>traceback</summary><pre>{escape(_safe(trace_back))}</pre></details>"
    if finding.evidence:
        text = escape(json.dumps(dict(finding.evidence), indent=1, ensure_ascii=True, default=str))
        evidence += f"<details><summary>evidence</summary><pre>{text}</pre></details>"
    commands = "".join(f'<p class="run"><code>{escape(text)}</code></p>' for text in replays(trace, finding))
    return (
        f'<article class="{escape(finding.severity)}" id="{escape(finding.kind)}">'
        f'<p class="kind">{escape(finding.severity)}: {escape(finding.kind)}{sure}</p>'
        f"<p>{escape(printable(finding.message))}.</p><table>{rows}</table>{commands}{evidence}</article>"
    )


def _safe(text: str) -> str:
    """A text of several lines, without what would act on a page or terminal."""
    return "\n".join(printable(line) for line in text.splitlines())


def _way(site: Site) -> str:
    names = " &lt; ".join(escape(printable(f"{place(f, n)} {short(name)}".rstrip())) for f, n, name in site.callers)
    return f'<br><span class="way">from {names}</span>' if names else ""
