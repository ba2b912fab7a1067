"""The report as SARIF 2.1.0, which code hosts and editors open beside the source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import weft
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.report.analysis import Failure
from weft.report.document import Subject
from weft.report.quotes import Quotes

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


_TOLD: Final = ("communicator", "tag", "receive", "remedy", "proof")
"""Of the evidence of a race, what a reader of SARIF is told too."""


def to_sarif(trace: Subject, findings: Sequence[Finding], failures: Sequence[Failure] = ()) -> dict[str, object]:
    """One SARIF run with a rule a kind and a result a finding."""
    kinds = list(dict.fromkeys(f.kind for f in findings))
    root = str(trace.run.get("cwd") or "")
    quotes = Quotes(trace)
    note = quotes.note(findings)
    driver = {
        "name": "Weft",
        "version": weft.__version__,
        "rules": [_rule(kind) for kind in kinds],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not failures,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": f"analysis of {f.analysis} failed: {f.error}"}}
                    for f in failures
                ]
                + ([{"level": "note", "message": {"text": note}}] if note else []),
            }
        ],
        "results": [_result(finding, kinds, root, quotes) for finding in findings],
        "columnKind": "unicodeCodePoints",
    }
    if root.startswith("/"):
        run["originalUriBaseIds"] = {"CWD": {"uri": "file://" + quote(root.rstrip("/") + "/")}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(slug: str) -> dict[str, object]:
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


def _result(finding: Finding, kinds: list[str], root: str, quotes: Quotes) -> dict[str, Any]:
    ranked = bool(finding.ranks)
    places = [place for site in finding.sites if (place := _location(site, root, quotes, ranked)) is not None]
    if places and (column := finding.evidence.get("column")):
        places[0]["physicalLocation"].get("region", {})["startColumn"] = column
    result: dict[str, object] = {
        "ruleId": finding.kind,
        "ruleIndex": kinds.index(finding.kind),
        "level": finding.severity,
        "message": {"text": finding.message},
        # SARIF has one location for what to look at and a list for what belongs to it.
        "locations": places[:1],
        "relatedLocations": [{**place, "id": i} for i, place in enumerate(places[1:], 1)],
        "properties": {
            "certainty": finding.certainty,
            "ranks": list(finding.ranks),
            **{key: finding.evidence[key] for key in _TOLD if key in finding.evidence},
        },
    }
    stacks = [_stack(site, root) for site in finding.sites if site.callers and site.file]
    if stacks:
        result["stacks"] = stacks
    return result


def _stack(site: Site, root: str) -> dict[str, object]:
    frames = [(site.file, site.line, site.function), *site.callers]
    return {
        "message": {"text": f"rank {site.rank}: {site.call}"},
        "frames": [{"location": _physical(*frame, root)} for frame in frames if frame[0]],
    }


def _location(site: Site, root: str, quotes: Quotes, ranked: bool) -> dict[str, Any] | None:
    if not site.file:
        return None
    place = _physical(site.file, site.line, site.function, root)
    _quote(place["physicalLocation"], site, quotes)
    return {**place, "message": {"text": f"rank {site.rank}: {site.call}" if ranked else site.call}}


def _quote(physical: dict[str, Any], site: Site, quotes: Quotes) -> None:
    """Put the text of a region into it, from the call's line to the end of its statement, and the lines around it."""
    excerpt = quotes.excerpt(site.file, site.line)
    if excerpt is None or "region" not in physical:
        return
    statement = quotes.statement(site.file, site.line)
    last = max(site.line, min(statement.last if statement else 0, excerpt.first + len(excerpt.lines) - 1))
    at = site.line - excerpt.first
    snippet = "\n".join(excerpt.lines[at : last + 1 - excerpt.first])
    physical["region"] = {"startLine": site.line, "endLine": last, "snippet": {"text": snippet}}
    if len(excerpt.lines) > last + 1 - site.line:  # SARIF 3.29.5: it holds more than the region
        physical["contextRegion"] = {
            "startLine": excerpt.first,
            "endLine": excerpt.first + len(excerpt.lines) - 1,
            "snippet": {"text": "\n".join(excerpt.lines)},
        }


def _physical(file: str, line: int, function: str, root: str) -> dict[str, Any]:
    physical: dict[str, object] = {"artifactLocation": _artifact(file, root)}
    if line > 0:
        physical["region"] = {"startLine": line}
    place: dict[str, Any] = {"physicalLocation": physical}
    if function:
        place["logicalLocations"] = [{"name": function, "kind": "function"}]
    return place


def _artifact(file: str, root: str) -> dict[str, str]:
    path = PurePosixPath(file)
    if root and path.is_relative_to(root):
        return {"uri": quote(str(path.relative_to(root))), "uriBaseId": "CWD"}
    return {"uri": "file://" + quote(file) if path.is_absolute() else quote(file)}
