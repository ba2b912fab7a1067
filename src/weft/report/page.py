"""Renders the report as one HTML file without scripts or outside resources; nothing from the record is markup."""

from __future__ import annotations

import json
from html import escape
from typing import Final

from weft.base.words import short_function, visible
from weft.endings import describe_ends
from weft.evidence import Ended
from weft.findings import Finding, Site
from weft.report import proof
from weft.report.analysis import Report
from weft.report.failure import describe_failures
from weft.report.quotes import Quotes, source_places
from weft.report.rings import describe_scope
from weft.report.tables import Tables
from weft.report.tables import to_html as tables_html
from weft.report.text import (
    advice_lines,
    consequence_lines,
    file_line,
    heading,
    printable,
    ranks_with_ending,
    replay_commands,
)
from weft.sources import Excerpt, Statement, colour
from weft.trace import Trace

MAX_EXCERPTS: Final = 16
OPEN_EXCERPTS: Final = 4
"""The most excerpts of one finding, and how many of them are open."""

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --error: #c0362c; --warning: #a86a00; --note: #2a6f97; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .run { color: gray; } .failure { color: var(--error); font-weight: bold; }
article { border-left: 4px solid var(--line); padding: .2rem 0 .2rem 1rem; margin: 1.5rem 0; }
article.error { border-color: var(--error); } article.warning { border-color: var(--warning); }
article.note { border-color: var(--note); }
.kind { font: .85rem ui-monospace, monospace; } .error .kind { color: var(--error); }
.warning .kind { color: var(--warning); } .note .kind { color: var(--note); }
article p { margin: .2rem 0; } table { border-collapse: collapse; font-size: .9rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; } td.place { font-family: ui-monospace, monospace; }
th { text-align: left; padding-right: 1rem; } h2 { font-size: 1.1rem; }
.matrix { width: min(100%, 32rem); fill: var(--note); } .matrix .frame { fill: none; stroke: gray; stroke-width: .02; }
article > p, table { max-width: 60rem; }
figure { margin: .4rem 0; } figcaption, figure summary { font: .85rem ui-monospace, monospace; color: gray; }
.source { margin: 0; padding: .3rem 0; border: 1px solid var(--line); border-radius: 4px; line-height: 1.45; }
.source code { tab-size: 8; display: inline-block; min-width: 100%; font-family: ui-monospace, monospace; }
.source span.l { display: block; padding: 0 .8rem 0 0; } .source span.l::before { content: attr(data-n);
  display: inline-block; width: 4.5em; margin-right: 1em; text-align: right; color: gray; }
