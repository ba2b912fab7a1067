"""Put the source around every recorded call site into the run, at the end of a recording."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from weft.base.json_files import write_whole
from weft.base.lazy import dataclass
from weft.sources import files, kept_sources, statement
from weft.sources.layout import (
    AROUND,
    INDEX,
    MAX_FILES,
    MAX_PACKED,
    MAX_PLAIN,
    MAX_WHOLE,
    SCHEMA,
    TEXTS,
    Frame,
)
from weft.trace import Trace
from weft.trace.layout import Def
from weft.trace.sites import CallSite, HasSites

SLACK_NS: Final = 1_000_000_000
"""Clocks of a file server and of a host differ."""


@dataclass
class WantedLines:
    """The lines of one file that a run's call sites name."""

    own: set[int] = field(default_factory=set)
    """Lines with calls of MPI."""
    others: set[int] = field(default_factory=set)
    """Lines of their callers, and other lines that reports name."""
    modules: set[str] = field(default_factory=set)
    """Programs and libraries that were built from it."""


def keep_sources(trace: Trace, *, texts: bool = True, further_frames: Iterable[Frame] = ()) -> list[str]:
    """Write the source around the call sites into RUN/sources.json and RUN/sources.bin; return what could not be
    written.

    To be called on the machine that ran the program, soon after, when RUN/sites.json exists. `further_frames`: further
    locations that a report may name, such as frames of tracebacks. Without `texts` no line of source is kept, only the
    names of the functions that each line with a call calls.
    """
    cwd = str(trace.run.get("cwd") or "")
    entries: list[dict[str, Any]] = []
    packed: list[bytes] = []
    room = PackingRoom(MAX_PLAIN if texts else 0, MAX_PACKED)
    for path, wanted in _order_files(collect_wanted_lines(trace, further_frames))[:MAX_FILES]:
        found = os.path.join(cwd, path) if cwd else path  # noqa: PTH118 - a Path would tidy what the record says
        source = files.read_source(found) if found.startswith("/") else None
        if source is None:
            continue
        lines = source.lines
        entry = {
            "path": path, "found": found, "size": len(source.data), "mtime_ns": source.mtime_ns,
            "sha256": hashlib.sha256(source.data).hexdigest(), "own": bool(wanted.own),
            **(_find_doubt(trace, path, source.mtime_ns, wanted) or _find_called_names_by_line(path, lines, wanted)),
        }  # fmt: skip
        text = room.pack_lines(_choose_spans(lines, wanted, len(source.data)), lines)
        if text is not None:
            entry |= {"spans": text.spans, "at": text.at, "packed": len(text.data), "plain": text.plain}
            packed.append(text.data)
        entries.append(entry)
    if not entries:
        return []
    problems: list[str] = []
    if packed:
        _write_file(trace.path / TEXTS, b"".join(packed), problems)
    if not problems:
        _write_file(trace.path / INDEX, json.dumps({"schema": SCHEMA, "files": entries}).encode(), problems)
    kept_sources.forget(trace)
    return problems


def collect_wanted_lines(trace: Trace, further_frames: Iterable[Frame] = ()) -> dict[str, WantedLines]:
    """Return, by file, the lines of all call sites in a run's record and of their callers, and those of
    `further_frames`.
    """
    wanted: dict[str, WantedLines] = defaultdict(WantedLines)
    seen: set[CallSite] = set()
    tasks: list[HasSites] = [rank.tasks for rank in trace.ranks if rank.tasks is not None]
    for rank in [*trace.ranks, *tasks]:
        for id in rank.definitions.ids(Def.SITE):
            site = trace.site(rank, id)
            if site not in seen:
                seen.add(site)
                _add_site(wanted, site, own=True)
    for file, line, _ in further_frames:
        wanted[file].others.add(line)
    return {file: lines for file, lines in wanted.items() if file and not file.startswith("<")}


