"""Quotes the program's source in a report: the statement of each site, lines around it, and what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from weft import sources
from weft.findings import Finding, Site
from weft.sources import Excerpt, Sources, Statement, current_files
from weft.trace import Trace

AROUND = 3
"""How many lines before and after a call's line a report shows."""


class Quotes:
    """The source that a report quotes. For a program that was not recorded, excerpts of the files as they are today."""

    def __init__(self, subject: object) -> None:
        self._subject = subject

    @cached_property
    def _sources(self) -> Sources | None:
        return sources.sources_of(self._subject) if isinstance(self._subject, Trace) else None

    def statement(self, file: str, line: int) -> Statement | None:
        """Return the statement of a call; None if the run does not have it."""
        return self._sources.statement(file, line) if self._sources and file and line else None

    def excerpt(self, file: str, line: int) -> Excerpt | None:
        """Return the lines around a call; None if the run has kept no source there."""
        if self._sources is None:
            return current_files.excerpt(file, line, AROUND)
        return self._sources.excerpt(file, line, AROUND) if self._sources.kept and file and line else None

    def coloured(self, excerpt: Excerpt) -> list[list[tuple[str, str]]]:
        """Return an excerpt's lines as (class, text) pairs."""
        return self._sources.colour_excerpt(excerpt) if self._sources else []

    def source_note(self, findings: Iterable[Finding]) -> str | None:
        """Return a sentence on source files that have changed since the run, None if none has. Only files with calls
        and files that the findings name are compared.
        """
        if self._sources is None:
            return None
        return self._sources.note([*self._sources.own, *_files_of(findings)])


def _files_of(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the source files of the sites of findings and of their callers."""
    for finding in findings:
        for site in finding.sites:
            yield site.file
            yield from (file for file, _, _ in site.callers)


def source_places(finding: Finding) -> list[tuple[str, int]]:
    """Return the lines of a finding's sites, each once, the most important one first."""
    return list(dict.fromkeys((site.file, site.line) for site in finding.sites if site.file and site.line))


def site_json(site: Site, quotes: Quotes) -> dict[str, object]:
    """Return a site as the report's JSON has it, with its statement if that is known."""
    of = quotes.statement(site.file, site.line)
    return {**site.to_json(), **({"statement": of.text} if of else {})}
