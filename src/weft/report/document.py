"""The report as JSON: weft-report/1, for scripts and other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from weft.endings import How
from weft.endings import to_json as to_json_of_ends
from weft.findings import Finding
from weft.kinds import CERTAINTIES, SEVERITIES
from weft.report.failure import Failure
from weft.report.gaps import list_gaps
from weft.report.quotes import Quotes, site_json
from weft.report.rings import describe_scope
from weft.report.tables import Tables
from weft.report.tables import to_json as tables_json
from weft.trace import Trace

SCHEMA: Final = "weft-report/1"


class Subject(Protocol):
    """What a report is about: a Trace, or a checked program."""

    @property
    def run(self) -> Mapping[str, Any]:
        """Return the facts of the run: command, cwd, mpi, ended."""

    @property
    def ranks(self) -> Sequence[Any]:
        """Return its ranks; none for a program that was checked on one processor."""

    @property
    def problems(self) -> Sequence[str]:
        """Return what could not be read."""


_RANKS: Final = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_TEXT: Final = {"type": "string"}

JSON_SCHEMA: Final[dict[str, object]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    "type": "object",
    "required": ["schema", "run", "findings"],
    "properties": {
        "schema": {"const": SCHEMA},
        "run": {
            "type": "object",
            "required": ["ranks", "mpi", "ended"],
            "properties": {
                "ranks": {"type": "integer", "minimum": 0},
                "mpi": {"type": "object"},
                "ends": {"type": "array", "items": {"$ref": "#/$defs/end"}},
                "ended": {"enum": ["running", "finished", "crashed", "deadlock", "killed", "interrupted"]},
            },
        },
        "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
        "failures": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["analysis", "error"],
                "properties": {"analysis": _TEXT, "error": _TEXT, "where": _TEXT, "traceback": _TEXT},
            },
        },
        "problems": {"type": "array", "items": _TEXT},
        "waiting": {
            "type": "object",
            "required": ["base", "in_mpi_ns", "late_ns", "crowded", "open_calls", "causes", "by_rank"],
            "properties": {
                "base": {"type": "object", "required": ["ns", "span_ns", "ranks", "threads", "text"]},
                **{key: {"type": "integer", "minimum": 0} for key in ("in_mpi_ns", "late_ns", "open_calls")},
                "crowded": _TEXT,
                "causes": {"type": "array", "items": {"$ref": "#/$defs/cause"}},
                "by_rank": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["rank", "in_mpi_ns", "wall_ns", "causes"],
                        "properties": {"causes": {"type": "object", "additionalProperties": {"type": "integer"}}},
                    },
                },
            },
        },
        "notes": {"type": "array", "items": _TEXT},
        "times": {
            "type": "object",
            "required": ["function", "rank", "site"],
            "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        },
        "matrix": {
            "type": "object",
            "required": ["ranks_per_block", "messages", "bytes"],
            "properties": {
                "ranks_per_block": {"type": "integer", "minimum": 1},
                "messages": {"type": "array", "items": _RANKS},
                "bytes": {"type": "array", "items": _RANKS},
            },
        },
    },
    "$defs": {
        "end": {
            "type": "object",
            "required": ["ranks", "how", "message"],
            "additionalProperties": False,
            "properties": {
                "ranks": _RANKS,
                "how": {"enum": [how.value for how in How]},
                "message": {"type": "string"},
                "code": {"type": "integer"},
                "name": {"type": "string"},
                "file": {"type": "string"},
                "line": {"type": "integer", "minimum": 0},
                "function": {"type": "string"},
            },
        },
        "cause": {
            "type": "object",
            "required": ["cause", "name", "late", "ns", "share"],
            "additionalProperties": False,
            "properties": {
                "cause": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
                "name": _TEXT,
                "late": {"type": "boolean"},
                "ns": {"type": "integer", "minimum": 0},
                "share": {"type": "number", "minimum": 0},
            },
        },
        "row": {
            "type": "object",
            "required": ["name", "calls", "ns", "waiting_ns"],
            "additionalProperties": False,
            "properties": {
                "name": _TEXT,
                **{key: {"type": "integer", "minimum": 0} for key in ("calls", "ns", "waiting_ns")},
            },
        },
        "finding": {
            "type": "object",
            "required": ["kind", "severity", "certainty", "message", "ranks", "sites", "events", "evidence"],
            "additionalProperties": False,
            "properties": {
                "kind": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"},
                "severity": {"enum": list(SEVERITIES)},
                "certainty": {"enum": list(CERTAINTIES)},
                "message": {"type": "string", "minLength": 1},
                "ranks": _RANKS,
                "sites": {"type": "array", "items": {"$ref": "#/$defs/site"}},
                "events": {"type": "array", "items": {**_RANKS, "minItems": 2, "maxItems": 2}},
                "evidence": {"type": "object"},
            },
        },
        "site": {
            "type": "object",
            "required": ["rank", "call", "file", "line", "function"],
            "additionalProperties": False,
            "properties": {
                "rank": {"type": "integer", "minimum": 0},
                "call": _TEXT,
                "file": _TEXT,
                "line": {"type": "integer", "minimum": 0},
                "function": _TEXT,
                "callers": {"type": "array", "items": {"$ref": "#/$defs/caller"}},
                "statement": _TEXT,
            },
        },
        "caller": {
            "type": "object",
            "required": ["file", "line", "function"],
            "additionalProperties": False,
            "properties": {"file": _TEXT, "line": {"type": "integer", "minimum": 0}, "function": _TEXT},
        },
    },
}
"""The schema of every document of `to_json`. The number in its name rises when a reader of the old one would fail."""

_ENDED: Final = ("running", "finished", "crashed", "deadlock", "killed", "interrupted")


def to_json(
    trace: Subject, findings: Sequence[Finding], failures: Iterable[Failure] = (), tables: Tables | None = None
) -> dict[str, Any]:
    """Return the report as JSON: the run, its findings, the analyses that failed, what could not be read, and the
    tables.

    The key `notes` exists only if a part of the run was not looked at, or the source has changed since the run; the key
    `statement` of a site only if its source is known.
    """
    quotes = Quotes(trace)
    note = quotes.source_note(findings)
    scope = [*list_gaps(trace), *describe_scope(trace)] if isinstance(trace, Trace) else []
    notes = [*scope, *([note] if note else [])]
    mpi = trace.run.get("mpi")
    ended = trace.run.get("ended")
    run = {
        key: trace.run[key] for key in ("weft", "command", "cwd", "started", "finished", "level") if key in trace.run
    }
    return {
        "schema": SCHEMA,
        "run": {
            **run,
            "ranks": len(trace.ranks),
            "mpi": mpi if isinstance(mpi, dict) else {},
            "ended": ended if ended in _ENDED else "killed",
            **({"ends": to_json_of_ends(trace)} if isinstance(trace, Trace) else {}),
        },
        "findings": [
            {**finding.to_json(), "sites": [site_json(site, quotes) for site in finding.sites]} for finding in findings
        ],
        "failures": [
            {"analysis": f.analysis, "error": f.error, "where": f.where, "traceback": f.details} for f in failures
        ],
        "problems": list(trace.problems),
        **({"notes": notes} if notes else {}),
        **(tables_json(tables) if tables else {}),
    }