.source .part { background: #8881; } .source .here { background: #f5c84240; box-shadow: inset 3px 0 #d49a00; }
.t-k { color: #8e3a9d; } .t-f { color: #1f5fa8; } .t-s { color: #2c6e2f; } .t-n { color: #a3450b; }
.t-c { color: #6a6a6a; font-style: italic; } .t-p { color: #7a5c00; }
@media (prefers-color-scheme: dark) { .t-k { color: #d79be4; } .t-f { color: #84b8f0; } .t-s { color: #93cf95; }
  .t-n { color: #efa774; } .t-c { color: #9d9d9d; } .t-p { color: #d8bb62; } }
pre { overflow-x: auto; font-size: .85rem; } summary { cursor: pointer; color: gray; }
"""

HEAD: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
)


def to_html(trace: Trace, report: Report, tables: Tables | None = None) -> str:
    """Return the report as a complete HTML page."""
    title = escape(printable(heading(trace, report)))
    command = trace.run.get("command")
    words = " ".join(str(word) for word in command) if isinstance(command, list) else ""
    parts = [f"{HEAD}<title>{title}</title><style>{STYLE}</style></head><body>"]
    parts += [f'<p class="failure">{escape(text)}</p>' for text in describe_failures(trace.path, report.failures)]
    parts.append(f"<h1>{title}</h1>")
    parts.append(f'<p class="run"><code>{escape(printable(words))}</code></p>')
    parts += [
        f'<p class="end">{escape(printable(text))}</p>'
        for text in (*describe_scope(trace), *describe_ends(trace, ranks_with_ending(report.findings)))
    ]
    quotes = Quotes(trace)
    parts += [render_finding(trace, finding, quotes) for finding in report.findings]
    if tables:
        parts.append(tables_html(tables))
    if note := quotes.source_note(report.findings):
        parts.append(f'<p class="changed">{escape(printable(note))}.</p>')
    if trace.problems:
        items = "".join(f"<li>{escape(printable(problem))}</li>" for problem in trace.problems)
        parts.append(f"<h2>The record</h2><ul>{items}</ul>")
    return "\n".join(parts) + "\n</body></html>\n"


def render_finding(trace: Trace, finding: Finding, quotes: Quotes) -> str:
    """Return a finding as HTML: its message, sites, source lines, replay commands and evidence."""
    rows = "".join(
        f'<tr><td class="place">{escape(printable(file_line(s.file, s.line)))}</td><td>rank {s.rank}</td>'
        f"<td>{escape(printable(s.call))}</td><td>{escape(printable(short_function(s.function)))}{_render_callers(s)}</td></tr>"
        for s in finding.sites[:64]
    )
    sure = "" if finding.certainty == "certain" else f", {finding.certainty}"
    told = [*advice_lines(finding), *proof.proof_lines(finding), *consequence_lines(finding)]
    evidence = "".join(f'<p class="run">{escape(printable(text))}</p>' for text in told)
    if trace_back := (isinstance(finding.evidence, Ended) and finding.evidence.traceback):
        evidence += (
            f"<details open><summary>traceback</summary><pre>{escape(_printable_lines(trace_back))}</pre></details>"
        )
    if facts := finding.facts():
        text = escape(json.dumps(facts, indent=1, ensure_ascii=True, default=str))
        evidence += f"<details><summary>evidence</summary><pre>{text}</pre></details>"
    commands = "".join(f'<p class="run"><code>{escape(text)}</code></p>' for text in replay_commands(trace, finding))
    return (
        f'<article class="{escape(finding.severity)}" id="{escape(finding.kind)}">'
        f'<p class="kind">{escape(finding.severity)}: {escape(finding.kind)}{sure}</p>'
        f"<p>{escape(printable(finding.message))}.</p><table>{rows}</table>"
        f"{_render_excerpts(finding, quotes)}{commands}{evidence}</article>"
    )


def _printable_lines(text: str) -> str:
    """Return a text of several lines, without characters that would act on a page or terminal."""
    return "\n".join(printable(line) for line in text.splitlines())


def _render_excerpts(finding: Finding, quotes: Quotes) -> str:
    """Return as HTML the source around each line of a finding. The first excerpts are open, the others folded."""
    made: list[str] = []
    for file, line in source_places(finding)[:MAX_EXCERPTS]:
        excerpt = quotes.excerpt(file, line)
        if excerpt is not None:
            shown = " open" if len(made) < OPEN_EXCERPTS else ""
            name = escape(printable(file_line(file, line)))
            body = _render_lines(excerpt, quotes.coloured(excerpt), quotes.statement(file, line))
            made.append(f"<figure><details{shown}><summary>{name}</summary>{body}</details></figure>")
    return "".join(made)


def _render_lines(excerpt: Excerpt, coloured: list[list[tuple[str, str]]], statement: Statement | None) -> str:
    """Return an excerpt as HTML: numbered, coloured lines. The line of the call is marked "here", the other lines of
    its statement "part".

    `coloured`: the text of each line in (class, text) parts.
    """
    rows = []
    for number, parts in enumerate(coloured, excerpt.first):
        within = statement is not None and statement.first <= number <= statement.last
        mark = " here" if number == excerpt.line else " part" if within else ""
        text = colour.render_html([(kind, visible(text)) for kind, text in parts])
        rows.append(f'<span class="l{mark}" data-n="{number}">{text or " "}</span>')
    return f'<pre class="source" tabindex="0"><code>{"".join(rows)}</code></pre>'


def _render_callers(site: Site) -> str:
    """Return the callers of a site as HTML; "" if none are known."""
    names = " &lt; ".join(
        escape(printable(f"{file_line(f, n)} {short_function(name)}".rstrip())) for f, n, name in site.callers
    )
    return f'<br><span class="way">from {names}</span>' if names else ""