def _add_site(wanted: Mapping[str, WantedLines], site: CallSite, *, own: bool) -> None:
    """Add the lines of a call site and of its callers to the wanted lines, by file. `own`: the site's line calls MPI
    itself.
    """
    if site.file and site.line > 0:
        of = wanted[site.file]
        (of.own if own else of.others).add(site.line)
        if site.module:
            of.modules.add(site.module)
    for caller in site.callers:
        _add_site(wanted, caller, own=False)


def _order_files(wanted: Mapping[str, WantedLines]) -> list[tuple[str, WantedLines]]:
    """Sort files with calls of MPI first: if there is no room for all, theirs are kept."""
    return sorted(wanted.items(), key=lambda item: (not item[1].own, item[0]))


def _find_called_names_by_line(path: str, lines: Sequence[str], wanted: WantedLines) -> dict[str, Any]:
    """Return {"calls": {line: names}}, the names that a Python file calls in each line with a recorded MPI call, such
    as `comm.recv`; {} for other languages. Messages use these names, because a function of mpi4py may call several of
    MPI.
    """
    if statement.find_language(path) != "python":
        return {}
    found = {str(n): statement.find_called_names(lines, n - 1, path) for n in sorted(wanted.own) if n <= len(lines)}
    return {"calls": {line: list(names) for line, names in found.items()}}


def _find_doubt(trace: Trace, path: str, mtime_ns: int, wanted: WantedLines) -> dict[str, str]:
    """Return {"doubt": "edited"} if the file was written while the program ran, {"doubt": "newer"} if after the program
    was built from it, else {}. In the first two cases, its text may not be what ran. `mtime_ns`: when the file was
    written.
    """
    started = min((r.header.start.realtime_ns for r in trace.ranks if r.header), default=0)
    if started and mtime_ns > started + SLACK_NS:
        return {"doubt": "edited"}
    if statement.find_language(path) != "python" and any(
        _modification_time_ns(m) + SLACK_NS < mtime_ns for m in wanted.modules
    ):
        return {"doubt": "newer"}
    return {}


def _modification_time_ns(path: str) -> int:
    """Return when a file was written; a time after all others if it cannot be read."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 2**63


Spans = list[list[int]]
"""[first line, number of lines] of stretchs, in order."""


def _choose_spans(lines: Sequence[str], wanted: WantedLines, size: int) -> Spans:
    """Return which lines to keep, as [first line, number of lines]: the whole file, or of a long file the lines around
    its call sites. `size`: the file's bytes.
    """
    if size <= MAX_WHOLE:
        return [[1, len(lines)]]
    spans: Spans = []
    for line in sorted(n for n in wanted.own | wanted.others if n <= len(lines)):
        first, end = max(1, line - AROUND), min(len(lines), line + AROUND) + 1
        if spans and first <= sum(spans[-1]):
            spans[-1][1] = max(end, sum(spans[-1])) - spans[-1][0]
        else:
            spans.append([first, end - first])
    return spans


@dataclass(frozen=True)
class PackedText:
    """The packed lines of a file."""

    spans: Spans
    at: int
    plain: int
    data: bytes


@dataclass
class PackingRoom:
    """How many bytes may still be kept."""

    plain: int
    packed: int
    at: int = 0

    def pack_lines(self, spans: Spans, lines: Sequence[str]) -> PackedText | None:
        """Pack the lines of some spans, and subtract their size from the room. Return None, without a change, if the
        spans have no text or the room is too small.
        """
        text = "".join(f"{line}\n" for first, count in spans for line in lines[first - 1 : first - 1 + count]).encode()
        if not text or len(text) > self.plain:
            return None
        data = zlib.compress(text, 6)
        if len(data) > self.packed:
            return None
        taken = PackedText(spans, self.at, len(text), data)
        self.plain -= len(text)
        self.packed -= len(data)
        self.at += len(data)
        return taken


def _write_file(path: Path, data: bytes, problems: list[str]) -> None:
    """Write a file whole or not at all; add a sentence to `problems` if that fails."""
    try:
        write_whole(path, data)
    except OSError as error:
        problems.append(f"{path} cannot be written: {error.strerror}")
