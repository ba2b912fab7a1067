"""Writes the report as SARIF 2.1.0, which code hosts and editors show next to the source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from weft.base.version import VERSION
from weft.findings import Finding, Site
from weft.kinds import HOME, KINDS
from weft.report.document import Subject
from weft.report.failure import Failure, describe_failed_analyses
from weft.report.gaps import list_gaps
from weft.report.quotes import Quotes
from weft.report.rings import describe_scope
from weft.report.text import file_line
from weft.sources import Excerpt
from weft.trace import Trace

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_LINKS: Final = 8
"""The most places that a message names; all of them are listed with it."""

_TOLD: Final = ("communicator", "tag", "receive", "remedy", "proof")
"""The evidence of a race that is in SARIF, too."""


Marked = Callable[[Finding, Site], Mapping[str, Any]]
"""What is known of a finding's place besides its line: `region` and `contextRegion` of SARIF."""


def to_sarif(
    trace: Subject,
    findings: Sequence[Finding],
    failures: Sequence[Failure] = (),
    *,
    notes: Sequence[str] = (),
    successful: bool = True,
    marked: Marked | None = None,
) -> dict[str, object]:
    """Return a SARIF log with one run: a rule for each kind of finding, a result for each finding, and failures,
    problems and `notes` as notifications.

    `successful`: whether the command counts as executed well. `marked(finding, site)`: returns the source region of a
    site, in place of the sources kept with the run.
    """
    kinds = list(dict.fromkeys(f.kind for f in findings))
    root = str(trace.run.get("cwd") or "")
    quotes = Quotes(trace)
    end = [*list_gaps(trace), *describe_scope(trace)] if isinstance(trace, Trace) else []
    told = [*end, *notes, *([note] if (note := quotes.source_note(findings)) else [])]
    driver = {
        "name": "Weft",
        "informationUri": HOME,
        "version": VERSION,
        "rules": [_make_rule(kind) for kind in kinds],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": successful and not failures,
                "toolExecutionNotifications": [
                    *(_make_notification("error", describe_failed_analyses([f.analysis], f)) for f in failures),
                    *(_make_notification("warning", problem) for problem in trace.problems),
                    *(_make_notification("note", text) for text in told),
                ],
            }
        ],
        "results": [_make_result(finding, kinds, root, marked or quote_regions(quotes)) for finding in findings],
        "columnKind": "unicodeCodePoints",
    }
    if root.startswith("/"):
        run["originalUriBaseIds"] = {"CWD": {"uri": "file://" + quote(root.rstrip("/") + "/")}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _make_rule(slug: str) -> dict[str, object]:
    """Return the SARIF rule for a kind of finding. `slug`: the kind."""
    kind = KINDS[slug]
    return {
        "id": slug,
        "name": "".join(part.capitalize() for part in slug.split("-")),
        "shortDescription": {"text": slug.replace("-", " ")},
        "fullDescription": {"text": kind.title},
        "help": {"text": kind.page, "markdown": kind.page},
        "helpUri": kind.address,
        "defaultConfiguration": {"level": kind.severity},
        "properties": {"remedy": kind.remedy, "certainty": kind.certainty, "analyses": list(kind.analyses)},
    }


def _make_notification(level: str, text: str) -> dict[str, object]:
    return {"level": level, "message": {"text": text}}


def _make_result(finding: Finding, kinds: list[str], root: str, marked: Marked) -> dict[str, Any]:
    """Return the SARIF result of a finding: its rule, message, locations and stacks.

    `kinds`: the kinds in the order of the rules. `root`: the folder to which paths are relative. `marked`: as in
    `to_sarif`.
    """
    shown = [(_make_location(finding, site, root, marked), site) for site in finding.sites if site.file]
    places = [place for place, _ in shown]
    told = {key: value for key, value in finding.facts().items() if key in _TOLD}
    result: dict[str, object] = {
        "ruleId": finding.kind,
        "ruleIndex": kinds.index(finding.kind),
        "level": finding.severity,
        "message": {"text": finding.message + _related_sentence([site for _, site in shown[1:]])},
        # SARIF has one location for what to look at and a list for what belongs to it.
        "locations": places[:1],
        "relatedLocations": [{**place, "id": i} for i, place in enumerate(places[1:], 1)],
        "properties": {"certainty": finding.certainty, "ranks": list(finding.ranks), **told},
    }
    stacks = [_make_stack(site, root) for site in finding.sites if site.callers and site.file]
    if stacks:
        result["stacks"] = stacks
    return result


def _make_stack(site: Site, root: str) -> dict[str, object]:
    """Return the SARIF stack of a site: its place and its callers."""
    frames = [(site.file, site.line, site.function), *site.callers]
    return {
        "message": {"text": f"rank {site.rank}: {site.call}"},
        "frames": [{"location": _make_physical_location(*frame, root)} for frame in frames if frame[0]],
    }


def _related_sentence(related: Sequence[Site]) -> str:
    """Return a sentence that names the other places of a finding, as links: GitHub shows only places that a message
    links to.
    """
    named = [
        f"[{_escape_brackets(site.call)} at {_escape_brackets(file_line(site.file, site.line))}]({i})"
        for i, site in enumerate(related[:MOST_LINKS], 1)
    ]
    return f". See {', '.join(named)}" if named else ""


def _escape_brackets(text: str) -> str:
    """Return a text whose brackets are not those of a link (SARIF 3.11.6)."""
    return re.sub(r"[\\\[\]]", r"\\\g<0>", text)


def _make_location(finding: Finding, site: Site, root: str, marked: Marked) -> dict[str, Any]:
    """Return the SARIF location of a site of a finding, with its source if that is known."""
    place = _make_physical_location(site.file, site.line, site.function, root)
    if "region" in place["physicalLocation"]:
        place["physicalLocation"] |= marked(finding, site)
    return {**place, "message": {"text": f"rank {site.rank}: {site.call}" if finding.ranks else site.call}}


def quote_regions(quotes: Quotes) -> Marked:
    """Return a function that returns the source of a site as SARIF regions: the call's line to the end of its
    statement, and the lines around.
    """

    def quote(finding: Finding, site: Site) -> dict[str, Any]:
        """Return the source of a site as SARIF regions; {} if the source is not known."""
        excerpt = quotes.excerpt(site.file, site.line)
        if excerpt is None:
            return {}
        statement = quotes.statement(site.file, site.line)
        last = max(site.line, min(statement.last if statement else 0, excerpt.first + len(excerpt.lines) - 1))
        at = site.line - excerpt.first
        snippet = "\n".join(excerpt.lines[at : last + 1 - excerpt.first])
        found: dict[str, Any] = {"region": {"startLine": site.line, "endLine": last, "snippet": {"text": snippet}}}
        return found | context_region(excerpt, last + 1 - site.line)

    return quote


def context_region(excerpt: Excerpt, region_lines: int) -> dict[str, Any]:
    """Return the lines around a region of `region_lines` lines as SARIF's contextRegion (SARIF 3.29.5); {} if the
    excerpt has no more lines than the region.
    """
    if len(excerpt.lines) <= region_lines:
        return {}
    last = excerpt.first + len(excerpt.lines) - 1
    return {
        "contextRegion": {"startLine": excerpt.first, "endLine": last, "snippet": {"text": "\n".join(excerpt.lines)}}
    }


def _make_physical_location(file: str, line: int, function: str, root: str) -> dict[str, Any]:
    """Return the SARIF location of a line and function of a file."""
    physical: dict[str, object] = {"artifactLocation": _artifact_location(file, root)}
    if line > 0:
        physical["region"] = {"startLine": line}
    place: dict[str, Any] = {"physicalLocation": physical}
    if function:
        place["logicalLocations"] = [{"name": function, "kind": "function"}]
    return place


def _artifact_location(file: str, root: str) -> dict[str, str]:
    """Return the SARIF address of a file, relative to the folder `root` if the file is in it."""
    path = PurePosixPath(file)
    if root and path.is_relative_to(root):
        return {"uri": quote(str(path.relative_to(root))), "uriBaseId": "CWD"}
    return {"uri": "file://" + quote(file) if path.is_absolute() else quote(file)}
