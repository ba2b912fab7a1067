"""At the end of a recording: the source around every recorded site is put into the run."""

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
from weft.sources import files, kept, statement
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
from weft.trace.sites import CallSite, Placed

SLACK_NS: Final = 1_000_000_000
"""Clocks of a file server and of a host differ."""


@dataclass
class Wanted:
    """What the sites of a run want of one file."""

    own: set[int] = field(default_factory=set)
    """Lines with calls of MPI."""
    others: set[int] = field(default_factory=set)
    """Lines of their callers, and whatever else is told of."""
    modules: set[str] = field(default_factory=set)
    """Programs and libraries that were built from it."""


def keep(trace: Trace, *, texts: bool = True, more: Iterable[Frame] = ()) -> list[str]:
    """Write RUN/sources.json and RUN/sources.bin. Returns sentences on what could not be written.

    To be called on the machine that ran the program, soon after, when RUN/sites.json is there. `more` are further
    places that a report may name, such as the frames of tracebacks. Without `texts` no line of source is kept, only
    what each line with a call calls.
    """
    cwd = str(trace.run.get("cwd") or "")
    entries: list[dict[str, Any]] = []
    packed: list[bytes] = []
    room = Room(MAX_PLAIN if texts else 0, MAX_PACKED)
    for path, wanted in _in_order(wanted_of(trace, more))[:MAX_FILES]:
        found = os.path.join(cwd, path) if cwd else path  # noqa: PTH118 - a Path would tidy what the record says
        source = files.read(found) if found.startswith("/") else None
        if source is None:
            continue
        lines = source.lines
        entry = {
            "path": path, "found": found, "size": len(source.data), "mtime_ns": source.mtime_ns,
            "sha256": hashlib.sha256(source.data).hexdigest(), "own": bool(wanted.own),
            **(_doubt(trace, path, source.mtime_ns, wanted) or _calls(path, lines, wanted)),
        }  # fmt: skip
        text = room.take(_spans(lines, wanted, len(source.data)), lines)
        if text is not None:
            entry |= {"spans": text.spans, "at": text.at, "packed": len(text.data), "plain": text.plain}
            packed.append(text.data)
        entries.append(entry)
    if not entries:
        return []
    problems: list[str] = []
    if packed:
        _write(trace.path / TEXTS, b"".join(packed), problems)
    if not problems:
        _write(trace.path / INDEX, json.dumps({"schema": SCHEMA, "files": entries}).encode(), problems)
    kept.forget(trace)
    return problems


def wanted_of(trace: Trace, more: Iterable[Frame] = ()) -> dict[str, Wanted]:
    """The lines that the record of a run names, by file."""
    wanted: dict[str, Wanted] = defaultdict(Wanted)
    seen: set[CallSite] = set()
    tasks: list[Placed] = [rank.tasks for rank in trace.ranks if rank.tasks is not None]
    for rank in [*trace.ranks, *tasks]:
        for id in rank.definitions.ids(Def.SITE):
            site = trace.site(rank, id)
            if site not in seen:
                seen.add(site)
                _want(wanted, site, own=True)
    for file, line, _ in more:
        wanted[file].others.add(line)
    return {file: lines for file, lines in wanted.items() if file and not file.startswith("<")}


def _want(wanted: Mapping[str, Wanted], site: CallSite, *, own: bool) -> None:
    if site.file and site.line > 0:
        of = wanted[site.file]
        (of.own if own else of.others).add(site.line)
        if site.module:
            of.modules.add(site.module)
    for caller in site.callers:
        _want(wanted, caller, own=False)


def _in_order(wanted: Mapping[str, Wanted]) -> list[tuple[str, Wanted]]:
    """Files with calls of MPI first: should there be no room for all, theirs are kept."""
    return sorted(wanted.items(), key=lambda item: (not item[1].own, item[0]))


def _calls(path: str, lines: Sequence[str], wanted: Wanted) -> dict[str, Any]:
    """What the lines with calls call: mpi4py makes other calls inside its own, and messages name the program's.

    Of a text that may not be what ran this is not kept: then messages name what MPI was asked for.
    """
    if statement.language(path) != "python":
        return {}
    found = {str(n): statement.called(lines, n - 1, path) for n in sorted(wanted.own) if n <= len(lines)}
    return {"calls": {line: list(names) for line, names in found.items()}}


def _doubt(trace: Trace, path: str, mtime_ns: int, wanted: Wanted) -> dict[str, str]:
    """Why the text may not be what ran: it was written while the program ran, or after the program was built."""
    started = min((r.header.start.realtime_ns for r in trace.ranks if r.header), default=0)
    if started and mtime_ns > started + SLACK_NS:
        return {"doubt": "edited"}
    if statement.language(path) != "python" and any(_mtime(m) + SLACK_NS < mtime_ns for m in wanted.modules):
        return {"doubt": "newer"}
    return {}


def _mtime(path: str) -> int:
    """When a file was written; of one that is not there nothing can be said."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 2**63


Spans = list[list[int]]
"""[first line, number of lines] of stretchs, in order."""


def _spans(lines: Sequence[str], wanted: Wanted, size: int) -> Spans:
    """The whole file, or of a long one the lines around its sites."""
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
class Text:
    """The packed lines of a file."""

    spans: Spans
    at: int
    plain: int
    data: bytes


@dataclass
class Room:
    """What may still be kept."""

    plain: int
    packed: int
    at: int = 0

    def take(self, spans: Spans, lines: Sequence[str]) -> Text | None:
        """The lines, packed; None where they do not fit any more."""
        text = "".join(f"{line}\n" for first, count in spans for line in lines[first - 1 : first - 1 + count]).encode()
        if not text or len(text) > self.plain:
            return None
        data = zlib.compress(text, 6)
        if len(data) > self.packed:
            return None
        taken = Text(spans, self.at, len(text), data)
        self.plain -= len(text)
        self.packed -= len(data)
        self.at += len(data)
        return taken


def _write(path: Path, data: bytes, problems: list[str]) -> None:
    """Whole or not at all."""
    try:
        write_whole(path, data)
    except OSError as error:
        problems.append(f"{path} cannot be written: {error.strerror}")
